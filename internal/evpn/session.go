package evpn

import (
	"fmt"
	"time"
)

// Session takes a change of a session. What a neighbour said before its session was lost
// stays as stale until it said all anew, another one knows better, or Restart.Stale is over.
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
			t.removeStale(n, func(*path) bool { return true })
		}
	}
	return t.settle()
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
	if n.stale == 0 {
		n.expires = t.now.Add(keep).UnixNano()
	}
	for _, p := range n.paths {
		if p.stale != 0 {
			continue
		}
		if t.saidByOthers(p) {
			t.remove(p)
			continue
		}
		p.stale = t.now.UnixNano()
		n.stale++
		t.markPath(p)
	}
	if n.stale > 0 {
		t.event(Event{What: "stale", Remote: n.addr, Detail: fmt.Sprintf(
			"the session is lost; %d routes that no other neighbour has stay in use for %s at most", n.stale, keep)})
	}
}

func (t *Table) saidByOthers(p *path) bool {
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

func (t *Table) removeStale(n *neighbour, over func(*path) bool) (removed int) {
	if n.stale == 0 {
		return 0
	}
	for _, p := range n.paths {
		if p.stale != 0 && over(p) {
			t.remove(p)
			removed++
		}
	}
	return removed
}

// expire ends the stale routes whose time is over.
func (t *Table) expire() {
	now, keep := t.now.UnixNano(), int64(t.edge.BGP.Restart.Stale)
	for _, n := range t.neighbours {
		if n.stale == 0 || now < n.expires {
			continue
		}
		removed := t.removeStale(n, func(p *path) bool { return now-p.stale >= keep })
		n.expires = now + keep
		for _, p := range n.paths {
			if p.stale != 0 {
				n.expires = min(n.expires, p.stale+keep)
			}
		}
		if removed > 0 {
			t.event(Event{What: "stale", Remote: n.addr, Detail: fmt.Sprintf(
				"%d routes went: the session is lost for %s", removed, time.Duration(keep))})
		}
	}
}
