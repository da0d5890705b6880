package datapath

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// refusedEverywhere offers a packet twice to tc and twice to the transit program of its
// interface, where there is one, and wants the reason, or none.
func (w *world) refusedEverywhere(t *testing.T, from string, in []byte, reason string) {
	t.Helper()
	offers := []func() result{func() result { return w.offer(t, from, in) }}
	if w.cfg.Transit && (from == "u0" || from == "s0") {
		offers = append(offers, func() result { return w.transit(t, from, in) })
	}
	for i, offer := range offers {
		for range 2 {
			w.refill(t)
			var r result
			drops, events := w.counted(t, func() { r = offer() })
			refused := drops[reason] == 1 && sum(drops) == 1 && events["icmp-sent"] == 0 && (r.verdict == dropped || i == 1 && r.verdict == xdpDrop)
			if reason == "" && sum(drops) != 0 || reason != "" && !refused {
				pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: in}, {Name: "out", Bytes: r.out}},
					"from %s, transit %t: verdict %d, drops %v, events %v; want %q", from, i == 1, r.verdict, drops, events, reason)
			}
		}
	}
}

// Somebody whom the underlay keeps from sending as an IPv4 remote writes the remote's address into an IPv6 header: the same 128 bits in the tables.
func TestIPv4RemoteInAnIPv6Header(t *testing.T) {
	t.Parallel()
	to := ways()[0]
	w := transitWorld(t, to)
	mapped := func(a netip.Addr) netip.Addr { return netip.AddrFrom16(a.As16()) }
	frame := pkttest.Frame(farMAC, l3MAC, "udp 10.0.3.7:53 > 203.0.113.5:1 30")
	o := w.outerIn("main-l3", to.family.remotes[0])
	w.refusedEverywhere(t, "u0", o.Wrap(frame), "") // and its decision is in both caches
	for _, c := range []struct{ src, dst netip.Addr }{
		{mapped(o.Src), mapped(o.Dst)}, {netip.MustParseAddr("2001:db8::9"), mapped(o.Dst)},
	} {
		forged := o
		forged.Src, forged.Dst = c.src, c.dst
		w.refusedEverywhere(t, "u0", forged.Wrap(frame), "outer-malformed")
	}
	w = transitWorld(t, ways()[4]) // on IPv6
	o = w.outerIn("main-l3", w.family.remotes[0])
	o.Src = mapped(underIPv4.remotes[0])
	w.refusedEverywhere(t, "u0", o.Wrap(frame), "outer-malformed")
}

// A router forwards nothing that nobody could answer: the sender would be nobody for guards, rules, limits and logs of all the networks behind it.
func TestMartiansAreNotRouted(t *testing.T) {
	w := transitWorld(t, ways()[0])
	ports := []struct{ from, segment, src, dst string }{
		{"p0", "blue", alice, gatewayMAC}, {"s0", "up", ispMAC, uplinkMAC}, {"first", "main-l3", farMAC, l3MAC},
	}
	for _, src := range []string{
		"0.0.0.0", "0.1.2.3", "127.0.0.1", "169.254.7.7", "224.0.0.5", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "fe80::a", "febf::a", "ff02::1", "ff0e::1",
	} {
		for _, p := range ports {
			for _, dst := range []string{"203.0.113.5", "10.0.3.7"} {
				if netip.MustParseAddr(src).Is6() {
					dst = six(addr(dst)).String()
				}
				w.martian(t, p.from, p.segment, p.src, p.dst, src, dst, "martian")
			}
		}
	}
	for _, dst := range []string{"0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.255.255", "169.254.169.254", "::", "::1"} {
		for _, p := range ports {
			src := "203.0.113.9"
			if netip.MustParseAddr(dst).Is6() {
				src = six(addr(src)).String()
			}
			w.martian(t, p.from, p.segment, p.src, p.dst, src, dst, "martian")
		}
	}
	for _, src := range []string{"1.0.0.1", "126.0.0.1", "128.0.0.1", "169.253.0.1", "169.255.0.1", "223.255.255.255", "::2:1", "fe00::1", "fec0::1"} {
		dst := "203.0.113.5"
		if netip.MustParseAddr(src).Is6() {
			dst = six(addr(dst)).String()
		}
		w.martian(t, "p0", "blue", alice, gatewayMAC, src, dst, "")
	}
}

func (w *world) martian(t *testing.T, from, segment, smac, dmac, src, dst, reason string) {
	t.Helper()
	in := pkttest.Frame(smac, dmac, fmt.Sprintf("udp %s > %s 30", netip.AddrPortFrom(addr(src), 1), netip.AddrPortFrom(addr(dst), 2)))
	if from == "first" {
		from, in = "u0", w.outerIn(segment, w.family.remotes[0]).Wrap(in)
	}
	w.refusedEverywhere(t, from, in, reason)
}

// A stranger outside sends in the name of a host inside: rules that name inside networks would believe it.
func TestInsideSourcesDoNotComeFromOutside(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rpf overlay.ReversePath
		src string // to 10.0.3.7 and its IPv6 twin, from the uplink
		why string
	}{
		{"", "10.0.2.13", "reverse-path"}, {"", "10.0.3.8", "reverse-path"}, {"", "10.9.1.1", "reverse-path"}, {"", "10.0.1.1", "reverse-path"},
		{"", "198.51.100.254", ""}, {"", "203.0.113.5", ""}, {"", "192.0.0.9", ""},
		{overlay.ReversePathInside, "10.0.2.13", "reverse-path"},
		{overlay.ReversePathStrict, "10.0.2.13", "reverse-path"}, {overlay.ReversePathStrict, "198.51.100.254", ""},
		{overlay.ReversePathStrict, "203.0.113.5", ""},
		{overlay.ReversePathOff, "10.0.2.13", ""}, {overlay.ReversePathOff, "203.0.113.5", ""},
	} {
		t.Run(fmt.Sprintf("%q from %s", c.rpf, c.src), func(t *testing.T) {
			w := transitWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) { tables.Segments[3].ReversePath = c.rpf })
			words := "udp " + c.src + ":1 > 10.0.3.7:2 30"
			for _, words := range []string{words, sixOf(words)} {
				w.refusedEverywhere(t, "s0", pkttest.Frame(ispMAC, uplinkMAC, words), c.why)
			}
		})
	}
}

// A guest builds a tunnel packet of its own: behind an edge that masquerades it would come from a TEP that the fabric believes, and into any segment.
func TestTunnelPacketsOfGuests(t *testing.T) {
	for _, to := range []way{ways()[0], ways()[3], ways()[4]} {
		t.Run(to.name, func(t *testing.T) {
			w := transitWorld(t, to)
			own, remote, stranger := to.family.tep.String(), to.family.remotes[1].String(), to.family.unknown.String()
			guest, host := "10.0.1.10", "10.0.3.7"
			if !to.family.tep.Is4() {
				guest, host = "2001:db8:1::a", "2001:db8:3::7"
			}
			udp := func(src, dst string, port uint16) string {
				return fmt.Sprintf("udp %s > %s 60", netip.AddrPortFrom(addr(src), 50000), netip.AddrPortFrom(addr(dst), port))
			}
			for _, c := range []struct{ words, why string }{
				{udp(guest, remote, 4789), "tunnel-from-inside"}, {udp(guest, own, 4789), "tunnel-from-inside"},
				{udp(guest, remote, 6081), "tunnel-from-inside"}, {"ip " + guest + " > " + remote + " 47 60", "tunnel-from-inside"},
				{udp(guest, remote, 53), ""}, {udp(guest, own, 4788), ""}, {udp(guest, stranger, 4789), ""},
				{"ip " + guest + " > " + stranger + " 47 60", ""}, {"icmp " + guest + " > " + remote + " 56", ""},
			} {
				w.refusedEverywhere(t, "p0", pkttest.Frame(alice, gatewayMAC, c.words), c.why)
			}
			in := pkttest.Frame(farMAC, l3MAC, udp(host, remote, 4789))
			w.refusedEverywhere(t, "u0", w.outerIn("main-l3", to.family.remotes[0]).Wrap(in), "tunnel-from-inside")
			// What comes from an uplink and leaves by one is the underlay's.
			in = pkttest.Frame(ispMAC, uplinkMAC, udp(map[bool]string{true: "203.0.113.5", false: "2001:db8:77::5"}[to.family.tep.Is4()], remote, 4789))
			w.refusedEverywhere(t, "s0", in, "")
			if !to.family.tep.Is4() { // what is behind two headers, its receiver sees
				for dst, why := range map[string]string{remote: "tunnel-from-inside", stranger: ""} {
					in := pkttest.WithExtensions(pkttest.Frame(alice, gatewayMAC, udp(guest, dst, 4789)), hopOptions, destinationOptions)
					w.refusedEverywhere(t, "p0", in, why)
				}
			}
			if to.family.tep.Is4() { // its first fragment has no ports for us
				w.refusedEverywhere(t, "p0", pkttest.Frame(alice, gatewayMAC, "fragment "+guest+" > "+remote+" 1480 64"), "tunnel-from-inside")
			}
		})
	}
}

// reserved are group addresses that no bridge forwards, and what is no group but MAC control.
var reserved = []struct{ dst, words string }{
	{"01:80:c2:00:00:00", "raw 0x0026 46"}, {"01:80:c2:00:00:01", "raw 0x8808 46"}, {"01:80:c2:00:00:02", "raw 0x8809 46"},
	{"01:80:c2:00:00:03", "raw 0x888e 46"}, {"01:80:c2:00:00:0e", "lldp"}, {"01:80:c2:00:00:0f", "raw 0x88b5 46"},
	{"01:00:0c:cc:cc:cc", "raw 0x2000 46"}, {"01:00:0c:cc:cc:cd", "raw 0x010b 46"}, {bob, "raw 0x8808 46"}, {all, "raw 0x8808 46"},
}

// A guest that speaks spanning tree, PAUSE, LACP or 802.1X speaks to the bridge beside it, and
// not to switches behind other ports and edges (IEEE 802.1Q-2018 section 8.6.3).
func TestReservedGroups(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, to way) {
		for _, wire := range []bool{false, true} {
			w := to.world(t, func(_ *Config, tables *fib.Tables) { tables.Segments[0].Wire, tables.Segments[0].KeepTags = wire, true })
			why := map[bool]string{false: "reserved-group"}[wire]
			for _, c := range reserved {
				for _, tags := range []string{"", "vlan 7 "} {
					w.refusedEverywhere(t, "p0", pkttest.Frame(alice, c.dst, tags+c.words), why)
					w.refusedEverywhere(t, "u0", w.fromRemote(exchangedUnicast(c.dst, tags+c.words)), why)
				}
			}
			for _, dst := range []string{"01:80:c2:00:00:10", "01:80:c2:00:00:20", "01:80:c2:00:01:00", "01:00:0c:cc:cc:ce", "01:00:0c:cd:cc:cd", "01:00:5e:00:00:01", all} {
				w.refusedEverywhere(t, "p0", pkttest.Frame(alice, dst, "raw 0x88b5 46"), "")
			}
		}
	})
}

// exchangedUnicast is a frame of bob's, to alice where the frame from alice was to bob.
func exchangedUnicast(dst, words string) []byte {
	if dst == bob {
		dst = alice
	}
	return pkttest.Frame(bob, dst, words)
}

// Hosts take a tag with VLAN ID 0 for none: behind such a tag ARP would pass the guards of a port unread. Beneath a VLAN of the guest's own it is that VLAN's.
func TestPriorityTagHidesNothing(t *testing.T) {
	eachWay(t, func(t *testing.T, to way) {
		w := to.world(t, func(_ *Config, tables *fib.Tables) { tables.Segments[0].KeepTags = true })
		for _, words := range []string{"arp 10.0.0.2 ! 10.0.0.1", "na 2001:db8:1::2 ! 2001:db8:1::1", udp4} {
			for tags, why := range map[string]string{
				"vlan 0 vlan 0 ": "vlan-tagged", "vlan 0xe000 svlan 0x2000 ": "vlan-tagged", "vlan 0 ": "", "vlan 5 vlan 0 ": "", "vlan 0 vlan 5 ": "",
			} {
				w.refusedEverywhere(t, "p0", pkttest.Frame(alice, bob, tags+words), why)
				if tags == "vlan 0 " || tags == "vlan 0 vlan 5 " { // the remote has kept it
					why = "vlan-tagged"
				}
				w.refusedEverywhere(t, "u0", w.fromRemote(pkttest.Frame(bob, alice, tags+words)), why)
			}
		}
	})
}

// A frame of the untagged port of a trunk would become one of a VLAN of the trunk by its own
// tag, past that port's rules (VLAN hopping); where the host shares the interface, one of the
// host's.
func TestNoVLANHopping(t *testing.T) {
	to := ways()[0]
	w := trunkWorld(t, to, true, func(w *world) {
		w.tables.Ports = append(w.tables.Ports, w.port("p0", "blue"))
		w.tables.Segments[0].Static[0].Port = "p0"
	})
	taps := w.taps(t)
	for tags, why := range map[string]string{
		"vlan 20 ": "vlan-tagged", "vlan 0xe014 ": "vlan-tagged", "svlan 20 ": "vlan-tagged", "vlan 20 vlan 7 ": "vlan-tagged", "vlan 30 ": "", "vlan 30 vlan 20 ": "",
	} {
		in := w.fromRemote(pkttest.Frame(bob, alice, tags+udp4))
		w.refusedEverywhere(t, "u0", in, why)
		for _, p := range taps {
			p.drain(t)
		}
		flood := w.fromRemote(pkttest.Frame(bob, all, tags+udp4))
		drops, _ := w.counted(t, func() { taps["u0"].send(t, flood) })
		want := 2 // the untagged port's, and VLAN 10 of the trunk with another tag
		if why != "" {
			want = 1
		}
		if got := taps["p0"].drain(t); len(got) != want || drops[why] != uint64(2-want) && why != "" {
			t.Errorf("flooded with %s: %d frames at the trunk, drops %v", tags, len(got), drops)
		}
	}
}

// Where the kernel adds outer headers, each remote gets the frame with its tags once.
func TestTagsOnceToEachRemote(t *testing.T) {
	w := newWorld(t, underIPv6, func(_ *Config, tables *fib.Tables) {
		tables.Segments[0].KeepTags, tables.Segments[0].Tunnel.UDPChecksum = true, true
	})
	w.tables.ChecksumDevices = map[uint16]int{4789: w.dev["s0"].Index} // stands for the kernel's tunnel device
	w.apply(t)
	taps := w.taps(t)
	out := w.tap(t, "s0x", "s0")
	for _, tags := range []string{"", "vlan 7 ", "svlan 9 vlan 7 "} {
		in := pkttest.Frame(alice, all, tags+udp4)
		taps["p0"].send(t, in)
		got := out.drain(t)
		if len(got) != 2 {
			t.Fatalf("%q: %d frames for 2 remotes", tags, len(got))
		}
		for i := range got {
			if !check.Equal(t, fmt.Sprintf("%q to remote %d", tags, i), in, got[i].bytes) {
				return
			}
		}
	}
}

// No host sends from a multicast address (RFC 1122 section 3.2.1.3, RFC 4291 section 2.7): whoever
// answered would answer to a group.
func TestMulticastSourcesAreNotBridged(t *testing.T) {
	w := newWorld(t, underIPv4, func(_ *Config, tables *fib.Tables) { tables.Segments[0].KeepTags = true })
	for src, why := range map[string]string{
		"224.0.0.5": "martian", "239.255.255.255": "martian", "ff02::1": "martian", "ff0e::1": "martian",
		"223.255.255.255": "", "240.0.0.1": "", "fe80::a": "",
	} {
		dst := "10.0.1.11"
		if netip.MustParseAddr(src).Is6() {
			dst = "2001:db8:1::b"
		}
		for _, tags := range []string{"", "vlan 7 "} {
			words := fmt.Sprintf("%sudp %s > %s 30", tags, netip.AddrPortFrom(addr(src), 1), netip.AddrPortFrom(addr(dst), 2))
			w.refusedEverywhere(t, "p0", pkttest.Frame(alice, bob, words), why)
			w.refusedEverywhere(t, "u0", w.outerIn("blue", w.family.remotes[0]).Wrap(pkttest.Frame(bob, alice, words)), why)
		}
	}
}

// Without a route back the default believes a source, strict does not. A default route by a
// remote's router, for what this edge's uplink does not lead to, says nothing of a source.
func TestSourcesWithoutARouteBack(t *testing.T) {
	in := pkttest.Frame(ispMAC, uplinkMAC, "udp 203.0.113.5:1 > 10.0.3.7:2 30")
	for rpf, why := range map[overlay.ReversePath]string{"": "", overlay.ReversePathStrict: "reverse-path", overlay.ReversePathOff: ""} {
		w := transitWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) { tables.Segments[3].ReversePath = rpf })
		w.setRoute("main", route("0.0.0.0/0", fib.Hop{Segment: "main-l3", Remote: w.family.remotes[0], MAC: macOf(farMAC)}))
		w.apply(t)
		w.refusedEverywhere(t, "s0", in, why)
		w.tables.Routers[0].Routes = mainRoutes(w.family.remotes[0])[:8]
		w.apply(t)
		w.refusedEverywhere(t, "s0", in, why)
	}
}
