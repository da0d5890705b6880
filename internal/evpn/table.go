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
// noted as dirty; recompute then decides those anew and tells what is different from what was
// told before.
type Table struct {
	in      instances
	dirty   dirty
	out     Changes
	clock   clock
	adjIn   adjRIBIn
	adjOut  adjRIBOut
	hosts   hosts
	room    room
	explain explainer
}

// NewTable returns the table of e. What e itself announces comes with the first Changes.
func NewTable(e overlay.Edge) *Table {
	t := &Table{in: *newInstances(overlay.Edge{})}
	in, dirty, out, clock := &t.in, &t.dirty, &t.out, &t.clock
	t.adjIn = adjRIBIn{in: in, dirty: dirty, out: out, clock: clock, neighbours: map[netip.Addr]*neighbour{}, relieved: map[*neighbour]bool{}}
	t.adjOut = adjRIBOut{out: out, own: map[Key]Route{}}
	t.hosts = hosts{in: in, dirty: dirty, out: out, clock: clock}
	t.room = room{in: in, dirty: dirty, leftOut: map[*destination]bool{}}
	t.explain = explainer{in: in, adjOut: &t.adjOut, room: &t.room}
	t.configure(e)
	return t
}

// Receive takes what neighbours announced and withdrew, in this order.
func (t *Table) Receive(updates []Update, now time.Time) Changes {
	t.clock.now = now
	for i := range updates {
		t.adjIn.update(&updates[i])
	}
	return t.recompute()
}

// Hosts takes those that came to ports of this edge, and those that went.
func (t *Table) Hosts(appeared, vanished []Host, now time.Time) Changes {
	t.clock.now = now
	for _, h := range vanished {
		if s := t.in.segments[h.Segment]; s != nil {
			t.hosts.vanish(s, h)
		}
	}
	for _, h := range appeared {
		if s := t.in.segments[h.Segment]; s != nil {
			t.hosts.appear(s, h)
		}
	}
	return t.recompute()
}

// Prefixes replaces what a router has of a source; what neighbours told is not to be told
// here.
func (t *Table) Prefixes(name string, source overlay.RouteSource, prefixes []netip.Prefix) Changes {
	r := t.in.routers[name]
	if r == nil {
		return Changes{}
	}
	bit := sourcesOf([]overlay.RouteSource{source})
	for _, p := range r.advertised[source] {
		t.dirty.destination(r, p).sources &^= bit
	}
	r.advertised[source] = masked(prefixes)
	for _, p := range r.advertised[source] {
		t.dirty.destination(r, p).sources |= bit
	}
	return t.recompute()
}

// Tick ends what lasts for a time only: stale routes, and frozen addresses.
func (t *Table) Tick(now time.Time) Changes {
	t.clock.now = now
	t.adjIn.expire()
	for _, s := range t.in.segments {
		for _, st := range s.moving {
			t.hosts.thawInTime(st)
		}
	}
	return t.recompute()
}

// LastsForTime says whether there is anything that Tick may end.
func (t *Table) LastsForTime() bool {
	for _, n := range t.adjIn.neighbours {
		if n.stale > 0 {
			return true
		}
	}
	for _, s := range t.in.segments {
		if len(s.moving) > 0 {
			return true
		}
	}
	return false
}

// Thaw lets a frozen MAC address move again.
func (t *Table) Thaw(segment string, mac overlay.MAC, now time.Time) (Changes, error) {
	t.clock.now = now
	s := t.in.segments[segment]
	if s == nil {
		return Changes{}, fmt.Errorf("no segment %q with EVPN; see spec.segments", segment)
	}
	st := s.moving[mac]
	if st == nil || !st.mobility.frozen {
		return Changes{}, fmt.Errorf("%s is not frozen in segment %s; see selvage bgp moves", mac, segment)
	}
	t.hosts.thaw(st)
	return t.recompute(), nil
}

// recompute decides all that is dirty, in an order in which nothing depends on what follows,
// and returns what changed.
func (t *Table) recompute() Changes {
	t.adjIn.relieve()
	for _, st := range t.dirty.macEntries {
		t.hosts.updateMAC(st)
	}
	for _, r := range t.dirty.arpEntries {
		t.hosts.updateARP(r)
	}
	for _, st := range t.dirty.announcers {
		t.adjOut.announceHost(st)
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

func (c *Changes) event(e Event) { c.Events = append(c.Events, e) }

// clock is what time it is, as those say who change a table.
type clock struct {
	now   time.Time
	began time.Time // the first now
}

// nowNS is now in ns of the clock as it was at the beginning: a step of the clock meanwhile, such as
// the first one of NTP, neither ends stale routes nor keeps them.
func (c *clock) nowNS() int64 {
	if c.began.IsZero() {
		c.began = c.now
	}
	return c.began.UnixNano() + int64(c.now.Sub(c.began))
}

// sameDestination reports whether two routes with one key lead to the same place, in the same way.
func (r *Route) sameDestination(o *Route) bool {
	return r.NextHop == o.NextHop && r.ESI == o.ESI && r.VNI == o.VNI && r.L3VNI == o.L3VNI && r.Gateway == o.Gateway &&
		r.Encapsulation == o.Encapsulation && r.RouterMAC == o.RouterMAC &&
		r.Sticky == o.Sticky && r.DefaultGateway == o.DefaultGateway && r.ND == o.ND
}

// equal reports whether two routes with one key say the same.
func (r *Route) equal(o *Route) bool {
	return r.sameDestination(o) && r.Sequence == o.Sequence && r.LocalPref == o.LocalPref && r.MED == o.MED && r.Looped == o.Looped &&
		slices.Equal(r.Targets, o.Targets) && slices.Equal(r.ASPath, o.ASPath) && slices.Equal(r.Communities, o.Communities)
}
