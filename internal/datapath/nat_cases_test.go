package datapath

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// natCase is a talk through a natWorld, in IPv4; it holds in IPv6 too, unless only4 is set.
type natCase struct {
	name  string
	only4 bool
	steps []string
}

// The first step of many: bob's packet takes the first address of the pool and keeps its port.
const (
	natAsk    = "bob: udp 10.0.1.11:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.100:4100 > 203.0.113.5:53 30"
	natAnswer = "isp: udp 203.0.113.5:53 > 198.51.100.100:4100 40 => bob: udp 203.0.113.5:53 > 10.0.1.11:4100 40"
	natPing   = "bob: icmp 10.0.1.11 > 203.0.113.5 8/0 id 4107 30 => isp: icmp 198.51.100.100 > 203.0.113.5 8/0 id 4107 30"
	natSYN    = "bob: tcp 10.0.1.11:4100 > 203.0.113.5:80 syn seq 9 => isp: tcp 198.51.100.100:4100 > 203.0.113.5:80 syn seq 9"
)

var natCases = []natCase{
	{name: "UDP there and back", steps: []string{
		natAsk, natAnswer, natAsk, natAnswer, "wait 4m", natAnswer, natAsk,
	}},
	{name: "TCP", steps: []string{
		natSYN,
		"isp: tcp 203.0.113.5:80 > 198.51.100.100:4100 syn+ack seq 99 acks 10 mss 1400 => bob: tcp 203.0.113.5:80 > 10.0.1.11:4100 syn+ack seq 99 acks 10 mss 1400",
		"bob: tcp 10.0.1.11:4100 > 203.0.113.5:80 ack seq 10 acks 100 => isp: tcp 198.51.100.100:4100 > 203.0.113.5:80 ack seq 10 acks 100",
		"bob: tcp 10.0.1.11:4100 > 203.0.113.5:80 ack seq 10 acks 100 301 => isp: tcp 198.51.100.100:4100 > 203.0.113.5:80 ack seq 10 acks 100 301",
		"isp: tcp 203.0.113.5:80 > 198.51.100.100:4100 ack seq 100 acks 311 500 => bob: tcp 203.0.113.5:80 > 10.0.1.11:4100 ack seq 100 acks 311 500",
		"isp: tcp 203.0.113.5:80 > 198.51.100.100:4100 fin+ack seq 600 acks 311 => bob: tcp 203.0.113.5:80 > 10.0.1.11:4100 fin+ack seq 600 acks 311",
		"bob: tcp 10.0.1.11:4100 > 203.0.113.5:80 fin+ack seq 311 acks 601 => isp: tcp 198.51.100.100:4100 > 203.0.113.5:80 fin+ack seq 311 acks 601",
		"isp: tcp 203.0.113.5:80 > 198.51.100.100:4100 ack seq 601 acks 312 => bob: tcp 203.0.113.5:80 > 10.0.1.11:4100 ack seq 601 acks 312",
	}},
	{name: "ping", steps: []string{
		natPing, "isp: icmp 203.0.113.5 > 198.51.100.100 0/0 id 4107 30 => bob: icmp 203.0.113.5 > 10.0.1.11 0/0 id 4107 30", natPing,
		"isp: icmp 203.0.113.6 > 198.51.100.100 0/0 id 4107 30 => drop no-nat-session,no-local-service,out-of-state",
	}},
	{name: "two sources with a port and one destination", steps: []string{
		natAsk,
		"bob: udp 10.0.1.21:4100 > 203.0.113.5:53 31 => isp: udp 198.51.100.100:$p > 203.0.113.5:53 31",
		"isp: udp 203.0.113.5:53 > 198.51.100.100:$p 32 => bob: udp 203.0.113.5:53 > 10.0.1.21:4100 32", natAnswer,
		"bob: udp 10.0.1.21:4100 > 203.0.113.5:53 33 => isp: udp 198.51.100.100:$p > 203.0.113.5:53 33",
	}},
	{name: "two sources with an identifier and one destination", steps: []string{
		natPing,
		"bob: icmp 10.0.1.21 > 203.0.113.5 8/0 id 4107 31 => isp: icmp 198.51.100.100 > 203.0.113.5 8/0 id $p 31",
		"isp: icmp 203.0.113.5 > 198.51.100.100 0/0 id $p 31 => bob: icmp 203.0.113.5 > 10.0.1.21 0/0 id 4107 31",
		"isp: icmp 203.0.113.5 > 198.51.100.100 0/0 id 4107 30 => bob: icmp 203.0.113.5 > 10.0.1.11 0/0 id 4107 30",
	}},
	{name: "a port is used again for another destination", steps: []string{
		natAsk,
		"bob: udp 10.0.1.21:4100 > 203.0.113.6:53 31 => isp: udp 198.51.100.100:4100 > 203.0.113.6:53 31",
		"bob: udp 10.0.1.31:4100 > 203.0.113.5:54 31 => isp: udp 198.51.100.100:4100 > 203.0.113.5:54 31",
		"bob: tcp 10.0.1.41:4100 > 203.0.113.5:53 syn => isp: tcp 198.51.100.100:4100 > 203.0.113.5:53 syn",
		natAnswer,
		"isp: udp 203.0.113.6:53 > 198.51.100.100:4100 31 => bob: udp 203.0.113.6:53 > 10.0.1.21:4100 31",
		"isp: udp 203.0.113.5:54 > 198.51.100.100:4100 31 => bob: udp 203.0.113.5:54 > 10.0.1.31:4100 31",
		"isp: tcp 203.0.113.5:53 > 198.51.100.100:4100 rst+ack seq 0 acks 2 => bob: tcp 203.0.113.5:53 > 10.0.1.41:4100 rst+ack seq 0 acks 2",
	}},
	{name: "replies go back the way that the source came", steps: []string{
		"ben: udp 10.0.9.11:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.100:4100 > 203.0.113.5:53 30",
		"isp: udp 203.0.113.5:53 > 198.51.100.100:4100 40 => ben: udp 203.0.113.5:53 > 10.0.9.11:4100 40",
		"tom: udp 10.0.9.11:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.100:4100 > 203.0.113.5:53 30", // one connection, which has moved
	}},
	{name: "a source that moved to another edge", steps: []string{
		natAsk, natAnswer,
		"ben: udp 10.0.1.11:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.100:4100 > 203.0.113.5:53 30",
		"isp: udp 203.0.113.5:53 > 198.51.100.100:4100 40 => ben: udp 203.0.113.5:53 > 10.0.1.11:4100 40",
		natAsk, natAnswer,
	}},
	{name: "another policy has other addresses", steps: []string{
		"tom: udp 10.0.9.11:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.110:4100 > 203.0.113.5:53 30",
		"isp: udp 203.0.113.5:53 > 198.51.100.110:4100 40 => tom: udp 203.0.113.5:53 > 10.0.9.11:4100 40",
	}},
	{name: "sources here", steps: []string{
		"dave: udp 10.0.2.13:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.100:4100 > 203.0.113.5:53 30",
		"isp: udp 203.0.113.5:53 > 198.51.100.100:4100 40 => dave: udp 203.0.113.5:53 > 10.0.2.13:4100 40",
		"far: udp 10.0.3.7:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.110:4100 > 203.0.113.5:53 30",
		"isp: udp 203.0.113.5:53 > 198.51.100.110:4100 40 => far: udp 203.0.113.5:53 > 10.0.3.7:4100 40",
		"erin: udp 10.0.2.14:4101 > 203.0.113.5:53 30 => isp: udp 198.51.100.100:4101 > 203.0.113.5:53 30",
		"isp: udp 203.0.113.5:53 > 198.51.100.100:4101 40 => erin: udp 203.0.113.5:53 > 10.0.2.14:4101 40",
	}},
	{name: "the uplink's network is outside too", steps: []string{
		"dave: udp 10.0.2.13:4100 > 198.51.100.254:53 30 => isp: udp 198.51.100.100:4100 > 198.51.100.254:53 30",
		"isp: udp 198.51.100.254:53 > 198.51.100.100:4100 40 => dave: udp 198.51.100.254:53 > 10.0.2.13:4100 40",
	}},
	{name: "masquerade", steps: []string{
		"alice: udp 10.0.1.10:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.1:4100 > 203.0.113.5:53 30",
		"isp: udp 203.0.113.5:53 > 198.51.100.1:4100 40 => alice: udp 203.0.113.5:53 > 10.0.1.10:4100 40",
		"carol: udp 10.0.1.12:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.1:$p > 203.0.113.5:53 30",
		"isp: udp 203.0.113.5:53 > 198.51.100.1:$p 40 => carol: udp 203.0.113.5:53 > 10.0.1.12:4100 40",
		"isp: udp 203.0.113.6:53 > 198.51.100.1:4100 40 => drop no-nat-session,no-local-service",
	}},
	{name: "an exception goes as without policies", steps: []string{
		"dave: udp 10.0.2.13:4100 > 203.0.113.66:53 30 => isp: udp 198.51.100.1:4100 > 203.0.113.66:53 30",
		"isp: udp 203.0.113.66:53 > 198.51.100.1:4100 40 => dave: udp 203.0.113.66:53 > 10.0.2.13:4100 40",
	}},
	{name: "within the overlay nothing is translated", steps: []string{
		"alice: udp 10.0.1.10:4100 > 10.0.2.13:53 30 => dave: udp 10.0.1.10:4100 > 10.0.2.13:53 30",
		"dave: udp 10.0.2.13:53 > 10.0.1.10:4100 30 => alice: udp 10.0.2.13:53 > 10.0.1.10:4100 30",
		"dave: udp 10.0.2.13:4100 > 10.0.3.7:53 30 => far: udp 10.0.2.13:4100 > 10.0.3.7:53 30",
		"far: tcp 10.0.3.7:53 > 10.0.2.13:4100 syn => dave: tcp 10.0.3.7:53 > 10.0.2.13:4100 syn",
	}},
	{name: "nobody from outside gets in", steps: []string{
		natAsk,
		"isp: udp 203.0.113.6:53 > 198.51.100.100:4100 40 => drop no-nat-session",
		"isp: udp 203.0.113.5:54 > 198.51.100.100:4100 40 => drop no-nat-session",
		"isp: udp 203.0.113.5:53 > 198.51.100.100:4101 40 => drop no-nat-session",
		"isp: udp 203.0.113.5:53 > 198.51.100.101:4100 40 => drop no-nat-session",
		"isp: tcp 203.0.113.5:53 > 198.51.100.100:4100 syn => drop no-nat-session",
		"isp: udp 10.0.1.11:53 > 198.51.100.100:4100 40 => drop reverse-path",
		"isp: ip 203.0.113.5 > 198.51.100.100 50 40 => drop no-nat-session,nat-unsupported",
		"isp: ip 203.0.113.5 > 198.51.100.100 132 40 => drop no-nat-session,nat-unsupported",
		natAnswer,
	}},
	{name: "a pool's addresses answer pings", steps: []string{
		"isp: icmp 203.0.113.5 > 198.51.100.100 8/0 id 4107 30 => isp: ttl 65 icmp 198.51.100.100 > 203.0.113.5 0/0 id 4107 30",
		natPing,
		"isp: icmp 203.0.113.5 > 198.51.100.100 8/0 id 4107 30 => isp: ttl 65 icmp 198.51.100.100 > 203.0.113.5 0/0 id 4107 30",
		"isp: icmp 203.0.113.5 > 198.51.100.100 0/0 id 4107 30 => bob: icmp 203.0.113.5 > 10.0.1.11 0/0 id 4107 30",
	}},
	{name: "an address of the pool from inside", steps: []string{
		"bob: udp 10.0.1.11:4100 > 198.51.100.101:99 30 => drop no-nat-session,no-local-service",
		"dave: tcp 10.0.2.13:4100 > 198.51.100.100:99 syn => drop no-nat-session,no-local-service",
		"alice: udp 10.0.1.10:4100 > 198.51.100.110:99 30 => drop no-nat-session,no-local-service",
	}},
	{name: "without a checksum", only4: true, steps: []string{
		"bob: unsummed udp 10.0.1.11:4100 > 203.0.113.5:53 30 => isp: unsummed udp 198.51.100.100:4100 > 203.0.113.5:53 30",
		"isp: unsummed udp 203.0.113.5:53 > 198.51.100.100:4100 30 => bob: unsummed udp 203.0.113.5:53 > 10.0.1.11:4100 30",
	}},
	{name: "what has no ports: an address for each source", steps: []string{
		"bob: ip 10.0.1.11 > 203.0.113.5 50 40 => isp: ip 198.51.100.100 > 203.0.113.5 50 40",
		"isp: ip 203.0.113.5 > 198.51.100.100 50 41 => bob: ip 203.0.113.5 > 10.0.1.11 50 41",
		"ben: ip 10.0.9.11 > 203.0.113.5 50 40 => isp: ip 198.51.100.101 > 203.0.113.5 50 40",
		"isp: ip 203.0.113.5 > 198.51.100.101 50 41 => ben: ip 203.0.113.5 > 10.0.9.11 50 41",
		"bob: ip 10.0.1.31 > 203.0.113.5 50 40 => drop nat-exhausted",
		"bob: ip 10.0.1.31 > 203.0.113.6 50 40 => isp: ip 198.51.100.100 > 203.0.113.6 50 40",
		"bob: ip 10.0.1.31 > 203.0.113.5 47 40 => isp: ip 198.51.100.100 > 203.0.113.5 47 40",
		"isp: ip 203.0.113.6 > 198.51.100.100 47 41 => drop no-nat-session",
		"alice: ip 10.0.1.10 > 203.0.113.5 50 40 => isp: ip 198.51.100.1 > 203.0.113.5 50 40",
		"carol: ip 10.0.1.12 > 203.0.113.5 50 40 => drop nat-exhausted",
	}},
	{name: "ICMP that is neither an echo nor an error", steps: []string{
		"bob: icmp 10.0.1.11 > 203.0.113.5 13/0 40 => drop nat-unsupported",
		"alice: icmp 10.0.1.10 > 203.0.113.5 13/0 40 => drop nat-unsupported",
		"isp: icmp 203.0.113.5 > 198.51.100.100 13/0 40 => drop nat-unsupported,no-nat-session,no-local-service",
	}},
	{name: "a reply of nobody's request", steps: []string{
		"bob: icmp 10.0.1.11 > 203.0.113.5 0/0 id 4107 30 => drop nat-unsupported,no-nat-session,out-of-state",
		"isp: icmp 203.0.113.5 > 198.51.100.100 0/0 id 4107 30 => drop no-nat-session,no-local-service,out-of-state",
	}},
	{name: "to a group", only4: true, steps: []string{
		"bob: udp 10.0.1.11:4100 > 224.0.0.5:53 30 => drop not-routed", "bob: udp 10.0.1.11:4100 > 255.255.255.255:53 30 => drop not-routed",
		"dave: udp 10.0.2.13:4100 > 224.0.0.5:53 30 => drop not-routed", "bob: udp [2001:db8:1::b]:4100 > [ff0e::5]:53 30 => drop not-routed",
		"isp: udp 203.0.113.5:4100 > 224.0.0.5:53 30 => drop not-routed,no-nat-session",
	}},
	{name: "to nowhere", steps: []string{
		"bob: udp 10.0.1.11:4100 > 10.9.1.5:53 30 => drop blackhole,unreachable",
	}},
	{name: "TTL", steps: []string{
		"bob: ttl 1 udp 10.0.1.11:4100 > 203.0.113.5:53 30 => drop ttl-exceeded",
		"bob: ttl 2 udp 10.0.1.11:4100 > 203.0.113.5:53 30 => isp: ttl 2 udp 198.51.100.100:4100 > 203.0.113.5:53 30",
		"isp: ttl 1 udp 203.0.113.5:53 > 198.51.100.100:4100 40 => drop ttl-exceeded",
		natAnswer,
	}},
	{name: "DSCP, DF and payloads of any size", steps: []string{
		"bob: tos 0xb8 df udp 10.0.1.11:4100 > 203.0.113.5:53 1 => isp: tos 0xb8 df udp 198.51.100.100:4100 > 203.0.113.5:53 1",
		"isp: tos 0xb8 df udp 203.0.113.5:53 > 198.51.100.100:4100 0 => bob: tos 0xb8 df udp 203.0.113.5:53 > 10.0.1.11:4100 0",
		"bob: udp 10.0.1.11:4100 > 203.0.113.5:53 1303 => isp: udp 198.51.100.100:4100 > 203.0.113.5:53 1303",
	}},
	{name: "port 0 and low ports", steps: []string{
		"bob: udp 10.0.1.11:53 > 203.0.113.5:53 30 => isp: udp 198.51.100.100:$p > 203.0.113.5:53 30",
		"isp: udp 203.0.113.5:53 > 198.51.100.100:$p 30 => bob: udp 203.0.113.5:53 > 10.0.1.11:53 30",
	}},
}

// TestNATCases talks through a gateway, with the flow cache and without it.
func TestNATCases(t *testing.T) {
	natWays(t, func(t *testing.T, w *world) {
		for _, c := range natCases {
			t.Run(c.name, func(t *testing.T) { w.natCase(t, c) })
		}
	})
}

func (w *world) natCase(t *testing.T, c natCase) {
	t.Helper()
	if c.only4 {
		w.talk(t).follow(c.steps...)
		return
	}
	w.natBoth(t, c.steps...)
}

// natWays runs a test in worlds of two tunnels, one without the flow cache.
func natWays(t *testing.T, f func(t *testing.T, w *world), change ...func(*Config, *fib.Tables)) {
	t.Helper()
	all := ways()
	for _, c := range []struct {
		to     way
		cached bool
	}{{all[0], true}, {all[len(all)-1], false}, {all[5], true}} {
		name := map[bool]string{true: ", flow cache", false: ""}[c.cached]
		t.Run(c.to.name+name, func(t *testing.T) {
			f(t, natWorld(t, c.to, append(change, func(cfg *Config, _ *fib.Tables) { cfg.FlowCache.Enabled = c.cached })...))
		})
	}
}

// Beside policies a destination without a route has none: of a packet that no policy matches, of one that came in by an uplink,
// which none is asked about, and of one that this edge would translate.
func TestNoRouteBesidePolicies(t *testing.T) {
	eachWay(t, func(t *testing.T, to way) {
		w := natWorld(t, to, func(_ *Config, tables *fib.Tables) { tables.Segments[3].ReversePath = overlay.ReversePathOff })
		w.tables.Routers[0].Routes = slices.DeleteFunc(w.tables.Routers[0].Routes, func(r fib.Route) bool {
			return r.Prefix.Contains(netip.MustParseAddr("203.0.113.9")) || r.Prefix.Contains(netip.MustParseAddr("2001:db8:77::9"))
		})
		w.apply(t)
		none4, none6 := refusal{reason: "no-route", kind: 3}, refusal{reason: "no-route", kind: 1}
		for _, c := range []struct {
			segment, from, mac, gateway, words string
			source4, source6                   string
		}{
			{"blue", "p0", alice, gatewayMAC, "udp 10.0.1.10:1 > 203.0.113.9:2 30", gateway4, gateway6},
			{"up", "s0", ispMAC, uplinkMAC, "udp 10.0.1.10:1 > 203.0.113.9:2 30", uplink4, uplink6},
		} {
			none4.source, none6.source = c.source4, c.source6
			w.wantError(t, c.segment, c.from, pkttest.Frame(c.mac, c.gateway, c.words), none4)
			w.wantError(t, c.segment, c.from, pkttest.Frame(c.mac, c.gateway, sixOf(c.words)), none6)
		}
	})
}
