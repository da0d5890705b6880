package bridge

import (
	"fmt"
	"testing"

	"github.com/selvage/selvage/test/e2e/harness"
)

const threeInOnePicture = `
            switch
        e1 /      \ e2
      edge1        edge2
  v0 g0 n0 |        | v0 g0 n0      vxlan, geneve and nvgre, one port each
   |  |  |           |  |  |
  a0 a1 a2          b0 b1 b2`

// All encapsulations in one edge at the same time, the same VNI in each; also where the kernel has to cut
// segments and sum up what the underlay's device could.
func TestThreeEncapsulationsInOneEdge(t *testing.T) {
	const spec = `
  segments:
  - {name: v, vni: 100, remotes: REMOTES}
  - {name: g, vni: 100, encapsulation: geneve, options: "` + harness.GeneveOptions + `", remotes: REMOTES}
  - {name: n, vni: 100, encapsulation: nvgre, remotes: REMOTES}
  ports:
  - {name: v0, interface: v0, segment: v}
  - {name: g0, interface: g0, segment: g}
  - {name: n0, interface: n0, segment: n}
`
	t.Parallel()
	n := harness.NewUnderlay(t, threeInOnePicture, 2, 6)
	var pairs [][2]harness.Guest
	for subnet, port := range []string{"v0", "g0", "n0"} {
		pairs = append(pairs, [2]harness.Guest{
			n.Guest(fmt.Sprintf("a%d", subnet), subnet, 1, n.Hosts[0], port, 1418),
			n.Guest(fmt.Sprintf("b%d", subnet), subnet, 2, n.Hosts[1], port, 1418),
		})
	}
	n.Record()
	n.EdgesUp(spec, spec)
	for _, p := range pairs {
		n.Pings(harness.Ways(p[0], p[1])...)
	}
	n.StopCaptures()
	noErrors := n.WatchErrors(n.Hosts...)
	n.Once("20 MB cross each at the same time, both families", func() error { return harness.TransferAll(pairs, len(harness.Content)) })
	for _, offload := range []string{
		"tx-udp_tnl-segmentation", "tx-gre-segmentation", "tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-generic-segmentation", "tx-checksum-ip-generic",
	} {
		for _, h := range n.Hosts {
			undo, err := h.SetFeatures("u0", map[string]bool{offload: false})
			n.Must(err)
			defer func() { n.Must(undo()) }()
		}
		n.Once("bytes are intact without "+offload, func() error { return harness.TransferAll(pairs, 2_000_000) })
	}
	noErrors()
	n.NoDrops()
}
