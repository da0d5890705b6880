package pathmtu

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// world is a fake network under a Monitor, in the fake time of synctest.
type world struct {
	mu        sync.Mutex
	mtu       map[netip.Addr]int // no entry: unanswered
	err       error
	took      time.Duration // by a search
	searched  map[netip.Addr][]time.Time
	now, max  int   // searches that run, and the most that ever did
	hint      int   // of the last search
	confirmed []int // sizes that were asked for alone
}

func newWorld() *world {
	return &world{mtu: map[netip.Addr]int{}, took: time.Second, searched: map[netip.Addr][]time.Time{}}
}

func (w *world) Probe(ctx context.Context, remote netip.Addr, ceiling, hint int) (Result, error) {
	w.mu.Lock()
	w.searched[remote] = append(w.searched[remote], time.Now())
	w.hint = hint
	w.now++
	w.max = max(w.max, w.now)
	took, err := w.took, w.err
	w.mu.Unlock()
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(took):
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now--
	if err != nil {
		return Result{}, err
	}
	if w.mtu[remote] == 0 {
		return Result{State: Unanswered, When: time.Now()}, nil
	}
	return Result{State: Confirmed, MTU: min(w.mtu[remote], ceiling), When: time.Now()}, nil
}

func (w *world) Confirm(ctx context.Context, remote netip.Addr, size int) (Result, error) {
	w.mu.Lock()
	w.confirmed = append(w.confirmed, size)
	mtu := w.mtu[remote]
	w.mu.Unlock()
	if mtu >= size {
		return Result{State: Confirmed, MTU: size, When: time.Now()}, nil
	}
	select {
	case <-ctx.Done():
		return Result{}, ctx.Err()
	case <-time.After(maxTries * tryTimeout):
	}
	if mtu == 0 {
		return Result{State: Unanswered, When: time.Now()}, nil
	}
	return Result{State: Confirmed, MTU: mtu, When: time.Now()}, nil
}

func (w *world) set(remote netip.Addr, mtu int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mtu[remote] = mtu
}

// count returns how often remote was searched, and starts counting again.
func (w *world) count(remote netip.Addr) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.searched[remote])
	delete(w.searched, remote)
	return n
}

// monitored runs a test with a Monitor of w.
func monitored(t *testing.T, w *world, test func(t *testing.T, m *Monitor)) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMonitor(w, slog.New(slog.DiscardHandler))
		defer m.Close()
		test(t, m)
	})
}

// after lets d pass and everything come to rest.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func changed(m *Monitor) bool {
	select {
	case <-m.Changed():
		return true
	default:
		return false
	}
}

func check(t *testing.T, m *Monitor, remote netip.Addr, state State, mtu int) {
	t.Helper()
	r, ok := m.Results()[remote]
	if !ok || r.State != state || r.MTU != mtu {
		t.Errorf("%s is %+v, want %s %d", remote, r, state, mtu)
	}
	if (r.State == Probing) != r.When.IsZero() {
		t.Errorf("%s is %s since %v", remote, r.State, r.When)
	}
}

func TestMonitorProbesAtOnceAndAgain(t *testing.T) {
	w := newWorld()
	w.mtu[them4] = 1500
	monitored(t, w, func(t *testing.T, m *Monitor) {
		m.Set(map[netip.Addr]int{them4: 1500})
		after(0)
		check(t, m, them4, Probing, 0)
		after(w.took)
		check(t, m, them4, Confirmed, 1500)
		if !changed(m) || changed(m) {
			t.Error("want one notification of the first result")
		}
		m.Set(map[netip.Addr]int{them4: 1500}) // idempotent
		after(raiseInterval*7/8 - 2*time.Second)
		if n := w.count(them4); n != 1 {
			t.Errorf("%d searches before the interval, want 1", n)
		}
		after(raiseInterval/4 + 2*time.Second)
		if n := w.count(them4); n != 1 {
			t.Errorf("%d searches at the interval, want 1", n)
		}
		if changed(m) {
			t.Error("a notification without news")
		}
		w.set(them4, 1400)
		after(raiseInterval*9/8 + w.took)
		check(t, m, them4, Confirmed, 1400)
		if !changed(m) {
			t.Error("no notification of a smaller MTU")
		}
	})
}

func TestMonitorBacksOffBelowTheCeiling(t *testing.T) {
	for name, mtu := range map[string]int{"unanswered": 0, "below": 1400} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.mtu[them4] = mtu
			monitored(t, w, func(t *testing.T, m *Monitor) {
				m.Set(map[netip.Addr]int{them4: 1500})
				after(2 * time.Hour)
				w.mu.Lock()
				times := w.searched[them4]
				w.mu.Unlock()
				if len(times) < 10 {
					t.Fatalf("%d searches in 2 h", len(times))
				}
				interval := firstInterval
				for i := range times[1:] {
					got := times[i+1].Sub(times[i]) - w.took
					if got < interval*7/8 || got > interval*9/8 {
						t.Errorf("search %d came after %v, want about %v", i+1, got, interval)
					}
					interval = min(2*interval, raiseInterval)
				}
				w.set(them4, 1500)
				after(raiseInterval*9/8 + w.took)
				check(t, m, them4, Confirmed, 1500)
			})
		})
	}
}

// An outage does not make a narrow path look wide.
func TestMonitorKeepsWhatWasConfirmed(t *testing.T) {
	w := newWorld()
	w.mtu[them4] = 1400
	monitored(t, w, func(t *testing.T, m *Monitor) {
		m.Set(map[netip.Addr]int{them4: 1500})
		after(w.took)
		check(t, m, them4, Confirmed, 1400)
		w.set(them4, 0)
		after(firstInterval*9/8 + w.took)
		check(t, m, them4, Unanswered, 1400)
		m.Set(map[netip.Addr]int{them4: 1300})
		check(t, m, them4, Unanswered, 1300)
	})
}

func TestMonitorSet(t *testing.T) {
	w := newWorld()
	w.mtu[them4], w.mtu[other4] = 9000, 9000
	monitored(t, w, func(t *testing.T, m *Monitor) {
		ceilings := map[netip.Addr]int{them4: 1500, other4: 1500}
		m.Set(ceilings)
		delete(ceilings, them4) // the Monitor has its own
		after(w.took)
		check(t, m, them4, Confirmed, 1500)
		m.Set(map[netip.Addr]int{them4: 9000})
		after(0)
		if got := m.Results(); len(got) != 1 {
			t.Errorf("results %v, want one", got)
		}
		check(t, m, them4, Confirmed, 1500) // still
		// Another ceiling during the search: only the last one's counts.
		m.Set(map[netip.Addr]int{them4: 1600})
		after(w.took)
		check(t, m, them4, Confirmed, 1600)
		// A remote that goes during its search leaves nothing.
		m.Recheck(them4, 1400)
		after(w.took / 2)
		m.Set(nil)
		after(time.Hour)
		if got := m.Results(); len(got) != 0 {
			t.Errorf("results %v, want none", got)
		}
		w.count(them4)
		after(time.Hour)
		if n := w.count(them4); n != 0 {
			t.Errorf("%d searches of a remote that is gone", n)
		}
	})
}

func TestMonitorRecheck(t *testing.T) {
	w := newWorld()
	w.mtu[them4] = 1500
	monitored(t, w, func(t *testing.T, m *Monitor) {
		m.Set(map[netip.Addr]int{them4: 1500})
		after(time.Minute)
		w.count(them4)
		w.set(them4, 1400)
		m.Recheck(other4, 1300) // unknown
		m.Recheck(them4, 1300)
		after(w.took)
		check(t, m, them4, Confirmed, 1400)
		if w.hint != 1300 {
			t.Errorf("the hint is %d, want what was reported", w.hint)
		}
		// A second change soon after the first is found as fast.
		w.set(them4, 1300)
		m.Recheck(them4, 1300)
		after(w.took)
		check(t, m, them4, Confirmed, 1300)
	})
}

// A link in the middle shrinks and says nothing. While packets are sent, that is found within seconds.
func TestMonitorConfirmsWhatIsUsed(t *testing.T) {
	w := newWorld()
	w.mtu[them4], w.mtu[other4] = 9000, 9000
	monitored(t, w, func(t *testing.T, m *Monitor) {
		use := func(seconds int) {
			for range seconds {
				m.Used(them4)
				m.Used(us4) // unknown
				after(time.Second)
			}
		}
		m.Set(map[netip.Addr]int{them4: 9000, other4: 9000})
		after(time.Minute)
		w.count(them4)
		use(60)
		if n, searches := len(w.confirmed), w.count(them4); n < 10 || n > 12 || searches != 0 || w.confirmed[0] != 9000 {
			t.Errorf("confirmed %v in a minute, %d searches, want one in %v and no search", w.confirmed, searches, confirmInterval)
		}
		w.set(them4, 1500)
		w.set(other4, 1500)
		use(10)
		check(t, m, them4, Confirmed, 1500)
		check(t, m, other4, Confirmed, 9000) // not used
		if !changed(m) {
			t.Error("no notification of what was found")
		}
		// A remote that answers nothing any more has not shrunk, and is not asked by each packet.
		w.set(them4, 0)
		use(10)
		check(t, m, them4, Unanswered, 1500)
		w.count(them4)
		w.confirmed = nil
		use(30)
		if n := w.count(them4); n != 0 || len(w.confirmed) != 0 {
			t.Errorf("%d searches and %v confirmations of a silent remote in half a minute", n, w.confirmed)
		}
	})
}

// An idle path is confirmed with its first packets, and searched when it would have been.
func TestMonitorConfirmsAfterIdleness(t *testing.T) {
	w := newWorld()
	w.mtu[them4] = 1500
	monitored(t, w, func(t *testing.T, m *Monitor) {
		m.Set(map[netip.Addr]int{them4: 1500})
		after(5 * time.Minute)
		w.count(them4)
		m.Used(them4)
		after(time.Second)
		if len(w.confirmed) != 1 {
			t.Errorf("%d confirmations, want one at once", len(w.confirmed))
		}
		after(10 * time.Minute)
		if n := w.count(them4); n != 1 || len(w.confirmed) != 1 {
			t.Errorf("%d searches and %d confirmations of an idle path, want one search in %v", n, len(w.confirmed), raiseInterval)
		}
		// A report during a confirmation is looked into.
		w.set(them4, 1400)
		m.Used(them4)
		after(time.Second)
		m.Recheck(them4, 1400)
		after(maxTries*tryTimeout + w.took)
		check(t, m, them4, Confirmed, 1400)
	})
}

// However often it is called, also during a search: what finds nothing new is done less and
// less often, until something is found.
func TestMonitorRecheckBacksOff(t *testing.T) {
	w := newWorld()
	w.mtu[them4] = 1500
	monitored(t, w, func(t *testing.T, m *Monitor) {
		m.Set(map[netip.Addr]int{them4: 1500})
		after(time.Minute)
		w.count(them4)
		flood := func(seconds int) int {
			for range seconds {
				m.Recheck(them4, 1400)
				after(time.Second)
			}
			return w.count(them4)
		}
		if n := flood(10); n != 4 { // at 0, and 1, 2 and 4 s after the one before
			t.Errorf("%d searches in 10 s of rechecks, want 4", n)
		}
		if n := flood(100); n < 8 || n > 11 {
			t.Errorf("%d searches in 100 s of rechecks, want one in %v", n, maxPause+w.took)
		}
		w.set(them4, 1400)
		if flood(12); w.count(them4) != 0 {
			t.Error("searches without a recheck")
		}
		check(t, m, them4, Confirmed, 1400)
		after(2 * firstInterval)
		w.count(them4)
		w.set(them4, 1350)
		if n := flood(1); n != 1 {
			t.Errorf("%d searches in a second, want one at once", n)
		}
		check(t, m, them4, Confirmed, 1350)
	})
}

func TestMonitorLimitsSearches(t *testing.T) {
	w := newWorld()
	monitored(t, w, func(t *testing.T, m *Monitor) {
		ceilings := map[netip.Addr]int{}
		remote := us4
		for range 10 * maxSearches {
			remote = remote.Next()
			ceilings[remote] = 1500
		}
		m.Set(ceilings)
		after(10 * w.took)
		for remote := range ceilings {
			check(t, m, remote, Unanswered, 0)
		}
		if w.max != maxSearches {
			t.Errorf("%d searches at once, want %d", w.max, maxSearches)
		}
	})
}

func TestMonitorReportsAnErrorOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.err = errors.New("no route")
		var text bytes.Buffer
		m := NewMonitor(w, slog.New(slog.NewTextHandler(&text, nil)))
		m.Set(map[netip.Addr]int{them4: 1500})
		after(time.Hour)
		check(t, m, them4, Unanswered, 0)
		m.Close()
		if n := strings.Count(text.String(), "no route"); n != 1 {
			t.Errorf("%d reports, want 1:\n%s", n, text.String())
		}
	})
}

// Close does not wait for the ends of searches.
func TestMonitorClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.took = time.Hour
		m := NewMonitor(w, slog.New(slog.DiscardHandler))
		m.Set(map[netip.Addr]int{them4: 1500, other4: 1500})
		after(time.Second)
		began := time.Now()
		m.Close()
		if d := time.Since(began); d > 0 {
			t.Errorf("closing took %v", d)
		}
		check(t, m, them4, Probing, 0)
		if changed(m) {
			t.Error("a notification of a cancelled search")
		}
	})
}
