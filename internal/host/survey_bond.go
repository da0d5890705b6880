package host

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Bond is how a bond shares its members, in the kernel's words.
type Bond struct {
	Mode       string `json:"mode"`
	HashPolicy string `json:"hash_policy"`
	LACPRate   string `json:"lacp_rate,omitempty"` // of mode 802.3ad
}

// bondOf is nil for a link that is no bond.
func bondOf(l netlink.Link) *Bond {
	b, ok := l.(*netlink.Bond)
	if !ok {
		return nil
	}
	bond := &Bond{Mode: b.Mode.String(), HashPolicy: b.XmitHashPolicy.String()}
	if b.Mode == netlink.BOND_MODE_802_3AD {
		bond.LACPRate = b.LacpRate.String()
	}
	return bond
}

// mostRoutes is how many routes RoutingProtocols looks at: of a full table the first ones tell.
const mostRoutes = 200_000

// RoutingProtocols are the names of the routing protocols of which routes in the main table leave by an interface
// that Devices listed, by its name. Routes of the kernel, of boot scripts, DHCP and router advertisements are none.
func (s *Survey) RoutingProtocols() (map[string][]string, error) {
	found := map[string]map[string]bool{}
	note := func(index int, protocol string) {
		if link, ok := s.links[index]; ok {
			if found[link.Name] == nil {
				found[link.Name] = map[string]bool{}
			}
			found[link.Name][protocol] = true
		}
	}
	seen := 0
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		err := s.host.handle.RouteListFilteredIter(family, &netlink.Route{}, 0, func(r netlink.Route) bool {
			seen++
			if isRouting(r.Protocol) {
				note(r.LinkIndex, r.Protocol.String())
				for _, hop := range r.MultiPath {
					note(hop.LinkIndex, r.Protocol.String())
				}
			}
			return seen < mostRoutes
		})
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) { // a route that changes meanwhile says nothing else
			return nil, fmt.Errorf("list routes: %w", err)
		}
	}
	protocols := make(map[string][]string, len(found))
	for name, set := range found {
		protocols[name] = slices.Sorted(maps.Keys(set))
	}
	return protocols, nil
}

// isRouting says whether a daemon that learned a route from others made it (rtnetlink(7), rtm_protocol).
func isRouting(p netlink.RouteProtocol) bool {
	return slices.Contains([]int{
		unix.RTPROT_BGP, unix.RTPROT_OSPF, unix.RTPROT_ISIS, unix.RTPROT_RIP, unix.RTPROT_EIGRP, unix.RTPROT_BABEL,
		unix.RTPROT_BIRD, unix.RTPROT_ZEBRA, unix.RTPROT_GATED, unix.RTPROT_XORP, unix.RTPROT_OPENR,
	}, int(p))
}
