package bgp

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

const (
	// putSome are written to the maps before others may change these.
	putSome = 512
	// overdue is how long something may wait for its remote before that is odd.
	overdue = 30 * time.Second
)

// installer has the tables of the data path follow the table of routes. It is the goroutine's.
type installer struct {
	w        Writer
	state    *State
	problems problems
	now      func() time.Time
	waiting  waiting
	again    bool // all has to be written again: some could not, or the tables are others
}

func newInstaller(o Options, state *State, p problems) *installer {
	return &installer{w: o.Writer, state: state, problems: p, now: o.Now, waiting: newWaiting()}
}

// macKey is a MAC address in a segment, addrKey an IP address.
type (
	macKey struct {
		segment string
		mac     overlay.MAC
	}
	addrKey struct {
		segment string
		addr    netip.Addr
	}
)

// waiting is what has no remote to go by yet: the next tables bring it. Of what is said again the
// last counts.
type waiting struct {
	bgpMACs    map[macKey]received[rib.BGPMAC]
	arpEntries map[addrKey]received[rib.ARPEntry]
	routes     map[rib.Place]time.Time // of receipt
	since      time.Time               // there are any of the former; zero: there are none
}

type received[T any] struct {
	what T
	at   time.Time
}

func newWaiting() waiting {
	return waiting{
		bgpMACs: make(map[macKey]received[rib.BGPMAC]), arpEntries: make(map[addrKey]received[rib.ARPEntry]),
		routes: make(map[rib.Place]time.Time),
	}
}

// put writes what the tables have a place for. The rest waits. It returns what neighbours are to
// be told of what the tables have no room for.
func (i *installer) put(c evpn.Changes, when time.Time) (changes evpn.Changes) {
	var errs []error
	for some := range inOrder(c.MACs, func(m rib.BGPMAC) bool { return !m.Remote.IsValid() }) {
		errs = append(errs, i.putBGPMACs(some, when))
	}
	for some := range inOrder(c.Neighbours, func(a rib.ARPEntry) bool { return a.MAC == overlay.MAC{} }) {
		errs = append(errs, i.putARPEntries(some, when))
	}
	i.again = i.again || errors.Join(errs...) != nil
	for some := range inOrder(c.Routes, func(r rib.LearnedRoute) bool { return len(r.Via) == 0 }) {
		more, err := i.putRoutes(some, when) // the next tables have them
		errs = append(errs, err)
		changes.Announce, changes.Withdraw = append(changes.Announce, more.Announce...), append(changes.Withdraw, more.Withdraw...)
	}
	some := len(errs) > 0
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if some {
		i.problems.report(ProblemWrite, firstOf(errs))
	}
	return changes
}

// inOrder is a list in parts: what only goes is first, and in parts of its own, which need not wait for their turn.
func inOrder[T any](list []T, goes func(T) bool) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for _, first := range []bool{true, false} {
			part := slices.DeleteFunc(slices.Clone(list), func(one T) bool { return goes(one) != first })
			for some := range slices.Chunk(part, putSome) {
				if !yield(some) {
					return
				}
			}
		}
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

func (i *installer) putBGPMACs(list []rib.BGPMAC, when time.Time) error {
	later, err := i.w.PutBGPMACs(list)
	for _, m := range list {
		delete(i.waiting.bgpMACs, macKey{m.Segment, m.MAC})
	}
	for _, m := range later {
		i.waiting.bgpMACs[macKey{m.Segment, m.MAC}] = received[rib.BGPMAC]{m, when}
		i.wait()
	}
	left := rib.LeftOut(err)
	i.state.hostsLeftOut(list, nil, left)
	i.state.converged(len(list)-len(later)-len(left.MACs), when, i.now())
	return err
}

func (i *installer) putARPEntries(list []rib.ARPEntry, when time.Time) error {
	ready := make([]rib.ARPEntry, 0, len(list))
	for _, a := range list {
		delete(i.waiting.arpEntries, addrKey{a.Segment, a.Addr})
		if _, waits := i.waiting.bgpMACs[macKey{a.Segment, a.MAC}]; waits {
			i.waiting.arpEntries[addrKey{a.Segment, a.Addr}] = received[rib.ARPEntry]{a, when}
			continue
		}
		ready = append(ready, a)
	}
	if len(ready) == 0 {
		return nil
	}
	later, err := i.w.PutARPEntries(ready)
	for _, a := range later {
		i.waiting.arpEntries[addrKey{a.Segment, a.Addr}] = received[rib.ARPEntry]{a, when}
		i.wait()
	}
	left := rib.LeftOut(err)
	i.state.hostsLeftOut(nil, ready, left)
	i.state.converged(len(ready)-len(later)-len(left.ARPEntries), when, i.now())
	return err
}

// putRoutes has routes by remotes that the tables do not have wait for the next tables.
func (i *installer) putRoutes(list []rib.LearnedRoute, when time.Time) (evpn.Changes, error) {
	later, err := i.w.PutRoutes(list)
	for _, r := range list {
		delete(i.waiting.routes, rib.Place{Router: r.Router, Prefix: r.Prefix})
	}
	for _, at := range later {
		if !when.IsZero() {
			i.waiting.routes[at] = when
		}
	}
	left := rib.LeftOut(err).Routes
	i.state.converged(max(0, len(list)-len(later)-len(left)), when, i.now())
	return i.state.change(func(t *evpn.Table) evpn.Changes { return t.RoutesPut(list, left) }), err
}

// wait notes that something waits.
func (i *installer) wait() {
	if i.waiting.since.IsZero() {
		i.waiting.since = i.now()
	}
}

// flush writes what waited or failed, when there are new tables.
func (i *installer) flush() {
	if i.again {
		i.again = false
		i.put(i.state.allHosts(), time.Time{}) // routes are in the tables that were just applied
	} else { // the tables were applied, and say themselves what they lack
		i.problems.report(ProblemWrite, nil)
	}
	w := i.waiting
	i.waiting = newWaiting()
	for _, at := range w.routes {
		i.state.converged(1, at, i.now())
	}
	for at, c := range w.batches() {
		i.put(c, at)
	}
	if i.waiting.since.IsZero() || w.since.IsZero() {
		w.since = i.waiting.since
	}
	i.waiting.since = w.since
	var err error
	if n := len(i.waiting.bgpMACs); n > 0 && i.now().Sub(i.waiting.since) > overdue {
		err = fmt.Errorf("%d of them are unresolved: see `selvage bgp routes --unused` and `selvage teps`", n)
	}
	i.problems.report(problemResolve, err)
}

// batches are what waits, by when it was received.
func (w *waiting) batches() map[time.Time]evpn.Changes {
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
	return batches
}
