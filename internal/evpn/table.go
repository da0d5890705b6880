package evpn

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

// Table is the routes of all neighbours, the hosts and prefixes of this edge, and what
// follows from them. It is not safe for concurrent use.
//
// Whatever comes enters or leaves the lists of those that it concerns (link), which are
// noted as dirty; settle then decides those anew and tells what is different from what was
// told before.
type Table struct {
	*instances
	neighbours map[netip.Addr]*neighbour
	own        map[Key]Route // announced
	dirty      dirty
	out        Changes
	now        time.Time
	began      time.Time             // the first now
	leftOut    map[*destination]bool // the data path has no room for these
	full       bool                  // it had none for something
	relieved   map[*neighbour]bool   // more of their routes may be used
}

// dirty is what has to be decided anew.
type dirty struct {
	macEntries   []*macEntry
	arpEntries   []*arpEntry
	announcers   []*macEntry // stations whose announcements may have changed
	destinations []*destination
	remotes      []*remotes
}

// NewTable returns the table of e. What e itself announces comes with the first Changes.
func NewTable(e overlay.Edge) *Table {
	t := &Table{instances: newInstances(overlay.Edge{}), neighbours: map[netip.Addr]*neighbour{}, own: map[Key]Route{}, leftOut: map[*destination]bool{}, relieved: map[*neighbour]bool{}}
	t.configure(e)
	return t
}

// Receive takes what neighbours announced and withdrew, in this order.
func (t *Table) Receive(updates []Update, now time.Time) Changes {
	t.now = now
	for i := range updates {
		t.update(&updates[i])
	}
	return t.recompute()
}

func (t *Table) update(u *Update) {
	n := t.neighbour(u.Neighbour)
	old := n.paths[u.Route.Key]
	t.dropStale(u.Route.Key, n)
	if u.Withdrawn {
		if old != nil {
			t.remove(old)
		}
		return
	}
	if old != nil && old.Route.equal(&u.Route) {
		old.at = t.nowNS()
		t.refresh(old)
		return
	}
	if old != nil {
		t.remove(old)
	}
	p := &path{Route: u.Route, from: n, at: t.nowNS()}
	n.paths[p.Key] = p
	p.excess = old != nil && old.excess || old == nil && n.isAtLimit(t.edge.BGP, p)
	n.count(p, 1)
	t.classify(p)
	t.link(p, 1)
}

// neighbour is the one with this address. One that nobody told of is as if its session were
// up: it says something.
func (t *Table) neighbour(addr netip.Addr) *neighbour {
	n := t.neighbours[addr]
	if n == nil {
		n = &neighbour{addr: addr, up: true, paths: map[Key]*path{}}
		n.external = t.external(addr)
		t.neighbours[addr] = n
	}
	return n
}

func (t *Table) external(addr netip.Addr) bool {
	return slices.ContainsFunc(t.edge.BGP.Neighbours, func(n overlay.BGPNeighbour) bool {
		return n.Addr == addr && n.AS != t.edge.BGP.AS
	})
}

func (t *Table) remove(p *path) {
	t.refresh(p)
	t.link(p, -1)
	p.from.count(p, -1)
	t.relieved[p.from] = true
	delete(p.from.paths, p.Key)
}

// refresh makes p one that is not stale.
func (t *Table) refresh(p *path) {
	if p.stale == 0 {
		return
	}
	p.stale = 0
	p.from.stale--
	t.markPath(p)
}

// dropStale ends what the other neighbours said of key before their sessions were lost: one
// that is there knows better, whether it announces or withdraws.
func (t *Table) dropStale(key Key, than *neighbour) {
	for _, n := range t.neighbours {
		if n == than || n.stale == 0 {
			continue
		}
		if p := n.paths[key]; p != nil && p.stale != 0 {
			t.remove(p)
		}
	}
}

// Hosts takes those that came to ports of this edge, and those that went.
func (t *Table) Hosts(appeared, vanished []Host, now time.Time) Changes {
	t.now = now
	for _, h := range vanished {
		if s := t.segments[h.Segment]; s != nil {
			t.vanish(s, h)
		}
	}
	for _, h := range appeared {
		if s := t.segments[h.Segment]; s != nil {
			t.appear(s, h)
		}
	}
	return t.recompute()
}

// Prefixes replaces what a router has of a source; what neighbours told is not to be told
// here.
func (t *Table) Prefixes(name string, source overlay.RouteSource, prefixes []netip.Prefix) Changes {
	r := t.routers[name]
	if r == nil {
		return Changes{}
	}
	bit := sourcesOf([]overlay.RouteSource{source})
	for _, p := range r.advertised[source] {
		t.destination(r, p).sources &^= bit
	}
	r.advertised[source] = masked(prefixes)
	for _, p := range r.advertised[source] {
		t.destination(r, p).sources |= bit
	}
	return t.recompute()
}

// nowNS is now in ns of the clock as it was at the beginning: a step of the clock meanwhile, such as
// the first one of NTP, neither ends stale routes nor keeps them.
func (t *Table) nowNS() int64 {
	if t.began.IsZero() {
		t.began = t.now
	}
	return t.began.UnixNano() + int64(t.now.Sub(t.began))
}

// Tick ends what lasts for a time only: stale routes, and frozen addresses.
func (t *Table) Tick(now time.Time) Changes {
	t.now = now
	t.expire()
	for _, s := range t.segments {
		for _, st := range s.moving {
			t.thawInTime(st)
		}
	}
	return t.recompute()
}

// Thaw lets a frozen MAC address move again.
func (t *Table) Thaw(segment string, mac overlay.MAC, now time.Time) (Changes, error) {
	t.now = now
	s := t.segments[segment]
	if s == nil {
		return Changes{}, fmt.Errorf("no segment %q with EVPN; see spec.segments", segment)
	}
	st := s.moving[mac]
	if st == nil || !st.mobility.frozen {
		return Changes{}, fmt.Errorf("%s is not frozen in segment %s; see selvage bgp moves", mac, segment)
	}
	t.thaw(st)
	return t.recompute(), nil
}

// recompute decides all that is dirty, in an order in which nothing depends on what follows,
// and returns what changed.
func (t *Table) recompute() Changes {
	Room{t}.relieve()
	for _, st := range t.dirty.macEntries {
		t.updateMAC(st)
	}
	for _, r := range t.dirty.arpEntries {
		t.updateARP(r)
	}
	for _, st := range t.dirty.announcers {
		t.announceHost(st)
	}
	for _, d := range t.dirty.destinations {
		t.updateDestination(d)
	}
	for _, r := range t.dirty.remotes {
		r.dirty = false
		if now := r.sorted(); !slices.Equal(now, r.advertised) {
			r.advertised, t.out.Remotes = now, true
		}
	}
	t.dirty.clear()
	out := t.out
	t.out = Changes{}
	return out
}

// clear keeps the lists' room unless a bulk made them large.
func (d *dirty) clear() {
	const keep = 4096
	if cap(d.macEntries)+cap(d.arpEntries)+cap(d.destinations) > 3*keep {
		*d = dirty{}
		return
	}
	clear(d.macEntries)
	clear(d.arpEntries)
	clear(d.announcers)
	clear(d.destinations)
	clear(d.remotes)
	*d = dirty{d.macEntries[:0], d.arpEntries[:0], d.announcers[:0], d.destinations[:0], d.remotes[:0]}
}

func (t *Table) event(e Event) { t.out.Events = append(t.out.Events, e) }

// sameDestination reports whether two routes with one key lead to the same place, in the same way.
func (r *Route) sameDestination(o *Route) bool {
	return r.NextHop == o.NextHop && r.ESI == o.ESI && r.VNI == o.VNI && r.L3VNI == o.L3VNI && r.Gateway == o.Gateway &&
		r.Encapsulation == o.Encapsulation && r.RouterMAC == o.RouterMAC &&
		r.Sticky == o.Sticky && r.DefaultGateway == o.DefaultGateway && r.ND == o.ND
}

// equal reports whether two routes with one key say the same.
func (r *Route) equal(o *Route) bool {
	return r.sameDestination(o) && r.Sequence == o.Sequence && r.LocalPref == o.LocalPref && r.MED == o.MED &&
		slices.Equal(r.Targets, o.Targets) && slices.Equal(r.ASPath, o.ASPath) && slices.Equal(r.Communities, o.Communities)
}
