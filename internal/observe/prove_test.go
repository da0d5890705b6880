package observe

import (
	"net/netip"

	"github.com/selvage/selvage/internal/api"
)

func proofs() api.ProveInfo {
	second := netip.MustParseAddr("192.0.2.12")
	return api.ProveInfo{
		Took: 2.25, Sent: 96, Tally: api.ProofTally{Proven: 1, Partial: 1, Broken: 1, Unprovable: 1},
		Proofs: []api.ProofInfo{
			{
				Segment: "web", VNI: 10010, Remote: remote, Name: "leaf-b", State: api.ProofProven, Paths: []api.ProofPath{{Local: tep, Remote: remote, Interface: "eth0", Ways: 8, Answered: 8}},
				Targets: []api.ProofTarget{
					{Kind: "host", Address: host(2), MAC: mac2, Origin: "bgp", Asked: 4, Answered: 4, Answer: "ARP reply"}, {Kind: "host", Address: host(3), Asked: 4}, {Kind: "edge"},
				},
				RTT: 0.000312, RTTMin: 0.0002, Size: 1450, SizeState: api.SizePasses,
			},
			{
				Segment: "web", Remote: netip.MustParseAddr("192.0.2.3"), State: api.ProofPartial, Cause: "full-sized packets do not come through: the underlay carries less than its MTU says",
				Fix: "look for a smaller MTU between 192.0.2.1 and 192.0.2.3", Paths: []api.ProofPath{{Local: tep, Remote: netip.MustParseAddr("192.0.2.3"), Interface: "eth0", Ways: 8, Answered: 8, Ping: "not tried"}},
				Targets: []api.ProofTarget{{Kind: "edge", MAC: mac1, Asked: 9, Answered: 8}}, RTT: 0.001, Size: 1450, SizeState: api.SizeLost, Passed: 1300,
			},
			{
				Segment: "tenant-l3", Remote: remote, Router: "tenant", Prefixes: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}, Count: 12, State: api.ProofBroken,
				Cause: "nothing comes back by the tunnel, though the remote answers pings", Fix: "let UDP port 4789 pass between the TEPs", Control: []string{"BGP: 12 routes in use", "BFD: up"},
				Paths:   []api.ProofPath{{Local: tep, Remote: remote, Interface: "eth0", Ways: 8, Ping: "answers"}, {Local: tep, Remote: second, Interface: "eth1", Ways: 8, Ping: "silent"}},
				Targets: []api.ProofTarget{{Kind: "router", MAC: mac2, Asked: 16}}, Size: 1450, SizeState: api.SizeNotTried,
			},
			{Segment: "db", Remote: remote6, State: api.ProofUnprovable, Cause: "no host is known behind it", Fix: "give the router a loopback"},
		},
		Problems: []string{"segment x: it has no tunnels"},
	}
}
