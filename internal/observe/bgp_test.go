package observe

import (
	"net/netip"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

func bgp() api.BGPInfo {
	tor := netip.MustParseAddr("203.0.113.1")
	return api.BGPInfo{
		AS: 65000, RouterID: tep, Settling: true,
		Neighbours: []api.BGPNeighbourInfo{
			{
				Name: "rr1", Address: netip.MustParseAddr("192.0.2.100"), AS: 65000, RouterID: netip.MustParseAddr("192.0.2.100"), State: "established", Age: 3661,
				Complete: true, Flaps: 2, Overflows: 1, Liveness: "off", Hold: 9, Keep: 3, Families: []api.BGPFamilyInfo{{Family: overlay.FamilyEVPN, Negotiated: true, Received: 120, Accepted: 119, Advertised: 15}},
				Capabilities: []string{"multiprotocol evpn", "4-octet AS", "graceful restart"}, Restart: api.BGPRestartInfo{Negotiated: true, Time: 120, LongLived: true, Stale: 3600},
			},
			{
				Name: "tor1", Address: tor, AS: 65100, State: "established", Age: 0.2, Liveness: "up",
				Families: []api.BGPFamilyInfo{{Family: overlay.FamilyIPv4, Negotiated: true, Received: 1, Accepted: 1, Advertised: 3, Limit: 10000}, {Family: overlay.FamilyIPv6}},
			},
			{Name: "tor2", Address: remote6, AS: 4200000000, State: "active", Age: 61, Liveness: "down", Why: "connection refused: nothing listens at [2001:db8::2]:179"},
			{Name: "rr2", Address: netip.MustParseAddr("192.0.2.101"), AS: 65000, State: "idle", Age: 3, Liveness: "off", Restart: api.BGPRestartInfo{Negotiated: true, Time: 120}},
		},
		Routes: api.BGPRouteTally{Received: 121, Used: 118, Unused: 3, NoRoom: 1, Stale: 2, Advertised: 15, Why: []api.BGPWhy{
			{Why: "route target differs", Routes: 2}, {Why: "no router MAC", Routes: 1},
		}},
		Convergence: api.BGPConvergence{Count: 12_345, P50: 0.00041, P99: 0.0031, Max: 0.0088},
		Problems:    []problem.Problem{problem.Error("BGP: the session with tor2 is not there")},
	}
}

func bgpRoutes() []api.BGPRouteInfo {
	prefix := netip.MustParsePrefix
	return []api.BGPRouteInfo{
		{
			Neighbour: "rr1", Type: api.BGPRouteMAC, RD: "192.0.2.2:2", MAC: &mac2, Address: netip.MustParseAddr("10.1.10.2"), VNI: 10010, L3VNI: 10000, NextHop: remote,
			RouterMAC: &mac1, Encapsulation: overlay.VXLAN, Targets: []string{"65000:10010", "65000:10000"}, Sequence: 3, Sticky: true, LocalPref: 100, ASPath: []uint32{},
			Communities: []string{"no-export"}, Used: true, For: "web", Stale: true, Age: 61,
		},
		{
			Neighbour: "rr1", Type: api.BGPRouteMulticast, RD: "192.0.2.3:9", Originator: netip.MustParseAddr("192.0.2.3"), VNI: 10030, NextHop: netip.MustParseAddr("192.0.2.3"),
			Targets: []string{"65000:10030"}, Why: "no segment here imports 65000:10030: add it to the import of one", Age: 3661,
		},
		{
			Neighbour: "rr1", Type: api.BGPRoutePrefix, RD: "65001:5", Tag: 7, Prefix: prefix("10.9.0.0/16"), VNI: 10000, NextHop: remote, Gateway: netip.MustParseAddr("10.1.10.9"),
			Targets: []string{"65000:10000"}, ASPath: []uint32{65001, 4200000000}, MED: 5, Why: "it has no router MAC", For: "tenant", Age: 1,
		},
		{Neighbour: "tor1", Type: api.BGPRouteUnicast, Prefix: prefix("0.0.0.0/0"), Uplink: "wan", NextHop: netip.MustParseAddr("203.0.113.1"), Used: true, For: "tenant", Age: 5},
		{Type: api.BGPRouteMAC, RD: "192.0.2.1:2", MAC: &mac1, VNI: 10010, NextHop: tep, Encapsulation: overlay.VXLAN, Targets: []string{"65000:10010"}, DefaultGateway: true, For: "web", Age: 0.5},
	}
}

func bgpMoves() api.BGPMovesInfo {
	return api.BGPMovesInfo{
		Moves: []api.BGPMove{
			{At: started.Add(time.Second), What: "frozen", Segment: "web", MAC: mac2, Remote: remote, Detail: "5 moves in 180s"},
			{At: started, What: "moved here", Segment: "web", MAC: mac2, Address: netip.MustParseAddr("10.1.10.2"), Remote: remote},
			{At: started, What: "stale", Remote: remote, Detail: "the session with rr1 was lost"},
		},
		Frozen: []api.BGPFrozen{{Segment: "web", MAC: mac2, Since: started.Add(time.Second), Detail: "5 moves in 180s: two hosts may have this address"}},
	}
}
