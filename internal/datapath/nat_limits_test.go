package datapath

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/test/pkttest"
)

// natUDP is a source's packet of policy web to a destination.
func natUDP(source netip.Addr, sport uint16, to string) []byte {
	return natFrame(egressMAC, egressMAC, fmt.Sprintf("udp %s > %s 30", netip.AddrPortFrom(source, sport), to))
}

// opened offers a packet of bob's and returns the egress address and port that it got, or
// why it was dropped.
func (w *world) opened(t *testing.T, frame []byte) (netip.AddrPort, string) {
	t.Helper()
	why, r := w.natOffer(t, natHostOf("bob"), frame)
	if why != "" {
		return netip.AddrPort{}, why
	}
	at, out := w.natArrived(t, r)
	if at != "isp" {
		t.Fatalf("at %q:\n%s", at, pkttest.Decoded(out))
	}
	want := natLowered(pkttest.Readdressed(frame, pkttest.Talk{Src: pkttest.TalkOf(out).Src, Dst: pkttest.TalkOf(frame).Dst}))
	if string(want[etherLen:]) != string(out[etherLen:]) {
		pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: frame}, {Name: "want", Bytes: want}, {Name: "out", Bytes: out}}, "it is otherwise changed too")
	}
	return pkttest.TalkOf(out).Src, ""
}

// hosts are addresses of sources beyond the first remote.
func hosts(v6 bool, n int) netip.Addr {
	if v6 {
		return netip.MustParseAddr(fmt.Sprintf("2001:db8:1::1:%x", n))
	}
	return netip.MustParseAddr(fmt.Sprintf("10.0.%d.%d", 4+n/200, 1+n%200))
}

var natTargets = map[bool][2]string{false: {"203.0.113.5:53", "203.0.113.6:53"}, true: {"[2001:db8:77::5]:53", "[2001:db8:77::6]:53"}}

// A full table lets nobody in, and nobody out untranslated; those who are in it go on.
func TestNATTableFull(t *testing.T) {
	w := natWorld(t, ways()[0], func(c *Config, _ *fib.Tables) { c.Egress.NATSessions = 16 })
	for _, v6 := range []bool{false, true} {
		w.forgetNATSessions(t)
		full := 0
		for i := range 40 {
			_, why := w.opened(t, natUDP(hosts(v6, i), 5000, natTargets[v6][0]))
			switch why {
			case "":
				if full > 0 {
					t.Fatalf("source %d passes after one for which there was no room", i)
				}
			case "nat-full":
				full++
			default:
				t.Fatalf("source %d: %s", i, why)
			}
		}
		if full != 40-16 {
			t.Errorf("%d of 40 had no room in a table of 16", full)
		}
		for i := range 16 {
			if _, why := w.opened(t, natUDP(hosts(v6, i), 5000, natTargets[v6][0])); why != "" {
				t.Errorf("source %d again: %s", i, why)
			}
		}
		w.checkNATSessions(t)
	}
}

// With independent filtering anybody may answer, and those behind the address reach each other by it (RFC 4787 sections 5 and 6, REQ-9).
func TestNATOpenMapping(t *testing.T) {
	natWays(t, func(t *testing.T, w *world) {
		w.natBoth(t, "bob: udp 10.0.1.11:4100 > 203.0.113.5:53 30 => isp: udp %a:$p > 203.0.113.5:53 30",
			"isp: udp 203.0.113.99:5353 > %a:$p 30 => bob: udp 203.0.113.99:5353 > 10.0.1.11:4100 30",
			"bob: udp 10.0.1.11:4100 > 203.0.113.99:5353 31 => isp: udp %a:$p > 203.0.113.99:5353 31",
			"isp: udp 203.0.113.99:5354 > %a:$p 30 => bob: udp 203.0.113.99:5354 > 10.0.1.11:4100 30",
			"isp: tcp 203.0.113.99:5354 > %a:$p syn => drop no-nat-session",
			"isp: udp 203.0.113.99:5354 > %a:1999 30 => drop no-nat-session",
			"ben: udp 10.0.9.9:2000 > %a:$p 30 => bob: udp %b:$q > 10.0.1.11:4100 30",
			"bob: udp 10.0.1.11:4100 > %b:$q 30 => ben: udp %a:$p > 10.0.9.9:2000 30",
		)
	}, func(_ *Config, tables *fib.Tables) {
		web := natEgress(tables, "web")
		web.Independent, web.Open = true, true
	})
}

// By default a source has one address for all that it does; by connection it has several.
func TestNATAddressPooling(t *testing.T) {
	for _, byConnection := range []bool{false, true} {
		w := natWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) { natEgress(tables, "web").PerConnection = byConnection })
		for _, v6 := range []bool{false, true} {
			w.forgetNATSessions(t)
			seen := map[netip.Addr]int{}
			for i := range 64 {
				got, why := w.opened(t, natUDP(hosts(v6, 1), uint16(5000+i), natTargets[v6][i%2]))
				if why != "" || got.Port() != uint16(5000+i) {
					t.Fatalf("connection %d: %s %s", i, got, why)
				}
				seen[got.Addr()]++
			}
			if len(seen) != map[bool]int{true: 2, false: 1}[byConnection] {
				t.Errorf("by connection %t: %v", byConnection, seen)
			}
		}
	}
}
