package evpn

import (
	"slices"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

// Configure changes the edge. It tells what is different by that; of segments and routers
// that are no more nothing: who takes them away takes theirs too.
func (t *Table) Configure(e overlay.Edge, now time.Time) Changes {
	t.clock.now = now
	t.configure(e)
	return t.recompute()
}

// configure decides all anew, and keeps of what was told only that which is different.
func (t *Table) configure(e overlay.Edge) {
	before, own, pending := t.in, t.adjOut.own, t.out
	clear(t.room.leftOut)
	t.in, t.adjOut.own, t.out = *newInstances(e), map[Key]Route{}, Changes{}
	for name, r := range t.in.routers {
		t.inheritRouter(r, before.routers[name])
	}
	for name, s := range t.in.segments {
		t.inheritSegment(s, before.segments[name])
		t.inheritStatic(s)
		t.adjOut.announceSegment(s)
		t.dirty.remotes = append(t.dirty.remotes, &s.remotes)
	}
	for _, r := range t.in.routers {
		t.dirty.remotes = append(t.dirty.remotes, &r.remotes)
	}
	for _, n := range t.adjIn.neighbours {
		n.external = t.in.external(n.addr)
		n.recount(t.in.edge.BGP)
		for _, p := range n.paths {
			t.in.classify(p)
			t.adjIn.link(p, 1)
		}
	}
	t.hosts.reconfigure(before.edge.BGP.Duplicates)
	t.out = t.recompute()
	t.onlyNew(&before, own)
	t.out = merge(pending, t.out)
}

// onlyNew leaves of the changes those that are not so already.
func (t *Table) onlyNew(before *instances, own map[Key]Route) {
	t.out.Announce = slices.DeleteFunc(t.out.Announce, func(r Route) bool {
		advertised, ok := own[r.Key]
		return ok && advertised.equal(&r)
	})
	t.out.Withdraw = nil
	for k := range own {
		if _, ok := t.adjOut.own[k]; !ok {
			t.out.Withdraw = append(t.out.Withdraw, k)
		}
	}
	t.out.Events = slices.DeleteFunc(t.out.Events, func(e Event) bool {
		s := before.segments[e.Segment]
		return e.What == "gateway differs" && s != nil && s.differing[differing{e.Remote, e.Addr, e.MAC}] > 0
	})
}

// merge appends b to a.
func merge(a, b Changes) Changes {
	a.Remotes = a.Remotes || b.Remotes
	a.MACs = append(a.MACs, b.MACs...)
	a.Neighbours = append(a.Neighbours, b.Neighbours...)
	a.Routes = append(a.Routes, b.Routes...)
	a.Announce = append(a.Announce, b.Announce...)
	a.Withdraw = append(a.Withdraw, b.Withdraw...)
	a.Forget = append(a.Forget, b.Forget...)
	a.Events = append(a.Events, b.Events...)
	return a
}

func (t *Table) inheritRouter(r, old *router) {
	if old == nil {
		return
	}
	r.remotes.advertised, r.advertised = old.remotes.advertised, old.advertised
	for prefix, d := range old.destinations {
		now := t.dirty.destination(r, prefix)
		now.advertised, now.sources, now.leftOut = d.advertised, d.sources, d.leftOut
		if d.leftOut {
			t.room.leftOut[now] = true
		}
	}
}

// inheritSegment takes the hosts at ports and what was told from the segment as it was.
func (t *Table) inheritSegment(s, old *segment) {
	if old == nil {
		return
	}
	s.remotes.advertised = old.remotes.advertised
	for mac, st := range old.macEntries {
		now := t.dirty.macEntry(s, mac)
		now.advertised, now.leftOut = st.advertised, st.leftOut
		if now.mobility = st.mobility; now.mobility != nil {
			s.moving[mac] = now
		}
		if st.local != nil {
			t.dirty.markAnnounce(now)
			now.local = &local{mac: st.local.mac, sequence: st.local.sequence}
		}
	}
	for addr, r := range old.arpEntries {
		now := t.dirty.arpEntry(s, addr)
		now.installed, now.twice, now.leftOut = r.installed, r.twice, r.leftOut
		if r.owner != nil {
			o := s.macEntries[r.owner.mac]
			now.owner, o.local.addrs = o, append(o.local.addrs, addr)
			t.dirty.countHost(s, addr, 1)
		}
	}
}

// inheritStatic makes the configured hosts ones that do not move.
func (t *Table) inheritStatic(s *segment) {
	for mac, m := range s.static {
		if m.Port == "" {
			continue
		}
		st := t.dirty.macEntry(s, mac)
		if st.local == nil {
			st.local = &local{}
		}
		st.local.static = true
		t.dirty.markAnnounce(st)
	}
	for _, st := range s.macEntries {
		if st.local != nil && st.local.gone() {
			st.local = nil
		}
	}
}
