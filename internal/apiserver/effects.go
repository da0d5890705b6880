package apiserver

import (
	"errors"
	"reflect"
	"slices"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/policy"
)

// Changes are those of the texts. Of a former one that cannot be read any more nothing is known.
func Changes(was, now config.Source) []api.ConfigChange {
	list := []api.ConfigChange{}
	diff, err := config.Diff(was, now)
	if err != nil {
		return append(list, api.ConfigChange{Kind: config.Changed, Path: now.Path})
	}
	return append(list, ChangesOf(diff)...)
}

// ChangesOf are changes as documents.
func ChangesOf(changes []config.Change) []api.ConfigChange {
	list := make([]api.ConfigChange, len(changes))
	for i, c := range changes {
		list[i] = api.ConfigChange(c)
	}
	return list
}

// Effects are what another configuration does to connections and NAT sessions.
func Effects(e *State, next overlay.Edge, rules *policy.Policy) (x api.ApplyEffects, err error) {
	err = errors.Join(sessionEffects(e, next, rules, &x), natEffects(e, next, &x))
	return x, err
}

func sessionEffects(e *State, next overlay.Edge, rules *policy.Policy, x *api.ApplyEffects) error {
	if e.Config.Firewall == nil {
		return nil
	}
	places := make(map[string]bool)
	for _, p := range plan.Places(next) {
		places[p.Name] = true
	}
	return e.DataPath.Firewall.EachSession(func(s *datapath.Session) bool {
		x.Sessions++
		if _, allowed := wouldAllow(rules, places, s); !allowed {
			x.SessionsCut++
		}
		return true
	})
}

func natEffects(e *State, next overlay.Edge, x *api.ApplyEffects) error {
	if e.Config.Egress == nil {
		return nil
	}
	stays := make(map[string]bool)
	if next.Egress != nil {
		for _, p := range next.Egress.Policies {
			stays[p.Name] = true
		}
	}
	for _, r := range next.Routers {
		for _, u := range r.Uplinks {
			stays["uplink/"+u.Name] = u.NAT != nil
		}
	}
	return e.DataPath.NAT.EachNATSession(func(s *datapath.NATSession) bool {
		x.NATSessions++
		if !stays[s.Policy] {
			x.NATSessionsCut++
		}
		return true
	})
}

// BGPResets are the neighbours whose sessions begin anew, or end, when one configuration becomes another.
func BGPResets(was, next *overlay.BGP) []string {
	names := []string{}
	if was == nil {
		return names
	}
	for _, n := range was.Neighbours {
		if next == nil || next.AS != was.AS || next.RouterID != was.RouterID || !slices.ContainsFunc(next.Neighbours, func(o overlay.BGPNeighbour) bool { return reflect.DeepEqual(n, o) }) {
			names = append(names, n.Name)
		}
	}
	return names
}
