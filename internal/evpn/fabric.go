package evpn

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// Fabric is what there is to be merged into the configured edge. The remotes of a segment
// are all that said something of it, and frames for everybody go to each. RFC 7432 section
// 11 would have them go to those alone that announced type 3; an edge that has hosts does.
func (t *Table) Fabric() Fabric {
	f := Fabric{Segments: map[string][]netip.Addr{}, Routers: map[string]RouterFabric{}}
	for name, s := range t.segments {
		f.Segments[name] = slices.Clone(s.remotes.told)
	}
	for name, r := range t.routers {
		f.Routers[name] = RouterFabric{Remotes: slices.Clone(r.remotes.told), Routes: r.learnt()}
	}
	return f
}

// learnt are the routes in force, sorted.
func (r *router) learnt() (routes []overlay.Route) {
	for _, d := range r.destinations {
		if len(d.told) > 0 {
			routes = append(routes, d.learnt().Route)
		}
	}
	slices.SortFunc(routes, func(a, b overlay.Route) int {
		return cmp.Or(a.Prefix.Addr().Compare(b.Prefix.Addr()), cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()))
	})
	return routes
}

// All is what is in force of what neighbours told, as if it came just now.
func (t *Table) All() Changes {
	all := Changes{Remotes: true}
	for _, s := range t.segments {
		for _, st := range s.stations {
			if st.told.remote.IsValid() {
				all.Stations = append(all.Stations, overlay.Station{
					Segment: s.name, MAC: st.mac, Remote: st.told.remote, Sticky: st.told.sticky})
			}
		}
		for _, r := range s.residents {
			if r.told != (overlay.MAC{}) {
				all.Residents = append(all.Residents, overlay.Resident{Segment: s.name, Addr: r.addr, MAC: r.told})
			}
		}
	}
	for name, r := range t.routers {
		for _, route := range r.learnt() {
			all.Routes = append(all.Routes, overlay.LearnedRoute{Router: name, Route: route})
		}
	}
	return all
}

// Merge returns e with what BGP said beside what is configured; e stays as it is.
func Merge(e overlay.Edge, f Fabric) overlay.Edge {
	e.Segments = slices.Clone(e.Segments)
	for i := range e.Segments {
		s := &e.Segments[i]
		s.Remotes = union(s.Remotes, f.Segments[s.Name])
	}
	e.Routers = slices.Clone(e.Routers)
	for i := range e.Routers {
		r := &e.Routers[i]
		learnt := f.Routers[r.Name]
		r.Learnt = learnt.Routes
		if r.L3 != nil {
			l3 := *r.L3
			l3.Remotes = union(l3.Remotes, learnt.Remotes)
			r.L3 = &l3
		}
	}
	return e
}

// union is the configured ones, in their order, and the learnt ones that are others.
func union(configured, learnt []netip.Addr) []netip.Addr {
	all := slices.Clone(configured)
	for _, a := range learnt {
		if !slices.Contains(configured, a) {
			all = append(all, a)
		}
	}
	return all
}
