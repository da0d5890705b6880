package observe

import (
	"net/netip"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/problem"
)

func revisions() []api.RevisionInfo {
	const file = "/etc/selvage/host-a.yaml"
	return []api.RevisionInfo{
		{ID: 12, When: started.Add(time.Hour), By: "root for alice", What: "apply", Path: "/home/alice/new.yaml", InForce: true, Unconfirmed: true, Until: started.Add(61 * time.Minute)},
		{ID: 11, When: started.Add(time.Minute), By: "timeout", What: "revision 10 was not confirmed", Path: file},
		{ID: 10, When: started.Add(30 * time.Second), By: "root", What: "apply", Path: file, Unconfirmed: true},
		{ID: 9, When: started, By: "edge", What: "start", Path: file},
	}
}

func applied() api.ApplyInfo {
	return api.ApplyInfo{
		Edge: "host-a", Applied: true, Revision: revisions()[0], Omitted: 2,
		Changes: []api.ConfigChange{
			{Kind: "changed", Path: "spec.segments[blue].vni", Was: "100", Now: "101"},
			{Kind: "changed", Path: "spec.ports[p0].segment", Was: "", Now: "blue"},
			{Kind: "added", Path: "spec.ports[p1]"},
			{Kind: "added", Path: "spec.underlay.bfd.multiplier", Now: "3"},
			{Kind: "removed", Path: "spec.fdb.size", Was: "1000"},
			{Kind: "moved", Path: "spec.firewall.sections[guests].rules[ping]"},
		},
		Effects: api.ApplyEffects{Programs: true, Sessions: 340, SessionsCut: 12, NATSessions: 1, NATSessionsCut: 1, BGPResets: []string{"rr1", "tor1"}},
	}
}

func TestGoldenConfig(t *testing.T) {
	for name, write := range map[string]func(Writer) error{
		"apply": func(w Writer) error { return Applied(w, applied()) },
		"apply-dry-run": func(w Writer) error {
			a := applied()
			a.Applied, a.Omitted, a.Effects = false, 0, api.ApplyEffects{Sessions: 340, NATSessions: 3}
			a.Changes = a.Changes[:1]
			return Applied(w, a)
		},
		"apply-problems": func(w Writer) error {
			return Applied(w, api.ApplyInfo{
				Edge: "host-a", Applied: true, Revision: revisions()[3], Changes: applied().Changes[:1],
				NewProblems: []problem.Problem{problem.Error("port p1: no interface tap9: create it"), problem.Warning("remote 192.0.2.9 is silent")},
			})
		},
		"apply-nothing":  func(w Writer) error { return Applied(w, api.ApplyInfo{Edge: "host-a"}) },
		"apply-left-out": func(w Writer) error { return Applied(w, partly()) },
		"confirm":        func(w Writer) error { return Confirmed(w, revisions()[0]) },
		"history":        func(w Writer) error { return History(w, revisions()) },
		"history-wide":   func(w Writer) error { return History(Writer{Writer: w.Writer, Wide: true}, revisions()) },
		"history-json":   func(w Writer) error { return JSON(w, revisions()[:2]) },
		"show-config":    func(w Writer) error { return Config(w, running()) },
		"show-config-json": func(w Writer) error {
			return JSON(w, NewRunningConfig(api.ConfigInfo{Revision: revisions()[3], Files: []api.ConfigFile{}}, nil))
		},
	} {
		t.Run(name, func(t *testing.T) { compare(t, name, write) })
	}
}

func partly() api.ApplyInfo {
	r := revisions()[3]
	r.InForce = true
	return api.ApplyInfo{Edge: "host-a", Applied: true, Revision: r, LeftOut: "3 routes: no room"}
}

// running has routes of BGP, of which those that are used and of others count.
func running() RunningConfig {
	route := func(kind, name, hop, neighbour string, used bool) api.BGPRouteInfo {
		return api.BGPRouteInfo{Type: kind, For: name, NextHop: netip.MustParseAddr(hop), Neighbour: neighbour, Used: used}
	}
	return NewRunningConfig(api.ConfigInfo{
		Revision: revisions()[3],
		Files: []api.ConfigFile{
			{Path: "/etc/selvage/host-a.yaml", Text: "apiVersion: selvage.dev/v1alpha2\nkind: Edge\nmetadata: {name: host-a}"},
			{Path: "/etc/selvage/policy.json", Text: "{}\n"},
		},
	}, []api.BGPRouteInfo{
		route(api.BGPRouteMAC, "web", "192.0.2.2", "rr1", true),
		route(api.BGPRouteMAC, "web", "192.0.2.2", "rr1", true),
		route(api.BGPRouteMulticast, "web", "192.0.2.3", "rr1", true),
		route(api.BGPRouteMAC, "web", "192.0.2.2", "rr2", false),
		route(api.BGPRouteMAC, "web", "192.0.2.1", "self", true),
		route(api.BGPRoutePrefix, "tenant", "192.0.2.2", "rr1", true),
		route(api.BGPRouteUnicast, "tenant", "203.0.113.1", "tor1", true),
	})
}
