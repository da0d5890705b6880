package datapath

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// sized are the words of a UDP packet of n bytes between two addresses.
func sized(src, dst string, n int) string {
	headers := 28
	if addr(src).Is6() {
		headers = 48
	}
	return fmt.Sprintf("udp %s > %s %d", netip.AddrPortFrom(addr(src), 1), netip.AddrPortFrom(addr(dst), 2), n-headers)
}

// tooBig is the message about it.
func tooBig(source string, mtu int) refusal {
	r := refusal{reason: "too-big", source: source, kind: 3, code: 4, mtu: mtu}
	if addr(source).Is6() {
		r.kind, r.code = 2, 0
	}
	return r
}

// mtuWays are all ways and one with the longest options.
func mtuWays() []way {
	list := ways()
	for _, f := range families {
		list = append(list, way{"Geneve with 252 bytes of options on " + f.name, f, geneve(longestOptions)})
	}
	return list
}

// mtu is the largest inner packet with so many tags.
func (to way) mtu(tags int) int { return underlayMTU - to.tunnel.Overhead(to.family.tep) - 4*tags }

// wideWorld has ports that carry more than any tunnel.
func wideWorld(t testing.TB, to way, change ...func(*Config, *fib.Tables)) *world {
	t.Helper()
	return to.world(t, append([]func(*Config, *fib.Tables){func(_ *Config, tables *fib.Tables) {
		for i := range tables.Ports {
			tables.Ports[i].MTU = deviceMTU
		}
		tables.Segments[0].KeepTags = true
	}}, change...)...)
}

var tagWords = []string{"", "vlan 7 ", "svlan 9 vlan 7 "}

// A bridged packet of the largest size passes; one byte more, and the sender is told exactly that size. It works with the flow in the cache and not.
func TestTunnelMTU(t *testing.T) {
	for _, to := range mtuWays() {
		t.Run(to.name, func(t *testing.T) {
			w := wideWorld(t, to)
			for tags, words := range tagWords {
				mtu := to.mtu(tags)
				for _, pair := range [][2]string{{"10.0.1.10", "10.0.1.11"}, {"2001:db8:1::a", "2001:db8:1::b"}} {
					in := pkttest.Frame(alice, bob, words+sized(pair[0], pair[1], mtu))
					r := w.fromPort(t, "p0", in)
					w.wantTunnel(t, in, in, r)
					if len(r.out) != underlayMTU+etherLen {
						t.Errorf("the tunnel packet has %d bytes, want %d", len(r.out), underlayMTU+etherLen)
					}
					in = pkttest.Frame(alice, bob, words+sized(pair[0], pair[1], mtu+1))
					named := mtu
					if addr(pair[0]).Is6() { // RFC 8200 section 5: no sender goes below
						named = max(mtu, 1280)
					}
					w.wantTagged(t, tags, in, tooBig(pair[1], named))
				}
			}
		})
	}
}

// wantTagged is wantError for a frame from p0 with tags. The message has the same
// ones, of which the outermost stands beside the frame and the other in it.
func (w *world) wantTagged(t *testing.T, tags int, frame []byte, want refusal) {
	t.Helper()
	w.refill(t)
	r := w.fromPort(t, "p0", frame)
	r.want(t, frame, forwarded)
	if out := r.out; tags == 2 && len(out) > 18 {
		check.Equal(t, "the inner tag", frame[16:20], out[12:16])
		r.out = append(append([]byte(nil), out[:12]...), out[16:]...)
	}
	plain := append(append([]byte(nil), frame[:12]...), frame[12+4*tags:]...)
	w.isError(t, r.out, plain, want)
}

// From which address the message about a bridged packet comes.
func TestTooBigFrom(t *testing.T) {
	to := ways()[0]
	gateway := &overlay.Gateway{Router: "main", MAC: macOf(gatewayMAC), Addresses: []netip.Prefix{
		netip.MustParsePrefix("fe80::1/64"), netip.MustParsePrefix("10.0.1.1/24"), netip.MustParsePrefix("2001:db8:1::fe/64"),
	}}
	from := []netip.Addr{addr("192.0.0.8"), addr("2001:db8:f::8")}
	for name, c := range map[string]struct {
		change       func(*overlay.Segment)
		ipv4, ipv6   string
		sixFromLocal string
	}{
		"destination": {func(*overlay.Segment) {}, "10.0.1.11", "2001:db8:1::b", "fe80::b"},
		"configured":  {func(s *overlay.Segment) { s.TooBigFrom = from }, "192.0.0.8", "2001:db8:f::8", "2001:db8:f::8"},
		"one family":  {func(s *overlay.Segment) { s.TooBigFrom = from[:1] }, "192.0.0.8", "2001:db8:1::b", "fe80::b"},
		"gateway":     {func(s *overlay.Segment) { s.Gateway = gateway }, "10.0.1.1", "2001:db8:1::fe", "2001:db8:1::fe"},
	} {
		t.Run(name, func(t *testing.T) {
			w := wideWorld(t, to, func(_ *Config, tables *fib.Tables) {
				tables.Routers = []fib.Router{{Name: "main"}}
				c.change(&tables.Segments[0])
			})
			n := to.mtu(0) + 1
			w.wantError(t, "blue", "p0", pkttest.Frame(alice, bob, sized("10.0.1.10", "10.0.1.11", n)), tooBig(c.ipv4, n-1))
			w.wantError(t, "blue", "p0", pkttest.Frame(alice, bob, sized("2001:db8:1::a", "2001:db8:1::b", n)), tooBig(c.ipv6, n-1))
			w.wantError(t, "blue", "p0", pkttest.Frame(alice, bob, sized("fe80::a", "fe80::b", n)), tooBig(c.sixFromLocal, n-1))
		})
	}
}

// Out of the tunnel it is the port that is too small; the message goes back through the tunnel. Between ports likewise.
func TestPortMTU(t *testing.T) {
	eachWay(t, func(t *testing.T, to way) {
		w := to.world(t, func(_ *Config, tables *fib.Tables) {
			tables.Ports[0].MTU = 1300
			tables.Segments[0].Static = append(tables.Segments[0].Static, overlay.StaticMAC{MAC: macOf(carol), Port: "p1"})
		})
		for from, mac := range map[string]string{"first": bob, "p1": carol} {
			for _, pair := range [][2]string{{"10.0.1.11", "10.0.1.10"}, {"2001:db8:1::b", "2001:db8:1::a"}} {
				frame := pkttest.Frame(mac, alice, sized(pair[0], pair[1], 1300))
				in, r := w.sendIn(t, "blue", from, frame)
				r.want(t, in, forwarded)
				check.Equal(t, "frame", frame, r.out)
				w.wantError(t, "blue", from, pkttest.Frame(mac, alice, sized(pair[0], pair[1], 1301)), tooBig(pair[1], 1300))
			}
		}
	})
}

// Routed packets: the message comes from the gateway where the packet came in.
func TestRoutedTooBig(t *testing.T) {
	eachWay(t, func(t *testing.T, to way) {
		w := routedWorld(t, to, func(_ *Config, tables *fib.Tables) {
			for i := range tables.Ports {
				tables.Ports[i].MTU = deviceMTU
			}
			tables.Ports[2].MTU = 1300
		})
		for _, c := range []struct {
			segment, from, mac, gateway string
			src, dst                    string
			mtu                         int
			source                      string
		}{
			{"blue", "p0", alice, gatewayMAC, "10.0.1.10", "10.0.2.14", to.mtu(0), gateway4}, // into a tunnel
			{"blue", "p0", alice, gatewayMAC, "10.0.1.10", "10.0.3.7", to.mtu(0), gateway4},  // to the L3 segment
			{"blue", "p0", alice, gatewayMAC, "10.0.1.10", "10.0.2.13", 1300, gateway4},      // to a port
			{"blue", "first", bob, gatewayMAC, "10.0.1.11", "10.0.2.13", 1300, gateway4},
			{"main-l3", "second", farMAC2, l3MAC, "10.0.3.8", "10.0.2.13", 1300, gateway4}, // the router's first address
			{"up", "s0", ispMAC, uplinkMAC, "203.0.113.5", "10.0.2.14", to.mtu(0), uplink4},
		} {
			for _, ip6 := range []bool{false, true} {
				src, dst, source, df := c.src, c.dst, c.source, "df " // others are fragmented
				if ip6 {
					df = ""
					src, dst = six(addr(src)).String(), six(addr(dst)).String()
					source = map[string]string{gateway4: gateway6, uplink4: uplink6}[source]
				}
				frame := pkttest.Frame(c.mac, c.gateway, sized(src, dst, c.mtu))
				in, r := w.sendIn(t, c.segment, c.from, frame)
				r.want(t, in, forwarded)
				want := tooBig(source, c.mtu)
				want.routed = true
				for range 2 {
					w.wantError(t, c.segment, c.from, pkttest.Frame(c.mac, c.gateway, df+sized(src, dst, c.mtu+1)), want)
				}
				if t.Failed() {
					t.Fatalf("%+v", c)
				}
			}
		}
	})
}

// The MSS of a SYN is lowered to what the tunnel carries, in both directions, byte for byte: the checksum is right wherever the option stands.
func TestMSSClamp(t *testing.T) {
	for _, to := range mtuWays() {
		t.Run(to.name, func(t *testing.T) {
			w := wideWorld(t, to, func(_ *Config, tables *fib.Tables) { tables.Segments[0].ClampMSS = true })
			for headers, vports := range map[int]string{40: "tcp 10.0.1.10:1000 > 10.0.1.11:80 ", 60: "tcp [2001:db8:1::a]:1000 > [2001:db8:1::b]:80 "} {
				limit := to.mtu(0) - headers
				for _, c := range []struct {
					words string // %d is the MSS
					mss   int
					want  int
				}{
					{"syn mss %d", 1460, limit}, {"syn mss %d", 65535, limit}, {"syn mss %d", limit + 1, limit},
					{"syn mss %d", limit, limit}, {"syn mss %d", limit - 1, limit - 1}, {"syn mss %d", 536, 536},
					{"syn+ack mss %d", 8960, limit}, {"syn nop mss %d", 1460, limit}, {"syn nop nop nop mss %d", 1460, limit},
					{"syn nop nop mss %d nop nop 100", 1460, limit}, {"ack mss %d", 1460, 1460}, {"rst mss %d", 1460, 1460},
				} {
					in := pkttest.Frame(alice, bob, vports+fmt.Sprintf(c.words, c.mss))
					want := pkttest.Frame(alice, bob, vports+fmt.Sprintf(c.words, c.want))
					_, events := w.counted(t, func() { w.wantTunnel(t, in, want, w.fromPort(t, "p0", in)) })
					if clamped := events["mss-clamped"] == 1; clamped != (c.mss != c.want) {
						t.Errorf("%s: events %v", c.words, events)
					}
					tunnel := w.fromRemote(exchanged(in))
					r := w.fromUnderlay(t, tunnel)
					r.want(t, tunnel, forwarded)
					check.Equal(t, "out of the tunnel", exchanged(want), r.out)
					if t.Failed() {
						t.Fatalf(vports+c.words, c.mss)
					}
				}
			}
		})
	}
}

// Options that are cut short or none at all are left alone.
func TestMSSClampOfOddOptions(t *testing.T) {
	w := wideWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) { tables.Segments[0].ClampMSS = true })
	const at = etherLen + ipv4Len + 20
	for name, options := range map[string][]byte{
		"end before":         {0, 2, 4, 0xff, 0xff, 0, 0, 0},
		"length 0":           {3, 0, 2, 4, 0xff, 0xff, 0, 0},
		"length 1":           {3, 1, 2, 4, 0xff, 0xff, 0, 0},
		"longer than all":    {8, 40, 2, 4, 0xff, 0xff, 0, 0},
		"MSS of length 3":    {2, 3, 0xff, 1, 1, 1, 1, 1},
		"MSS of length 5":    {2, 5, 0xff, 0xff, 0, 0, 0, 0},
		"MSS cut short":      {1, 1, 1, 1, 1, 2, 4, 0xff},
		"nothing":            {1, 1, 1, 1, 1, 1, 1, 1},
		"MSS inside another": {8, 6, 2, 4, 0xff, 0xff, 0, 0},
	} {
		in := pkttest.Frame(alice, bob, "tcp 10.0.1.10:1000 > 10.0.1.11:80 syn "+strings.Repeat("nop ", 8))
		copy(in[at:], options)
		in = resummed(in)
		if !w.wantTunnel(t, in, in, w.fromPort(t, "p0", in)) {
			t.Error(name)
		}
	}
}

// resummed sets the checksum of a TCP packet in IPv4.
func resummed(b []byte) []byte {
	tcp := b[etherLen+ipv4Len:]
	tcp[16], tcp[17] = 0, 0
	sum := ^pkttest.Sum(tcp, uint32(pkttest.Sum(b[etherLen+12:etherLen+20], 0))+uint32(6+len(tcp)))
	tcp[16], tcp[17] = byte(sum>>8), byte(sum)
	return b
}

// A routed SYN passes one tunnel or two, whose segments say whether they clamp.
func TestRoutedMSSClamp(t *testing.T) {
	t.Parallel()
	to := ways()[0]
	for _, c := range []struct {
		blue, green bool
		want        int
	}{{false, false, 1460}, {true, false, 1310}, {false, true, 1410}, {true, true, 1310}} {
		w := routedWorld(t, to, func(_ *Config, tables *fib.Tables) {
			tables.Segments[0].ClampMSS, tables.Segments[1].ClampMSS = c.blue, c.green
			tables.TEPs[1].MTU = 1400 // blue from the second remote: 1400 - 50 - 40
		})
		words := "tcp 10.0.1.50:1000 > 10.0.2.14:80 syn mss %d"
		in, r := w.sendIn(t, "blue", "second", pkttest.Frame(nobody, gatewayMAC, fmt.Sprintf(words, 1460)))
		w.wantTunnelIn(t, "green", in, pkttest.Frame(gatewayMAC, erin, "ttl 63 "+fmt.Sprintf(words, c.want)), r)
	}
}
