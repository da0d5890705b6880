package datapath

import (
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// refusal is what a packet's sender is told instead.
type refusal struct {
	reason     string
	source     string // address
	kind, code uint8
	mtu        int
	routed     bool // the quoted TTL is one less: RFC 1812 section 4.3.2.3 allows it
}

// wantError sends a frame and wants the ICMP error that it causes, and one drop.
func (w *world) wantError(t testing.TB, segment, from string, frame []byte, want refusal) {
	t.Helper()
	w.wantErrorAbout(t, segment, from, frame, frame, want)
}

// wantErrorAbout is wantError for a frame with tags; plain is the one without.
func (w *world) wantErrorAbout(t testing.TB, segment, from string, frame, plain []byte, want refusal) {
	t.Helper()
	w.refill(t)
	var in []byte
	var r result
	drops, events := w.counted(t, func() { in, r = w.sendIn(t, segment, from, frame) })
	if drops[want.reason] != 1 || sum(drops) != 1 || events["icmp-sent"] != 1 {
		pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: in}, {Name: "out", Bytes: r.out}},
			"drops %v, events %v; want one drop for %s and one message", drops, events, want.reason)
		return
	}
	w.isError(t, w.back(t, segment, from, in, r), plain, want)
}

// isError checks the message about a frame.
func (w *world) isError(t testing.TB, out, about []byte, want refusal) bool {
	t.Helper()
	packet := ipOf(about)
	if want.routed {
		packet = lowered(packet)
	}
	kind, at, n := check.ICMP, 12, 4
	if packet[0]>>4 == 6 {
		kind, at, n = check.ICMPv6, 8, 16
	}
	sender, _ := netip.AddrFromSlice(packet[at : at+n])
	dst, src := macString(about[:6]), macString(about[6:12])
	return check.Packet(t, about, out, check.Ether(dst, src),
		check.IP(addr(want.source), sender, check.TTL(64), check.TOS(0xc0)),
		kind(want.kind, want.code, check.Rest(uint32(want.mtu)), check.Quotes(packet)))
}

func macString(b []byte) string { return overlay.MAC(b).String() }

// ipOf is the IP packet of a frame without tags, less padding.
func ipOf(frame []byte) []byte {
	b := frame[etherLen:]
	if b[0]>>4 == 4 {
		return b[:int(b[2])<<8|int(b[3])]
	}
	return b[:ipv6Len+(int(b[4])<<8|int(b[5]))]
}

// lowered is an IP packet one hop further.
func lowered(packet []byte) []byte {
	b := append([]byte(nil), packet...)
	if b[0]>>4 == 6 {
		b[7]--
		return b
	}
	b[8]--
	b[10], b[11] = 0, 0
	sum := ^pkttest.Sum(b[:(b[0]&15)*4], 0)
	b[10], b[11] = byte(sum>>8), byte(sum)
	return b
}

// vports are routes that end, and a TTL that does.
var vports = []struct {
	name  string
	words string // in IPv4
	ipv4  refusal
	ipv6  refusal
}{
	{"unreachable", "udp 10.0.1.10:1 > 10.9.2.5:2 30", refusal{kind: 3, code: 1}, refusal{kind: 1, code: 3}},
	{"prohibited", "tcp 10.0.1.10:1 > 10.9.3.5:2 syn", refusal{kind: 3, code: 13}, refusal{kind: 1, code: 1}},
	{"ttl-exceeded", "ttl 1 udp 10.0.1.10:1 > 10.0.2.13:2 1200", refusal{kind: 11}, refusal{kind: 3}},
	{"ttl-exceeded", "ttl 0 udp 10.0.1.10:1 > 10.0.2.13:2 548", refusal{kind: 11}, refusal{kind: 3}},
	{"ttl-exceeded", "ttl 1 icmp 10.0.1.10 > 10.0.3.5 1", refusal{kind: 11}, refusal{kind: 3}},
	{"no-route", "udp 10.0.1.10:1 > 203.0.113.9:2 30", refusal{kind: 3, code: 0}, refusal{kind: 1, code: 0}},
}

// Each end has its message, from the gateway of the segment where the packet came in, whether the packet came from a port or a remote, cached or not.
func TestRoutesThatRefuse(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, to way) {
		w := routedWorld(t, to, func(_ *Config, tables *fib.Tables) { tables.Segments[3].ReversePath = overlay.ReversePathOff })
		list := w.tables.Routers[0].Routes
		w.tables.Routers[0].Routes = append(list[:8:8], list[10:]...) // without the default routes
		w.apply(t)
		for _, c := range vports {
			for segment, from := range map[string]string{"blue": "p0", "blue ": "first", "main-l3": "second", "up": "s0"} {
				c.ipv4.reason, c.ipv6.reason = c.name, c.name
				mac, gateway := alice, gatewayMAC
				c.ipv4.source, c.ipv6.source = gateway4, gateway6
				switch from {
				case "first":
					segment, mac = "blue", bob
				case "second":
					mac, gateway = farMAC2, l3MAC
				case "s0":
					mac, gateway, c.ipv4.source, c.ipv6.source = ispMAC, uplinkMAC, uplink4, uplink6
				}
				w.wantError(t, segment, from, pkttest.Frame(mac, gateway, c.words), c.ipv4)
				w.wantError(t, segment, from, pkttest.Frame(mac, gateway, sixOf(c.words)), c.ipv6)
				if t.Failed() {
					t.Fatalf("%s, from %s of %s", c.words, from, segment)
				}
			}
		}
	})
}

// A packet of a cached flow whose TTL ends is refused and counted as an uncached one: the router decides about it.
func TestTTLOfACachedFlow(t *testing.T) {
	w := routedWorld(t, ways()[0])
	for _, words := range []string{"udp 10.0.1.10:1 > 10.0.2.13:2 30", sixOf("udp 10.0.1.10:1 > 10.0.2.13:2 30")} {
		in := pkttest.Frame(alice, gatewayMAC, words)
		w.fromPort(t, "p0", in).want(t, in, forwarded)
		want := refusal{reason: "ttl-exceeded", kind: 11, source: gateway4}
		if words[0:5] == "udp [" {
			want.kind, want.source = 3, gateway6
		}
		_, events := w.counted(t, func() { w.wantError(t, "blue", "p0", pkttest.Frame(alice, gatewayMAC, "ttl 1 "+words), want) })
		if events["hit"] != 0 {
			t.Errorf("events %v, want no hit", events)
		}
	}
}

// About these nobody is told (RFC 1122 section 3.2.2, RFC 4443 section 2.4).
func TestNoErrorAbout(t *testing.T) {
	w := routedWorld(t, ways()[0])
	for name, words := range map[string]string{
		"destination unreachable": "ttl 1 icmp 10.0.1.10 > 10.0.2.13 3/1 40",
		"source quench":           "ttl 1 icmp 10.0.1.10 > 10.0.2.13 4/0 40",
		"redirect":                "ttl 1 icmp 10.0.1.10 > 10.0.2.13 5/0 40",
		"time exceeded":           "ttl 1 icmp 10.0.1.10 > 10.0.2.13 11/0 40",
		"parameter problem":       "ttl 1 icmp 10.0.1.10 > 10.0.2.13 12/0 40",
		"later fragment":          "ttl 1 fragment 10.0.1.10 > 10.0.2.13 1480 64",
		"ICMPv6 unreachable":      "ttl 1 icmp 2001:db8:1::a > 2001:db8:2::d 1/0 40",
		"ICMPv6 too big":          "ttl 1 icmp 2001:db8:1::a > 2001:db8:2::d 2/0 40",
		"ICMPv6 unknown error":    "ttl 1 icmp 2001:db8:1::a > 2001:db8:2::d 127/0 40",
		"later IPv6 fragment":     "ttl 1 fragment 2001:db8:1::a > 2001:db8:2::d 1448 64",
	} {
		t.Run(name, func(t *testing.T) {
			w.wantDrop(t, dropCase{reason: "ttl-exceeded", from: "p0", packet: packet{bytes: pkttest.Frame(alice, gatewayMAC, words)}})
		})
	}
	for name, c := range map[string]struct {
		words string
		want  refusal
	}{ // but about these
		"echo request":        {"ttl 1 icmp 10.0.1.10 > 10.0.2.13 40", refusal{kind: 11}},
		"first fragment":      {"ttl 1 fragment 10.0.1.10 > 10.0.2.13 0 64", refusal{kind: 11}},
		"IPv6 first fragment": {"ttl 1 fragment 2001:db8:1::a > 2001:db8:2::d 0 64", refusal{kind: 3, source: gateway6}},
		"ICMPv6 information":  {"ttl 1 icmp 2001:db8:1::a > 2001:db8:2::d 128/0 40", refusal{kind: 3, source: gateway6}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.reason = "ttl-exceeded"
			if c.want.source == "" {
				c.want.source = gateway4
			}
			w.wantError(t, "blue", "p0", pkttest.Frame(alice, gatewayMAC, c.words), c.want)
		})
	}
}

// Errors are limited in their rate; the packets are counted all the same.
func TestICMPRate(t *testing.T) {
	limited := func(rate uint32) func(*Config, *fib.Tables) {
		return func(_ *Config, tables *fib.Tables) { limit(tables, "p0", overlay.Limits{ICMPErrors: rate}) }
	}
	w := routedWorld(t, ways()[0], limited(5))
	in := pkttest.Frame(alice, gatewayMAC, "ttl 1 udp 10.0.1.10:1 > 10.0.2.13:2 30")
	send := func() {
		for range 20 {
			w.fromPort(t, "p0", in)
		}
	}
	w.refill(t)
	drops, events := w.counted(t, send)
	if drops["ttl-exceeded"] != 20 || events["icmp-sent"] < 5 || events["icmp-sent"] > 10 || events["icmp-limited"] != 20-events["icmp-sent"] {
		t.Errorf("drops %v, events %v; want 20 drops, 5 messages, 15 limited", drops, events)
	}
	limited(1000)(nil, &w.tables)
	w.apply(t)
	w.refill(t)
	if _, events = w.counted(t, send); events["icmp-sent"] != 20 {
		t.Errorf("events %v, want all messages at a rate that is higher", events)
	}
}
