package bridge

import (
	"fmt"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/tier"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//	eth0      p0    u0         1600        u0    p0      eth0
//	MTU 1500                                        MTU 1500

// roomy has space for a full Ethernet frame in every tunnel.
func roomy(family int) topo.TwoHostsOptions {
	return topo.TwoHostsOptions{UnderlayMTU: 1600, InnerMTU: 1500, UnderlayFamily: family}
}

func TestSelvageEncapsulations(t *testing.T) {
	for _, c := range []struct {
		name          string
		encapsulation overlay.Encapsulation
		more          []string
	}{
		{"Geneve", overlay.Geneve, nil},
		{"GeneveOptions", overlay.Geneve, []string{"options: " + harness.GeneveOptions}},
		{"NVGRE", overlay.NVGRE, nil},
	} {
		for _, family := range []int{4, 6} {
			t.Run(fmt.Sprintf("%s/IPv%d", c.name, family), func(t *testing.T) {
				if c.name != map[int]string{4: "GeneveOptions", 6: "NVGRE"}[family] {
					tier.Long(t, "TestSelvageEncapsulations/GeneveOptions/IPv4 and NVGRE/IPv6, of the others TestTsharkEncapsulations")
				}
				t.Parallel()
				n := harness.NewTwoHosts(t, roomy(family))
				n.BuildRecorded(n.Ours(c.encapsulation, c.more...), n.Ours(c.encapsulation, c.more...))
				framesCross(n, harness.ClientMAC, harness.ServerMAC, pkttest.EtherTypeExperimental)
				framesCross(n, harness.ClientMAC, harness.Broadcast, pkttest.EtherTypeExperimental)
				carries(n, large)
			})
		}
	}
}

func TestSelvageEncapsulationsOffloads(t *testing.T) {
	for _, encapsulation := range []overlay.Encapsulation{overlay.Geneve, overlay.NVGRE} {
		for _, family := range []int{4, 6} {
			t.Run(fmt.Sprintf("%s/IPv%d", encapsulation, family), func(t *testing.T) {
				if encapsulation != map[int]overlay.Encapsulation{4: overlay.NVGRE, 6: overlay.Geneve}[family] {
					tier.Long(t, "TestSelvageEncapsulationsOffloads/nvgre/IPv4 and geneve/IPv6")
				}
				t.Parallel()
				n := harness.NewTwoHosts(t, roomy(family))
				n.BuildRecorded(n.Ours(encapsulation), n.Ours(encapsulation))
				n.StopCaptures()
				noErrors := n.WatchErrors(n.Client, n.A, n.B, n.Server)
				for _, offload := range []string{
					"tx-udp_tnl-segmentation", "tx-gre-segmentation", "tx-tcp-segmentation", "tx-tcp6-segmentation",
					"tx-generic-segmentation", "tx-checksum-ip-generic",
				} {
					n.With([]*topo.Host{n.A, n.B}, topo.UnderlayName, offload, false)
				}
				noErrors()
				n.NoDrops()
			})
		}
	}
}

const threeInOnePicture = `
            switch
        e1 /      \ e2
      edge1        edge2
  v0 g0 n0 |        | v0 g0 n0      vxlan, geneve and nvgre, one port each
   |  |  |           |  |  |
  a0 a1 a2          b0 b1 b2`

// All encapsulations in one edge at the same time, the same VNI in each.
func TestThreeEncapsulationsInOneEdge(t *testing.T) {
	const spec = `
  segments:
  - {name: v, vni: 100, remotes: REMOTES}
  - {name: g, vni: 100, encapsulation: geneve, remotes: REMOTES}
  - {name: n, vni: 100, encapsulation: nvgre, remotes: REMOTES}
  ports:
  - {name: v0, interface: v0, segment: v}
  - {name: g0, interface: g0, segment: g}
  - {name: n0, interface: n0, segment: n}
`
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			if family == 4 {
				tier.Long(t, "TestThreeEncapsulationsInOneEdge/IPv6")
			}
			t.Parallel()
			n := harness.NewUnderlay(t, threeInOnePicture, 2, family)
			var pairs [][2]harness.Guest
			for subnet, port := range []string{"v0", "g0", "n0"} {
				pairs = append(pairs, [2]harness.Guest{
					n.Guest(fmt.Sprintf("a%d", subnet), subnet, 1, n.Hosts[0], port, 1430),
					n.Guest(fmt.Sprintf("b%d", subnet), subnet, 2, n.Hosts[1], port, 1430),
				})
			}
			n.Record()
			n.EdgesUp(spec, spec)
			for _, p := range pairs {
				n.Pings(harness.Ways(p[0], p[1])...)
			}
			n.StopCaptures()
			n.Once("20 MB cross each at the same time, both families", func() error { return harness.TransferAll(pairs) })
			n.NoDrops()
		})
	}
}
