package datapath

import (
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// Who may send from a port, and what is nobody's to forbid.
func TestGuard(t *testing.T) {
	t.Parallel()
	macs := []overlay.MAC{macOf(alice), macOf(dave)}
	addresses := []netip.Prefix{
		netip.MustParsePrefix("10.0.1.10/32"), netip.MustParsePrefix("10.1.0.0/16"),
		netip.MustParsePrefix("2001:db8:1::a/128"), netip.MustParsePrefix("2001:db8:10::/48"),
	}
	const mac, address, ok = "spoofed-mac", "spoofed-address", ""
	for _, c := range []struct {
		name         string
		allowed      *overlay.Allowed
		src, words   string
		guarded, any string // the reason with the guard of the list, and without any
	}{
		{"allowed MAC", &overlay.Allowed{MACs: macs}, alice, udp4, ok, ok},
		{"another allowed MAC", &overlay.Allowed{MACs: macs}, dave, "raw 0x88b5 60", ok, ok},
		{"other MAC", &overlay.Allowed{MACs: macs}, bob, udp4, mac, ok},
		{"other MAC, not IP", &overlay.Allowed{MACs: macs}, bob, "lldp", mac, ok},
		{"other MAC, ARP", &overlay.Allowed{MACs: macs}, bob, arp, mac, ok},
		{"any address of an allowed MAC", &overlay.Allowed{MACs: macs}, alice, "udp 192.168.1.1:1 > 10.0.0.2:2 20", ok, ok},
		{"allowed address", &overlay.Allowed{Addresses: addresses}, bob, "udp 10.0.1.10:1 > 10.0.0.2:2 20", ok, ok},
		{"allowed prefix", &overlay.Allowed{Addresses: addresses}, bob, "udp 10.1.255.255:1 > 10.0.0.2:2 20", ok, ok},
		{"beside the prefix", &overlay.Allowed{Addresses: addresses}, bob, "udp 10.2.0.0:1 > 10.0.0.2:2 20", address, ok},
		{"other address", &overlay.Allowed{Addresses: addresses}, bob, "udp 10.0.1.11:1 > 10.0.0.2:2 20", address, ok},
		{"other address, fragment", &overlay.Allowed{Addresses: addresses}, bob, "fragment 10.0.1.11 > 10.0.0.2 1480 64", address, ok},
		{"unspecified (DHCP)", &overlay.Allowed{Addresses: addresses}, bob, "udp 0.0.0.0:68 > 255.255.255.255:67 300", ok, ok},
		{"allowed IPv6 address", &overlay.Allowed{Addresses: addresses}, bob, "udp [2001:db8:1::a]:1 > [2001:db8::2]:2 20", ok, ok},
		{"allowed IPv6 prefix", &overlay.Allowed{Addresses: addresses}, bob, "udp [2001:db8:10:ffff::1]:1 > [2001:db8::2]:2 20", ok, ok},
		{"other IPv6 address", &overlay.Allowed{Addresses: addresses}, bob, "udp [2001:db8:1::b]:1 > [2001:db8::2]:2 20", address, ok},
		{"unspecified IPv6", &overlay.Allowed{Addresses: addresses}, bob, "ns :: ? 2001:db8:1::a", ok, ok},
		{"link-local", &overlay.Allowed{Addresses: addresses}, bob, "udp [fe80::b]:546 > [ff02::1:2]:547 60", ok, ok},
		{"ARP by its own", &overlay.Allowed{Addresses: addresses}, alice, "arp 10.0.1.10 ? 10.0.0.2", ok, ok},
		{"ARP by another", &overlay.Allowed{Addresses: addresses}, alice, "arp 10.0.1.11 ? 10.0.0.2", address, ok},
		{"ARP probe for its own", &overlay.Allowed{Addresses: addresses}, alice, "arp 0.0.0.0 ? 10.0.1.10", ok, ok},
		{"ARP probe for another", &overlay.Allowed{Addresses: addresses}, alice, "arp 0.0.0.0 ? 10.0.1.11", address, ok}, // keeps its owner from it
		{"duplicate detection for another", &overlay.Allowed{Addresses: addresses}, alice, "ns :: ? 2001:db8:1::b", address, ok},
		{"ARP reply for its own", &overlay.Allowed{Addresses: addresses}, alice, "arp 10.0.1.10 ! 10.0.0.2", ok, ok},
		{"ARP reply for another", &overlay.Allowed{Addresses: addresses}, alice, "arp 10.0.1.11 ! 10.0.0.2", address, ok},
		{"gratuitous ARP for another", &overlay.Allowed{Addresses: addresses}, alice, "arp 10.0.1.11 ! 10.0.1.11", address, ok},
		{"advertisement of its own", &overlay.Allowed{Addresses: addresses}, alice, "na 2001:db8:1::a ! ff02::1", ok, ok},
		{"advertisement of another", &overlay.Allowed{Addresses: addresses}, alice, "na 2001:db8:1::b ! ff02::1", address, ok},
		{"advertisement of another from its own", &overlay.Allowed{Addresses: addresses}, alice, "target", address, ok},
		{"solicitation by another", &overlay.Allowed{Addresses: addresses}, alice, "ns 2001:db8:1::b ? 2001:db8:1::1", address, ok},
		{"both, good", &overlay.Allowed{MACs: macs, Addresses: addresses}, alice, "udp 10.0.1.10:1 > 10.0.0.2:2 20", ok, ok},
		{"both, other MAC", &overlay.Allowed{MACs: macs, Addresses: addresses}, bob, "udp 10.0.1.10:1 > 10.0.0.2:2 20", mac, ok},
		{"both, other address", &overlay.Allowed{MACs: macs, Addresses: addresses}, alice, "udp 10.0.1.11:1 > 10.0.0.2:2 20", address, ok},
		{"empty lists allow all", &overlay.Allowed{}, bob, "udp 10.0.1.11:1 > 10.0.0.2:2 20", ok, ok},
	} {
		t.Run(c.name, func(t *testing.T) {
			for allowed, reason := range map[*overlay.Allowed]string{c.allowed: c.guarded, nil: c.any} {
				w := newWorld(t, underIPv4, func(_ *Config, tables *fib.Tables) { tables.Ports[0].Allowed = allowed })
				w.offerTwice(t, "p0", talk(c.src, c.words), reason)
				// Another port, and what comes out of the tunnel, is not guarded.
				w.offerTwice(t, "p1", talk(c.src, c.words), ok)
			}
		})
	}
}

// talk is a frame to all; "target" is an advertisement whose target is another
// address than its source.
func talk(src, words string) []byte {
	if words != "target" {
		return pkttest.Frame(src, all, words)
	}
	list := pkttest.Advertise(src, netip.MustParseAddr("2001:db8:1::b"), netip.MustParseAddr("ff02::1"))
	list[0] = pkttest.IPv6("2001:db8:1::a", "ff02::1")
	b := pkttest.Packet(append([]pkttest.Layer{pkttest.Ether(src, all)}, list...)...)
	b[etherLen+7] = 255
	return resummed6(b)
}

// resummed6 sets the checksum of an ICMPv6 packet.
func resummed6(b []byte) []byte {
	icmp := b[etherLen+ipv6Len:]
	icmp[2], icmp[3] = 0, 0
	sum := ^pkttest.Sum(icmp, uint32(pkttest.Sum(b[etherLen+8:etherLen+40], 0))+uint32(pkttest.ProtoICMPv6+len(icmp)))
	icmp[2], icmp[3] = byte(sum>>8), byte(sum)
	return b
}

// offerTwice wants a drop for the reason, new and possibly cached, or none.
func (w *world) offerTwice(t *testing.T, from string, in []byte, reason string) {
	t.Helper()
	for range 2 {
		drops, _ := w.counted(t, func() { w.fromPort(t, from, in) })
		if reason == "" && sum(drops) != 0 || reason != "" && (drops[reason] != 1 || sum(drops) != 1) {
			pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: in}}, "drops %v, want %q", drops, reason)
		}
	}
}

// A change of what is allowed reaches flows in the cache.
func TestGuardReachesCachedFlows(t *testing.T) {
	w := newWorld(t, underIPv4, static(underIPv4))
	in := say(alice, bob)
	w.follow(t, []step{{"p0", in, "first"}, {"p0", in, "first"}})
	for _, c := range []struct {
		allowed *overlay.Allowed
		to      string
	}{
		{&overlay.Allowed{MACs: []overlay.MAC{macOf(carol)}}, "drop"}, {&overlay.Allowed{MACs: []overlay.MAC{macOf(alice)}}, "first"},
		{&overlay.Allowed{Addresses: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}}, "drop"},
		{&overlay.Allowed{Addresses: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16"), netip.MustParsePrefix("10.0.0.0/24")}}, "first"},
		{&overlay.Allowed{Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/32")}}, "drop"}, {nil, "first"},
	} {
		w.tables.Ports[0].Allowed = c.allowed
		w.apply(t)
		w.follow(t, []step{{"p0", in, c.to}, {"p0", in, c.to}})
	}
}

// Nobody at a port is the gateway.
func TestGatewayIsNotSpoofed(t *testing.T) {
	for _, suppress := range []bool{false, true} {
		w := routedWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) { tables.Segments[0].Suppress = suppress })
		for _, c := range []struct{ name, src, dst, words, reason string }{
			{"MAC", gatewayMAC, bob, udp4, "spoofed-mac"},
			{"MAC, by ARP", gatewayMAC, all, "arp 10.0.1.10 ? 10.0.1.11", "spoofed-mac"},
			{"MAC, to itself", gatewayMAC, gatewayMAC, udp4, "spoofed-mac"},
			{"address, by an ARP request", alice, all, "arp 10.0.1.1 ? 10.0.1.11", "spoofed-address"},
			{"address, by an ARP reply", alice, bob, "arp 10.0.1.1 ! 10.0.1.11", "spoofed-address"},
			{"address, by gratuitous ARP", alice, all, "arp 10.0.1.1 ! 10.0.1.1", "spoofed-address"},
			{"address, by an advertisement", alice, all, "na 2001:db8:1::fe ! ff02::1", "spoofed-address"},
			{"address, by a solicitation", alice, all, "ns 2001:db8:1::fe ? 2001:db8:1::b", "spoofed-address"},
		} {
			t.Run(c.name, func(t *testing.T) {
				w.wantDrop(t, dropCase{reason: c.reason, from: "p0", packet: packet{bytes: pkttest.Frame(c.src, c.dst, c.words)}})
			})
		}
		for _, address := range []string{gateway4, gateway6} {
			if n := w.neighbour(t, "blue", address); n != nil {
				t.Errorf("the gateway is a neighbour: %+v", n)
			}
		}
		// Another remote that claims the address with a MAC of its own lies too; the other
		// edge's gateway, with the common MAC, does not.
		in := w.fromRemote(pkttest.Frame(bob, all, "arp 10.0.1.1 ! 10.0.1.1"))
		w.wantDrop(t, dropCase{reason: "spoofed-address", from: "u0", packet: packet{bytes: in}})
		w.follow(t, []step{{"first", pkttest.Frame(gatewayMAC, all, "arp 10.0.1.1 ? 10.0.1.10"), "flood"}})
		if at := w.fdb(t, gatewayMAC); at != "" {
			t.Errorf("the gateway's MAC is learned at %s", at)
		}
		// Another segment's gateway address is not this one's to answer for.
		w.follow(t, []step{{"p0", pkttest.Frame(alice, all, "arp 10.0.2.1 ! 10.0.2.1"), "flood"}})
	}
}
