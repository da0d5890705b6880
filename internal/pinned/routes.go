package pinned

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
)

// segmentAddr is an IP address in a segment.
type segmentAddr struct {
	segment string
	addr    netip.Addr
}

// routes are those of all routers, or the best of each to an address. Where they are from is not known.
func (e *Edge) routes(v url.Values) ([]api.RouteInfo, error) {
	a := api.Arguments{Values: v}
	to := a.Addr(api.ArgTo)
	if err := a.End(); err != nil {
		return nil, err
	}
	routes, err := e.reader.Routes()
	if err != nil {
		return nil, err
	}
	states, err := e.hopStates()
	if err != nil {
		return nil, err
	}
	list := []api.RouteInfo{}
	for _, r := range routes {
		if to.IsValid() && !isBest(routes, r, to) {
			continue
		}
		info := api.RouteInfo{Router: r.Router, Prefix: r.Prefix, Kind: r.Kind, Hops: []api.HopInfo{}}
		for _, hop := range r.Hops {
			info.Hops = append(info.Hops, states.hop(hop))
		}
		list = append(list, info)
	}
	slices.SortFunc(list, func(a, b api.RouteInfo) int {
		return cmp.Or(cmp.Compare(a.Router, b.Router), a.Prefix.Addr().Compare(b.Prefix.Addr()), cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()))
	})
	return list, nil
}

// isBest reports whether no route of the same router has a longer prefix with the address in it.
func isBest(routes []datapath.PinnedRoute, r datapath.PinnedRoute, to netip.Addr) bool {
	return r.Prefix.Contains(to) && !slices.ContainsFunc(routes, func(o datapath.PinnedRoute) bool {
		return o.Router == r.Router && o.Prefix.Contains(to) && o.Prefix.Bits() > r.Prefix.Bits()
	})
}

// hopStates are what is known of next hops.
type hopStates struct {
	macs    map[segmentAddr]overlay.MAC
	remotes map[netip.Addr]string
}

func (e *Edge) hopStates() (s hopStates, err error) {
	s = hopStates{map[segmentAddr]overlay.MAC{}, map[netip.Addr]string{}}
	neighbours, err := e.reader.Neighbours()
	for _, n := range neighbours {
		s.macs[segmentAddr{n.Segment, n.Addr}] = n.MAC
	}
	if err != nil {
		return s, err
	}
	teps, err := e.teps()
	for _, t := range teps {
		s.remotes[t.Address] = t.State
	}
	return s, err
}

func (s hopStates) hop(hop fib.Hop) api.HopInfo {
	info := api.HopInfo{Segment: hop.Segment, Address: hop.Addr, Remote: hop.Remote, State: "connected"}
	switch {
	case hop.Remote.IsValid():
		info.MAC, info.State = hop.MAC.String(), s.remotes[hop.Remote]
	case hop.Addr.IsValid():
		info.State = "unresolved"
		if mac, ok := s.macs[segmentAddr{hop.Segment, hop.Addr}]; ok {
			info.MAC, info.State = mac.String(), "resolved"
		}
	}
	return info
}
