package datapath

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// changed returns a copy of b with the bytes at an offset replaced.
func changed(b []byte, at int, with ...byte) []byte {
	c := append([]byte(nil), b...)
	copy(c[at:], with)
	return c
}

const (
	tcp4  = "tcp 10.0.0.1:1000 > 10.0.0.2:80 100"
	tcp6  = "tcp [2001:db8:1::1]:1000 > [2001:db8:1::2]:80 100"
	udp4  = "udp 10.0.0.1:53 > 10.0.0.2:53 18"
	udp6  = "udp [2001:db8:1::1]:53 > [2001:db8:1::2]:53 18"
	icmp4 = "icmp 10.0.0.1 > 10.0.0.2 56"
	icmp6 = "icmp 2001:db8:1::1 > 2001:db8:1::2 56"
	arp   = "arp 10.0.0.1 ? 10.0.0.2"

	etherAt = 14 // offset of what follows an untagged Ethernet header
)

// dropCase is a packet and the one reason that it must be counted under.
type dropCase struct {
	name     string
	reason   string
	from     string // a device; "u0": through the tunnel program
	packet   packet
	reported bool // the sender, by ICMP
}

func dropCases(w *world) []dropCase {
	frame := func(words string) []byte { return pkttest.Frame(alice, bob, words) }
	port := func(name, reason string, b []byte) dropCase {
		return dropCase{name, reason, "p0", packet{bytes: b}, false}
	}
	under := func(name, reason string, b []byte) dropCase {
		return dropCase{name, reason, "u0", packet{bytes: b}, false}
	}
	inside := func(name, reason string, b []byte) dropCase { return under(name, reason, w.fromRemote(b)) }

	tcp, v6, udp := frame(tcp4), frame(tcp6), frame(udp4)
	outer := w.outer(w.family.remotes[0])
	tunnel := outer.Wrap(tcp)
	udpAt := outer.Len() - 16
	with := func(change func(*pkttest.Outer)) []byte {
		o := outer
		change(&o)
		return o.Wrap(tcp)
	}
	reported := func(c dropCase) dropCase {
		c.reported = true
		return c
	}
	cases := []dropCase{
		inside("inner frame of 13 bytes", "malformed-ethernet", tcp[:13]),
		port("ARP of 27 bytes", "malformed-arp", frame(arp)[:41]),
		inside("ARP of 27 bytes in the tunnel", "malformed-arp", frame(arp)[:41]),
		port("IPv4 version 5", "malformed-ipv4", changed(tcp, etherAt, 0x55)),
		port("IPv4 header length 16", "malformed-ipv4", changed(tcp, etherAt, 0x44)),
		port("IPv4 total length below the header's", "malformed-ipv4", changed(tcp, etherAt+2, 0, 19)),
		port("IPv4 total length zero", "malformed-ipv4", changed(tcp, etherAt+2, 0, 0)),
		port("IPv4 total length one too many", "malformed-ipv4", changed(tcp, etherAt+2, 0, 141)),
		inside("IPv4 cut by one byte in the tunnel", "malformed-ipv4", tcp[:len(tcp)-1]),
		port("IPv6 version 4", "malformed-ipv6", changed(v6, etherAt, 0x40)),
		port("IPv6 payload length one too many", "malformed-ipv6", changed(v6, etherAt+4, 0, 121)),
		inside("IPv6 header cut in the tunnel", "malformed-ipv6", v6[:etherAt+39]),
		port("IPv6 from an IPv4-mapped address", "malformed-ipv6", frame("udp [::ffff:10.0.0.1]:53 > [2001:db8:1::2]:53 18")),
		port("IPv6 to an IPv4-mapped address", "malformed-ipv6", frame("udp [2001:db8:1::1]:53 > [::ffff:10.0.0.2]:53 18")),
		inside("IPv6 between IPv4-mapped addresses in the tunnel", "malformed-ipv6", frame("udp [::ffff:10.0.0.1]:53 > [::ffff:10.0.0.2]:53 18")),
		port("IPv6 options longer than the packet", "malformed-ipv6", changed(pkttest.Packet(pkttest.Ether(alice, bob),
			pkttest.IPv6("2001:db8:1::1", "2001:db8:1::2"), &pkttest.Extension{Kind: pkttest.ProtoHopByHop}, pkttest.UDP(1, 2)), etherAt+41, 2)),
		port("TCP header length 16", "malformed-l4", changed(tcp, etherAt+32, 0x40)),
		port("TCP header longer than the packet", "malformed-l4", changed(frame("tcp 10.0.0.1:1000 > 10.0.0.2:80"), etherAt+32, 0x60)),
		port("IP packet that ends inside UDP", "malformed-l4", changed(udp, etherAt+2, 0, 27)),
		port("IP packet that ends inside ICMP", "malformed-l4", changed(frame(icmp4), etherAt+2, 0, 23)),
		inside("TCP header length in the tunnel", "malformed-l4", changed(tcp, etherAt+32, 0x40)),
		port("source is broadcast", "source-multicast", pkttest.Frame(all, bob, tcp4)),
		port("source is a group", "source-multicast", pkttest.Frame("03:00:00:00:00:01", bob, tcp4)),
		port("source is zero", "source-multicast", pkttest.Frame("00:00:00:00:00:00", bob, tcp4)),
		inside("source is a group in the tunnel", "source-multicast", pkttest.Frame("03:00:00:00:00:01", bob, tcp4)),
		port("802.1Q", "vlan-tagged", pkttest.Packet(pkttest.Ether(alice, bob), pkttest.VLAN(7), pkttest.IPv4("10.0.0.1", "10.0.0.2"), pkttest.UDP(1, 2))),
		port("802.1ad", "vlan-tagged", changed(tcp, 12, 0x88, 0xa8)),
		inside("802.1Q in the tunnel", "vlan-tagged", changed(tcp, 12, 0x81, 0x00)),
		under("UDP length one too many", "outer-malformed", changed(tunnel, udpAt+4, binary.BigEndian.AppendUint16(nil, uint16(len(tunnel)-udpAt+1))...)),
		under("UDP length of less than VXLAN", "outer-malformed", changed(tunnel, udpAt+4, 0, 15)),
		under("VXLAN header cut", "outer-malformed", pkttest.Frame(nextHop, outer.DstMAC, fmt.Sprintf("udp %s > %s 7",
			netip.AddrPortFrom(outer.Src, 50000), netip.AddrPortFrom(outer.Dst, pkttest.VXLANPort)))),
		under("no VNI flag", "tunnel-flags", with(func(o *pkttest.Outer) { o.Flags = 0x10000000 })),
		under("VNI not configured", "unknown-vni", with(func(o *pkttest.Outer) { o.VNI = 101 })),
		under("VNI zero", "unknown-vni", changed(tunnel, outer.Len()-4, 0, 0, 0)),
		under("VNI of the other UDP port", "unknown-vni", with(func(o *pkttest.Outer) { o.DstPort = 4790 })),
		under("remote not configured", "unknown-remote", with(func(o *pkttest.Outer) { o.Src = w.family.unknown })),
		under("remote of another segment", "unknown-remote",
			with(func(o *pkttest.Outer) { o.Src, o.VNI, o.DstPort = w.family.remotes[1], greenVNI, 4790 })),
		under("congestion mark that cannot be carried", "ecn-marked", with(func(o *pkttest.Outer) { o.TOS = 3 })),
		{"interface that is no port", "unknown-port", "s0", packet{bytes: tcp}, false},
		port("static MAC of a remote at a port", "static-mac-move", pkttest.Frame("02:00:00:00:00:51", bob, tcp4)),
		inside("static MAC of a port at a remote", "static-mac-move", pkttest.Frame("02:00:00:00:00:50", bob, tcp4)),
		port("destination behind the same port", "same-port", pkttest.Frame(bob, "02:00:00:00:00:50", tcp4)),
		inside("destination behind the same remote", "same-port", pkttest.Frame(bob, "02:00:00:00:00:51", tcp4)),
		under("destination behind another remote", "split-horizon",
			w.outer(w.family.remotes[1]).Wrap(pkttest.Frame(bob, "02:00:00:00:00:51", tcp4))),
		{"alone in the segment", "no-member", "p2", packet{bytes: pkttest.Frame(alice, all, arp)}, false},
		port("remote without a route", "no-underlay-route", pkttest.Frame(alice, "02:00:00:00:00:52", tcp4)),
		reported(port("one byte too big for the tunnel", "too-big", bigger(w, "02:00:00:00:00:51", 1))),
		reported(under("too big for the port", "too-big", w.fromRemote(pkttest.Frame(bob, "02:00:00:00:00:50", fmt.Sprintf("udp 10.0.0.1:1 > 10.0.0.2:2 %d", portMTU-28+1))))),
		reported(dropCase{"segment whose pieces are too big", "too-big", "p0", packet{bytes: bigger(w, "02:00:00:00:00:51", 1000), gsoSize: 1500}, true}),
		{"large segment of a kind that cannot be tunnelled", "gso-nested", "p0", packet{bytes: pkttest.Frame(alice, "02:00:00:00:00:51", "tcp 10.0.0.1:1 > 10.0.0.2:2 2000"), gsoSize: 1000}, false},
		{"large UDP segment out of a tunnel", "gso-udp", "u0", packet{
			bytes: w.fromRemote(pkttest.Frame(bob, "02:00:00:00:00:50", "udp 10.0.0.1:1 > 10.0.0.2:2 1000")), gsoSize: 500}, false},
	}
	if w.family.tep.Is4() {
		cases = append(cases, under("first fragment", "outer-fragment", changed(tunnel, etherAt+6, 0x20, 0x00)))
	}
	return cases
}

// routedDropCases need a router: the world of routedWorld.
func routedDropCases() []dropCase {
	port := func(name, reason, src, dst, words string, reported bool) dropCase {
		return dropCase{name, reason, "p0", packet{bytes: pkttest.Frame(src, dst, words)}, reported}
	}
	return []dropCase{
		port("gateway's MAC", "spoofed-mac", gatewayMAC, bob, udp4, false),
		port("gateway's address", "spoofed-address", alice, all, "arp 10.0.1.1 ! 10.0.1.1", false),
		port("not IP", "not-routed", alice, gatewayMAC, "lldp", false),
		port("no service", "no-local-service", alice, gatewayMAC, "udp 10.0.1.10:1 > 10.0.1.1:2 30", true),
		port("last hop", "ttl-exceeded", alice, gatewayMAC, "ttl 1 udp 10.0.1.10:1 > 10.0.2.13:2 30", true),
		port("no route", "no-route", alice, gatewayMAC, "udp [2001:db8:1::a]:1 > [4000::1]:2 30", true),
		port("blackhole", "blackhole", alice, gatewayMAC, "udp 10.0.1.10:1 > 10.9.1.1:2 30", false),
		port("unreachable", "unreachable", alice, gatewayMAC, "udp 10.0.1.10:1 > 10.9.2.1:2 30", true),
		port("prohibited", "prohibited", alice, gatewayMAC, "udp 10.0.1.10:1 > 10.9.3.1:2 30", true),
		port("nobody there", "no-neighbour", alice, gatewayMAC, "udp 10.0.1.10:1 > 10.0.2.99:2 30", false),
	}
}

// bigger is a UDP frame n bytes bigger than the tunnel carries.
func bigger(w *world, dst string, n int) []byte {
	fits := underlayMTU - overlay.VXLAN.Overhead(w.family.tep) - 28
	return pkttest.Frame(alice, dst, fmt.Sprintf("udp 10.0.0.1:1 > 10.0.0.2:2 %d", fits+n))
}

// reasonsWorld has static MACs 50 (p0), 51 (first remote), 52 (a remote without
// a route), a next hop MAC that is itself behind the first remote, and green without remotes.
func reasonsWorld(t *testing.T, f family) *world {
	return newWorld(t, f, func(_ *Config, tables *fib.Tables) {
		blue, green := &tables.Segments[0], &tables.Segments[1]
		blue.Remotes = append(blue.Remotes[:2:2], f.unknownRoute())
		tables.TEPs = append(tables.TEPs, fib.TEP{Addr: f.unknownRoute()})
		blue.Static = []overlay.StaticMAC{
			{MAC: macOf("02:00:00:00:00:50"), Port: "p0"},
			{MAC: macOf("02:00:00:00:00:51"), Remote: f.remotes[0]},
			{MAC: macOf("02:00:00:00:00:52"), Remote: f.unknownRoute()},
			{MAC: macOf(nextHop), Remote: f.remotes[0]},
		}
		green.Remotes = nil
	})
}

// Every drop moves the counter of its own reason by one, and no other.
func TestDropReasons(t *testing.T) {
	t.Parallel()
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			w := reasonsWorld(t, f)
			for _, c := range dropCases(w) {
				t.Run(c.name, func(t *testing.T) { w.wantDrop(t, c) })
			}
			w = routedWorld(t, way{f.name, f, tunnels[0].tunnel})
			for _, c := range routedDropCases() {
				t.Run(c.name, func(t *testing.T) { w.wantDrop(t, c) })
			}
		})
	}
}

func (w *world) wantDrop(t *testing.T, c dropCase) {
	t.Helper()
	prog := w.dp.prog.objs.FromPort
	if c.from == "u0" {
		prog = w.dp.prog.objs.FromUnderlay
	}
	w.refill(t)
	var r result
	drops, events := w.counted(t, func() { r = w.run(t, prog, c.from, c.packet) })
	want := dropped
	if c.reported { // the message leaves in the packet's place
		want = forwarded
	}
	if r.verdict != want || sum(drops) != 1 || drops[c.reason] != 1 || events["icmp-sent"] == 1 != c.reported {
		pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: c.packet.bytes}, {Name: "out", Bytes: r.out}},
			"%v, drops %v, events %v; want one drop for %s, its sender told: %t", r.verdict, drops, events, c.reason, c.reported)
	}
}

func TestEveryReasonIsTested(t *testing.T) {
	elsewhere := map[string]string{ // need another world, or cannot be provoked
		"forwarded": "is not a drop",
		// The kernel refuses room only beyond SKB_MAX_ALLOC (16 kB), more than TEST_RUN takes,
		// and what a bug asks for: TestShortFramesLeaveTheTunnel.
		"no-headroom":        "nothing",
		"no-csum":            "TestUDPChecksumOnIPv6",
		"reserved-group":     "TestReservedGroups",
		"martian":            "TestMartiansAreNotRouted",
		"reverse-path":       "TestInsideSourcesDoNotComeFromOutside",
		"tunnel-from-inside": "TestTunnelPacketsOfGuests",
		"redirect-failed":    "TestFloodToVanishedPort",
		"nexthop-unresolved": "TestFloodUnresolved",
		"unknown-option":     "TestGeneveOptionWalk",
		"devmap-drop":        "TestNotTakenIsCounted",
		"ra-guard":           "TestRouterAdvertisementsFromPorts",
		"nd-ext-headers":     "TestNeighbourDiscoveryBehindHeaders",
		"dhcp-guard":         "TestDHCPServersAtPorts",
		"rejected":           "TestFirewallIsTheReference",
		"no-policy":          "TestNoPolicy",
		"non-ip":             "TestOtherThanIP",
		"half-open-limit":    "TestHalfOpenLimit",
		"port-down":          "TestPortsThatAreDown",
		"hidden-protocol":    "TestProtocolsHiddenBehindLLC",
		"outer-checksum":     "TestOuterChecksum",
		"mac-frozen":         "TestMACThatFlapsIsFrozen",
		"loop":               "TestCutPort",
		"storm-control":      "TestStormControl",
		"new-flow-limit":     "TestNewFlowsAreLimited",
	}
	maps.Copy(elsewhere, natReasons)
	tested := map[string]bool{}
	for _, c := range firewallDrops {
		tested[c.reason] = true
	}
	w := reasonsWorld(t, underIPv4)
	for _, c := range append(dropCases(w), routedDropCases()...) {
		tested[c.reason] = true
	}
	for _, word := range w.dp.prog.words.reasons {
		if !tested[word.name] && elsewhere[word.name] == "" {
			t.Errorf("no test provokes the reason %s", word.name)
		}
	}
}
