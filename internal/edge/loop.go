package edge

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/selvage/selvage/internal/transaction"
)

// jobs are what has to be done by the goroutine of Run.
type jobs struct {
	todo  chan func()
	ended chan struct{} // closed when it takes no more of them
}

// Do implements transaction.Loop.
func (j jobs) Do(f func()) error {
	done := make(chan struct{})
	select {
	case j.todo <- func() { defer close(done); f() }:
		<-done
		return nil
	case <-j.ended:
		return transaction.ErrStopping
	}
}

// Ended implements transaction.Loop.
func (j jobs) Ended() <-chan struct{} { return j.ended }

// inLoop has f done by the goroutine of Run, in its network namespace and while
// nothing changes.
func inLoop[T any](j jobs, f func() (T, error)) (result T, err error) {
	if ended := j.Do(func() { result, err = f() }); ended != nil {
		return result, ended
	}
	return result, err
}

// loop reconciles, ages and reloads until ctx ends. An error means that the
// edge cannot go on.
func (e *edge) loop(ctx context.Context, hangup <-chan os.Signal, failed <-chan error) error {
	resync := time.NewTicker(e.opts.Resync)
	defer resync.Stop()
	age := newAgeTicker(e.state.config.FDB.Ageing)
	defer age.Stop()
	defer close(e.jobs.ended)
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	e.alarms.limits.Look(e.state.dp.Limits)
	for {
		age.set(e.state.config.FDB.Ageing)
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return fmt.Errorf("serve the API: %w", err)
		case <-e.host.Changed():
			e.reconcile()
		case <-resync.C:
			e.reconcile()
			e.alarms.look(e)
		case <-e.bgp.Remotes():
			e.reconcile()
		case <-e.bgp.Missed():
			e.bgp.LookMissedHosts()
		case <-e.bgp.Complete():
			if e.bgp.Sweep() {
				e.reconcile()
			}
		case <-e.mtus.Found():
			e.reconcile()
		case <-tick.C:
			e.tick()
		case <-age.C:
			e.age()
		case job := <-e.jobs.todo:
			job()
		case <-hangup:
			e.transactions.Reload()
		}
	}
}

// tickEvery is how often time passes for the data path, and hosts that came to a port are
// told of.
const tickEvery = 50 * time.Millisecond

func (e *edge) tick() {
	e.hostEvents.AnnounceMoves(e.state.configured.Segments)
	if e.mtus.Follow(e.state.dp.Paths, e.state.config, e.state.hostState) {
		e.reconcile()
	}
	e.loops.Tick()
	e.faults.Report("advance the clock of the data path", e.state.dp.Clock.Tick())
}

// age ends what nothing has confirmed for long.
func (e *edge) age() {
	e.state.mu.Lock()
	aged, err := e.state.dp.Tables.Age(e.state.config.FDB.Ageing)
	e.state.mu.Unlock()
	e.faults.Report("age the FDB", err)
	if aged > 0 {
		e.log.Debug("FDB entries aged", "entries", aged)
	}
	e.bgp.LookHosts()
	if e.mtus.Expire() {
		e.reconcile()
	}
}

// ageTicker ticks ten times in an ageing time, and every ten seconds at least:
// idle flows are forgotten even where MAC addresses live for ever (zero).
type ageTicker struct {
	*time.Ticker
	ageing time.Duration
}

func newAgeTicker(ageing time.Duration) *ageTicker {
	return &ageTicker{time.NewTicker(tenth(ageing)), ageing}
}

func (a *ageTicker) set(ageing time.Duration) {
	if ageing != a.ageing {
		a.Reset(tenth(ageing))
		a.ageing = ageing
	}
}

func tenth(ageing time.Duration) time.Duration {
	const shortest, longest = 100 * time.Millisecond, 10 * time.Second
	if ageing <= 0 {
		return longest
	}
	return min(max(ageing/10, shortest), longest)
}
