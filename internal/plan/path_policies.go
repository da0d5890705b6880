package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// Buckets is into how many parts the flows to a remote are divided.
const Buckets = 64

// autoHops is how many links a multihop session may cross where the configuration
// leaves it to us.
const autoHops = 16

// Facts are what Teamed joins with the configuration.
type Facts struct {
	Links map[string]host.Link
	// Paths are the routes from TEPs of this edge to those of remotes, asked with the
	// local address as source. Pairs lists what to ask.
	Paths map[overlay.Pair]host.Path
	// Probed are path MTUs in bytes of an IP packet; what is missing is not known.
	Probed map[overlay.Pair]int
	// Dead are the pairs that liveness takes out of use, and why.
	Dead map[overlay.Pair]string
}

// PathPolicies are the paths of an edge and who takes which.
type PathPolicies struct {
	// Paths are all there are, dead ones too, sorted by pair.
	Paths []TunnelPath
	// PathPolicies has that of segments that are pinned nowhere first, then one for each
	// list of TEPs that segments are pinned to.
	PathPolicies []PathPolicy
}

// TunnelPath is a way from a TEP of this edge to one of a remote.
type TunnelPath struct {
	overlay.Pair
	Edge    netip.Addr // the remote: its first address
	Ifindex int
	MTU     int // an IP packet's size in bytes
	SrcMAC  overlay.MAC
	NextMAC overlay.MAC // zero while unresolved
	Down    string      // why it is out of use, or ""
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
			if bad := problem.Error("%s", bad); bad.Text != "" && !slices.Contains(problems, bad) {
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
	for _, local := range e.Underlay.Local() {
		for _, addr := range e.Remote(remote).Addrs {
			pair := overlay.Pair{Local: local.Addr, Remote: addr}
			path, ok := f.Paths[pair]
			if !ok || path.Local || !carries(e, f, local, path) {
				continue
			}
			p := TunnelPath{
				Pair: pair, Edge: remote, Ifindex: path.Ifindex, MTU: path.MTU, SrcMAC: path.SrcMAC, NextMAC: path.NextMAC, Down: f.Dead[pair],
			}
			if known := f.Probed[pair]; known > 0 {
				p.MTU = min(known, path.MTU)
			}
			if !isUp(f, path) {
				p.Down = fmt.Sprintf("interface %s is down", path.Interface)
			}
			paths = append(paths, p)
		}
	}
	return paths
}

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

// pathGroup divides the flows of team to remote among its live paths. With none alive
// it stays as it was: sending nothing helps nobody, and they may be back at once.
func pathGroup(e overlay.Edge, all []TunnelPath, pathPolicy PathPolicy, remote netip.Addr, before PathGroup) (PathGroup, string) {
	s := PathGroup{Remote: remote}
	var there, live []overlay.Pair
	for _, p := range inOrder(e, all, pathPolicy, remote) {
		there = append(there, p.Pair)
		if p.Down == "" {
			live = append(live, p.Pair)
		}
	}
	name, problem := nameOf(e, remote), ""
	switch {
	case len(there) == 0:
		return s, fmt.Sprintf("remote %s: no route%s leaves by the interface of its TEP: add one, or correct the remote's addresses", name, from(pathPolicy))
	case len(live) == 0:
		s.Stale = true
		kept := slices.DeleteFunc(slices.Clone(before.Paths), func(p overlay.Pair) bool { return !slices.Contains(there, p) })
		if live = kept; len(live) == 0 {
			live = there
		}
		problem = fmt.Sprintf("remote %s: all paths%s are dead, the last ones stay in use: check the remote and the network to it", name, from(pathPolicy))
	}
	if pathPolicy.Teaming == overlay.PathPolicyFailover {
		live = live[:1]
	}
	s.Paths = live
	s.share(before)
	return s, problem
}

// share fills in the buckets.
func (s *PathGroup) share(before PathGroup) {
	owners := make([]overlay.Pair, Buckets)
	for i, b := range before.Buckets {
		if int(b) < len(before.Paths) {
			owners[i] = before.Paths[b]
		}
	}
	for i, owner := range overlay.Share(owners, s.Paths) {
		s.Buckets[i] = uint8(slices.Index(s.Paths, owner))
	}
}

// inOrder are the paths of team to remote, the preferred first: in the team's order
// of TEPs, then in the remote's order of addresses.
func inOrder(e overlay.Edge, all []TunnelPath, pathPolicy PathPolicy, remote netip.Addr) (paths []TunnelPath) {
	for _, local := range localOf(e, pathPolicy.TEPs) {
		for _, addr := range e.Remote(remote).Addrs {
			for _, p := range all {
				if p.Pair == (overlay.Pair{Local: local.Addr, Remote: addr}) {
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

// Peers are the BFD sessions that e asks for: one for each path. What they say comes
// back as Facts.Dead.
func Peers(e overlay.Edge, t PathPolicies, paths map[overlay.Pair]host.Path) (peers []bfd.Peer) {
	l := e.Underlay.Liveness
	if l == nil {
		return nil
	}
	for _, p := range t.Paths {
		hops := int(l.Hops)
		if hops == 0 {
			if hops = autoHops; paths[p.Pair].Addr == p.Remote { // the next hop is the remote itself
				hops = 1
			}
		}
		peers = append(peers, bfd.Peer{
			Pair: p.Pair, Ifindex: p.Ifindex, Hops: hops, Timers: bfd.Timers{Interval: l.Interval, Multiplier: l.Multiplier},
		})
	}
	return peers
}

// Dead are the pairs of e that may not be used, of what a bfd.Monitor knows. A remote
// that answers on one path speaks BFD, so its other paths that never answered are
// not to be trusted: one may have died before this process started.
func Dead(e overlay.Edge, results map[overlay.Pair]bfd.Result) map[overlay.Pair]string {
	answers := make(map[netip.Addr]bool)
	edgeOf := func(p overlay.Pair) netip.Addr { return e.Remote(p.Remote).Addrs[0] }
	for pair, r := range results {
		answers[edgeOf(pair)] = answers[edgeOf(pair)] || r.State == bfd.Up
	}
	dead := make(map[overlay.Pair]string)
	for pair, r := range results {
		switch {
		case !r.Usable():
			dead[pair] = r.Why
		case r.State == bfd.Unknown && answers[edgeOf(pair)]:
			dead[pair] = "it never answered, though the remote answers on another path"
		}
	}
	return dead
}
