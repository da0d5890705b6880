package datapath

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// back is the frame that a result sends to where the packet came from: out of its
// tunnel, whose header is checked.
func (w *world) back(t testing.TB, segment, from string, in []byte, r result) []byte {
	t.Helper()
	r.want(t, in, forwarded)
	i, remote := map[string]int{"first": 0, "second": 1}[from], from == "first" || from == "second"
	if !remote || r.verdict != forwarded {
		return r.out
	}
	o := w.sent(segment, w.family.remotes[i], r.out)
	if len(r.out) < o.Len() {
		t.Fatalf("a tunnel packet of %d bytes", len(r.out))
	}
	inner := r.out[o.Len():]
	check.Equal(t, "tunnel packet", o.Wrap(inner), r.out)
	return inner
}

var (
	addr = netip.MustParseAddr
	zero = "00:00:00:00:00:00"
	// solicitedGateway is the group on which both gateways are asked for.
	solicitedGateway = "33:33:ff:00:00:fe"
)

// Who asks for the gateway's MAC is answered, at a port and behind a tunnel.
func TestGatewayAnswersARP(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, to way) {
		w := routedWorld(t, to)
		for _, c := range []struct {
			name, segment, from, mac, dst, asks, words string
			gateway, answer                            string // MAC and address
			requester                                  string
		}{
			{"from a port", "blue", "p0", alice, all, "broadcast", "arp 10.0.1.10 ? 10.0.1.1", gatewayMAC, gateway4, "10.0.1.10"},
			{"from a port, unicast", "blue", "p0", alice, gatewayMAC, "again", "arp 10.0.1.10 ? 10.0.1.1", gatewayMAC, gateway4, "10.0.1.10"},
			{"from a remote", "blue", "first", bob, all, "broadcast", "arp 10.0.1.11 ? 10.0.1.1", gatewayMAC, gateway4, "10.0.1.11"},
			{"from the other remote", "blue", "second", nobody, all, "broadcast", "arp 10.0.1.50 ? 10.0.1.1", gatewayMAC, gateway4, "10.0.1.50"},
			{"probe", "blue", "p0", alice, all, "RFC 5227", "arp 0.0.0.0 ? 10.0.1.1", gatewayMAC, gateway4, "0.0.0.0"},
			{"in the other segment", "green", "p2", dave, all, "broadcast", "arp 10.0.2.13 ? 10.0.2.1", gatewayMAC, greenGateway4, "10.0.2.13"},
			{"at the uplink", "up", "s0", ispMAC, all, "broadcast", "arp 198.51.100.254 ? 198.51.100.1", uplinkMAC, uplink4, "198.51.100.254"},
		} {
			var in []byte
			var r result
			drops, events := w.counted(t, func() { in, r = w.sendIn(t, c.segment, c.from, pkttest.Frame(c.mac, c.dst, c.words)) })
			if !check.Packet(t, in, w.back(t, c.segment, c.from, in, r),
				check.Ether(c.gateway, c.mac), check.ARP(2, c.gateway, addr(c.answer), c.mac, addr(c.requester))) {
				t.Error(c.name, c.asks)
			}
			if events["proxy-replied"] != 1 || sum(drops) != 0 {
				t.Errorf("%s: events %v, drops %v", c.name, events, drops)
			}
		}
	})
}

func TestGatewayAnswersSolicitations(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, to way) {
		w := routedWorld(t, to)
		target := addr(gateway6)
		for _, c := range []struct{ segment, from, mac, dst, requester, gateway, target string }{
			{"blue", "p0", alice, solicitedGateway, "2001:db8:1::a", gatewayMAC, gateway6},
			{"blue", "p0", alice, gatewayMAC, "2001:db8:1::a", gatewayMAC, gateway6},
			{"blue", "first", bob, solicitedGateway, "2001:db8:1::b", gatewayMAC, gateway6},
			{"blue", "p1", carol, solicitedGateway, "fe80::c", gatewayMAC, gateway6},
			{"green", "p2", dave, solicitedGateway, "2001:db8:2::d", gatewayMAC, greenGateway6},
			{"up", "s0", ispMAC, "33:33:ff:00:00:01", "2001:db8:ff::fe", uplinkMAC, uplink6},
		} {
			in, r := w.sendIn(t, c.segment, c.from, pkttest.Frame(c.mac, c.dst, fmt.Sprintf("ns %s ? %s", c.requester, c.target)))
			check.Packet(t, in, w.back(t, c.segment, c.from, in, r), check.Ether(c.gateway, c.mac),
				check.IP(addr(c.target), addr(c.requester), check.TTL(255), check.PlainHeader), check.Advertisement(check.Router|check.Solicited|check.Override, addr(c.target), c.gateway))
		}
		// Looking for a duplicate, without an address: the answer is for all nodes.
		for _, from := range []string{"p0", "first"} {
			in, r := w.sendIn(t, "blue", from, pkttest.Frame(alice, solicitedGateway, "ns :: ? "+gateway6))
			if from == "first" {
				in, r = w.sendIn(t, "blue", from, pkttest.Frame(bob, solicitedGateway, "ns :: ? "+gateway6))
			}
			out := w.back(t, "blue", from, in, r)
			dst := map[string]string{"p0": alice, "first": bob}[from]
			if out[0] == 0x33 {
				dst = "33:33:00:00:00:01" // as good
			}
			check.Packet(t, in, out, check.Ether(gatewayMAC, dst), check.IP(target, addr("ff02::1"), check.TTL(255)),
				check.Advertisement(check.Router|check.Override, target, gatewayMAC))
		}
	})
}

// pings are of the gateway's own address and of those of other segments.
func TestGatewayAnswersPing(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, to way) {
		w := routedWorld(t, to)
		for _, c := range []struct{ segment, from, mac, gateway, src, dst string }{
			{"blue", "p0", alice, gatewayMAC, "10.0.1.10", gateway4},
			{"blue", "p0", alice, gatewayMAC, "10.0.1.10", greenGateway4},
			{"blue", "p0", alice, gatewayMAC, "10.0.1.10", uplink4},
			{"blue", "first", bob, gatewayMAC, "10.0.1.11", gateway4},
			{"blue", "p0", alice, gatewayMAC, "2001:db8:1::a", gateway6},
			{"blue", "p0", alice, gatewayMAC, "2001:db8:1::a", greenGateway6},
			{"blue", "first", bob, gatewayMAC, "2001:db8:1::b", gateway6},
			{"main-l3", "first", farMAC, l3MAC, "10.0.3.7", gateway4},
			{"main-l3", "second", farMAC2, l3MAC, "2001:db8:3::7", greenGateway6},
			{"up", "s0", ispMAC, uplinkMAC, "203.0.113.5", uplink4},
			{"up", "s0", ispMAC, uplinkMAC, "203.0.113.5", gateway4},
			{"up", "s0", ispMAC, uplinkMAC, "2001:db8:77::5", uplink6},
		} {
			for _, size := range []int{0, 1, 56, 1000} {
				in, r := w.sendIn(t, c.segment, c.from, pkttest.Frame(c.mac, c.gateway, fmt.Sprintf("ttl 1 tos 0x20 icmp %s > %s %d", c.src, c.dst, size)))
				out := w.back(t, c.segment, c.from, in, r)
				kind, body := check.ICMP, in[len(in)-size:]
				number := uint8(0)
				if addr(c.src).Is6() {
					kind, number = check.ICMPv6, 129
				}
				if !check.Packet(t, in, out, check.Ether(c.gateway, c.mac), check.IP(addr(c.dst), addr(c.src), check.TTL(64), check.TOS(0x20)),
					kind(number, 0, check.Carries(body))) {
					t.Fatalf("%+v, %d bytes", c, size)
				}
			}
		}
	})
}

// What the edge does not serve at its addresses.
func TestGatewayServesNothingElse(t *testing.T) {
	eachWay(t, func(t *testing.T, to way) {
		w := routedWorld(t, to)
		for _, from := range []string{"p0", "first"} {
			mac := map[string]string{"p0": alice, "first": bob}[from]
			for _, words := range []string{
				"udp 10.0.1.10:1000 > 10.0.1.1:161 30", "tcp 10.0.1.10:1000 > 10.0.1.1:22 syn", "ip 10.0.1.10 > 10.0.1.1 132 20",
				"udp 10.0.1.10:1000 > 10.0.2.1:53 700", "fragment 10.0.1.10 > 10.0.1.1 0 64",
			} {
				w.wantError(t, "blue", from, pkttest.Frame(mac, gatewayMAC, words), refusal{reason: "no-local-service", source: gateway4, kind: 3, code: 3})
			}
			for _, words := range []string{
				"udp [2001:db8:1::a]:1000 > [2001:db8:1::fe]:161 30", "tcp [2001:db8:1::a]:1000 > [2001:db8:2::fe]:22 syn",
				"udp [2001:db8:1::a]:1000 > [2001:db8:1::fe]:161 1350",
			} {
				w.wantError(t, "blue", from, pkttest.Frame(mac, gatewayMAC, words), refusal{reason: "no-local-service", source: gateway6, kind: 1, code: 4})
			}
		}
	})
}
