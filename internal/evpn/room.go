package evpn

import (
	"maps"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// room is what the data path has no room for.
type room struct {
	in      *instances
	dirty   *dirty
	leftOut map[*destination]bool
	full    bool // it had none for something
}

// HostsPut takes note of entries that were written to the data path, all but those that were left
// out.
func (t *Table) HostsPut(macs []rib.BGPMAC, arpEntries []rib.ARPEntry, left rib.NoRoom) {
	t.room.full = t.room.full || left.Len() > 0
	if !t.room.full {
		return // as ever: nothing is noted of any
	}
	t.room.leaveHosts(macs, arpEntries, false)
	t.room.leaveHosts(left.MACs, left.ARPEntries, true)
}

// leaveHosts notes whether the data path has no room for entries.
func (room *room) leaveHosts(macs []rib.BGPMAC, arpEntries []rib.ARPEntry, is bool) {
	for _, m := range macs {
		if s := room.in.segments[m.Segment]; s != nil && s.macEntries[m.MAC] != nil {
			s.macEntries[m.MAC].leftOut = is
		}
	}
	for _, a := range arpEntries {
		if s := room.in.segments[a.Segment]; s != nil && s.arpEntries[a.Addr] != nil {
			s.arpEntries[a.Addr].leftOut = is
		}
	}
}

// RoutesPut takes note of routes that were written to the data path, all but those that were left
// out. Neighbours are told of what is in force alone.
func (t *Table) RoutesPut(list []rib.LearnedRoute, left []rib.Place) Changes {
	if len(t.room.leftOut)+len(left) == 0 {
		return Changes{}
	}
	refused := t.room.refuse(left)
	for _, route := range list {
		if at := (rib.Place{Router: route.Router, Prefix: route.Prefix}); !refused[at] {
			t.room.leaveOut(at, false)
		}
	}
	return t.recompute()
}

// RoutesLeftOut takes over which routes new tables of the data path have no room for.
func (t *Table) RoutesLeftOut(left []rib.Place) Changes {
	if len(t.room.leftOut)+len(left) == 0 {
		return Changes{}
	}
	refused := t.room.refuse(left)
	for d := range t.room.leftOut {
		if at := (rib.Place{Router: d.router.name, Prefix: d.prefix}); !refused[at] {
			t.room.leaveOut(at, false)
		}
	}
	return t.recompute()
}

// refuse notes routes without room.
func (room *room) refuse(left []rib.Place) map[rib.Place]bool {
	refused := make(map[rib.Place]bool, len(left))
	for _, at := range left {
		refused[at] = true
		room.leaveOut(at, true)
	}
	return refused
}

// leaveOut notes whether the data path has no room for a route, and has it decided anew.
func (room *room) leaveOut(at rib.Place, is bool) {
	router := room.in.routers[at.Router]
	if router == nil || router.destinations[at.Prefix] == nil || router.destinations[at.Prefix].leftOut == is {
		return
	}
	d := room.dirty.destination(router, at.Prefix)
	if d.leftOut = is; is {
		room.full, room.leftOut[d] = true, true
	} else {
		delete(room.leftOut, d)
	}
}

// prefixes are how many routes of each family are used of a neighbour, and those that are not, as it
// has more than may be.
type prefixes struct {
	admitted [3]int
	excess   [3]map[*path]bool
}

// familyOf is the number of a route's family.
func familyOf(k *Key) int {
	switch {
	case k.Type != Unicast:
		return 0
	case k.Prefix.Addr().Is4():
		return 1
	}
	return 2
}

// count enters a path, n = 1, or takes it out, n = -1.
func (c *prefixes) count(p *path, n int) {
	f := familyOf(&p.Key)
	switch {
	case !p.excess:
		c.admitted[f] += n
	case n < 0:
		delete(c.excess[f], p)
	default:
		if c.excess[f] == nil {
			c.excess[f] = map[*path]bool{}
		}
		c.excess[f][p] = true
	}
}

// isAtLimit reports whether no more routes of p's family are used of n: by default. With a limit
// of its own, the session of a neighbour ends.
func (n *neighbour) isAtLimit(b *overlay.BGP, p *path) bool {
	most := b.MostPrefixes
	return most > 0 && n.admitted[familyOf(&p.Key)] >= most && !slices.ContainsFunc(b.Neighbours, func(c overlay.BGPNeighbour) bool {
		return c.Addr == n.addr && c.MaxPrefixes > 0
	})
}

// recount decides anew which routes of n are used, when limits may be others. Those that are used
// stay so as far as may be.
func (n *neighbour) recount(b *overlay.BGP) {
	var excess []*path
	for _, of := range n.excess {
		excess = slices.AppendSeq(excess, maps.Keys(of))
	}
	n.prefixes = prefixes{}
	admit := func(p *path) {
		p.excess = n.isAtLimit(b, p)
		n.count(p, 1)
	}
	for _, p := range n.paths {
		if !p.excess {
			admit(p)
		}
	}
	for _, p := range excess {
		admit(p)
	}
}
