package bgp

import (
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/evpn/speaker"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// State is what the goroutine of a Process shows to others: the table, the configuration and what
// was counted. Only that goroutine changes it, but for overflows and convergence.
type State struct {
	log *slog.Logger

	// mu is held for no other lock and no call but the table's.
	mu        sync.Mutex
	table     *evpn.Table
	survey    survey // of it
	config    overlay.BGP
	segments  map[string]bool // that are EVPN instances; replaced, never changed
	speaker   Speaker         // nil until it could be had
	settles   bool            // what a former process learned stays until the neighbours said all
	moves     []api.BGPMove
	moved     uint64 // hosts
	updates   uint64 // received
	overflows map[netip.Addr]overflow
	claims    claims // replaced, never changed
	spread    spread
}

// overflow is how often a session was ended as too many updates waited, and when last.
type overflow struct {
	times uint64
	last  time.Time
}

func newState(o Options) *State {
	return &State{
		log: o.Log, table: evpn.NewTable(o.Edge), survey: survey{changed: true}, config: *o.Edge.BGP, segments: instances(o.Edge), settles: o.Settling,
		overflows: make(map[netip.Addr]overflow), claims: make(claims), spread: newSpread(),
	}
}

// instances are the segments of hosts that are EVPN instances.
func instances(e overlay.Edge) map[string]bool {
	list := make(map[string]bool)
	for _, s := range e.Segments {
		if s.EVPN != nil {
			list[s.Name] = true
		}
	}
	return list
}

func (v *State) instances() map[string]bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.segments
}

// change changes the table.
func (v *State) change(do func(*evpn.Table) evpn.Changes) evpn.Changes {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.survey.changed = true
	return do(v.table)
}

func (v *State) receive(updates []evpn.Update, at time.Time) evpn.Changes {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.survey.changed = true
	v.updates += uint64(len(updates))
	return v.table.Receive(updates, at)
}

// received is how many updates were, and whether the table has to be told the time.
func (v *State) received() (updates uint64, lastsForTime bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.updates, v.settles || v.table.LastsForTime()
}

// configure takes a configuration over, and says whether it is another one for BGP.
func (v *State) configure(e overlay.Edge, now time.Time) (changes, all evpn.Changes, changed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.segments = instances(e)
	if v.table.IsFor(e) {
		return changes, all, false
	}
	v.config, v.survey = *e.BGP, survey{changed: true}
	changes = v.table.Configure(e, now)
	return changes, v.table.All(), true
}

// surveyed is what a look at all routes shows, one of a second ago at most where there are a hundred thousand. mu is held.
func (v *State) surveyed() survey {
	v.survey.of(v.table)
	return v.survey
}

func (v *State) configuration() (config overlay.BGP, settling bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.config, v.settles
}

func (v *State) settled() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.settles = false
}

func (v *State) setSpeaker(s Speaker) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.speaker = s
}

// speaks is the speaker, nil before there is one.
func (v *State) speaks() Speaker {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.speaker
}

// own are the routes that this edge announces.
func (v *State) own() []evpn.Route {
	v.mu.Lock()
	defer v.mu.Unlock()
	var own []evpn.Route
	for _, r := range v.table.Select(func(neighbour netip.Addr, _ *evpn.Route) bool { return !neighbour.IsValid() }) {
		own = append(own, r.Route)
	}
	return own
}

func (v *State) allHosts() evpn.Changes {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.table.AllHosts()
}

// addresses are those that BGP says a MAC address has.
func (v *State) addresses(segment string, mac overlay.MAC) []netip.Addr {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.table.Addresses(segment, mac)
}

// unknown are those of the entries that the table does not have, as ones that BGP says no more.
func (v *State) unknown(macs []rib.BGPMAC, arpEntries []rib.ARPEntry) (gone evpn.Changes) {
	all := v.allHosts()
	known, resolved := make(map[macKey]bool), make(map[addrKey]bool)
	for _, m := range all.MACs {
		known[macKey{m.Segment, m.MAC}] = true
	}
	for _, a := range all.Neighbours {
		resolved[addrKey{a.Segment, a.Addr}] = true
	}
	for _, m := range macs {
		if !known[macKey{m.Segment, m.MAC}] {
			gone.MACs = append(gone.MACs, rib.BGPMAC{Segment: m.Segment, MAC: m.MAC})
		}
	}
	for _, a := range arpEntries {
		if !resolved[addrKey{a.Segment, a.Addr}] {
			gone.Neighbours = append(gone.Neighbours, rib.ARPEntry{Segment: a.Segment, Addr: a.Addr})
		}
	}
	return gone
}

// hostsLeftOut notes which of the entries that were put the tables have no room for.
func (v *State) hostsLeftOut(macs []rib.BGPMAC, arpEntries []rib.ARPEntry, left rib.NoRoom) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.survey.changed = true
	v.table.HostsPut(macs, arpEntries, left)
}

// overflowed counts a session that was ended as too many updates waited.
func (v *State) overflowed(neighbour netip.Addr, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.overflows[neighbour] = overflow{v.overflows[neighbour].times + 1, now}
}

// converged counts what of a time is in the maps by now; zero: it was not received.
func (v *State) converged(n int, when, now time.Time) {
	if when.IsZero() || n == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.spread.add(n, now.Sub(when))
}

// Learned are the remotes that BGP tells of by now.
func (v *State) Learned() rib.Remotes {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.table.Learned()
}

// Statuses are all routes and what became of them.
func (v *State) Statuses() []evpn.Status {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.table.Routes()
}

// sessions asks the speaker, none before there is one.
func (v *State) sessions(question func(Sessions) []speaker.Neighbour) []speaker.Neighbour {
	if s := v.speaks(); s != nil {
		return question(s)
	}
	return nil
}
