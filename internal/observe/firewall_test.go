package observe

import (
	"net/netip"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/problem"
)

func rules() []api.RuleInfo {
	ago := 3.25
	return []api.RuleInfo{
		{Order: 1, Section: "app", Name: "web", Action: "allow", Log: true, Matches: "to labels app=web, tcp/443", Connections: 12_345, Packets: 9_876_543, Bytes: 1 << 33, LastHit: &ago},
		{Order: 2, Section: "app", Name: "web-again", Action: "drop", Matches: "to labels app=web, tcp/443", Unused: true, ShadowedBy: "app/web"},
		{Order: 3, Section: "app", Name: "web-copy", Action: "allow", Unused: true, ShadowedBy: "app/web", Duplicate: true},
		{Order: 4, Section: "default", Name: "edge", Action: "drop", Matches: "any", Connections: 3, Packets: 3, Bytes: 180, LastHit: &ago},
	}
}

func host(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }

func sessionList() api.SessionList {
	return api.SessionList{Total: 1_000_000, Matched: 5, Sessions: []api.SessionInfo{
		{Port: "p0", Segment: "blue", Direction: "in", Proto: "tcp", Src: host(7), Dst: host(1), SrcPort: 4000, DstPort: 443, State: "established", Answered: true,
			Rule: "app/web", Current: true, Age: 3661, Idle: 0.25, OrigPackets: 10, OrigBytes: 1000, ReplyPackets: 12_345, ReplyBytes: 98_765_432, Path: "fast"},
		{Port: "p0.10", Direction: "out", Proto: "udp", Src: host(1), Dst: host(9), SrcPort: 999, DstPort: 53, State: "unreplied",
			Rule: "app/dns", Age: 3, Idle: 3, OrigPackets: 1, OrigBytes: 60, Path: "idle"},
		{Port: "p1", Direction: "in", Proto: "icmpv6", Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8::2"), SrcPort: 7, DstPort: 7, State: "icmp",
			Age: 1, Path: "slow", Why: "destination MAC not learned, flooded"},
		{Port: "p1", Direction: "in", Proto: "tcp", Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8::2"), SrcPort: 1, DstPort: 2, State: "opening", PickedUp: true,
			Rule: "app/web", Current: true, Path: "idle"},
	}}
}

func topSessions() api.SessionList {
	return api.SessionList{Total: 1_000_000, Matched: 900_000, Top: []api.TopInfo{
		{What: "10.0.0.7", Sessions: 890_000, HalfOpen: 880_000, Packets: 900_000, Bytes: 54_000_000}, {What: "", Sessions: 10_000, Packets: 3, Bytes: 2},
	}}
}

func firewall() api.FirewallInfo {
	used := 3400
	return api.FirewallInfo{
		Rules: 13, Default: "drop", Strict: true, SweptAt: started,
		States: []api.StateInfo{{Name: "opening", Sessions: 12}, {Name: "established", Sessions: 3388}},
		Tables: []api.TableInfo{{Name: "connections", Used: &used, Size: 131072, Bytes: 1_900_000}, {Name: "logs", Size: 262144, Bytes: 278_528}},
		Events: []api.EventInfo{{Name: "conntrack-opened", Description: "connections that the firewall let begin", Count: 98_765}},
	}
}

func pressed() api.FirewallInfo {
	f := firewall()
	f.Strict = false
	f.HalfOpen = map[string]api.HalfOpenInfo{"p0": {In: 8000, Out: 3, Limit: 8192}, "p1": {In: 3}, "p2": {Out: 3}, "p10": {Out: 7000, Limit: 8192}}
	f.Problems = []problem.Problem{problem.Warning("firewall: port p0 has too many"), problem.Warning("firewall: and more")}
	return f
}

func whatIf() api.WhatIfInfo {
	cut := sessionList().Sessions[:2]
	cut[0].Why, cut[1].Why = "app/no-web", "port is not in the new configuration"
	return api.WhatIfInfo{Total: 1_000_000, Cut: 41, Sessions: cut, Rules: []api.WhatIfRule{
		{By: "port is not in the new configuration", Sessions: 1}, {By: "app/no-web", Sessions: 40},
	}}
}
