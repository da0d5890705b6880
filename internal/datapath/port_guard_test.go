package datapath

import (
	"fmt"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// Messages of routers from link-local addresses.
const (
	routerAdvertisement = "ttl 255 icmp fe80::ee > ff02::1 134/0 8"
	routerRedirect      = "ttl 255 icmp fe80::ee > 2001:db8:1::c 137/0 32"
	routerSolicitation  = "ttl 255 icmp fe80::ee > ff02::2 133/0"
)

// offers are frames of a test, from where, and why they are dropped ("" when they pass).
type offers []struct {
	name, from string
	frame      []byte
	reason     string
}

// offerEach offers each twice, new and possibly cached, in a segment.
func (w *world) offerEach(t *testing.T, segment string, list offers) {
	t.Helper()
	for _, c := range list {
		t.Run(c.name, func(t *testing.T) {
			for range 2 {
				drops, _ := w.counted(t, func() { w.sendIn(t, segment, c.from, c.frame) })
				if c.reason == "" && sum(drops) != 0 || c.reason != "" && (drops[c.reason] != 1 || sum(drops) != 1) {
					pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: c.frame}}, "drops %v, want %q", drops, c.reason)
				}
			}
		})
	}
}

// A guest that advertises itself as router, or redirects others, would have all their traffic, also where the segment has IPv4 only (RFC 6105).
func TestRouterAdvertisementsFromPorts(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, cache bool) {
		w := newWorld(t, underIPv4, func(c *Config, tables *fib.Tables) {
			c.FlowCache.Enabled = cache
			tables.Segments[0].KeepTags = true
			tables.Ports[1].AllowRA = true
		})
		frame := func(words string) []byte { return pkttest.Frame(nobody, all, words) }
		w.offerEach(t, "blue", offers{
			{"advertisement", "p0", frame(routerAdvertisement), "ra-guard"},
			{"advertisement with a tag", "p0", frame("vlan 7 " + routerAdvertisement), "ra-guard"},
			{"redirect", "p0", frame(routerRedirect), "ra-guard"},
			{"redirect, unicast", "p0", pkttest.Frame(nobody, carol, routerRedirect), "ra-guard"},
			{"solicitation", "p0", frame(routerSolicitation), ""},
			{"not neighbour discovery", "p0", frame("ttl 254 icmp fe80::ee > ff02::1 134/0 8"), ""},
			{"advertisement where it is allowed", "p1", frame(routerAdvertisement), ""},
			{"redirect where it is allowed", "p1", frame(routerRedirect), ""},
			{"advertisement out of a tunnel", "first", frame(routerAdvertisement), ""},
			{"redirect out of a tunnel", "first", frame(routerRedirect), ""},
		})
	})
}

// nested is a frame whose IPv6 packet is behind extension headers of 8 bytes.
func nested(words string, kinds ...uint8) []byte {
	return pkttest.WithExtensions(pkttest.Frame(alice, bob, words), kinds...)
}

const (
	hopOptions         = pkttest.ProtoHopByHop
	routingHeader      = 43
	destinationOptions = 60
	claim              = "ttl 255 icmp fe80::a > 2001:db8:1::b 136/0 28" // of whatever address
)

// longOption is a frame behind one extension header that is longer than what is parsed.
func longOption(words string) []byte {
	b := pkttest.Frame(alice, bob, words)
	header := append([]byte{b[etherLen+6], 8, 1, 68}, make([]byte, 68)...)
	b = slices.Concat(b[:etherLen+ipv6Len], header, b[etherLen+ipv6Len:])
	b[etherLen+5], b[etherLen+6] = b[etherLen+5]+byte(len(header)), destinationOptions
	return b
}

// Hosts accept neighbour discovery behind extension headers.
func TestNeighbourDiscoveryBehindHeaders(t *testing.T) {
	both(t, func(t *testing.T, cache bool) {
		w := routedWorld(t, ways()[0], func(c *Config, tables *fib.Tables) {
			c.FlowCache.Enabled = cache
			tables.Ports[0].AllowRA = true
		})
		fragments := pkttest.Fragments(pkttest.Frame(alice, bob, claim), 7, 16)
		cut := pkttest.Fragments(nested(claim, destinationOptions), 7, 8)
		const hidden = "nd-ext-headers"
		w.offerEach(t, "blue", offers{
			{"behind one", "p0", nested(claim, destinationOptions), hidden},
			{"behind two", "p0", nested(claim, destinationOptions, destinationOptions), hidden},
			{"behind three kinds", "p0", nested(claim, hopOptions, routingHeader, destinationOptions), hidden},
			{"behind six", "p0", nested(claim, hopOptions, 60, 60, 60, 60, 60), hidden},
			{"behind more than can be followed", "p0", nested(claim, hopOptions, 60, 60, 60, 60, 60, 60), hidden},
			{"behind a long one", "p0", longOption(claim), hidden},
			{"solicitation", "p0", nested("ns 2001:db8:1::a ? 2001:db8:1::b", 60, 60), hidden},
			{"advertisement of a router", "p0", nested(routerAdvertisement, 60, 60), hidden},
			{"redirect", "p0", nested(routerRedirect, 60, 60), hidden},
			{"behind a fragment header", "p0", pkttest.Atomic(pkttest.Frame(alice, bob, claim), 7), hidden},
			{"behind a fragment header and another", "p0", pkttest.Atomic(nested(claim, 60), 7), hidden},
			{"behind another and a fragment header", "p0", pkttest.WithExtensions(pkttest.Atomic(pkttest.Frame(alice, bob, claim), 7), 60), hidden},
			{"first fragment", "p0", fragments[0], hidden},
			{"later fragment", "p0", fragments[1], ""},
			{"first fragment that ends before it", "p0", cut[0], hidden},
			{"out of a tunnel", "first", pkttest.WithExtensions(pkttest.Frame(bob, alice, "na fe80::b ! fe80::a"), 60, 60), hidden},
			{"more headers than can be followed, from afar", "p0", nested("udp [2001:db8:1::a]:1 > [2001:db8:1::b]:2 8", hopOptions, 60, 60, 60, 60, 60, 60), "ipv6-ext-headers"},
			// What hides nothing.
			{"echo", "p0", nested("ttl 255 icmp 2001:db8:1::a > 2001:db8:1::b 8", 60, 60), ""},
			{"from afar", "p0", nested("ttl 254 icmp 2001:db8:1::a > 2001:db8:1::b 136/0 20", 60, 60), ""},
			{"UDP", "p0", nested("ttl 255 udp [2001:db8:1::a]:1 > [2001:db8:1::b]:2 8", 60, 60), ""},
			{"multicast listener report", "p0", pkttest.WithExtensions(pkttest.Frame(alice, all, "ttl 1 icmp fe80::a > ff02::16 143/0 24"), hopOptions), ""},
		})
	})
}

// Protocol 58 is ICMPv6 in IPv6 alone. In IPv4 it would pass any firewall as neighbour discovery, with what it likes behind it; and 1 is ICMP in IPv4 alone.
func TestProtocolsOfTheOtherFamily(t *testing.T) {
	t.Parallel()
	fw := openFirewall(false)
	fw.Default = overlay.Drop
	w := firewallWorld(t, fw)
	for kind := 133; kind <= 137; kind++ {
		b := pkttest.Frame(alice, carol, "ttl 255 ip 10.0.1.10 > 10.0.1.12 58 64")
		b[etherLen+ipv4Len] = byte(kind)
		w.offerEach(t, "blue", offers{{fmt.Sprintf("type %d in IPv4", kind), "p0", b, "denied"}})
	}
	if n := w.neighbour(t, "blue", "::"); n != nil {
		t.Errorf("learned from IPv4: %+v", n)
	}
	w = routedWorld(t, ways()[0])
	in := pkttest.Frame(alice, gatewayMAC, "ip 2001:db8:1::a > 2001:db8:1::fe 1 40")
	in[etherLen+ipv6Len] = 8 // an echo request of the other family
	_, events := w.counted(t, func() { w.fromPort(t, "p0", in) })
	if events["proxy-replied"] != 0 {
		t.Error("ICMP in IPv6 is answered")
	}
}

// Only where a DHCP server is, clients are given addresses, routers and name servers.
func TestDHCPServersAtPorts(t *testing.T) {
	both(t, func(t *testing.T, cache bool) {
		w := newWorld(t, underIPv4, func(c *Config, tables *fib.Tables) {
			c.FlowCache.Enabled = cache
			tables.Ports[1].DHCPServer = true
		})
		offer4, offer6 := "udp 10.0.1.10:67 > 255.255.255.255:68 300", "udp [fe80::a]:547 > [fe80::c]:546 100"
		frame := func(words string) []byte { return pkttest.Frame(alice, all, words) }
		fragments4 := pkttest.Fragments(frame(offer4), 7, 256)
		fragments6 := pkttest.Fragments(frame(offer6), 7, 64)
		w.offerEach(t, "blue", offers{
			{"DHCP offer", "p0", frame(offer4), "dhcp-guard"},
			{"DHCPv6 advertise", "p0", frame(offer6), "dhcp-guard"},
			{"DHCP from another port", "p0", frame("udp 10.0.1.10:1067 > 255.255.255.255:68 300"), "dhcp-guard"},
			{"DHCPv6 from another port", "p0", frame("udp [fe80::a]:1547 > [fe80::c]:546 100"), "dhcp-guard"},
			{"DHCP, first fragment", "p0", fragments4[0], "dhcp-guard"},
			{"DHCP, later fragment", "p0", fragments4[1], ""},
			{"DHCPv6, first fragment", "p0", fragments6[0], "dhcp-guard"},
			{"DHCPv6, later fragment", "p0", fragments6[1], ""},
			{"DHCPv6 behind one header", "p0", pkttest.WithExtensions(frame(offer6), 60), "dhcp-guard"},
			{"DHCPv6 behind two headers", "p0", pkttest.WithExtensions(frame(offer6), 60, 60), "dhcp-guard"},
			{"DHCPv6 behind a fragment header and another", "p0", pkttest.Atomic(pkttest.WithExtensions(frame(offer6), 60), 7), "dhcp-guard"},
			{"DHCP discover", "p0", frame("udp 0.0.0.0:68 > 255.255.255.255:67 300"), ""},
			{"DHCPv6 solicit", "p0", frame("udp [fe80::a]:546 > [ff02::1:2]:547 100"), ""},
			{"relay to a server", "p0", frame("udp 10.0.1.10:67 > 10.0.9.1:67 300"), ""},
			{"DHCPv6 relay to a server", "p0", frame("udp [2001:db8:1::a]:547 > [2001:db8:9::1]:547 300"), ""},
			{"TCP to that port", "p0", frame("tcp 10.0.1.10:67 > 10.0.1.12:68 syn"), ""},
			{"IPv6 to the other family's port", "p0", frame("udp [fe80::a]:67 > [fe80::c]:68 100"), ""},
			{"offer of a server", "p1", frame(offer4), ""},
			{"advertise of a server", "p1", frame(offer6), ""},
			{"advertise of a server behind headers", "p1", pkttest.WithExtensions(frame(offer6), 60, 60), ""},
			{"offer out of a tunnel", "first", frame(offer4), ""},
			{"advertise out of a tunnel", "first", pkttest.WithExtensions(frame(offer6), 60, 60), ""},
		})
	})
}

// Hosts obey ICMP of their gateway: a redirect in its name, or "fragmentation needed", is as good as its ARP.
func TestGatewayAddressInData(t *testing.T) {
	both(t, func(t *testing.T, cache bool) {
		w := routedWorld(t, ways()[0], loopbacks, func(c *Config, _ *fib.Tables) { c.FlowCache.Enabled = cache })
		const spoofed = "spoofed-address"
		frame := func(src, dst, words string) []byte { return pkttest.Frame(src, dst, words) }
		w.offerEach(t, "blue", offers{
			{"redirect", "p0", frame(alice, carol, "icmp 10.0.1.1 > 10.0.1.12 5/1 28"), spoofed},
			{"fragmentation needed", "p0", frame(alice, carol, "icmp 10.0.1.1 > 10.0.1.12 3/4 28"), spoofed},
			{"packet too big", "p0", frame(alice, carol, "icmp 2001:db8:1::fe > 2001:db8:1::c 2/0 60"), spoofed},
			{"UDP", "p0", frame(alice, carol, "udp 10.0.1.1:53 > 10.0.1.12:53 20"), spoofed},
			{"routed", "p0", frame(alice, gatewayMAC, "udp 10.0.1.1:53 > 10.0.2.13:53 20"), spoofed},
			{"another segment's gateway", "p0", frame(alice, gatewayMAC, "udp 10.0.2.1:53 > 10.0.2.13:53 20"), spoofed},
			{"the uplink's", "p0", frame(alice, gatewayMAC, "udp 198.51.100.1:53 > 10.0.2.13:53 20"), spoofed},
			{"a loopback's", "p0", frame(alice, gatewayMAC, "udp 10.255.0.1:53 > 10.0.2.13:53 20"), spoofed},
			{"redirect from a remote", "first", frame(bob, alice, "icmp 10.0.1.1 > 10.0.1.10 5/1 28"), spoofed},
			{"UDP from a remote", "first", frame(bob, alice, "udp [2001:db8:1::fe]:53 > [2001:db8:1::a]:53 20"), spoofed},
			{"a loopback's from a remote", "first", frame(gatewayMAC, alice, "udp 10.255.0.1:53 > 10.0.1.10:53 20"), spoofed},
			{"another edge's gateway", "first", frame(gatewayMAC, alice, "icmp 10.0.1.1 > 10.0.1.10 0/0 28"), ""},
			{"another edge's error about a bridged packet", "first", frame(bob, alice, "icmp 10.0.1.1 > 10.0.1.10 3/4 28"), ""},
			{"a host", "p0", frame(alice, carol, "udp 10.0.1.10:53 > 10.0.1.12:53 20"), ""},
		})
		w.offerEach(t, "main-l3", offers{
			{"a loopback's from another router", "first", frame(farMAC, l3MAC, "udp 10.255.0.1:53 > 10.0.1.10:53 20"), spoofed},
			{"another edge's gateway, routed", "first", frame(farMAC, l3MAC, "icmp 10.0.1.1 > 10.0.1.10 3/4 28"), ""},
		})
	})
}

// The same for what only passes through the edge.
func TestGatewayAddressInTransit(t *testing.T) {
	onOneCPU(t)
	w := transitWorld(t, ways()[0], loopbacks)
	for _, c := range []struct {
		segment, src, dst, words string
		want                     verdict
	}{
		{"blue", bob, gatewayMAC, "udp 10.0.1.1:53 > 203.0.113.5:1 30", xdpDrop},
		{"blue", bob, gatewayMAC, "udp [2001:db8:1::fe]:53 > [2001:db8:77::5]:1 30", xdpDrop},
		{"main-l3", farMAC, l3MAC, "udp 10.255.0.1:53 > 203.0.113.5:1 30", xdpDrop},
		{"blue", bob, gatewayMAC, "udp 10.0.1.11:53 > 203.0.113.5:1 30", xdpRedirect},
		{"main-l3", farMAC, l3MAC, "udp 10.0.1.1:53 > 203.0.113.5:1 30", xdpRedirect},
	} {
		in := w.outerIn(c.segment, w.family.remotes[0]).Wrap(pkttest.Frame(c.src, c.dst, c.words))
		for range 2 {
			if got := w.transit(t, "u0", in); got.verdict != c.want {
				t.Errorf("%s from %s in %s: verdict %d, want %d", c.words, c.src, c.segment, got.verdict, c.want)
			}
		}
	}
	// Where extension headers may hide something, tc looks.
	in := w.fromRemote(pkttest.WithExtensions(pkttest.Frame(bob, gatewayMAC, "ttl 255 icmp 2001:db8:1::b > 2001:db8:77::5 136/0 20"), 60, 60))
	if got := w.transit(t, "u0", in); got.verdict != xdpPass {
		t.Errorf("a packet behind two headers: verdict %d of the transit program", got.verdict)
	}
}

// Packets behind several headers have one key. A harmless one must not open the way for another.
func TestHiddenPacketsFindNoCachedDecision(t *testing.T) {
	w := routedWorld(t, ways()[0])
	for range 2 {
		w.follow(t, []step{
			{"p0", nested("udp [2001:db8:1::a]:1 > [2001:db8:1::b]:2 8", 60, 60), "first"},
			{"p0", nested("na 2001:db8:1::a ! 2001:db8:1::b", 60, 60), "drop"},
			{"p0", nested("udp [2001:db8:1::a]:547 > [2001:db8:1::b]:546 8", 60, 60), "drop"},
		})
	}
}
