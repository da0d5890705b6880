package evpn

import (
	"fmt"
	"math"
	"time"
)

// Linger is how long what a neighbour did not say again stays after it said all that it has: a
// route reflector that starts anew says so before it has heard the other edges.
const Linger = 10 * time.Second

// Session takes a change of a session. What a neighbour said before its session was lost
// stays as stale until it said all anew (and Linger), another one knows better, or
// Restart.Stale is over.
func (t *Table) Session(s Session) Changes {
	t.clock.now = s.At
	n := t.adjIn.neighbour(s.Neighbour)
	switch {
	case s.Ended:
		t.adjIn.removeAll(n)
		delete(t.adjIn.neighbours, n.addr)
	case !s.Up:
		t.adjIn.lose(n)
	default:
		n.up = true
		if s.Complete {
			t.adjIn.linger(n)
		}
	}
	return t.recompute()
}

func (a *adjRIBIn) removeAll(n *neighbour) {
	for _, p := range n.paths {
		a.remove(p)
	}
}

// lose makes what n said stale, but for what another neighbour says.
func (a *adjRIBIn) lose(n *neighbour) {
	n.up = false
	keep := a.in.edge.BGP.Restart.Stale
	if keep == 0 {
		a.removeAll(n)
		return
	}
	for _, p := range n.paths {
		if p.stale == 0 && a.advertisedByOthers(p) {
			a.remove(p)
			continue
		}
		if p.stale == 0 {
			p.stale = a.clock.nowNS()
			n.stale++
			a.dirty.markPath(p)
		}
		p.ends = p.stale + int64(keep) // also of one that was about to go: nobody can say it now
	}
	n.nextEnd()
	if n.stale > 0 {
		a.out.event(Event{What: "stale", Remote: n.addr, Detail: fmt.Sprintf(
			"the session is lost; %d routes that no other neighbour has stay in use for %s at most", n.stale, keep)})
	}
}

func (a *adjRIBIn) advertisedByOthers(p *path) bool {
	for _, n := range a.neighbours {
		if n == p.from || !n.up {
			continue
		}
		if other := n.paths[p.Key]; other != nil && other.stale == 0 {
			return true
		}
	}
	return false
}

// linger has the stale routes of n, which said all that it has, go soon.
func (a *adjRIBIn) linger(n *neighbour) {
	for _, p := range n.paths {
		if p.stale != 0 {
			p.ends = min(p.ends, a.clock.nowNS()+int64(Linger))
		}
	}
	n.nextEnd()
}

// nextEnd finds when the first stale route ends.
func (n *neighbour) nextEnd() {
	n.expires = math.MaxInt64
	for _, p := range n.paths {
		if p.stale != 0 {
			n.expires = min(n.expires, p.ends)
		}
	}
}

// expire ends the stale routes whose time is over.
func (a *adjRIBIn) expire() {
	for _, n := range a.neighbours {
		if n.stale > 0 && a.clock.nowNS() >= n.expires {
			a.endStale(n)
		}
	}
}

func (a *adjRIBIn) endStale(n *neighbour) {
	removed := 0
	for _, p := range n.paths {
		if p.stale != 0 && a.clock.nowNS() >= p.ends {
			a.remove(p)
			removed++
		}
	}
	n.nextEnd()
	why := "the session is lost for " + a.in.edge.BGP.Restart.Stale.String()
	if n.up {
		why = fmt.Sprintf("the session is back, and the neighbour did not say them again in %s", Linger)
	}
	a.out.event(Event{What: "stale", Remote: n.addr, Detail: fmt.Sprintf("%d routes went: %s", removed, why)})
}
