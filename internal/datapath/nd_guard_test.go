package datapath

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// guardedWorld suppresses in blue, whose ports may send from a network and, at p1, as fe80::77.
func guardedWorld(t testing.TB) *world {
	t.Helper()
	return suppressing(t, ways()[0], func(_ *Config, tables *fib.Tables) {
		list := []netip.Prefix{netip.MustParsePrefix("10.0.1.0/24"), netip.MustParsePrefix("2001:db8:1::/64")}
		tables.Ports[0].Allowed = &overlay.Allowed{Addresses: list}
		tables.Ports[1].Allowed = &overlay.Allowed{Addresses: append(slices.Clone(list), netip.MustParsePrefix("fe80::77/128"))}
	})
}

// Link-local addresses are not listed, so that the first who comes has one: nobody takes it from him by an advertisement, a question, a probe or a packet.
func TestLinkLocalAddressOfAnother(t *testing.T) {
	const spoofed = "spoofed-address"
	w := guardedWorld(t)
	frame := func(mac, words string) []byte { return pkttest.Frame(mac, all, words) }
	w.offerEach(t, "blue", offers{
		{"the first at a port", "p0", frame(alice, "na fe80::a1 ! ff02::1"), ""},
		{"the first behind a tunnel", "first", frame(bob, "na fe80::b1 ! ff02::1"), ""},
		{"advertisement", "p1", frame(carol, "na fe80::a1 ! ff02::1"), spoofed},
		{"solicitation", "p1", frame(carol, "ns fe80::a1 ? 2001:db8:1::b"), spoofed},
		{"duplicate detection", "p1", frame(carol, "ns :: ? fe80::a1"), spoofed},
		{"packet", "p1", frame(carol, "udp [fe80::a1]:546 > [ff02::1:2]:547 60"), spoofed},
		{"router solicitation", "p1", frame(carol, "ttl 255 icmp fe80::a1 > ff02::2 133/0 4"), spoofed},
		{"of one behind a tunnel", "p1", frame(carol, "na fe80::b1 ! ff02::1"), spoofed},
		{"its own by chance", "p1", frame(carol, "na fe80::5eed:c0de ! ff02::1"), ""},
		{"a second of its own", "p1", frame(carol, "ns fe80::5eed:c0df ? 2001:db8:1::b"), ""},
		{"the first goes on", "p0", frame(alice, "ns fe80::a1 ? 2001:db8:1::b"), ""},
		{"its next network card", "p0", frame(dave, "na fe80::a1 ! ff02::1"), ""},
		{"its next network card elsewhere", "p1", frame(dave, "na fe80::a1 ! ff02::1"), ""},
	})
	if n := w.neighbour(t, "blue", "fe80::b1"); n == nil || n.MAC != macOf(bob) {
		t.Errorf("fe80::b1 is %+v", n)
	}
}

// neighbourMessage is ND of a type from alice, whose fixed part ends before the options.
func neighbourMessage(kind, flags byte, src, dst, target string, options ...byte) []byte {
	message := []byte{kind, 0, 0, 0, flags, 0, 0, 0}
	if target != "" {
		message = append(message, addr(target).AsSlice()...)
	}
	return ndFrame([]byte{0x33, 0x33, 0, 0, 0, 1}, macOf(alice), addr(src), addr(dst), append(message, options...))
}

// In ND the MAC address is an option. It is the sender's at a guarded port, as in ARP.
func TestForeignMACInNeighbourDiscovery(t *testing.T) {
	const foreign, own, mine = "spoofed-mac", "2001:db8:1::a", "fe80::a"
	w := newWorld(t, underIPv4, func(_ *Config, tables *fib.Tables) {
		tables.Ports[0].Allowed = &overlay.Allowed{MACs: []overlay.MAC{macOf(alice)}}
	})
	option := func(kind byte, mac string) []byte {
		m := macOf(mac)
		return append([]byte{kind, 1}, m[:]...)
	}
	nonce := []byte{14, 1, 1, 2, 3, 4, 5, 6}
	many := slices.Repeat(nonce, 8)
	list := offers{
		{"advertisement", "p0", neighbourMessage(136, 0x20, own, "ff02::1", own, option(2, alice)...), ""},
		{"advertisement for another", "p0", neighbourMessage(136, 0x20, own, "ff02::1", own, option(2, carol)...), foreign},
		{"solicitation", "p0", neighbourMessage(135, 0, own, "ff02::1", "2001:db8:1::b", option(1, alice)...), ""},
		{"solicitation of another", "p0", neighbourMessage(135, 0, own, "ff02::1", "2001:db8:1::b", option(1, carol)...), foreign},
		{"router solicitation", "p0", neighbourMessage(133, 0, mine, "ff02::2", "", option(1, alice)...), ""},
		{"router solicitation of another", "p0", neighbourMessage(133, 0, mine, "ff02::2", "", option(1, carol)...), foreign},
		{"without options", "p0", neighbourMessage(136, 0x20, own, "ff02::1", own), ""},
		{"after another option", "p0", neighbourMessage(135, 0, own, "ff02::1", "2001:db8:1::b", append(slices.Clone(nonce), option(1, carol)...)...), foreign},
		{"a nonce", "p0", neighbourMessage(135, 0, "::", "ff02::1", own, nonce...), ""},
		{"after more options than are read", "p0", neighbourMessage(135, 0, own, "ff02::1", "2001:db8:1::b", append(many, option(1, carol)...)...), foreign},
		{"after an empty option", "p0", neighbourMessage(135, 0, own, "ff02::1", "2001:db8:1::b", append([]byte{14, 0, 0, 0, 0, 0, 0, 0}, option(1, carol)...)...), foreign},
	}
	w.offerEach(t, "blue", list)
	for i := range list { // nothing of it where nothing is guarded
		list[i].from, list[i].reason = "p1", ""
	}
	w.offerEach(t, "blue", list)
}

// advertises is an unsolicited advertisement with flags of its sender's address.
func advertises(mac, address string, flags byte) []byte {
	return advertisement(macOf(mac), addr(address), flags)
}

// answeredWith wants an answer to alice's question for an address, with flags.
func (w *world) answeredWith(t *testing.T, address, mac string, flags uint8) {
	t.Helper()
	in := pkttest.Frame(alice, all, "ns 2001:db8:1::a ? "+address)
	r := w.fromPort(t, "p0", in)
	r.want(t, in, forwarded)
	check.Packet(t, in, r.out, check.Ether(mac, alice), check.IP(addr(address), addr("2001:db8:1::a"), check.TTL(255)),
		check.Advertisement(flags, addr(address), mac))
}

// A guest whose router is answered for without the router flag takes its default route out (RFC 4861 section 7.2.5).
func TestAnswersHaveTheFlagsOfTheHost(t *testing.T) {
	const router, overrides = check.Router | check.Solicited | check.Override, check.Solicited | check.Override
	w := suppressing(t, ways()[0])
	w.send(t, "first", advertises(bob, "2001:db8:1::b", advertisedRouter|advertisedOverride))
	w.answeredWith(t, "2001:db8:1::b", bob, router)
	w.send(t, "first", pkttest.Frame(bob, all, "ns 2001:db8:1::b ? 2001:db8:1::99")) // says nothing of it
	w.answeredWith(t, "2001:db8:1::b", bob, router)
	w.send(t, "first", advertises(bob, "2001:db8:1::b", advertisedOverride)) // no router any more
	w.answeredWith(t, "2001:db8:1::b", bob, overrides)
	w.send(t, "first", advertises(bob, "2001:db8:1::b", 0)) // anycast (RFC 4861 section 7.2.7)
	w.answeredWith(t, "2001:db8:1::b", bob, check.Solicited)
	w.send(t, "first", advertises(bob, "2001:db8:1::b", advertisedRouter))
	w.answeredWith(t, "2001:db8:1::b", bob, check.Router|check.Solicited)
	w.send(t, "second", pkttest.Frame(erin, all, "ns 2001:db8:1::b ? 2001:db8:1::99")) // another machine
	w.answeredWith(t, "2001:db8:1::b", erin, overrides)
	// A router that was only asked, and one that is configured, advertise themselves as such.
	w.send(t, "first", pkttest.Frame(bob, all, "ns fe80::b ? 2001:db8:1::99"))
	w.answeredWith(t, "fe80::b", bob, overrides)
	w.send(t, "first", pkttest.Frame(bob, all, "ttl 255 icmp fe80::b > ff02::1 134/0 8"))
	w.answeredWith(t, "fe80::b", bob, router)
	w.tables.Segments[0].Neighbours = neighbours("2001:db8:1::99", bob)
	w.apply(t)
	w.answeredWith(t, "2001:db8:1::99", bob, overrides)
	w.send(t, "first", advertises(bob, "2001:db8:1::99", advertisedRouter|advertisedOverride))
	w.apply(t)
	w.answeredWith(t, "2001:db8:1::99", bob, router)
}

// Who answers a probe with another one keeps its sender from its address (RFC 3756 section 4.1.3).
func TestProbeReservesALinkLocalAddress(t *testing.T) {
	w := guardedWorld(t)
	probe := "ns :: ? fe80::d1"
	w.offerEach(t, "blue", offers{
		{"the first at a port", "p0", pkttest.Frame(alice, all, probe), ""},
		{"another", "p1", pkttest.Frame(carol, all, probe), "spoofed-address"},
		{"the first takes it", "p0", pkttest.Frame(alice, all, "na fe80::d1 ! ff02::1"), ""},
		{"the first behind a tunnel", "first", pkttest.Frame(bob, all, "ns :: ? fe80::d2"), ""},
		{"another at a port", "p1", pkttest.Frame(carol, all, "ns :: ? fe80::d2"), "spoofed-address"},
	})
}
