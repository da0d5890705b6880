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
	t.now = s.At
	n := t.neighbour(s.Neighbour)
	switch {
	case s.Ended:
		t.removeAll(n)
		delete(t.neighbours, n.addr)
	case !s.Up:
		t.lose(n)
	default:
		n.up = true
		if s.Complete {
			t.linger(n)
		}
	}
	return t.recompute()
}

func (t *Table) removeAll(n *neighbour) {
	for _, p := range n.paths {
		t.remove(p)
	}
}

// lose makes what n said stale, but for what another neighbour says.
func (t *Table) lose(n *neighbour) {
	n.up = false
	keep := t.edge.BGP.Restart.Stale
	if keep == 0 {
		t.removeAll(n)
		return
	}
	for _, p := range n.paths {
		if p.stale == 0 && t.advertisedByOthers(p) {
			t.remove(p)
			continue
		}
		if p.stale == 0 {
			p.stale = t.nowNS()
			n.stale++
			t.markPath(p)
		}
		p.ends = p.stale + int64(keep) // also of one that was about to go: nobody can say it now
	}
	n.nextEnd()
	if n.stale > 0 {
		t.event(Event{What: "stale", Remote: n.addr, Detail: fmt.Sprintf(
			"the session is lost; %d routes that no other neighbour has stay in use for %s at most", n.stale, keep)})
	}
}

func (t *Table) advertisedByOthers(p *path) bool {
	for _, n := range t.neighbours {
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
func (t *Table) linger(n *neighbour) {
	for _, p := range n.paths {
		if p.stale != 0 {
			p.ends = min(p.ends, t.nowNS()+int64(Linger))
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
func (t *Table) expire() {
	for _, n := range t.neighbours {
		if n.stale > 0 && t.nowNS() >= n.expires {
			t.endStale(n)
		}
	}
}

func (t *Table) endStale(n *neighbour) {
	removed := 0
	for _, p := range n.paths {
		if p.stale != 0 && t.nowNS() >= p.ends {
			t.remove(p)
			removed++
		}
	}
	n.nextEnd()
	why := "the session is lost for " + t.edge.BGP.Restart.Stale.String()
	if n.up {
		why = fmt.Sprintf("the session is back, and the neighbour did not say them again in %s", Linger)
	}
	t.event(Event{What: "stale", Remote: n.addr, Detail: fmt.Sprintf("%d routes went: %s", removed, why)})
}
