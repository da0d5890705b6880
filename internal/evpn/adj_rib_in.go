package evpn

import (
	"net/netip"
)

// adjRIBIn is what neighbours announced (the Adj-RIBs-In of RFC 4271 section 3.2). Each route is in the lists of
// what it concerns: MAC and ARP entries, destinations, remotes.
type adjRIBIn struct {
	in         *instances
	dirty      *dirty
	out        *Changes
	clock      *clock
	neighbours map[netip.Addr]*neighbour
	relieved   map[*neighbour]bool // more of their routes may be used
}

func (a *adjRIBIn) update(u *Update) {
	n := a.neighbour(u.Neighbour)
	old := n.paths[u.Route.Key]
	a.dropStale(u.Route.Key, n)
	if u.Withdrawn {
		if old != nil {
			a.remove(old)
		}
		return
	}
	if old != nil && old.Route.equal(&u.Route) {
		old.at = a.clock.nowNS()
		a.refresh(old)
		return
	}
	if old != nil {
		a.remove(old)
	}
	p := &path{Route: u.Route, from: n, at: a.clock.nowNS()}
	n.paths[p.Key] = p
	p.excess = old != nil && old.excess || old == nil && n.isAtLimit(a.in.edge.BGP, p)
	n.count(p, 1)
	a.in.classify(p)
	a.link(p, 1)
}

// neighbour is the one with this address. One that nobody told of is as if its session were
// up: it says something.
func (a *adjRIBIn) neighbour(addr netip.Addr) *neighbour {
	n := a.neighbours[addr]
	if n == nil {
		n = &neighbour{addr: addr, up: true, paths: map[Key]*path{}}
		n.external = a.in.external(addr)
		a.neighbours[addr] = n
	}
	return n
}

func (a *adjRIBIn) remove(p *path) {
	a.refresh(p)
	a.link(p, -1)
	p.from.count(p, -1)
	a.relieved[p.from] = true
	delete(p.from.paths, p.Key)
}

// refresh makes p one that is not stale.
func (a *adjRIBIn) refresh(p *path) {
	if p.stale == 0 {
		return
	}
	p.stale = 0
	p.from.stale--
	a.dirty.markPath(p)
}

// dropStale ends what the other neighbours said of key before their sessions were lost: one
// that is there knows better, whether it announces or withdraws.
func (a *adjRIBIn) dropStale(key Key, than *neighbour) {
	for _, n := range a.neighbours {
		if n == than || n.stale == 0 {
			continue
		}
		if p := n.paths[key]; p != nil && p.stale != 0 {
			a.remove(p)
		}
	}
}

// relieve has routes be used for which there is room again.
func (a *adjRIBIn) relieve() {
	for n := range a.relieved {
		for f := range n.excess {
			for p := range n.excess[f] {
				if n.isAtLimit(a.in.edge.BGP, p) {
					break
				}
				n.count(p, -1)
				p.excess = false
				n.count(p, 1)
				a.in.classify(p)
				a.link(p, 1)
			}
		}
	}
	clear(a.relieved)
}

// link enters p where it counts, n = 1, or takes it out again, n = -1.
func (a *adjRIBIn) link(p *path, n int) {
	if s := p.segment; s != nil && p.inSegment == fits {
		a.dirty.countRemote(&s.remotes, p.remote, n)
		if p.Type == MACIP {
			a.linkHost(s, p, n)
		}
	} else if s != nil && p.inSegment == otherGateway {
		a.countGateway(s, p, n)
	}
	if r := p.router; r != nil && p.inRouter == fits {
		if p.tunnelled() {
			a.dirty.countRemote(&r.remotes, p.remote, n)
		}
		d := a.dirty.destination(r, p.prefix())
		d.paths = enter(d.paths, p, n)
	}
}

func (a *adjRIBIn) linkHost(s *segment, p *path, n int) {
	st := a.dirty.macEntry(s, p.MAC)
	st.paths = enter(st.paths, p, n)
	if p.Addr.IsValid() {
		r := a.dirty.arpEntry(s, p.Addr)
		r.paths = enter(r.paths, p, n)
	}
}

// countGateway tells of another edge's gateway that is not like ours the first time.
func (a *adjRIBIn) countGateway(s *segment, p *path, n int) {
	d := differing{p.remote, p.Addr, p.MAC}
	s.differing[d] += n
	switch {
	case s.differing[d] == 0:
		delete(s.differing, d)
	case s.differing[d] == 1 && n > 0:
		a.out.event(Event{What: "gateway differs", Segment: s.name, MAC: p.MAC, Addr: p.Addr, Remote: p.remote,
			Detail: p.gatewayDetail()})
	}
}
