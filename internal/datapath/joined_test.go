package datapath

import (
	"testing"

	"github.com/selvage/selvage/internal/overlay"
)

// Large segments cross every kind of tunnel whole, and are cut right where the underlay cannot cut tunnels. TestLargeSegments has VXLAN in full.
func TestLargeSegmentsInEveryTunnel(t *testing.T) {
	t.Parallel()
	const mss, payload = 1000, 30_000
	eachWay(t, func(t *testing.T, to way) {
		if to.tunnel.Encapsulation == overlay.VXLAN {
			return
		}
		a, b := join(t, to, 1500)
		in, out := a.tap(t, "p0x", "p0"), b.tap(t, "p0x", "p0")
		cutting := []string{"tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation", "tx-gre-segmentation", "tx-gre-csum-segmentation"}
		var drops [2]map[string]uint64
		drops[0], _ = a.counted(t, func() {
			drops[1], _ = b.counted(t, func() {
				for _, frames := range []int{1, payload / mss} {
					if frames > 1 {
						a.features(t, "j0", false, cutting)
					}
					for _, ip6 := range []bool{false, true} {
						h, segment := large(ip6, payload, mss)
						in.sendWith(t, in.self, h, segment)
						checkSegments(t, segment, payload, out.receive(t, frames))
					}
				}
			})
		})
		if sum(drops[0])+sum(drops[1]) != 0 {
			t.Errorf("drops %v", drops)
		}
	})
}
