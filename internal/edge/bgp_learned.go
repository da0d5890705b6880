package edge

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
)

const (
	// coalesce is the least time between two reconciliations for new remotes.
	coalesce = 20 * time.Millisecond
	// putSome are written to the maps before others may change these.
	putSome = 512
	// overdue is how long something may wait for its remote before that is odd.
	overdue = 30 * time.Second

	announceBGP = "advertise to BGP neighbours"
	writeBGP    = "install BGP routes in the data path"
)

// act does what follows from a change of the table, of which updates were received at a time;
// zero: something here changed, of which others are told first.
func (b *bgp) act(c evpn.Changes, when time.Time) {
	b.note(c.Events)
	if when.IsZero() {
		b.tell(c)
	}
	if c.Remotes {
		b.rateLimit.want(b)
	}
	b.put(c, when)
	if !when.IsZero() {
		b.tell(c)
	}
	b.forget(c.Forget)
}

// tell tells the neighbours.
func (b *bgp) tell(c evpn.Changes) {
	if b.speaker == nil || len(c.Announce)+len(c.Withdraw) == 0 {
		return // at its start it is told all
	}
	var errs []error
	if len(c.Announce) > 0 {
		errs = append(errs, b.speaker.Announce(c.Announce))
	}
	if len(c.Withdraw) > 0 {
		errs = append(errs, b.speaker.Withdraw(c.Withdraw))
	}
	b.reportProblem(announceBGP, errors.Join(errs...))
}

// put writes to the maps what they have a place for. The rest waits.
func (b *bgp) put(c evpn.Changes, when time.Time) {
	var errs []error
	for some := range slices.Chunk(c.MACs, putSome) {
		errs = append(errs, b.putBGPMACs(some, when))
	}
	for some := range slices.Chunk(c.Neighbours, putSome) {
		errs = append(errs, b.putARPEntries(some, when))
	}
	b.again = b.again || errors.Join(errs...) != nil
	for some := range slices.Chunk(c.Routes, putSome) {
		errs = append(errs, b.putRoutes(some, when)) // the next tables have them
	}
	some := len(errs) > 0
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if some {
		b.reportProblem(writeBGP, firstOf(errs))
	}
}

// firstOf is the first error, and how many more there are: all say much the same.
func firstOf(errs []error) error {
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return fmt.Errorf("%w\nand so for %d more batches of %d", errs[0], len(errs)-1, putSome)
}

func (b *bgp) putBGPMACs(list []overlay.BGPMAC, when time.Time) error {
	s := &b.e.pathSelector
	s.mu.Lock()
	defer s.mu.Unlock()
	ready := make([]overlay.BGPMAC, 0, len(list))
	for _, bgpMAC := range list {
		at := hostLocation{segment: bgpMAC.Segment, mac: bgpMAC.MAC}
		if s.snapshot.dp == nil || bgpMAC.Remote.IsValid() && !s.reach[bgpMAC.Segment][bgpMAC.Remote] {
			b.waiting.bgpMACs[at] = received[overlay.BGPMAC]{bgpMAC, when}
			b.waiting.begin()
			continue
		}
		delete(b.waiting.bgpMACs, at)
		ready = append(ready, bgpMAC)
	}
	if len(ready) == 0 {
		return nil
	}
	err := s.snapshot.dp.Learner.PutBGPMACs(ready)
	b.converged(len(ready), when)
	return err
}

func (b *bgp) putARPEntries(list []overlay.ARPEntry, when time.Time) error {
	s := &b.e.pathSelector
	s.mu.Lock()
	defer s.mu.Unlock()
	ready := make([]overlay.ARPEntry, 0, len(list))
	for _, arpEntry := range list {
		at := segmentAddr{arpEntry.Segment, arpEntry.Addr}
		_, waits := b.waiting.bgpMACs[hostLocation{segment: arpEntry.Segment, mac: arpEntry.MAC}]
		if s.snapshot.dp == nil || waits {
			b.waiting.arpEntries[at] = received[overlay.ARPEntry]{arpEntry, when}
			b.waiting.begin()
			continue
		}
		delete(b.waiting.arpEntries, at)
		ready = append(ready, arpEntry)
	}
	if len(ready) == 0 {
		return nil
	}
	err := s.snapshot.dp.Learner.PutARPEntries(ready)
	b.converged(len(ready), when)
	return err
}

// putRoutes has routes by remotes that the tables do not have wait in the routing, of which the
// next tables are made.
func (b *bgp) putRoutes(list []overlay.LearnedRoute, when time.Time) error {
	s := &b.e.pathSelector
	s.mu.Lock()
	defer s.mu.Unlock()
	places := s.routing.Learn(list)
	if s.snapshot.dp == nil || len(places) == 0 {
		return nil
	}
	err := s.snapshot.dp.Routes.PutRoutes(s.routing.Rewritten(places, s.dead))
	written := 0
	for _, route := range list {
		at := plan.Place{Router: route.Router, Prefix: route.Prefix}
		if stands, _ := s.routing.At(at); len(stands.Hops) >= len(route.Via) {
			delete(b.waiting.routes, at)
			written++
		} else if !when.IsZero() {
			b.waiting.routes[at] = when
		}
	}
	b.converged(written, when)
	return err
}

// forget ends what the packets of hosts told that are elsewhere now.
func (b *bgp) forget(hosts []evpn.Host) {
	if len(hosts) == 0 {
		return
	}
	var errs []error
	s := &b.e.pathSelector
	s.mu.Lock()
	for _, h := range hosts {
		delete(b.local, h)
		if s.snapshot.dp != nil && !h.Addr.IsValid() {
			errs = append(errs, s.snapshot.dp.Hosts.Forget(h.Segment, h.MAC))
		}
	}
	s.mu.Unlock()
	for host := range b.local {
		if slices.Contains(hosts, evpn.Host{Segment: host.Segment, MAC: host.MAC}) {
			delete(b.local, host)
		}
	}
	b.reportProblem("forget hosts that moved away", errors.Join(errs...))
}

// hostLocation is a MAC address in a segment.
type hostLocation struct {
	segment string
	mac     overlay.MAC
}

// waiting is what has no remote to go by yet: the next reconciliation brings it. Of what is
// said again the last counts.
type waiting struct {
	bgpMACs    map[hostLocation]received[overlay.BGPMAC]
	arpEntries map[segmentAddr]received[overlay.ARPEntry]
	routes     map[plan.Place]time.Time // of receipt
	since      time.Time                // there are any of the former; zero: there are none
}

type received[T any] struct {
	what T
	at   time.Time
}

func (w *waiting) begin() {
	if w.since.IsZero() {
		w.since = time.Now()
	}
}

func newWaiting() waiting {
	return waiting{
		bgpMACs: make(map[hostLocation]received[overlay.BGPMAC]), arpEntries: make(map[segmentAddr]received[overlay.ARPEntry]),
		routes: make(map[plan.Place]time.Time),
	}
}

// flush writes what waited or failed, when there are new tables.
func (b *bgp) flush() {
	if b.again {
		b.again = false
		b.refill()
	} else { // the tables were applied, and say themselves what they lack
		b.reportProblem(writeBGP, nil)
	}
	w := b.waiting
	b.waiting = newWaiting()
	for _, at := range w.routes {
		b.converged(1, at)
	}
	batches := make(map[time.Time]evpn.Changes)
	for _, s := range w.bgpMACs {
		c := batches[s.at]
		c.MACs = append(c.MACs, s.what)
		batches[s.at] = c
	}
	for _, r := range w.arpEntries {
		c := batches[r.at]
		c.Neighbours = append(c.Neighbours, r.what)
		batches[r.at] = c
	}
	for at, c := range batches {
		b.put(c, at)
	}
	if b.waiting.since.IsZero() || w.since.IsZero() {
		w.since = b.waiting.since
	}
	b.waiting.since = w.since
	var err error
	if n := len(b.waiting.bgpMACs); n > 0 && time.Since(b.waiting.since) > overdue {
		err = fmt.Errorf("%d of them are unresolved: see `selvage bgp routes --unused` and `selvage teps`", n)
	}
	b.reportProblem("find the remotes of MAC addresses learned by BGP", err)
}

// refill writes all hosts that the table has. Routes are in the tables that were just applied.
func (b *bgp) refill() {
	b.mu.Lock()
	all := b.table.AllHosts()
	b.mu.Unlock()
	b.put(all, time.Time{})
}

// rateLimit is when reconciliations for new remotes were wanted.
type rateLimit struct {
	last  time.Time
	least time.Duration // between two: no less than one takes
	timer *time.Timer   // nil when none is wanted later
}

// want has the goroutine of Run reconcile, at once or when it is time.
func (p *rateLimit) want(b *bgp) {
	if p.timer != nil {
		return
	}
	now := time.Now()
	if wait := p.last.Add(max(coalesce, p.least)).Sub(now); wait > 0 {
		p.timer = time.AfterFunc(wait, func() { b.post(func() { p.timer = nil; p.want(b) }) })
		return
	}
	p.last = now
	wake(b.e.learned.remotes)
}

// mergeLearned has config be what is configured and what BGP told of other edges.
func (e *edge) mergeLearned() {
	b := e.bgp.Load()
	if b == nil && e.learned.previous == nil {
		return
	}
	var learned evpn.LearnedRemotes
	if b != nil {
		b.mu.Lock()
		learned = b.table.Learned()
		b.mu.Unlock()
	}
	merged := evpn.Merge(e.configured, withPrevious(learned, e.configured, e.learned.previous))
	s := &e.pathSelector
	s.mu.Lock()
	merged = s.withRoutes(merged)
	s.mu.Unlock()
	e.mu.Lock()
	e.config = merged
	e.mu.Unlock()
}

// withPrevious adds remotes by segment to a fabric.
func withPrevious(f evpn.LearnedRemotes, config overlay.Edge, previous map[string][]netip.Addr) evpn.LearnedRemotes {
	if len(previous) == 0 {
		return f
	}
	add := func(list []netip.Addr, segment string) []netip.Addr {
		list = slices.Concat(list, previous[segment])
		slices.SortFunc(list, netip.Addr.Compare)
		return slices.Compact(list)
	}
	both := evpn.LearnedRemotes{Segments: make(map[string][]netip.Addr), Routers: make(map[string][]netip.Addr)}
	for _, s := range config.Segments {
		both.Segments[s.Name] = add(f.Segments[s.Name], s.Name)
	}
	for _, r := range config.Routers {
		both.Routers[r.Name] = add(f.Routers[r.Name], r.SegmentName())
	}
	return both
}

// withRoutes is config with what its routers learned. mu is held.
func (s *pathSelector) withRoutes(config overlay.Edge) overlay.Edge {
	return s.routing.Learned(config)
}

// route takes over the routes of tables in force. mu is held.
func (s *pathSelector) route(routing *plan.Routing, config overlay.Edge, pathPolicies plan.PathPolicies) {
	s.routing, s.dead, s.reach = routing, plan.DeadRemotes(pathPolicies), plan.Reach(config)
}

// reroute has routes by remotes that died lead by their other next hops, and back. mu is held.
func (s *pathSelector) reroute(pathPolicies plan.PathPolicies) error {
	dead, changed := plan.DeadRemotes(pathPolicies), make(map[netip.Addr]bool)
	if maps.Equal(dead, s.dead) {
		return nil
	}
	for remote := range dead {
		changed[remote] = !s.dead[remote]
	}
	for remote := range s.dead {
		changed[remote] = !dead[remote]
	}
	places := s.routing.SharedBy(changed)
	if len(places) > 0 {
		if err := s.snapshot.dp.Routes.PutRoutes(s.routing.Rewritten(places, dead)); err != nil {
			return err
		}
	}
	s.dead = dead
	return nil
}
