package edge

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"time"
)

// repeats are after how long addresses are announced again: an announcement may be lost, and
// a switch may still hear one of the former owner's last packets.
var repeats = []time.Duration{100 * time.Millisecond, time.Second}

// announceSome are announced before others may change tables again.
const announceSome = 32

// announcement is addresses that came to this edge.
type announcement struct {
	places    []place
	fresh     int   // of these, that were not here before
	failovers []int // by which they came
}

// repeat is an announcement that is due again.
type repeat struct {
	places []place
	at     time.Time
}

// announceAddresses tells the networks of the uplinks where addresses are now, until ctx
// ends.
func (e *edge) announceAddresses(ctx context.Context) {
	runtime.LockOSThread() // for good: the thread is in the edge's network namespace
	if err := e.ns.enter(); err != nil {
		e.log.Error(announceProblem, "err", err) // the uplinks may still be found from here
	}
	var due []repeat
	for {
		wait := time.Hour
		if len(due) > 0 {
			wait = time.Until(due[0].at)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case a := <-e.came:
			now := e.announcePlaces(a.places)
			s := &e.pathSelector
			s.mu.Lock()
			s.gateways.announced(a.failovers, a.fresh, now)
			s.mu.Unlock()
			for _, after := range repeats {
				due = append(due, repeat{a.places, now.Add(after)})
			}
			slices.SortStableFunc(due, func(a, b repeat) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
		case <-timer.C:
			if len(due) > 0 && !time.Now().Before(due[0].at) {
				e.announcePlaces(due[0].places)
				due = due[1:]
			}
		}
		timer.Stop()
	}
}

// announceProblem names the fault of addresses that cannot be announced.
const announceProblem = "announce egress addresses"

// announcePlaces announces those that this edge still answers for, and says when it had.
func (e *edge) announcePlaces(places []place) time.Time {
	s := &e.pathSelector
	var errs []error
	for some := range slices.Chunk(places, announceSome) {
		s.mu.Lock()
		for _, p := range some {
			if s.snapshot.dp != nil && s.gateways.owned[p] {
				errs = append(errs, s.snapshot.dp.HostEvents.AnnounceAddress(p.uplink, p.addr))
			}
		}
		s.mu.Unlock()
	}
	now := time.Now()
	e.reportProblem(announceProblem, errors.Join(errs...))
	return now
}
