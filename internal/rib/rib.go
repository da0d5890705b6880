// Package rib is what an edge knows of other edges, by who says so: its configuration, its BGP
// neighbours, and the process that ran before. It merges these into the edge that package plan
// makes tables of.
//
// Its one invariant: it is plain data and pure. A Snapshot is replaced, never changed. Package
// evpn decides which routes of neighbours are used, package plan what the tables contain.
package rib

import (
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// Snapshot is what is known at a time.
type Snapshot struct {
	Configured overlay.Edge
	// Learned are the remotes that BGP neighbours tell of.
	Learned Remotes
	// Previous are the remotes of each segment that a former process knew by BGP; nil once the
	// neighbours told all anew.
	Previous map[string][]netip.Addr
	// Routes are the prefixes that BGP neighbours tell of.
	Routes Routes
}

// Remotes are other edges, by the names of what they take part in.
type Remotes struct {
	Segments map[string][]netip.Addr // of each segment, sorted
	Routers  map[string][]netip.Addr // of the L3 segment of each router
}

// Routes are learned prefixes by the name of the router, sorted.
type Routes map[string][]overlay.Route

// Edge is the configured edge with all remotes that are known. The configured ones come first,
// in their order.
func (s Snapshot) Edge() overlay.Edge {
	e := s.Configured
	if s.Learned.Segments == nil && s.Learned.Routers == nil && s.Previous == nil {
		return e
	}
	e.Segments = slices.Clone(e.Segments)
	for i := range e.Segments {
		g := &e.Segments[i]
		g.Remotes = union(g.Remotes, s.Learned.Segments[g.Name], s.Previous[g.Name])
	}
	e.Routers = slices.Clone(e.Routers)
	for i := range e.Routers {
		r := &e.Routers[i]
		if r.L3 != nil {
			l3 := *r.L3
			l3.Remotes = union(l3.Remotes, s.Learned.Routers[r.Name], s.Previous[r.SegmentName()])
			r.L3 = &l3
		}
	}
	return e
}

// IsSettling reports whether there may be more than the neighbours told since the start: the
// entries of a former process stay in the tables.
func (s Snapshot) IsSettling() bool { return s.Previous != nil }

// union is the configured remotes, and those of the other lists that are none of them, sorted.
func union(configured []netip.Addr, lists ...[]netip.Addr) []netip.Addr {
	more := slices.Concat(lists...)
	slices.SortFunc(more, netip.Addr.Compare)
	more = slices.Compact(more)
	known := make(map[netip.Addr]bool, len(configured))
	for _, a := range configured {
		known[a] = true
	}
	more = slices.DeleteFunc(more, func(a netip.Addr) bool { return known[a] })
	return slices.Concat(configured, more)
}
