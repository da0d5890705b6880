package gateway

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/selvage/selvage/internal/overlay"
)

// unreached says why this edge cannot serve although its uplinks are up: of one that a policy uses no router answers any more, "" where
// that is not so. dead are the BGP neighbours whose BFD session failed (RFC 5882), and why. Of one without BFD nothing is known.
func unreached(e overlay.Edge, dead map[netip.Addr]string) string {
	if e.BGP == nil || len(dead) == 0 {
		return ""
	}
	for _, p := range e.Egress.Policies {
		members := groupMembers(e, p.Name)
		if len(members) < 2 || !slices.Contains(members, Self(e)) {
			continue
		}
		if why := noRouter(e.BGP.Neighbours, p.Uplink, dead); why != "" {
			return fmt.Sprintf("no router at uplink %s answers to BFD: %s", p.Uplink, why)
		}
	}
	return ""
}

// noRouter is why the last neighbour at an uplink does not answer, "" where one may or there is none.
func noRouter(all []overlay.BGPNeighbour, uplink string, dead map[netip.Addr]string) (why string) {
	for _, n := range all {
		if n.Uplink != uplink || uplink == "" {
			continue
		}
		because, is := dead[n.Addr]
		if !is {
			return ""
		}
		why = n.Name + ", " + because
	}
	return why
}

// RouterSessions are the BGP neighbours with which there is a session.
type RouterSessions struct {
	wake func() // has the gateways judged anew

	mu          sync.Mutex
	established map[netip.Addr]bool
	// missed: this edge would serve if there were a session with one of them.
	missed bool
}

// Set makes known whether there is a session with a neighbour.
func (s *RouterSessions) Set(neighbour netip.Addr, up bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.established[neighbour] = up
	if up && s.missed {
		s.wake()
	}
}

// await says why this edge, which could serve, does not yet: addresses of a policy are in no network of its uplink, and no router
// would hear by BGP that they are here. It waits only while others serve, to whom routers have routes.
func (s *RouterSessions) await(w electionInput) (why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missed = false
	if w.config.BGP == nil {
		return ""
	}
	uplinks := uplinksOf(w.config, func(overlay.Router, overlay.Uplink) {})
	for _, p := range w.config.Egress.Policies {
		if u, ok := uplinks[p.Name]; ok && isElsewhere(p, u) && s.lacks(w.config.BGP.Neighbours, u.Name) && w.coveredByOthers() {
			s.missed = true
			return "it waits for a BGP session with a router at uplink " + u.Name
		}
	}
	return ""
}

// isElsewhere reports whether addresses of a policy are in no network of the uplink, so that nobody asks there for them.
func isElsewhere(p overlay.EgressPolicy, u overlay.Uplink) bool {
	return slices.ContainsFunc(p.Pool, func(a overlay.AddrRange) bool {
		return !slices.ContainsFunc(u.Addresses, func(n netip.Prefix) bool { return n.Contains(a.First) })
	})
}

// lacks reports whether there are neighbours at an uplink that are to hear of addresses, and none does. mu is held.
func (s *RouterSessions) lacks(all []overlay.BGPNeighbour, uplink string) bool {
	hear := func(n overlay.BGPNeighbour) bool {
		return n.Uplink == uplink && slices.Contains(n.Announce, overlay.SourceEgress)
	}
	hears := func(n overlay.BGPNeighbour) bool { return hear(n) && s.established[n.Addr] }
	return slices.ContainsFunc(all, hear) && !slices.ContainsFunc(all, hears)
}
