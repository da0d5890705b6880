package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// PathsOf are the paths between a pair that tunnels may take, as keys of the host's routes. They leave
// this host by the interface of the TEP, or by any underlay interface where the TEP has none. Another
// would carry tunnels into a network that was not meant to see them.
func PathsOf(e overlay.Edge, v host.State, pair overlay.Pair) (paths []overlay.Pair) {
	for _, local := range e.Underlay.Local() {
		if local.Addr != pair.Local {
			continue
		}
		for _, one := range v.PathsOf(pair) {
			if path := v.Routes[one]; !path.Local && carries(e, Facts{Links: v.Links}, local, path) {
				paths = append(paths, one)
			}
		}
		return paths
	}
	return nil
}

// pathOf is the first of PathsOf.
func pathOf(e overlay.Edge, v host.State, pair overlay.Pair) (host.Path, bool) {
	paths := PathsOf(e, v, pair)
	if len(paths) == 0 {
		return host.Path{}, false
	}
	return v.Routes[paths[0]], true
}

// Path is the preferred one of the ways to remote.
func Path(e overlay.Edge, v host.State, remote netip.Addr) (host.Path, bool) {
	for _, pair := range pairsTo(e, remote) {
		if path, ok := pathOf(e, v, pair); ok {
			return path, true
		}
	}
	return host.Path{}, false
}

// FactsOf are the facts for Teamed: what the host is like, what probes found and what
// liveness takes out of use. Of several TEPs, one whose address the host does not have
// is out of use as well.
func FactsOf(e overlay.Edge, v host.State, probed map[overlay.Pair]int, dead map[overlay.Pair]string) Facts {
	f := Facts{Links: v.Links, Paths: v.Routes, Vias: v.Vias, Probed: probed, Dead: make(map[overlay.Pair]string)}
	if len(e.Underlay.Local()) > 1 {
		for pair := range v.Routes {
			if !v.TEPs[pair.Local] {
				f.Dead[pair] = fmt.Sprintf("address %s is not on this host", pair.Local)
			}
		}
	}
	maps.Copy(f.Dead, dead)
	return f
}

// PathSelection is the part of the tables that says which paths are used.
func PathSelection(e overlay.Edge, t PathPolicies) ([]fib.TEP, []fib.PathPolicy) {
	pathPolicies := make([]fib.PathPolicy, 0, len(t.PathPolicies))
	inUse := make(map[overlay.Pair]bool)
	for _, pathPolicy := range t.PathPolicies {
		to := fib.PathPolicy{Source: pathPolicy.Teaming == overlay.PathPolicySource}
		for _, s := range pathPolicy.PathGroups {
			to.PathGroups = append(to.PathGroups, fib.PathGroup{Remote: s.Remote, Paths: s.Paths, Buckets: s.Buckets})
			for _, pair := range s.Paths {
				inUse[pair] = true
			}
		}
		pathPolicies = append(pathPolicies, to)
	}
	var teps []fib.TEP
	for _, p := range t.Paths {
		ifindex := p.Ifindex
		if p.NoLink {
			ifindex = 0
		}
		teps = append(teps, fib.TEP{
			Addr: p.Remote, Local: p.Local, Via: p.Via, Edge: p.Edge, Ifindex: ifindex, MTU: p.MTU, SrcMAC: p.SrcMAC, NextMAC: p.NextMAC,
			// While all paths are dead nothing is gained by deciding each packet anew.
			Down: p.Down != "" && !inUse[p.Pair],
		})
	}
	return withoutPath(e, withAllNextHops(teps)), pathPolicies
}

// withAllNextHops adds what stands for the next hops of a pair with several: packets and messages that
// arrive name no next hop. It has the largest MTU of them, and the way of the first.
func withAllNextHops(teps []fib.TEP) []fib.TEP {
	at := make(map[overlay.Pair]int)
	for _, t := range slices.Clone(teps) {
		if t.Via == (overlay.Via{}) {
			continue
		}
		all := pairOf(t).Endpoints()
		if _, ok := at[all]; !ok {
			at[all], t.Via, t.Down = len(teps), overlay.Via{}, false
			teps = append(teps, t)
		}
		teps[at[all]].MTU = max(teps[at[all]].MTU, t.MTU)
	}
	return teps
}

// withoutPath adds what has no way and must be known all the same: of each remote the
// pair that stands for it, and its other addresses, which tunnels may come from.
func withoutPath(e overlay.Edge, teps []fib.TEP) []fib.TEP {
	first := e.Underlay.Local()[0].Addr
	for _, remote := range Remotes(e) {
		for _, addr := range e.Remote(remote).Addrs {
			known := func(t fib.TEP) bool { return t.Addr == addr && (addr != remote || t.Local == first) }
			if !slices.ContainsFunc(teps, known) {
				teps = append(teps, fib.TEP{Addr: addr, Local: first, Edge: remote})
			}
		}
	}
	slices.SortFunc(teps, func(a, b fib.TEP) int { return pairOf(a).Compare(pairOf(b)) })
	return teps
}

func pairOf(t fib.TEP) overlay.Pair { return overlay.Pair{Local: t.Local, Remote: t.Addr, Via: t.Via} }

// pathPolicyNumbers are the indexes of the segments' teams.
func pathPolicyNumbers(e overlay.Edge, t PathPolicies) map[string]int {
	numbers := make(map[string]int)
	for _, s := range Segments(e) {
		numbers[s.Name] = max(0, slices.IndexFunc(t.PathPolicies, func(pathPolicy PathPolicy) bool { return slices.Equal(pathPolicy.TEPs, s.TEPs) }))
	}
	return numbers
}

// pathProblems are those of ways that Teamed does not see.
func pathProblems(e overlay.Edge, v host.State) (problems []problem.Problem) {
	add := func(format string, args ...any) {
		if p := problem.Error(format, args...); !slices.Contains(problems, p) { // of another TEP
			problems = append(problems, p)
		}
	}
	for _, remote := range Remotes(e) {
		_, reachable := Path(e, v, remote)
		for _, pair := range pairsTo(e, remote) {
			usable := PathsOf(e, v, pair)
			for _, one := range v.PathsOf(pair) {
				path := v.Routes[one]
				switch {
				case path.Local:
					add("remote %s is an address of this host: correct the remote", pair.Remote)
				case !reachable && !isUnderlay(e, v, path.Ifindex):
					add("remote %s: its route leaves by %s, which is not an underlay interface: change the route, or add %s to the underlay's interfaces",
						pair.Remote, path.Interface, path.Interface)
				case len(usable) > 0 && !isUnderlay(e, v, path.Ifindex):
					add("remote %s: next hop %s is not used: %s is not an underlay interface: change the route, or add %s to the underlay's interfaces",
						pair.Remote, path.Addr, path.Interface, path.Interface)
				case slices.Contains(usable, one) && path.NextMAC == (overlay.MAC{}) && v.Links[path.Interface].NotEthernet == "":
					add("remote %s: next hop %s on %s does not answer: check that it is up and in the same network",
						pair.Remote, path.NextHop.Addr, path.Interface)
				}
			}
		}
	}
	return problems
}

func isUnderlay(e overlay.Edge, v host.State, ifindex int) bool {
	return slices.ContainsFunc(e.Underlay.Interfaces, func(name string) bool {
		link, ok := v.Links[name]
		return ok && link.Index == ifindex
	})
}

// pairsTo are the pairs of all TEPs of e and of one remote, the preferred first.
func pairsTo(e overlay.Edge, remote netip.Addr) (pairs []overlay.Pair) {
	for _, local := range e.Underlay.Local() {
		for _, addr := range e.Remote(remote).Addrs {
			pairs = append(pairs, overlay.Pair{Local: local.Addr, Remote: addr})
		}
	}
	return pairs
}
