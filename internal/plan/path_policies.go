package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// Buckets is into how many parts the flows to a remote are divided.
const Buckets = 64

// Facts are what Teamed joins with the configuration.
type Facts struct {
	Links map[string]host.Link
	// Paths are the routes from TEPs of this edge to those of remotes, asked with the
	// local address as source. Pairs lists what to ask.
	Paths map[overlay.Pair]host.Path
	// Vias are the next hops of pairs with several, each of which has an entry in Paths.
	Vias map[overlay.Pair][]overlay.Via
	// Probed are path MTUs in bytes of an IP packet; what is missing is not known.
	Probed map[overlay.Pair]int
	// Dead are the pairs that liveness takes out of use, and why. Those of them that are Held answer, and are not
	// trusted yet.
	Dead map[overlay.Pair]string
	Held map[overlay.Pair]bool
}

// PathPolicies are the paths of an edge and who takes which.
type PathPolicies struct {
	// Paths are all there are, dead ones too, sorted by pair.
	Paths []TunnelPath
	// PathPolicies has that of segments that are pinned nowhere first, then one for each
	// list of TEPs that segments are pinned to.
	PathPolicies []PathPolicy
}

// TunnelPath is a way from a TEP of this edge to one of a remote: one for each next hop of its route.
type TunnelPath struct {
	overlay.Pair
	Edge    netip.Addr // the remote: its first address
	Ifindex int
	MTU     int // an IP packet's size in bytes
	SrcMAC  overlay.MAC
	NextMAC overlay.MAC // zero while unresolved
	Weight  int         // among the next hops of the route; 0 where it is the only one
	Down    string      // why it is out of use, or ""
	Held    bool        // it is out of use for its failures alone, and answers
	NoLink  bool        // it is out of use as its link is down: what is sent there goes nowhere
}

// PathPolicy is how segments with the same TEPs choose among the paths.
type PathPolicy struct {
	TEPs       []string // as in the segments; nil for those that are pinned nowhere
	Teaming    overlay.Teaming
	PathGroups []PathGroup // sorted by remote
}

// PathGroup divides the flows to one remote.
type PathGroup struct {
	Remote netip.Addr // its first address
	// Paths are in use, the preferred first; empty when there is no way at all.
	Paths []overlay.Pair
	// Buckets are indexes of Paths.
	Buckets [Buckets]uint8
	// Stale says that all paths are dead and that Paths are those used last.
	Stale bool
}

// Pairs are the TEPs of e with those of every remote, sorted: between these may be
// paths.
func Pairs(e overlay.Edge) (pairs []overlay.Pair) {
	for _, remote := range Remotes(e) {
		for _, addr := range e.Remote(remote).Addrs {
			for _, t := range e.Underlay.Local() {
				pairs = append(pairs, overlay.Pair{Local: t.Addr, Remote: addr})
			}
		}
	}
	slices.SortFunc(pairs, overlay.Pair.Compare)
	return slices.Compact(pairs)
}

// Teamed plans the paths of e. What before used and still may, stays where it was.
// Each problem names the remote or the path and says what to do.
func Teamed(e overlay.Edge, f Facts, before PathPolicies) (PathPolicies, []problem.Problem) {
	var t PathPolicies
	var problems []problem.Problem
	for _, remote := range Remotes(e) {
		t.Paths = append(t.Paths, pathsTo(e, f, remote)...)
	}
	slices.SortFunc(t.Paths, func(a, b TunnelPath) int { return a.Pair.Compare(b.Pair) })
	for _, segments := range pathPoliciesOf(e) {
		pathPolicy := PathPolicy{TEPs: segments[0].TEPs, Teaming: cmp.Or(e.Underlay.Teaming, overlay.PathPolicyFlow)}
		if pathPolicy.TEPs != nil {
			pathPolicy.Teaming = overlay.PathPolicyFailover
		}
		for _, remote := range remotesOf(segments...) {
			old, _ := before.find(pathPolicy.TEPs, remote)
			s, bad := pathGroup(e, t.Paths, pathPolicy, remote, old)
			pathPolicy.PathGroups = append(pathPolicy.PathGroups, s)
			if bad.Text != "" && !slices.Contains(problems, bad) {
				problems = append(problems, bad)
			}
		}
		t.PathPolicies = append(t.PathPolicies, pathPolicy)
	}
	return t, append(problems, t.outOfUse(e)...)
}

// pathPoliciesOf groups the segments of e by the TEPs that they are pinned to, those that
// are pinned nowhere first.
func pathPoliciesOf(e overlay.Edge) [][]overlay.Segment {
	pathPolicies := [][]overlay.Segment{{{}}} // of no segment, so that the first is always there
	for _, s := range Segments(e) {
		at := slices.IndexFunc(pathPolicies, func(t []overlay.Segment) bool { return slices.Equal(t[0].TEPs, s.TEPs) })
		if at < 0 {
			at, pathPolicies = len(pathPolicies), append(pathPolicies, nil)
		}
		pathPolicies[at] = append(pathPolicies[at], s)
	}
	return pathPolicies
}

// find is the spread of a team's flows to remote.
func (t PathPolicies) find(teps []string, remote netip.Addr) (PathGroup, bool) {
	for _, pathPolicy := range t.PathPolicies {
		if !slices.Equal(pathPolicy.TEPs, teps) {
			continue
		}
		for _, s := range pathPolicy.PathGroups {
			if s.Remote == remote {
				return s, true
			}
		}
	}
	return PathGroup{}, false
}

// pathsTo are the paths to one remote. A route by another interface than the TEP's
// is none: its tunnels would come from an address that is not that network's.
func pathsTo(e overlay.Edge, f Facts, remote netip.Addr) (paths []TunnelPath) {
	v := host.State{Routes: f.Paths, Vias: f.Vias}
	for _, local := range e.Underlay.Local() {
		for _, addr := range e.Remote(remote).Addrs {
			pairs := slices.DeleteFunc(v.PathsOf(overlay.Pair{Local: local.Addr, Remote: addr}), func(pair overlay.Pair) bool {
				return f.Paths[pair].Local || !carries(e, f, local, f.Paths[pair])
			})
			resolved := slices.ContainsFunc(pairs, func(pair overlay.Pair) bool { return f.Paths[pair].NextMAC != overlay.MAC{} })
			for _, pair := range pairs {
				paths = append(paths, f.pathOf(pair, remote, resolved))
			}
		}
	}
	return paths
}

// pathOf is the path to remote by a pair. With resolved a next hop of it answers: one that does not
// is out of use.
func (f Facts) pathOf(pair overlay.Pair, remote netip.Addr, resolved bool) TunnelPath {
	path := f.Paths[pair]
	p := TunnelPath{
		Pair: pair, Edge: remote, Ifindex: path.Ifindex, MTU: path.MTU, SrcMAC: path.SrcMAC, NextMAC: path.NextMAC, Weight: path.Weight,
		Down: cmp.Or(f.Dead[pair], f.Dead[pair.Endpoints()]),
	}
	if known := f.Probed[pair.Endpoints()]; known > 0 {
		p.MTU = min(known, path.MTU)
	}
	p.Held = p.Down != "" && f.answers(pair) && f.answers(pair.Endpoints())
	switch {
	case !isUp(f, path):
		p.Down, p.Held, p.NoLink = fmt.Sprintf("interface %s is down", path.Interface), false, true
	case resolved && path.NextMAC == overlay.MAC{}:
		p.Down, p.Held = fmt.Sprintf("next hop %s on %s does not answer", path.Addr, path.Interface), false
	}
	return p
}

// answers reports whether liveness knows nothing worse of a pair than that it failed before.
func (f Facts) answers(pair overlay.Pair) bool { return f.Dead[pair] == "" || f.Held[pair] }

// carries reports whether tunnels of local may leave the way that this one does.
func carries(e overlay.Edge, f Facts, local overlay.TEP, path host.Path) bool {
	return slices.ContainsFunc(e.Underlay.Interfaces, func(name string) bool {
		link, ok := f.Links[name]
		return ok && link.Index == path.Ifindex && (local.Interface == "" || local.Interface == name)
	})
}

func isUp(f Facts, path host.Path) bool {
	for _, link := range f.Links {
		if link.Index == path.Ifindex {
			return link.Up
		}
	}
	return false
}

// pathGroup divides the flows of team to remote among its live paths. With none alive those are taken that
// answer and are held back, for they are better than dead ones; without them
// it stays as it was: sending nothing helps nobody, and they may be back at once.
func pathGroup(e overlay.Edge, all []TunnelPath, pathPolicy PathPolicy, remote netip.Addr, before PathGroup) (PathGroup, problem.Problem) {
	s := PathGroup{Remote: remote}
	var there, live, held []overlay.Pair
	weights := make(map[overlay.Pair]int)
	for _, p := range inOrder(e, all, pathPolicy, remote) {
		there, weights[p.Pair] = append(there, p.Pair), p.Weight
		if p.Down == "" {
			live = append(live, p.Pair)
		}
		if p.Held {
			held = append(held, p.Pair)
		}
	}
	name, wrong := nameOf(e, remote), problem.Problem{}
	switch {
	case len(there) == 0:
		return s, problem.Error("remote %s: no route%s leaves by the interface of its TEP: add one, or correct the remote's addresses", name, from(pathPolicy))
	case len(live) == 0 && len(held) > 0:
		live = held
		wrong = problem.Error("remote %s: all paths%s are dead or held back, those that answer are used: check the network to it", name, from(pathPolicy))
	case len(live) == 0:
		s.Stale = true
		kept := slices.DeleteFunc(slices.Clone(before.Paths), func(p overlay.Pair) bool { return !slices.Contains(there, p) })
		if live = kept; len(live) == 0 {
			live = there
		}
		wrong = problem.Error("remote %s: all paths%s are dead, the last ones stay in use: check the remote and the network to it", name, from(pathPolicy))
	}
	if pathPolicy.Teaming == overlay.PathPolicyFailover { // with all next hops of the first
		first := live[0].Endpoints()
		live = slices.DeleteFunc(slices.Clone(live), func(p overlay.Pair) bool { return p.Endpoints() != first })
	}
	s.Paths = live
	s.share(before, weights)
	return s, wrong
}

// share fills in the buckets.
func (s *PathGroup) share(before PathGroup, weightOf map[overlay.Pair]int) {
	weights := make([]int, len(s.Paths))
	for i, p := range s.Paths {
		weights[i] = weightOf[p]
	}
	owners := make([]overlay.Pair, Buckets)
	for i, b := range before.Buckets {
		if int(b) < len(before.Paths) {
			owners[i] = before.Paths[b]
		}
	}
	for i, owner := range overlay.ShareByWeight(owners, s.Paths, weights) {
		s.Buckets[i] = uint8(slices.Index(s.Paths, owner))
	}
}

// inOrder are the paths of team to remote, the preferred first: in the team's order
// of TEPs, then in the remote's order of addresses.
func inOrder(e overlay.Edge, all []TunnelPath, pathPolicy PathPolicy, remote netip.Addr) (paths []TunnelPath) {
	for _, local := range localOf(e, pathPolicy.TEPs) {
		for _, addr := range e.Remote(remote).Addrs {
			for _, p := range all {
				if p.Endpoints() == (overlay.Pair{Local: local.Addr, Remote: addr}) {
					paths = append(paths, p)
				}
			}
		}
	}
	return paths
}

// localOf are the TEPs of e with these names, in the order of the names; all
// without names.
func localOf(e overlay.Edge, names []string) (teps []overlay.TEP) {
	if names == nil {
		return e.Underlay.Local()
	}
	for _, name := range names {
		for _, t := range e.Underlay.Local() {
			if t.Name == name {
				teps = append(teps, t)
			}
		}
	}
	return teps
}

func from(t PathPolicy) string {
	if t.TEPs == nil {
		return ""
	}
	return " from " + strings.Join(t.TEPs, " and ")
}

func nameOf(e overlay.Edge, remote netip.Addr) string {
	if name := e.Remote(remote).Name; name != "" {
		return name
	}
	return remote.String()
}

// outOfUse names the dead paths.
func (t PathPolicies) outOfUse(e overlay.Edge) (problems []problem.Problem) {
	for _, p := range t.Paths {
		if p.Down != "" {
			problems = append(problems, problem.Warning("remote %s: the path from %s is dead: %s: check the network between them", nameOf(e, p.Edge), p.Pair, p.Down))
		}
	}
	return problems
}
