package plan

import (
	"net/netip"

	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// InnerMTU is the largest inner IP packet in bytes that fits an underlay
// packet of mtu bytes to remote, in the segments of e that send there.
func InnerMTU(e overlay.Edge, remote netip.Addr, mtu int) int {
	inner := mtu
	for _, s := range Segments(e) {
		if SendsTo(s, remote) {
			inner = min(inner, mtu-s.Tunnel.Overhead(remote))
		}
	}
	return max(inner, 0)
}

// portMTUs finds the ports that accept packets too large for a tunnel of their
// segment, and names the narrowest tunnel of each.
func portMTUs(e overlay.Edge, v host.State, pathPolicies PathPolicies) (problems []problem.Problem) {
	attachments := Attachments(e)
	for _, s := range Segments(e) {
		narrow, ok := narrowest(e, v, pathPolicies, s)
		if !ok {
			continue
		}
		overhead := s.Tunnel.Overhead(narrow.remote)
		carries := narrow.mtu - overhead
		for _, p := range attachments {
			link, ok := v.Links[p.Interface]
			if p.Segment != s.Name || !ok || link.MTU <= carries {
				continue
			}
			asProblem := problem.Warning
			if s.ClampMSS { // nothing is lost: TCP never sends more, and who else does is told
				asProblem = problem.Note
			}
			problems = append(problems, asProblem(
				"port %s has MTU %d, the tunnel to %s carries %d: larger packets are answered with ICMP errors%s; "+
					"to avoid that, lower the MTU of %s and of what is behind it to %d, or raise that of %s to %d",
				p.Name, link.MTU, narrow.remote, carries, clamped(s), p.Interface, carries, narrow.bottleneck(), link.MTU+overhead))
		}
	}
	return problems
}

func clamped(s overlay.Segment) string {
	if s.ClampMSS {
		return " and TCP gets a smaller MSS"
	}
	return ""
}

type tunnel struct {
	remote netip.Addr
	path   host.Path
	mtu    int
}

// bottleneck is what limits the tunnel: the interface, or something behind it.
func (t tunnel) bottleneck() string {
	if t.mtu < t.path.MTU {
		return "the path"
	}
	return t.path.Interface
}

// narrowest is that of all paths which s may ever take.
func narrowest(e overlay.Edge, v host.State, pathPolicies PathPolicies, s overlay.Segment) (narrow tunnel, ok bool) {
	for _, remote := range remotesOf(s) {
		for _, p := range inOrder(e, pathPolicies.Paths, PathPolicy{TEPs: s.TEPs}, remote) {
			if !ok || p.MTU < narrow.mtu {
				narrow, ok = tunnel{p.Remote, v.Routes[p.Pair], p.MTU}, true
			}
		}
	}
	return narrow, ok
}
