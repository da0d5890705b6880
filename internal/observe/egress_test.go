package observe

import (
	"net/netip"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

func egress() api.EgressInfo {
	announced, active := started.Add(312*time.Millisecond), 17
	wan := netip.MustParseAddr("203.0.113.1")
	return api.EgressInfo{
		Policies: []api.EgressPolicyInfo{
			{Name: "web", Router: "tenant", VNI: 9001, Gateways: "gws", Uplink: "wan", Matches: "from 10.0.0.0/24 to any", Mapping: "address-and-port-dependent", AddressPooling: "paired",
				Except: []netip.Prefix{netip.MustParsePrefix("198.51.100.9/32")}, Ports: overlay.PortRange{First: 1024, Last: 65535}, Limit: 1000, Sessions: 12,
				Sources: []api.EgressSourcesInfo{{Gateway: tep, Family: "ipv4", Share: 0.75}, {Family: "ipv4", Share: 0.25}},
				Addresses: []api.EgressAddressInfo{
					{Address: netip.MustParseAddr("203.0.113.10"), Owner: tep, Server: tep, Here: true, Sessions: 12},
					{Address: netip.MustParseAddr("203.0.113.11"), Owner: remote, Server: remote},
					{Address: netip.MustParseAddr("203.0.113.12")},
				}},
			{Name: "uplink/wan", Router: "tenant", Uplink: "wan", Matches: "what leaves by the uplink and no policy translates", Mapping: "address-and-port-dependent", AddressPooling: "paired",
				Ports: overlay.PortRange{First: 1024, Last: 65535}, Addresses: []api.EgressAddressInfo{{Address: wan, Owner: tep, Server: tep, Here: true}}},
		},
		Groups: []api.GatewayGroupInfo{{Name: "gws", Mode: overlay.ActiveActive, Members: []api.GatewayInfo{
			{Address: tep, Name: "host-a", Self: true, State: "draining", Since: started, Why: "it drains, until 05:11:07 at the latest"},
			{Address: remote, Name: "gw2", State: "serving", Since: started.Add(time.Second), Why: "it says so"},
		}}},
		Failovers: []api.Failover{
			{Number: 1, Group: "gws", Gateway: remote, From: "serving", To: "gone", Why: "no packet for 150ms", Seen: started, Written: started.Add(2350 * time.Microsecond)},
			{Number: 2, Group: "gws", Gateway: tep, From: "gone", To: "serving", Why: "it serves", Seen: started.Add(300 * time.Millisecond),
				Written: started.Add(310 * time.Millisecond), Announced: &announced, Addresses: 2},
		},
		Replication: []api.ReplicationInfo{
			{Gateway: remote, Port: 49789, Connected: true, Synced: true, Since: started, Sent: 123_456, Received: 7, Conflicts: 1},
			{Gateway: netip.MustParseAddr("2001:db8::3"), Port: 49789, Since: started, Why: "connection refused", Resyncs: 2},
		},
		Refused:  []api.RefusedInfo{{Why: "unknown-address", Connections: 1234}, {Why: "other-key", Connections: 1}},
		Drain:    &api.DrainInfo{Asked: started, Deadline: started.Add(5 * time.Minute), Active: &active},
		Problems: []problem.Problem{problem.Warning("egress: one gateway of group gws is left")},
	}
}

// masquerade has no policies, so neither gateways nor failovers.
func masquerade() api.EgressInfo {
	e := egress()
	return api.EgressInfo{Policies: e.Policies[1:]}
}

func drained() api.EgressInfo {
	e := egress()
	e.Drain.Done = true
	return e
}

func natSessionList() api.NATSessionList {
	return api.NATSessionList{Total: 1_000_000, Matched: 4, Sessions: []api.NATSessionInfo{
		{Policy: "web", Router: "tenant", Proto: "tcp", Inside: host(1), InsidePort: 40000, Egress: netip.MustParseAddr("203.0.113.10"), EgressPort: 40000,
			Outside: host(9), OutsidePort: 443, Via: remote, State: "established", Answered: true, Age: 3661, Idle: 0.25, Left: 7439,
			OrigPackets: 10, OrigBytes: 1000, ReplyPackets: 12_345, ReplyBytes: 98_765_432},
		{Policy: "uplink/wan", Proto: "udp", Inside: host(2), InsidePort: 53, Egress: netip.MustParseAddr("203.0.113.1"), EgressPort: 1024, Mapping: true, State: "replied", Left: 300},
		{Proto: "icmpv6", Inside: netip.MustParseAddr("2001:db8::1"), InsidePort: 7, Egress: netip.MustParseAddr("2001:db8:1::1"), EgressPort: 9,
			Outside: netip.MustParseAddr("2001:db8:2::1"), OutsidePort: 9, State: "icmp", Replica: true, Forwarded: true, Independent: true},
	}}
}

func topNATSessions() api.NATSessionList {
	return api.NATSessionList{Total: 1_000_000, Matched: 900_000, Top: []api.TopInfo{
		{What: "10.0.0.7", Sessions: 890_000, HalfOpen: 880_000, Packets: 900_000, Bytes: 54_000_000}, {What: "", Sessions: 10_000, Packets: 3, Bytes: 2},
	}}
}

func pressures() []api.PortUsageInfo {
	return []api.PortUsageInfo{
		{Policy: "web", Router: "tenant", Proto: "tcp", Egress: netip.MustParseAddr("203.0.113.10"), Outside: host(9), OutsidePort: 443, Used: 60_000, Size: 64_512},
		{Router: "tenant", Proto: "icmp", Egress: netip.MustParseAddr("203.0.113.11"), Outside: host(9), Used: 3},
	}
}

func translation() api.NATInfo {
	used := 13
	return api.NATInfo{
		SweptAt: started, Sessions: 12, Mappings: 1, Replicas: 3, LogLost: 5,
		States:   []api.StateInfo{{Name: "established", Sessions: 12}},
		Tables:   []api.TableInfo{{Name: "sessions", Used: &used, Size: 262144, Bytes: 9_000_000}, {Name: "news", Size: 4_194_304, Bytes: 4_200_000}},
		Events:   []api.EventInfo{{Name: "nat-created", Description: "NAT sessions that began", Count: 98_765}},
		Problems: []problem.Problem{problem.Warning("egress: 61000 of 64512 tcp ports"), problem.Warning("egress: and more")},
	}
}
