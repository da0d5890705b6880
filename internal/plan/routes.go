package plan

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
)

// Origin says where a route comes from.
type Origin string

// The origins of routes. Of two routes to one prefix the former wins; of two
// leaked ones that of the leak which is listed first.
const (
	Connected Origin = "connected"
	Static    Origin = "static"
	Learned   Origin = "bgp"
	Leaked    Origin = "leaked"
)

// Route is one entry of a router's table.
type Route struct {
	fib.Route
	Origin Origin
	From   string // of a leaked route, the other router
	// Down are next hops that are out of use.
	Down []DownHop
}

// DownHop is a next hop that is out of use, and why.
type DownHop struct {
	fib.Hop
	Why string
}

// Counts reports whether packets go by the route, which has a next hop unless it is none of Unicast.
func (r Route) Counts() bool { return r.Kind != overlay.Unicast || len(r.Hops) > 0 }

// Table is a router with all its routes.
type Table struct {
	Router string
	Routes []Route
}

func within(p netip.Prefix, list []netip.Prefix) bool {
	return slices.ContainsFunc(list, func(l netip.Prefix) bool { return l.Bits() <= p.Bits() && l.Contains(p.Addr()) })
}

// network is a prefix that is on a segment.
type network struct {
	prefix  netip.Prefix
	segment string
}

// networks are those of r's gateways and uplinks. Link-local ones are on every
// segment, and nothing is routed to them.
func networks(e overlay.Edge, r overlay.Router) (list []network) {
	add := func(segment string, addresses []netip.Prefix) {
		for _, a := range addresses {
			n := network{a.Masked(), segment}
			if !a.Addr().IsLinkLocalUnicast() && !slices.Contains(list, n) {
				list = append(list, n)
			}
		}
	}
	for _, s := range e.Segments {
		if s.Gateway != nil && s.Gateway.Router == r.Name {
			add(s.Name, s.Gateway.Addresses)
		}
	}
	for _, u := range r.Uplinks {
		add(u.Name, u.Addresses)
	}
	return list
}

// ownRoutes are the connected and static routes of r.
func ownRoutes(r overlay.Router, connected []network) (routes []Route) {
	for _, n := range connected {
		routes = append(routes, Route{Origin: Connected, Route: fib.Route{
			Prefix: n.prefix, Kind: overlay.Unicast, Hops: []fib.Hop{{Segment: n.segment}},
		}})
	}
	for _, static := range r.Routes {
		routes = append(routes, Route{Origin: Static, Route: resolve(r, connected, static)})
	}
	return routes
}

// resolve finds the segments of the next hops.
func resolve(r overlay.Router, connected []network, route overlay.Route) fib.Route {
	resolved := fib.Route{Prefix: route.Prefix, Kind: route.Kind}
	for _, via := range route.Via {
		hop := fib.Hop{Segment: cmp.Or(via.Uplink, segmentOf(connected, via.Addr)), Addr: via.Addr}
		if via.Remote.IsValid() {
			hop = fib.Hop{Segment: r.SegmentName(), Remote: via.Remote, MAC: via.MAC}
		}
		resolved.Hops = append(resolved.Hops, hop)
	}
	return resolved
}

// segmentOf is the segment of the longest prefix with addr.
func segmentOf(connected []network, addr netip.Addr) (segment string) {
	longest := -1
	for _, n := range connected {
		if n.prefix.Contains(addr) && n.prefix.Bits() > longest {
			segment, longest = n.segment, n.prefix.Bits()
		}
	}
	return segment
}

// desired are the routes that count.
func (all *Routing) desired() (routers []fib.Router) {
	for i, t := range all.All() {
		r := fib.Router{Name: t.Router, Loopbacks: all.routers[i].Loopbacks}
		for _, route := range t.Routes {
			if route.Counts() {
				r.Routes = append(r.Routes, route.Route)
			}
		}
		routers = append(routers, r)
	}
	return routers
}
