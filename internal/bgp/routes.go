package bgp

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// routeTypes are the types of routes in words.
var routeTypes = map[evpn.RouteType]string{
	evpn.MACIP: api.BGPRouteMAC, evpn.Multicast: api.BGPRouteMulticast, evpn.Prefix: api.BGPRoutePrefix, evpn.Unicast: api.BGPRouteUnicast,
}

// selfNeighbour is this edge where routes are asked for by neighbour.
const selfNeighbour = "self"

// Routes are the routes that a query chooses.
func (v *State) Routes(q api.BGPRouteQuery, now time.Time) ([]api.BGPRouteInfo, error) {
	var neighbour netip.Addr // this edge
	if q.Neighbour != "" && q.Neighbour != selfNeighbour {
		var err error
		if neighbour, err = v.neighbourCalled(q.Neighbour); err != nil {
			return nil, err
		}
	}
	v.mu.Lock()
	config := v.config
	all := v.table.Select(func(of netip.Addr, r *evpn.Route) bool {
		return (q.Neighbour == "" || of == neighbour) && choosesRoute(q, r)
	})
	v.mu.Unlock()
	list := []api.BGPRouteInfo{}
	for i := range all {
		s := &all[i]
		if choosesUse(q, s) {
			list = append(list, bgpRouteInfo(s, config, now))
		}
	}
	slices.SortStableFunc(list, func(a, b api.BGPRouteInfo) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.For, b.For), cmp.Compare(a.RD, b.RD), compareMACs(a.MAC, b.MAC),
			a.Address.Compare(b.Address), a.Originator.Compare(b.Originator), a.Prefix.Addr().Compare(b.Prefix.Addr()),
			cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()), cmp.Compare(a.Neighbour, b.Neighbour))
	})
	return list, nil
}

func compareMACs(a, b *overlay.MAC) int {
	if a == nil || b == nil {
		return 0
	}
	return slices.Compare(a[:], b[:])
}

// choosesUse reports whether it asks for what became of the route.
func choosesUse(q api.BGPRouteQuery, s *evpn.Status) bool {
	return (q.Segment == "" || s.For == q.Segment) && (q.Router == "" || s.For == q.Router) && (!q.Unused || !s.Used && s.Neighbour.IsValid())
}

// chooses reports whether the query asks for a route, as far as the route itself tells.
func choosesRoute(q api.BGPRouteQuery, r *evpn.Route) bool {
	switch {
	case q.Type != "" && routeTypes[r.Type] != q.Type,
		q.VNI != 0 && r.VNI != q.VNI && r.L3VNI != q.VNI,
		q.MAC != (overlay.MAC{}) && r.MAC != q.MAC:
		return false
	}
	if !q.Addr.IsValid() {
		return true
	}
	if r.Type == evpn.Prefix || r.Type == evpn.Unicast {
		return q.Addr.Overlaps(r.Prefix)
	}
	return q.Addr.Contains(r.Addr)
}

func bgpRouteInfo(s *evpn.Status, config overlay.BGP, now time.Time) api.BGPRouteInfo {
	r := &s.Route
	info := api.BGPRouteInfo{
		Type: routeTypes[r.Type], Tag: r.Tag, Prefix: r.Prefix, Uplink: r.Uplink, VNI: r.VNI, L3VNI: r.L3VNI, NextHop: r.NextHop,
		Gateway: r.Gateway, Encapsulation: r.Encapsulation, Targets: []string{}, Sequence: r.Sequence, Sticky: r.Sticky,
		DefaultGateway: r.DefaultGateway, Router: r.ND&rib.NDRouter != 0, LocalPref: r.LocalPref, MED: r.MED, ASPath: append([]uint32{}, r.ASPath...), Communities: []string{},
		Used: s.Used, For: s.For, Why: s.Why, Stale: s.Stale,
	}
	if s.Neighbour.IsValid() {
		info.Neighbour = neighbourName(config, s.Neighbour)
	}
	if !s.At.IsZero() {
		info.Age = now.Sub(s.At).Seconds()
	}
	switch r.Type {
	case evpn.MACIP:
		mac := r.MAC
		info.MAC, info.Address = &mac, r.Addr
	case evpn.Multicast:
		info.Originator = r.Addr
	}
	if r.Type != evpn.Unicast {
		info.RD = r.RD.String()
	}
	if r.RouterMAC != (overlay.MAC{}) {
		mac := r.RouterMAC
		info.RouterMAC = &mac
	}
	for _, t := range r.Targets {
		info.Targets = append(info.Targets, t.String())
	}
	for _, c := range r.Communities {
		info.Communities = append(info.Communities, c.String())
	}
	return info
}
