package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/pkttest"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//	eth0      p0    u0         1600        u0    p0      eth0
//	MTU 1500                                        MTU 1500

// edited is our half with another configuration.
type edited struct {
	topo.SelvageHalf
	edit func(config string) string
}

// Up is part of topo.Half.
func (h edited) Up(ctx context.Context, s topo.Site) (func(context.Context) error, error) {
	name := s.Host.EdgeName()
	e, err := s.Host.StartEdge(ctx, program, name, h.edit(h.Config(name, s)))
	if err != nil {
		return nil, err
	}
	h.Started(s.Host, e)
	return e.Stop, nil
}

// geneveOptions are two: class 0x0104 type 1 with four bytes, type 2 with none.
const geneveOptions = "0104 0101 deadbeef 0104 0200"

// ours is our half with an encapsulation; more are lines of its segment.
func (n *twoHosts) ours(e overlay.Encapsulation, more ...string) edited {
	half := n.selvage()
	half.Encapsulation = e
	return edited{half, func(config string) string {
		return strings.Replace(config, "      vni: 100\n", strings.Join(append([]string{"      vni: 100"}, more...), "\n      ")+"\n", 1)
	}}
}

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
		{"GeneveOptions", overlay.Geneve, []string{"options: " + geneveOptions}},
		{"NVGRE", overlay.NVGRE, nil},
	} {
		for _, family := range []int{4, 6} {
			t.Run(fmt.Sprintf("%s/IPv%d", c.name, family), func(t *testing.T) {
				n := newTwoHosts(t, roomy(family))
				n.build(n.ours(c.encapsulation, c.more...), n.ours(c.encapsulation, c.more...))
				n.framesCross(clientMAC, serverMAC, pkttest.EtherTypeExperimental)
				n.framesCross(clientMAC, broadcast, pkttest.EtherTypeExperimental)
				n.carries(large)
			})
		}
	}
}

func TestSelvageEncapsulationsOffloads(t *testing.T) {
	for _, encapsulation := range []overlay.Encapsulation{overlay.Geneve, overlay.NVGRE} {
		for _, family := range []int{4, 6} {
			t.Run(fmt.Sprintf("%s/IPv%d", encapsulation, family), func(t *testing.T) {
				n := newTwoHosts(t, roomy(family))
				n.build(n.ours(encapsulation), n.ours(encapsulation))
				n.quiet()
				noErrors := n.watchErrors(n.Client, n.A, n.B, n.Server)
				for _, offload := range []string{
					"tx-udp_tnl-segmentation", "tx-gre-segmentation", "tx-tcp-segmentation", "tx-tcp6-segmentation",
					"tx-generic-segmentation", "tx-checksum-ip-generic",
				} {
					n.with([]*topo.Host{n.A, n.B}, topo.UnderlayName, offload, false)
				}
				noErrors()
				n.noDrops()
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
			n := newUnderlay(t, threeInOnePicture, 2, family)
			var pairs [][2]guest
			for subnet, port := range []string{"v0", "g0", "n0"} {
				pairs = append(pairs, [2]guest{
					n.guest(fmt.Sprintf("a%d", subnet), subnet, 1, n.hosts[0], port, 1430),
					n.guest(fmt.Sprintf("b%d", subnet), subnet, 2, n.hosts[1], port, 1430),
				})
			}
			n.record()
			n.edgesUp(spec, spec)
			for _, p := range pairs {
				n.pings(ways(p[0], p[1])...)
			}
			n.quiet()
			n.once("20 MB cross each at the same time, both families", func() error { return transferAll(pairs) })
			n.noDrops()
		})
	}
}

func transferAll(pairs [][2]guest) error {
	var wg sync.WaitGroup
	errs := make([]error, 2*len(pairs))
	for i, p := range pairs {
		wg.Go(func() { errs[2*i] = transfer(way(p[0], p[1], 4), len(content)) })
		wg.Go(func() { errs[2*i+1] = transfer(way(p[1], p[0], 6), len(content)) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
