package datapath

import (
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

const loopback4, loopback6 = "10.255.0.1", "2001:db8:255::1"

func loopbacks(_ *Config, tables *fib.Tables) {
	tables.Routers[0].Loopbacks = []netip.Addr{addr(loopback4), addr(loopback6)}
}

// A router's loopbacks are pinged from everywhere, and are nobody's neighbours.
func TestLoopbacks(t *testing.T) {
	eachWay(t, func(t *testing.T, to way) {
		w := routedWorld(t, to, loopbacks)
		for _, c := range []struct{ segment, from, mac, gateway, src, dst string }{
			{"blue", "p0", alice, gatewayMAC, "10.0.1.10", loopback4},
			{"blue", "first", bob, gatewayMAC, "10.0.1.11", loopback4},
			{"main-l3", "first", farMAC, l3MAC, "10.255.0.2", loopback4},
			{"main-l3", "second", farMAC2, l3MAC, "2001:db8:255::2", loopback6},
			{"up", "s0", ispMAC, uplinkMAC, "203.0.113.5", loopback4},
		} {
			in, r := w.sendIn(t, c.segment, c.from, pkttest.Frame(c.mac, c.gateway, "icmp "+c.src+" > "+c.dst+" 56"))
			kind, number := check.ICMP, uint8(0)
			if addr(c.src).Is6() {
				kind, number = check.ICMPv6, 129
			}
			check.Packet(t, in, w.back(t, c.segment, c.from, in, r), check.Ether(c.gateway, c.mac), check.IP(addr(c.dst), addr(c.src)), kind(number, 0))
		}
		w.wantError(t, "main-l3", "first", pkttest.Frame(farMAC, l3MAC, "udp 10.255.0.2:1000 > "+loopback4+":161 30"),
			refusal{reason: "no-local-service", source: loopback4, kind: 3, code: 3})
		_, events := w.counted(t, func() { w.send(t, "p0", pkttest.Frame(alice, all, "arp 10.0.1.10 ? "+loopback4)) })
		if events["proxy-replied"] != 0 {
			t.Error("a loopback is answered for in ARP")
		}
	})
}

// Probes out of tunnels are answered in any segment, whatever address they are for, and what answers those of this edge ends here.
func TestProbes(t *testing.T) {
	t.Parallel()
	const probe = "02:53:56:00:00:07"
	eachWay(t, func(t *testing.T, to way) {
		w := routedWorld(t, to, func(c *Config, _ *fib.Tables) { c.ProbeMAC = macOf(probe) })
		for _, c := range []struct{ segment, src, dst string }{
			{"blue", "10.9.9.1", "10.9.9.2"}, {"green", "fe80::1", "fe80::2"}, {"main-l3", "fe80::1", "fe80::2"},
		} {
			in, r := w.sendIn(t, c.segment, "first", pkttest.Frame(nobody, probe, "icmp "+c.src+" > "+c.dst+" 32"))
			kind, number := check.ICMP, uint8(0)
			if addr(c.src).Is6() {
				kind, number = check.ICMPv6, 129
			}
			check.Packet(t, in, w.back(t, c.segment, "first", in, r), check.Ether(probe, nobody), check.IP(addr(c.dst), addr(c.src)), kind(number, 0))
			if at := w.fdbIn(t, c.segment, nobody); at != "" {
				t.Errorf("a prober is known at %s", at)
			}
			for _, words := range []string{"icmp 10.9.9.1 > 10.9.9.2 0/0 32", "icmp fe80::1 > fe80::2 129/0 32", udp4, arp} {
				drops, events := w.counted(t, func() { w.sendIn(t, c.segment, "first", pkttest.Frame(nobody, probe, words)) })
				if events["local-delivered"] != 1 || sum(drops) != 0 {
					t.Errorf("%s in %s: events %v, drops %v", words, c.segment, events, drops)
				}
			}
		}
		w.follow(t, []step{{"p0", say(alice, probe), "flood"}})
	})
}
