package evpn

import (
	"cmp"
	"net/netip"
	"reflect"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// IsFor reports whether Configure with e would change nothing: what the table does not look at may differ.
func (t *Table) IsFor(e overlay.Edge) bool {
	return reflect.DeepEqual(relevant(t.in.edge), relevant(e))
}

func relevant(e overlay.Edge) overlay.Edge {
	e.Ports, e.Firewall, e.FlowCache, e.FDB, e.Transit = nil, nil, overlay.FlowCache{}, overlay.FDB{}, overlay.Transit{}
	return e
}

// Learned is what there is to be merged into the configured edge. The remotes of a segment
// are all that said something of it, and frames for everybody go to each. RFC 7432 section
// 11 would have them go to those alone that announced type 3; an edge that has hosts does.
func (t *Table) Learned() rib.Remotes {
	f := rib.Remotes{Segments: map[string][]netip.Addr{}, Routers: map[string][]netip.Addr{}}
	for name, s := range t.in.segments {
		f.Segments[name] = slices.Clone(s.remotes.advertised)
	}
	for name, r := range t.in.routers {
		f.Routers[name] = slices.Clone(r.remotes.advertised)
	}
	return f
}

// learned are the routes in force, sorted.
func (r *router) learnedRoutes() (routes []overlay.Route) {
	for _, d := range r.destinations {
		if len(d.advertised) > 0 {
			routes = append(routes, d.learned().Route)
		}
	}
	slices.SortFunc(routes, func(a, b overlay.Route) int {
		return cmp.Or(a.Prefix.Addr().Compare(b.Prefix.Addr()), cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()))
	})
	return routes
}

// All is what is in force of what neighbours told, as if it came just now.
func (t *Table) All() Changes {
	all := t.AllHosts()
	all.Remotes = true
	for name, r := range t.in.routers {
		for _, route := range r.learnedRoutes() {
			all.Routes = append(all.Routes, rib.LearnedRoute{Router: name, Route: route})
		}
	}
	return all
}

// AllHosts is what of that is of hosts.
func (t *Table) AllHosts() (all Changes) {
	for _, s := range t.in.segments {
		for _, st := range s.macEntries {
			if st.advertised.remote.IsValid() {
				all.MACs = append(all.MACs, rib.BGPMAC{
					Segment: s.name, MAC: st.mac, Remote: st.advertised.remote, Sticky: st.advertised.sticky})
			}
		}
		for _, r := range s.arpEntries {
			if r.installed.mac != (overlay.MAC{}) {
				all.Neighbours = append(all.Neighbours, rib.ARPEntry{Segment: s.name, Addr: r.addr, MAC: r.installed.mac, ND: r.installed.nd})
			}
		}
	}
	return all
}
