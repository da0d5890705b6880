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

// routeCase is a packet for a gateway and where it must go, with which MACs.
type routeCase struct {
	name       string
	segment    string // where it comes in
	from       string
	src, dst   string // MACs of the frame that comes
	words      string // TTL 64
	to         string // segment
	at         string // a port or "first"
	smac, dmac string // of the frame that leaves
}

// routeCases cover both families by way of twin addresses.
func routeCases() (list []routeCase) {
	for _, c := range []routeCase{
		{"port to port", "blue", "p0", alice, gatewayMAC, "tcp 10.0.1.10:1000 > 10.0.2.13:80 100", "green", "p2", gatewayMAC, dave},
		{"port to port, same segment", "blue", "p0", alice, gatewayMAC, "udp 10.0.1.10:1 > 10.0.1.12:2 30", "blue", "p1", gatewayMAC, carol},
		{"back to the same port", "blue", "p0", alice, gatewayMAC, "udp 10.0.1.99:1 > 10.0.1.10:2 30", "blue", "p0", gatewayMAC, alice},
		{"port to remote (asymmetric)", "green", "p2", dave, gatewayMAC, "tcp 10.0.2.13:80 > 10.0.1.11:1000 100", "blue", "first", gatewayMAC, bob},
		{"remote to port", "blue", "first", bob, gatewayMAC, "udp 10.0.1.11:1 > 10.0.2.13:2 30", "green", "p2", gatewayMAC, dave},
		{"remote to remote of another segment", "blue", "first", bob, gatewayMAC, "udp 10.0.1.11:1 > 10.0.2.14:2 30", "green", "first", gatewayMAC, erin},
		{"port to L3 (symmetric)", "blue", "p0", alice, gatewayMAC, "icmp 10.0.1.10 > 10.0.3.7 56", "main-l3", "first", l3MAC, farMAC},
		{"L3 to port", "main-l3", "first", farMAC, l3MAC, "tcp 10.0.3.7:80 > 10.0.1.10:1000 100", "blue", "p0", gatewayMAC, alice},
		{"L3 to remote", "main-l3", "second", farMAC2, l3MAC, "ip 10.0.3.8 > 10.0.2.14 132 20", "green", "first", gatewayMAC, erin},
		{"port to uplink by the default route", "blue", "p0", alice, gatewayMAC, "udp 10.0.1.10:1 > 203.0.113.5:53 30", "up", "s0", uplinkMAC, ispMAC},
		{"port to uplink's own network", "green", "p2", dave, gatewayMAC, "udp 10.0.2.13:1 > 198.51.100.254:53 30", "up", "s0", uplinkMAC, ispMAC},
		{"uplink to port", "up", "s0", ispMAC, uplinkMAC, "udp 203.0.113.5:53 > 10.0.1.10:1 30", "blue", "p0", gatewayMAC, alice},
		{"uplink to remote", "up", "s0", ispMAC, uplinkMAC, "tcp 203.0.113.5:53 > 10.0.2.14:1 30", "green", "first", gatewayMAC, erin},
		{"fragment", "blue", "p0", alice, gatewayMAC, "fragment 10.0.1.10 > 10.0.2.13 1480 64", "green", "p2", gatewayMAC, dave},
	} {
		list = append(list, c)
		c.words, c.name = sixOf(c.words), c.name+", IPv6"
		list = append(list, c)
	}
	return list
}

// sixOf are the words of the same packet in IPv6: 10.0.1.10 is 2001:db8:1::a.
func sixOf(words string) string {
	f := strings.Fields(words)
	for i, word := range f {
		if a, err := netip.ParseAddrPort(word); err == nil {
			f[i] = netip.AddrPortFrom(six(a.Addr()), a.Port()).String()
		} else if a, err := netip.ParseAddr(word); err == nil && a.Is4() {
			f[i] = six(a).String()
		}
	}
	return strings.Join(f, " ")
}

// six is the IPv6 twin of an IPv4 address.
func six(a netip.Addr) netip.Addr {
	b := a.As4()
	if a == netip.MustParseAddr("198.51.100.254") {
		return netip.MustParseAddr("2001:db8:ff::fe")
	}
	if b[0] != 10 {
		return netip.MustParseAddr(fmt.Sprintf("2001:db8:77::%x", b[3]))
	}
	if b[1] == 9 {
		return netip.MustParseAddr(fmt.Sprintf("2001:db8:9:%x::%x", b[2], b[3]))
	}
	return netip.MustParseAddr(fmt.Sprintf("2001:db8:%x::%x", b[2], b[3]))
}

// A routed packet has one hop less, new MACs and is otherwise the same: that the frames are equal says that all checksums are right.
func TestRouting(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, to way) {
		for _, cache := range []bool{true, false} {
			w := routedWorld(t, to, func(c *Config, _ *fib.Tables) { c.FlowCache.Enabled = cache })
			for _, c := range routeCases() {
				for _, ttl := range []int{64, 2, 255} {
					frame := pkttest.Frame(c.src, c.dst, fmt.Sprintf("ttl %d %s", ttl, c.words))
					want := pkttest.Frame(c.smac, c.dmac, fmt.Sprintf("ttl %d %s", ttl-1, c.words))
					in, r := w.sendIn(t, c.segment, c.from, frame)
					if !w.wantAt(t, c.to, c.at, in, want, r) {
						t.Fatalf("%s, TTL %d, cache %t", c.name, ttl, cache)
					}
				}
			}
		}
	})
}

// The longest prefix wins, whichever is written first.
func TestLongestPrefix(t *testing.T) {
	w := routedWorld(t, ways()[0])
	w.setRoute("main", route("10.8.0.0/16", fib.Hop{Segment: "green"}))
	w.setRoute("main", ending("10.8.1.0/24", overlay.Blackhole))
	w.setRoute("main", route("10.8.1.128/25", via("up", "198.51.100.254")))
	w.setRoute("main", route("10.8.1.200/32", via("blue", "10.0.1.12")))
	w.setRoute("main", route("2001:db8:8::/48", via("up", "2001:db8:ff::fe")))
	w.setRoute("main", route("2001:db8:8:1::1/128", via("blue", "2001:db8:1::c")))
	w.apply(t)
	for dst, at := range map[string]string{
		"10.8.1.200": "p1", "10.8.1.201": "s0", "10.8.1.128": "s0", "10.8.1.127": "drop",
		"10.7.255.255": "s0", "2001:db8:8:1::1": "p1", "2001:db8:8:1::2": "s0", "2001:db8:9::1": "s0",
	} {
		src := map[bool]string{true: "10.0.1.10", false: "2001:db8:1::a"}[netip.MustParseAddr(dst).Is4()]
		s := step{"p0", pkttest.Frame(alice, gatewayMAC, fmt.Sprintf("icmp %s > %s 20", src, dst)), at}
		if got := w.went(t, s); got != at {
			t.Errorf("to %s went to %s, want %s", dst, got, at)
		}
	}
}

// Two routers have the same addresses; a packet stays in its own. A leaked route leads from one into the other.
func TestRoutersAreApart(t *testing.T) {
	for _, to := range ways()[:1] {
		w := routedWorld(t, to, func(_ *Config, tables *fib.Tables) {
			green := &tables.Segments[1]
			green.Gateway.Router = "other"
			green.Gateway.Addresses = []netip.Prefix{netip.MustParsePrefix("10.0.1.1/24"), netip.MustParsePrefix("2001:db8:1::fe/64")}
			green.Static = append(green.Static, overlay.StaticMAC{MAC: macOf(bob), Port: "p2"})
			green.Neighbours = neighbours("10.0.1.10", dave, "10.0.1.11", bob)
			tables.Routers = append(tables.Routers, fib.Router{Name: "other", Routes: []fib.Route{
				route("10.0.1.0/24", fib.Hop{Segment: "green"}),
				route("198.51.100.0/24", via("up", "198.51.100.254")), // leaked from main
				ending("10.0.3.0/24", overlay.Blackhole),
			}})
		})
		for _, s := range []struct {
			name, from string
			src, words string
			at         string
			smac, dmac string
		}{
			{"main's 10.0.1.10", "p1", carol, "udp 10.0.1.12:1 > 10.0.1.10:2 40", "p0", gatewayMAC, alice},
			{"other's 10.0.1.10", "p2", bob, "udp 10.0.1.11:1 > 10.0.1.10:2 40", "p2", gatewayMAC, dave},
			{"leaked", "p2", bob, "udp 10.0.1.11:1 > 198.51.100.7:2 40", "s0", uplinkMAC, ispMAC},
		} {
			in := pkttest.Frame(s.src, gatewayMAC, s.words)
			r := w.fromPort(t, s.from, in)
			r.want(t, in, forwarded)
			check.Equal(t, s.name, pkttest.Frame(s.smac, s.dmac, "ttl 63 "+s.words), r.out)
		}
		w.wantDrop(t, dropCase{reason: "blackhole", from: "p2", packet: packet{bytes: pkttest.Frame(bob, gatewayMAC, "udp 10.0.1.11:1 > 10.0.3.1:2 40")}})
	}
}

// What a router does not forward.
func TestNotRouted(t *testing.T) {
	w := routedWorld(t, ways()[0])
	for name, words := range map[string]string{
		"IPv4 multicast": "udp 10.0.1.10:1 > 224.0.0.5:2 30", "administratively scoped": "udp 10.0.1.10:1 > 239.1.1.1:2 30",
		"limited broadcast": "udp 10.0.1.10:1 > 255.255.255.255:2 30",
		"IPv6 multicast":    "udp [2001:db8:1::a]:1 > [ff0e::1]:2 30", "link-local": "udp [2001:db8:1::a]:1 > [fe80::9]:2 30",
		"not IP": "raw 0x88b5 60", "LLDP": "lldp",
	} {
		t.Run(name, func(t *testing.T) {
			w.wantDrop(t, dropCase{reason: "not-routed", from: "p0", packet: packet{bytes: pkttest.Frame(alice, gatewayMAC, words)}})
		})
	}
	// On an L3 segment nothing is bridged.
	in := w.outerIn("main-l3", w.family.remotes[0]).Wrap(pkttest.Frame(farMAC, alice, "udp 10.0.3.1:1 > 10.0.1.10:2 30"))
	w.wantDrop(t, dropCase{reason: "not-routed", from: "u0", packet: packet{bytes: in}})
	if at := w.fdbIn(t, "main-l3", farMAC); at != "" {
		t.Errorf("learned at %s on an L3 segment", at)
	}
}

// What an uplink leaves to the host, untouched.
func TestUplinkIsTheHosts(t *testing.T) {
	w := routedWorld(t, ways()[0])
	host := w.dev["s0"].HardwareAddr.String()
	for name, in := range map[string][]byte{
		"for the host":                  pkttest.Frame(ispMAC, host, "tcp 203.0.113.5:53 > 198.51.100.2:22"),
		"for an inner address":          pkttest.Frame(ispMAC, host, "udp 203.0.113.5:53 > 10.0.1.10:1"),
		"broadcast":                     pkttest.Frame(ispMAC, all, "udp 198.51.100.254:67 > 255.255.255.255:68"),
		"LLDP":                          pkttest.Frame(ispMAC, "01:80:c2:00:00:0e", "lldp"),
		"ARP for another":               pkttest.Frame(ispMAC, all, "arp 198.51.100.254 ? 198.51.100.2"),
		"ARP for an inner address":      pkttest.Frame(ispMAC, all, "arp 198.51.100.254 ? 10.0.1.1"),
		"ARP reply":                     pkttest.Frame(ispMAC, uplinkMAC, "arp 198.51.100.254 ! 198.51.100.1"),
		"solicitation for another":      pkttest.Frame(ispMAC, "33:33:ff:00:00:02", "ns 2001:db8:ff::fe ? 2001:db8:ff::2"),
		"advertisement":                 pkttest.Frame(ispMAC, uplinkMAC, "na 2001:db8:ff::fe ! 2001:db8:ff::1"),
		"VLAN of the host":              pkttest.Frame(ispMAC, host, "vlan 77 tcp 203.0.113.5:53 > 198.51.100.2:22"),
		"VLAN of the host, broadcast":   pkttest.Frame(ispMAC, all, "vlan 77 arp 198.51.100.254 ? 198.51.100.2"),
		"own MAC, looped back, in IPv4": pkttest.Frame(uplinkMAC, all, "udp 198.51.100.1:1 > 255.255.255.255:2"),
	} {
		t.Run(name, func(t *testing.T) {
			var r result
			drops, _ := w.counted(t, func() { r = w.fromPort(t, "s0", in) })
			r.want(t, in, next)
			check.Equal(t, name, in, r.out)
			if sum(drops) != 0 {
				t.Errorf("drops %v", drops)
			}
		})
	}
}
