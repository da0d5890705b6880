package gateway

import (
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/replica"
)

// joinTimeout is how long a gateway that comes waits for others while nobody serves in its place.
const joinTimeout = 3 * time.Second

// joining says why this edge leaves its work to the other gateways, "" when it does not. While
// they serve in all of its groups it waits until it has their sessions, however long that takes:
// it would break their connections. Else it waits until joinBy. What served until it was cut off
// has sessions of its own, and does not wait for gateways that do not serve. mu is held.
func (r *Role) joining(w electionInput) (why string) {
	if r.joined || !w.watched || len(partners(w.config)) == 0 {
		r.joined, r.whole = true, true
		return ""
	}
	m := w.meet(r.links.States())
	complete := m.missing == "" && m.down == 0 && (m.there > 0 || m.gone == len(partners(w.config)))
	switch {
	case complete || r.whole && !m.covered && m.down == 0 && m.alive:
	case m.covered && m.missing != "":
		return m.missing
	case w.now.Before(r.joinBy):
		return "it waits for the other gateways and their sessions"
	}
	r.joined, r.whole = true, true
	return ""
}

// meeting is what a gateway that comes finds of the others.
type meeting struct {
	there   int    // whose sessions are here, or who replicate nothing
	gone    int    // that never answered, and were gone before
	down    int    // that answered before, and whose sessions are not here
	missing string // whose sessions are not here although they answer, and why; "": nobody's
	alive   bool   // one answers
	covered bool   // in each group of this edge another one serves
}

// meet looks at the partners, and at the links to them.
func (w electionInput) meet(links map[replica.ID]replica.State) (m meeting) {
	for _, other := range partners(w.config) {
		_, seen := w.look(other)
		alive := w.answers(other)
		link, lacks := unsynced(w.config, other, links)
		switch {
		case alive && lacks:
			m.missing = "it waits for the sessions of " + Name(w.config, other)
			if link.Why != "" {
				m.missing += ": " + link.Why
			}
		case seen && lacks:
			m.down++
		case seen:
			m.there++
		case w.remembered[other]:
			m.gone++
		}
		m.alive = m.alive || alive
	}
	m.covered = w.coveredByOthers()
	return m
}

// answers reports whether a session with the gateway is up.
func (w electionInput) answers(member netip.Addr) bool {
	return slices.ContainsFunc(w.pairsTo(member), func(p overlay.Pair) bool {
		r := w.results[p]
		return r.State == bfd.Up || r.Held
	})
}

// coveredByOthers reports whether another gateway that answers serves in each group of this edge.
func (w electionInput) coveredByOthers() bool {
	serves := func(m netip.Addr) bool {
		j, _ := w.look(m)
		return m != Self(w.config) && w.answers(m) && j.State != nat.Gone
	}
	return !slices.ContainsFunc(w.config.Egress.Gateways, func(g overlay.GatewayGroup) bool {
		return slices.Contains(g.Members, Self(w.config)) && !slices.ContainsFunc(g.Members, serves)
	})
}

// unsynced is a link to a gateway that has not brought what that has, if there is one.
func unsynced(e overlay.Edge, gateway netip.Addr, states map[replica.ID]replica.State) (replica.State, bool) {
	for _, l := range replicaLinks(e) {
		if s := states[l.ID()]; l.Remote == gateway && !s.Synced {
			return s, true
		}
	}
	return replica.State{}, false
}
