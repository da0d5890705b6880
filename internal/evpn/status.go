package evpn

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

// Routes are all routes, those of this edge included, sorted.
func (t *Table) Routes() []Status {
	return sorted(t.Select(func(netip.Addr, *Route) bool { return true }))
}

// Select are those of the Routes that match, in any order; the unset neighbour stands for
// this edge. Of the others not even the words are made.
func (t *Table) Select(match func(neighbour netip.Addr, r *Route) bool) []Status {
	list := t.explain.ownRoutes(match)
	for _, n := range t.adjIn.neighbours {
		for _, p := range n.paths {
			if match(n.addr, &p.Route) {
				list = t.explain.statuses(list, p)
			}
		}
	}
	return list
}

// sorted sorts by reference: a Status is large.
func sorted(list []Status) []Status {
	order := make([]*Status, len(list))
	for i := range list {
		order[i] = &list[i]
	}
	slices.SortFunc(order, compareStatus)
	result := make([]Status, len(list))
	for i, s := range order {
		result[i] = *s
	}
	return result
}

// Problems are those of the Routes that have one.
func (t *Table) Problems() (list []Status) {
	for _, n := range t.adjIn.neighbours {
		for _, p := range n.paths {
			if t.explain.plain(p) {
				continue
			}
			for _, s := range t.explain.statuses(nil, p) {
				if s.Problem != "" {
					list = append(list, s)
				}
			}
		}
	}
	return sorted(list)
}

// plain reports whether p is without problems, and spares the words: most routes are so.
func (x *explainer) plain(p *path) bool {
	if x.room.full && (p.segment != nil && p.leftOutOfSegment() || p.router != nil && p.leftOutOfRouter()) {
		return false
	}
	inSegment := p.segment == nil || p.inSegment == fits && p.segment.moving[p.MAC] == nil
	inRouter := p.router == nil && x.in.unrouted(p) == nil || p.router != nil && p.inRouter == fits
	return inSegment && inRouter && (p.segment != nil || p.router != nil) && p.ESI == ([10]byte{})
}

func compareStatus(a, b *Status) int {
	return cmp.Or(a.Neighbour.Compare(b.Neighbour), cmp.Compare(a.Route.Type, b.Route.Type), cmp.Compare(a.For, b.For),
		cmp.Compare(a.Route.RD, b.Route.RD), bytes.Compare(a.Route.MAC[:], b.Route.MAC[:]), a.Route.Addr.Compare(b.Route.Addr),
		a.Route.Prefix.Addr().Compare(b.Route.Prefix.Addr()), cmp.Compare(a.Route.Prefix.Bits(), b.Route.Prefix.Bits()),
		cmp.Compare(a.Route.Tag, b.Route.Tag))
}

func (x *explainer) ownRoutes(match func(netip.Addr, *Route) bool) (list []Status) {
	names := map[overlay.RouteDistinguisher]string{}
	for _, r := range x.in.routers {
		names[r.rd] = r.name
	}
	for _, s := range x.in.segments {
		names[s.rd] = s.name
	}
	for _, r := range x.adjOut.own {
		if !match(netip.Addr{}, &r) {
			continue
		}
		s := Status{Route: r, Used: true, For: names[r.RD]}
		if r.Type == Unicast {
			s.For = x.in.uplinks[r.Uplink].name
		}
		list = append(list, s)
	}
	return list
}

// Counts is how many routes there are.
func (t *Table) Counts() Counts {
	c := Counts{Advertised: len(t.adjOut.own)}
	for _, n := range t.adjIn.neighbours {
		c.Received += len(n.paths)
		for _, p := range n.paths {
			switch {
			case p.usedInSegment() || p.usedInRouter():
				c.Used++
				c.Stale += flag(p.stale != 0)
			case p.excess, p.segment != nil && p.leftOutOfSegment(), p.router != nil && p.leftOutOfRouter():
				c.NoRoom++
			case p.segment == nil && p.router == nil && p.implausible == fits:
				c.NoTarget++
			case p.inRouter == noRouterMAC:
				c.NoRouterMAC++
			}
		}
	}
	for _, s := range t.in.segments {
		for _, st := range s.moving {
			c.Frozen += flag(st.frozen())
		}
	}
	return c
}

func (p *path) usedInSegment() bool {
	if p.segment == nil || p.inSegment != fits {
		return false
	}
	return p.Type == Multicast || (p.isMAC() || p.isARP()) && !p.leftOutOfSegment()
}

func (p *path) isMAC() bool {
	st := p.segment.macEntries[p.MAC]
	return st.advertised.remote.IsValid() && st.best != nil && compareHosts(p, st.best) == 0
}

// leftOutOfSegment reports whether the data path has no room for all that p tells of a host.
func (p *path) leftOutOfSegment() bool {
	if p.Type != MACIP || p.inSegment != fits {
		return false
	}
	mac, arp := p.isMAC(), p.isARP()
	return (mac || arp) && (!mac || p.segment.macEntries[p.MAC].leftOut) && (!arp || p.segment.arpEntries[p.Addr].leftOut)
}

// leftOutOfRouter reports whether the data path has no room for p's prefix.
func (p *path) leftOutOfRouter() bool {
	if p.inRouter != fits {
		return false
	}
	d := p.router.destinations[p.prefix()]
	return d.leftOut && slices.Contains(d.best, p)
}

func (p *path) isARP() bool {
	if !p.Addr.IsValid() {
		return false
	}
	r := p.segment.arpEntries[p.Addr]
	return r.installed.mac == p.MAC && compareArpEntries(p, r.best) == 0
}

func (p *path) usedInRouter() bool {
	if p.router == nil || p.inRouter != fits {
		return false
	}
	d := p.router.destinations[p.prefix()]
	return !d.leftOut && slices.Contains(d.best, p) && slices.Contains(d.advertised, p.hop())
}

// statuses appends what became of p: in its segment, in its router, or nowhere.
func (x *explainer) statuses(list []Status, p *path) []Status {
	s := Status{Neighbour: p.from.addr, Route: p.Route, Stale: p.stale != 0, At: time.Unix(0, p.at)}
	if p.segment != nil {
		s := s
		s.For, s.Used = p.segment.name, p.usedInSegment()
		s.Why, s.Problem = x.whyInSegment(p, s.Used)
		list = append(list, s)
	}
	if p.router != nil {
		s := s
		s.For, s.Used = p.router.name, p.usedInRouter()
		s.Why, s.Problem = x.whyInRouter(p, s.Used)
		list = append(list, s)
	}
	if p.segment == nil && p.router == nil {
		s.Why, s.Problem = x.in.whyNowhere(p)
		list = append(list, s)
	}
	return list
}
