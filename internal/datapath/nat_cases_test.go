package datapath

import (
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/fib"
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

// natCases are what the packets of TestNATIsTheReference are not.
var natCases = []natCase{
	{name: "the uplink's network is outside too", steps: []string{
		"dave: udp 10.0.2.13:4100 > 198.51.100.254:53 30 => isp: udp 198.51.100.100:4100 > 198.51.100.254:53 30",
		"isp: udp 198.51.100.254:53 > 198.51.100.100:4100 40 => dave: udp 198.51.100.254:53 > 10.0.2.13:4100 40",
	}},
	{name: "within the overlay nothing is translated", steps: []string{
		"alice: udp 10.0.1.10:4100 > 10.0.2.13:53 30 => dave: udp 10.0.1.10:4100 > 10.0.2.13:53 30",
		"dave: udp 10.0.2.13:53 > 10.0.1.10:4100 30 => alice: udp 10.0.2.13:53 > 10.0.1.10:4100 30",
		"dave: udp 10.0.2.13:4100 > 10.0.3.7:53 30 => far: udp 10.0.2.13:4100 > 10.0.3.7:53 30",
		"far: tcp 10.0.3.7:53 > 10.0.2.13:4100 syn => dave: tcp 10.0.3.7:53 > 10.0.2.13:4100 syn",
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
	{name: "to a group", only4: true, steps: []string{
		"bob: udp 10.0.1.11:4100 > 224.0.0.5:53 30 => drop not-routed", "bob: udp 10.0.1.11:4100 > 255.255.255.255:53 30 => drop not-routed",
		"dave: udp 10.0.2.13:4100 > 224.0.0.5:53 30 => drop not-routed", "bob: udp [2001:db8:1::b]:4100 > [ff0e::5]:53 30 => drop not-routed",
		"isp: udp 203.0.113.5:4100 > 224.0.0.5:53 30 => drop not-routed,no-nat-session",
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
	{name: "fragments that cut the transport header", steps: []string{
		"bob: piece 0 of 8 id 7 tcp 10.0.1.11:4100 > 203.0.113.5:80 syn seq 5 50 => drop fragment-tiny",
		"bob: piece 1 of 8 id 7 tcp 10.0.1.11:4100 > 203.0.113.5:80 syn seq 5 50 => drop fragment-tiny",
		"bob: piece 2 of 16 id 7 tcp 10.0.1.11:4100 > 203.0.113.5:80 syn seq 5 50 => drop nat-fragment",
		"isp: piece 0 of 8 id 7 tcp 203.0.113.5:80 > 198.51.100.100:4100 syn seq 5 50 => drop fragment-tiny",
	}},
	{name: "fragments of what has no ports", steps: []string{
		"bob: piece 0 of 64 id 7 ip 10.0.1.11 > 203.0.113.5 50 150 => isp: piece 0 of 64 id 7 ip 198.51.100.100 > 203.0.113.5 50 150",
		"bob: piece 1 of 64 id 7 ip 10.0.1.11 > 203.0.113.5 50 150 => isp: piece 1 of 64 id 7 ip 198.51.100.100 > 203.0.113.5 50 150",
	}},
	{name: "too many extension headers", only4: true, steps: []string{
		"bob: behind 60,60,60,60,60,60,60 udp [2001:db8:1::b]:4100 > [2001:db8:77::5]:53 30 => drop ipv6-ext-headers,nat-unsupported",
		"alice: behind 60,60,60,60,60,60,60 udp [2001:db8:1::a]:4100 > [2001:db8:77::5]:53 30 => drop ipv6-ext-headers,nat-unsupported",
		"isp: behind 60,60,60,60,60,60,60 udp [2001:db8:77::5]:53 > [2001:db8:ff::100]:4100 30 => drop ipv6-ext-headers,nat-unsupported,no-nat-session",
	}},
	{name: "fragments behind headers", only4: true, steps: []string{
		"bob: behind 60 piece 0 of 64 id 7 udp [2001:db8:1::b]:4100 > [2001:db8:77::5]:53 150 => " +
			"isp: behind 60 piece 0 of 64 id 7 udp [2001:db8:ff::100]:4100 > [2001:db8:77::5]:53 150",
		"bob: behind 60 piece 1 of 64 id 7 udp [2001:db8:1::b]:4100 > [2001:db8:77::5]:53 150 => " +
			"isp: behind 60 piece 1 of 64 id 7 udp [2001:db8:ff::100]:4100 > [2001:db8:77::5]:53 150",
		"bob: behind 60 piece 1 of 64 id 8 udp [2001:db8:1::b]:4100 > [2001:db8:77::5]:53 150 => drop nat-fragment",
	}},
	{name: "an error that quotes headers", only4: true, steps: []string{
		"bob: behind 60,60 udp [2001:db8:1::b]:4100 > [2001:db8:77::5]:53 30 => isp: behind 60,60 udp [2001:db8:ff::100]:4100 > [2001:db8:77::5]:53 30",
		"isp: error 1/4 2001:db8:77::5 > 2001:db8:ff::100 quoting 900 behind 60,60 udp [2001:db8:ff::100]:4100 > [2001:db8:77::5]:53 30 => " +
			"bob: error 1/4 2001:db8:77::5 > 2001:db8:1::b quoting 900 behind 60,60 udp [2001:db8:1::b]:4100 > [2001:db8:77::5]:53 30",
	}},
}

// TestNATCases talks through a gateway, with the flow cache and without it.
func TestNATCases(t *testing.T) {
	t.Parallel()
	natWays(t, func(t *testing.T, w *world) {
		for _, c := range slices.Concat(natCases, natForwardCases, natInboundCases) {
			t.Run(c.name, func(t *testing.T) { w.natCase(t, c) })
		}
	}, natPortForwards)
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
