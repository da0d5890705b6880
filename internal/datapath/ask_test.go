package datapath

import (
	"fmt"
	"testing"

	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// asked checks the requests for an address that came out of the segment's ports
// and, for the first remote, of the underlay.
func (w *world) asked(t *testing.T, taps map[string]*tap, segment, gateway, mac, target string, remotes int, ports ...string) {
	t.Helper()
	want := map[string]int{"u0": remotes}
	for _, p := range ports {
		want[p] = 1
	}
	for dev, p := range taps {
		got := p.drain(t)
		if len(got) != want[dev] {
			t.Errorf("%d requests at %s, want %d", len(got), dev, want[dev])
			continue
		}
		for i, g := range got {
			b := g.bytes
			if dev == "u0" {
				o := w.sent(segment, w.family.remotes[i], b)
				check.Equal(t, "tunnel packet", o.Wrap(b[o.Len():]), b)
				b = b[o.Len():]
			}
			w.isRequest(t, b, gateway, mac, target)
		}
	}
}

func (w *world) isRequest(t *testing.T, b []byte, gateway, mac, target string) {
	t.Helper()
	if a := addr(target); a.Is4() {
		check.Packet(t, nil, b, check.Ether(mac, all), check.ARP(1, mac, addr(gateway), zero, a))
		return
	}
	group := pkttest.SolicitedNode(addr(target))
	bytes := group.As16()
	check.Packet(t, nil, b, check.Ether(mac, fmt.Sprintf("33:33:%02x:%02x:%02x:%02x", bytes[12], bytes[13], bytes[14], bytes[15])),
		check.IP(addr(gateway), group, check.TTL(255)), check.Solicitation(addr(target), mac))
}

// Where the next hop's MAC is not known the edge asks for it in the packet's stead, at all ports and remotes of the segment, and the packet counts as lost.
func TestUnknownNeighbourIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, to := range []way{ways()[0], ways()[2], ways()[7]} {
		t.Run(to.name, func(t *testing.T) {
			w := routedWorld(t, to)
			taps := w.taps(t)
			taps["s0"] = w.tap(t, "s0x", "s0")
			for _, c := range []struct {
				words, segment, gateway, mac, target string
				remotes                              int
				ports                                []string
			}{
				{"udp 10.0.1.10:1 > 10.0.2.77:2 30", "green", greenGateway4, gatewayMAC, "10.0.2.77", 1, []string{"p2"}},
				{"udp 10.0.1.10:1 > 10.0.2.77:2 1300", "green", greenGateway4, gatewayMAC, "10.0.2.77", 1, []string{"p2"}},
				{"udp 10.0.1.10:1 > 10.0.2.77:2", "green", greenGateway4, gatewayMAC, "10.0.2.77", 1, []string{"p2"}},
				{"tcp [2001:db8:1::a]:1 > [2001:db8:2::77]:2 30", "green", greenGateway6, gatewayMAC, "2001:db8:2::77", 1, []string{"p2"}},
				{"tcp [2001:db8:1::a]:1 > [2001:db8:2::77]:2 1200", "green", greenGateway6, gatewayMAC, "2001:db8:2::77", 1, []string{"p2"}},
				{"ip 2001:db8:1::a > 2001:db8:2::77 59", "green", greenGateway6, gatewayMAC, "2001:db8:2::77", 1, []string{"p2"}},
				{"udp 10.0.1.10:1 > 198.51.100.9:2 30", "up", uplink4, uplinkMAC, "198.51.100.9", 0, []string{"s0"}},
			} {
				in := pkttest.Frame(alice, gatewayMAC, c.words)
				for range 2 {
					var r result
					w.refill(t)
					drops, events := w.counted(t, func() { r = w.fromPort(t, "p0", in) })
					r.want(t, in, dropped)
					if drops["no-neighbour"] != 1 || sum(drops) != 1 || events["neigh-requested"] != 1 {
						t.Errorf("%s: drops %v, events %v", c.words, drops, events)
					}
					w.asked(t, taps, c.segment, c.gateway, c.mac, c.target, c.remotes, c.ports...)
				}
			}
			// From a remote, for a host of its own segment: the request goes to all.
			in, r := w.sendIn(t, "blue", "first", pkttest.Frame(bob, gatewayMAC, "udp 10.0.1.11:1 > 10.0.1.77:2 30"))
			r.want(t, in, dropped)
			w.asked(t, taps, "blue", gateway4, gatewayMAC, "10.0.1.77", 2, "p0", "p1")
		})
	}
}

// ICMP errors about such packets are right too.
func TestErrorsAboutUnfinishedPackets(t *testing.T) {
	w := routedWorld(t, ways()[0])
	taps := w.taps(t)
	for words, c := range map[string]struct {
		start, offset uint16
		want          refusal
	}{
		"ttl 1 tcp 10.0.1.10:1 > 10.0.2.13:2 syn":              {34, 16, refusal{kind: 11, source: gateway4}},
		"ttl 1 udp 10.0.1.10:1 > 10.0.2.13:2 30":               {34, 6, refusal{kind: 11, source: gateway4}},
		"ttl 1 tcp 10.0.1.10:1 > 10.0.2.13:2 1200":             {34, 16, refusal{kind: 11, source: gateway4}},
		"ttl 1 tcp [2001:db8:1::a]:1 > [2001:db8:2::d]:2 syn":  {54, 16, refusal{kind: 3, source: gateway6}},
		"ttl 1 udp [2001:db8:1::a]:1 > [2001:db8:2::d]:2 1300": {54, 6, refusal{kind: 3, source: gateway6}},
		"udp 10.0.1.10:1 > 10.9.2.13:2 30":                     {34, 6, refusal{kind: 3, code: 1, source: gateway4}},
		"tcp [2001:db8:1::a]:1 > [2001:db8:9:2::d]:2 syn":      {54, 16, refusal{kind: 1, code: 3, source: gateway6}},
		"tcp [2001:db8:1::a]:1 > [2001:db8:9:2::d]:2 ack 4":    {54, 16, refusal{kind: 1, code: 3, source: gateway6}},
	} {
		w.refill(t)
		in := pkttest.Frame(alice, gatewayMAC, words)
		taps["p0"].sendWith(t, taps["p0"].self, virtioHeader{Flags: virtioNeedsCsum, CsumStart: c.start, CsumOffset: c.offset}, in)
		got := taps["p0"].drain(t)
		if len(got) != 1 {
			t.Errorf("%s: %d messages, want one", words, len(got))
			continue
		}
		w.isError(t, got[0].bytes, in, c.want)
	}
}

// The answer makes the next packet go, from a port, from a remote and at the uplink.
func TestAnswersAreReceived(t *testing.T) {
	for _, to := range []way{ways()[0], ways()[6]} {
		t.Run(to.name, func(t *testing.T) {
			w := routedWorld(t, to)
			const mac = "02:00:00:00:00:77"
			for _, c := range []struct {
				segment, from, answer, words, at string
				smac                             string
				host                             bool
			}{
				{"green", "p2", "arp 10.0.2.77 ! 10.0.2.1", "udp 10.0.1.10:1 > 10.0.2.77:2 30", "p2", gatewayMAC, false},
				{"green", "p2", "na 2001:db8:2::77 ! 2001:db8:2::fe", "udp [2001:db8:1::a]:1 > [2001:db8:2::77]:2 30", "p2", gatewayMAC, false},
				{"green", "first", "arp 10.0.2.78 ! 10.0.2.1", "udp 10.0.1.10:1 > 10.0.2.78:2 30", "first", gatewayMAC, false},
				{"green", "first", "na 2001:db8:2::78 ! 2001:db8:2::fe", "udp [2001:db8:1::a]:1 > [2001:db8:2::78]:2 30", "first", gatewayMAC, false},
				{"up", "s0", "arp 198.51.100.9 ! 198.51.100.1", "udp 10.0.1.10:1 > 198.51.100.9:2 30", "s0", uplinkMAC, true},
			} {
				w.forget(t)
				packet := pkttest.Frame(alice, gatewayMAC, c.words)
				w.fromPort(t, "p0", packet).want(t, packet, dropped)
				dst := map[bool]string{true: uplinkMAC, false: gatewayMAC}[c.host]
				_, events := w.counted(t, func() {
					in, r := w.sendIn(t, c.segment, c.from, pkttest.Frame(mac, dst, c.answer))
					if c.host {
						r.want(t, in, next) // the host may have asked as well
					} else {
						r.want(t, in, dropped)
					}
				})
				if received := events["local-delivered"] + events["flooded"]; received != 1 && !c.host {
					t.Errorf("%s: events %v", c.answer, events)
				}
				r := w.fromPort(t, "p0", packet)
				w.wantAt(t, "green", c.at, packet, pkttest.Frame(c.smac, mac, "ttl 63 "+c.words), r)
			}
		})
	}
}

// An answer to a gateway is passed on to the other edges, once: their packet may have been the one that asked.
func TestAnswersArePassedOn(t *testing.T) {
	w := routedWorld(t, ways()[0])
	taps := w.taps(t)
	in := pkttest.Frame(alice, gatewayMAC, "arp 10.0.1.10 ! 10.0.1.1")
	w.fromPort(t, "p0", in)
	for i, got := range taps["u0"].receive(t, 2) {
		o := w.sent("blue", w.family.remotes[i], got.bytes)
		check.Equal(t, "tunnel packet", o.Wrap(padded(in)), got.bytes)
	}
	_, events := w.counted(t, func() { w.sendIn(t, "blue", "first", pkttest.Frame(bob, gatewayMAC, "arp 10.0.1.11 ! 10.0.1.1")) })
	if events["local-delivered"] != 1 || events["flooded"] != 0 {
		t.Errorf("events %v, want it read and no more", events)
	}
	if got := taps["u0"].drain(t); len(got) != 0 {
		t.Errorf("%d packets to other edges for an answer out of a tunnel", len(got))
	}
}

// A next hop may be link-local, or on the link without being in a network of it.
func TestNextHopsOnTheLinkAreAskedFor(t *testing.T) {
	t.Parallel()
	const own, next = "fe80::ff:fe00:401", "02:00:00:00:04:99" // own: of uplinkMAC
	for _, c := range []struct{ prefix, hop, source, reply, packet string }{
		{"2000::/3", "fe80::1", own, "na fe80::1 ! " + own, "udp [2001:db8:1::a]:1 > [2001:db8:77::9]:2 30"},
		{"2000::/3", "2001:db8:aaaa::1", uplink6, "na 2001:db8:aaaa::1 ! " + uplink6, "udp [2001:db8:1::a]:1 > [2001:db8:77::9]:2 30"},
		{"0.0.0.0/0", "192.0.2.250", uplink4, "arp 192.0.2.250 ! " + uplink4, "udp 10.0.1.10:1 > 203.0.113.9:2 30"},
	} {
		t.Run(c.hop, func(t *testing.T) {
			w := routedWorld(t, ways()[0])
			w.setRoute("main", route(c.prefix, via("up", c.hop)))
			w.apply(t)
			taps := w.taps(t)
			taps["s0"] = w.tap(t, "s0x", "s0")
			in := pkttest.Frame(alice, gatewayMAC, c.packet)
			w.refill(t)
			w.fromPort(t, "p0", in).want(t, in, dropped)
			w.asked(t, taps, "up", c.source, uplinkMAC, c.hop, 0, "s0")
			w.fromPort(t, "s0", pkttest.Frame(next, uplinkMAC, c.reply))
			w.wantAt(t, "up", "s0", in, pkttest.Frame(uplinkMAC, next, "ttl 63 "+c.packet), w.fromPort(t, "p0", in))
		})
	}
}
