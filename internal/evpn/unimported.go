package evpn

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// Unimported are the routes of a neighbour that no segment and no router here is for, as they have route targets that
// none imports.
type Unimported struct {
	Neighbour netip.Addr
	Targets   []overlay.RouteTarget // the first of each route, those of most routes first
	Routes    int
}

// Unimported are those of each neighbour that has any.
func (t *Table) Unimported() (list []Unimported) {
	for _, n := range t.adjIn.neighbours {
		u, counts := Unimported{Neighbour: n.addr}, map[overlay.RouteTarget]int{}
		for _, p := range n.paths {
			if p.segment != nil || p.router != nil || p.excess || p.Type == Unicast || len(p.Targets) == 0 {
				continue
			}
			if i, _ := t.in.byVNI(p); i != nil { // a problem of its own
				continue
			}
			u.Routes++
			counts[p.Targets[0]]++
		}
		if u.Routes == 0 {
			continue
		}
		for target := range counts {
			u.Targets = append(u.Targets, target)
		}
		slices.SortFunc(u.Targets, func(a, b overlay.RouteTarget) int {
			return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.String(), b.String()))
		})
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b Unimported) int { return a.Neighbour.Compare(b.Neighbour) })
	return list
}

// Lonely are the segments, by name, of which BGP told no remote and the configuration has none. A segment whose router has an L3 VNI
// is not among them: its hosts reach others by that, and it may well be at this edge alone (RFC 9135 section 4.1).
func Lonely(t *Table) (names []string) {
	for _, s := range t.in.edge.Segments {
		known := t.in.segments[s.Name]
		if known == nil || known.router != nil && known.router.l3 != nil {
			continue
		}
		if len(known.remotes.count) == 0 && len(s.Remotes) == 0 {
			names = append(names, s.Name)
		}
	}
	return names
}
