package datapath

import (
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// some runs a test on as many ways as meet every encapsulation, options and both
// families: two edges take a second to build.
func some(t *testing.T, f func(t *testing.T, to way)) {
	t.Helper()
	all := ways()
	for _, to := range []way{all[0], all[2], all[5], all[7]} {
		t.Run(to.name, func(t *testing.T) { f(t, to) })
	}
}

// Large segments cross every kind of tunnel whole, and are cut right where the
// underlay cannot cut tunnels. TestLargeSegments has VXLAN in full.
func TestLargeSegmentsInEveryTunnel(t *testing.T) {
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

// gateways makes bob's segment at edge b one of a router's, with carol beside him in another.
func gateways(w *world) {
	routed(way{"", w.family, w.tables.Segments[0].Tunnel}, &w.tables)
	w.tables.Segments[0].Static = []overlay.StaticMAC{{MAC: macOf(bob), Port: "p0"}, {MAC: macOf(alice), Remote: w.family.remotes[0]}}
	w.tables.Segments[0].Neighbours = neighbours("10.0.1.10", alice, "10.0.1.11", bob, "2001:db8:1::a", alice, "2001:db8:1::b", bob)
	w.tables.Segments = w.tables.Segments[:2]
	w.tables.Segments[1].Static, w.tables.Segments[1].Neighbours = []overlay.StaticMAC{{MAC: macOf(dave), Port: "p2"}}, neighbours("10.0.2.13", dave, "2001:db8:2::d", dave)
	w.tables.Routers[0].Routes = w.tables.Routers[0].Routes[:4]
}

// Packets that the first edge's kernel has put into the tunnel are told of,
// answered and asked for at the second edge as any others: large segments, and
// what has unfinished checksums.
func TestSpeakingThroughARealTunnel(t *testing.T) {
	some(t, func(t *testing.T, to way) {
		a, b := join(t, to, 1500, func(w *world) {
			if w.family.tep != to.family.tep {
				gateways(w)
				w.tables.Ports[0].MTU = 1280
			}
		})
		in, green := a.tap(t, "p0x", "p0"), b.tap(t, "p2x", "p2")
		receive := func(name string, h virtioHeader, frame []byte, want refusal) {
			t.Helper()
			b.refill(t)
			in.sendWith(t, in.self, h, frame)
			got := in.drain(t)
			if len(got) != 1 {
				drops, events := b.counters(t) // of earlier tests too
				t.Errorf("%s: %d frames come back, want one; drops %v, events %v", name, len(got), drops, events)
				return
			}
			if want.reason == "" {
				check.Packet(t, frame, got[0].bytes)
				return
			}
			if !a.isError(t, got[0].bytes, frame, want) {
				t.Error(name)
			}
		}
		frame := func(words string) []byte { return pkttest.Frame(alice, gatewayMAC, words) }
		for _, ip6 := range []bool{false, true} { // the tail of a segment in a tunnel cannot be cut off: it is lost, its pieces are told of
			h, segment := large(ip6, 8000, 1300)
			in.sendWith(t, in.self, h, segment)
			in.drain(t)
		}
		tcp := virtioHeader{Flags: virtioNeedsCsum, CsumStart: 34, CsumOffset: 16}
		tcp6 := virtioHeader{Flags: virtioNeedsCsum, CsumStart: 54, CsumOffset: 16}
		toBob := func(words string) []byte { return pkttest.Frame(alice, bob, words) }
		receive("too big for the port", tcp, toBob("tcp 10.0.1.10:1 > 10.0.1.11:2 1300"), tooBig(gateway4, 1280))
		receive("IPv6 too big for the port", tcp6, toBob("tcp [2001:db8:1::a]:1 > [2001:db8:1::b]:2 1300"), tooBig(gateway6, 1280))
		receive("last hop", tcp, frame("ttl 1 tcp 10.0.1.10:1 > 10.0.2.13:2 ack 100"), refusal{reason: "ttl-exceeded", kind: 11, source: gateway4})
		receive("last hop, IPv6", tcp6, frame("ttl 1 tcp [2001:db8:1::a]:1 > [2001:db8:2::d]:2 ack 100"), refusal{reason: "ttl-exceeded", kind: 3, source: gateway6})
		receive("last hop of a short packet", virtioHeader{}, frame("ttl 1 tcp 10.0.1.10:1 > 10.0.2.13:2 syn"), refusal{reason: "ttl-exceeded", kind: 11, source: gateway4})
		receive("no route", virtioHeader{}, frame("udp 10.0.1.10:1 > 10.77.2.13:2 40"), refusal{reason: "no-route", kind: 3, source: gateway4})
		receive("ping", virtioHeader{}, frame("icmp 10.0.1.10 > 10.0.1.1 56"), refusal{})
		receive("ping of IPv6", virtioHeader{}, frame("icmp 2001:db8:1::a > 2001:db8:2::fe 56"), refusal{})
		receive("ARP", virtioHeader{}, frame("arp 10.0.1.10 ? 10.0.1.1"), refusal{})
		receive("solicitation", virtioHeader{}, frame("ns 2001:db8:1::a ? 2001:db8:1::fe"), refusal{})
		receive("probe", virtioHeader{}, frame("ns :: ? 2001:db8:1::fe"), refusal{})
		for words, h := range map[string]virtioHeader{
			"tcp 10.0.1.10:1 > 10.0.2.77:2 syn": tcp, "tcp [2001:db8:1::a]:1 > [2001:db8:2::77]:2 ack 100": tcp6, "tcp [2001:db8:1::a]:1 > [2001:db8:2::77]:2 syn": {}, "udp 10.0.1.10:1 > 10.0.2.77:2 600": {},
		} {
			b.refill(t)
			in.sendWith(t, in.self, h, frame(words))
			got := green.drain(t)
			if len(got) != 1 {
				drops, events := b.counters(t) // of earlier tests too
				t.Errorf("%s: %d requests, want one; drops %v, events %v", words, len(got), drops, events)
				continue
			}
			target, gateway := "10.0.2.77", greenGateway4
			if words[4] == '[' {
				target, gateway = "2001:db8:2::77", greenGateway6
			}
			b.isRequest(t, got[0].bytes, gateway, gatewayMAC, target)
		}
	})
}
