package evpn

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

// mobility is what is remembered of a MAC address that moved lately.
type mobility struct {
	moves  []time.Time
	frozen bool
	since  time.Time // of frozen
	until  time.Time // zero: until it is thawed
	// held are the addresses that a host at a port had while it was frozen; the zero one
	// stands for the MAC address itself.
	held []Host
}

// remembered is of how many moves the time is kept, where more do not freeze.
const remembered = 64

func (st *macEntry) frozen() bool { return st.mobility != nil && st.mobility.frozen }

func (m *mobility) hold(h Host) {
	m.release(h.Addr)
	m.held = append(m.held, h)
}

func (m *mobility) release(addr netip.Addr) {
	m.held = slices.DeleteFunc(m.held, func(h Host) bool { return h.Addr == addr })
}

// recent drops the moves that are too long ago to count.
func (m *mobility) recent(now time.Time, within time.Duration) {
	m.moves = slices.DeleteFunc(m.moves, func(at time.Time) bool { return now.Sub(at) > within })
}

// countMove notes that a host came here or went, and freezes the address where it is now
// when that was too often (RFC 7432 section 15.1).
func (hs *hosts) countMove(st *macEntry) {
	limit := hs.in.edge.BGP.Duplicates
	if st.mobility == nil {
		st.mobility = &mobility{}
		st.segment.moving[st.mac] = st
	}
	m := st.mobility
	m.recent(hs.clock.now, limit.Within)
	m.moves = append(m.moves, hs.clock.now)
	if most := max(remembered, limit.Moves); len(m.moves) > most {
		m.moves = slices.Delete(m.moves, 0, len(m.moves)-most)
	}
	if m.frozen || limit.Moves == 0 || len(m.moves) < limit.Moves {
		return
	}
	m.frozen, m.since, m.until = true, hs.clock.now, time.Time{}
	how := "until selvage bgp thaw " + st.segment.name + " " + st.mac.String()
	if limit.Freeze > 0 {
		m.until, how = hs.clock.now.Add(limit.Freeze), "for "+limit.Freeze.String()
	}
	hs.out.event(Event{What: "frozen", Segment: st.segment.name, MAC: st.mac,
		Detail: fmt.Sprintf("%d moves within %s: two hosts have it, or one is seen in two places; it stays where it is %s",
			len(m.moves), limit.Within, how)})
}

// reconfigure has what is frozen obey another configuration of duplicates.
func (hs *hosts) reconfigure(was overlay.Duplicates) {
	now := hs.in.edge.BGP.Duplicates
	if now == was {
		return
	}
	for _, s := range hs.in.segments {
		for _, st := range s.moving {
			switch m := st.mobility; {
			case !m.frozen:
			case now.Moves == 0:
				hs.thaw(st)
			case now.Freeze == 0:
				m.until = time.Time{}
			default:
				m.until = m.since.Add(now.Freeze)
				hs.thawInTime(st)
			}
		}
	}
}

// thawInTime ends what is over by now.
func (hs *hosts) thawInTime(st *macEntry) {
	m := st.mobility
	m.recent(hs.clock.now, hs.in.edge.BGP.Duplicates.Within)
	switch {
	case m.frozen && !m.until.IsZero() && !hs.clock.now.Before(m.until):
		hs.thaw(st)
	case !m.frozen && len(m.moves) == 0:
		delete(st.segment.moving, st.mac)
		st.mobility = nil
		hs.dirty.markMAC(st)
	}
}

// thaw lets st move again: who was kept away before comes now.
func (hs *hosts) thaw(st *macEntry) {
	held := st.mobility.held
	st.mobility = nil
	delete(st.segment.moving, st.mac)
	hs.out.event(Event{What: "thawed", Segment: st.segment.name, MAC: st.mac})
	st.best = best(st.paths, compareHosts)
	hs.dirty.markMAC(st)
	hs.dirty.markHostRoutes(st)
	for _, h := range held {
		hs.appear(st.segment, h)
	}
}

// Moves are the MAC addresses that came here or went lately, and those that are frozen.
func (t *Table) Moves() (list []Move) {
	for _, s := range t.in.segments {
		for _, st := range s.moving {
			m := Move{Segment: s.name, MAC: st.mac, Moves: len(st.mobility.moves), Frozen: st.mobility.frozen, Until: st.mobility.until}
			if m.Moves > 0 {
				m.Last = st.mobility.moves[m.Moves-1]
			}
			list = append(list, m)
		}
	}
	slices.SortFunc(list, func(a, b Move) int {
		return cmp.Or(cmp.Compare(a.Segment, b.Segment), bytes.Compare(a.MAC[:], b.MAC[:]))
	})
	return list
}
