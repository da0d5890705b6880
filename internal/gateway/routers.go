package gateway

import (
	"fmt"
	"net/netip"
	"slices"

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
