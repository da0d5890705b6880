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
	tick, interval := time.NewTicker(tickIdle), tickInterval{tickIdle}
	defer tick.Stop()
	e.alarms.limits.Look(e.state.dp.Limits)
	e.turned()
	for {
		e.health.turn()
		age.set(e.state.config.FDB.Ageing)
		select {
		case <-ctx.Done():
			e.opts.Supervisor.Stopping("the process ends")
			return nil
		case err := <-failed:
			return fmt.Errorf("serve the API: %w", err)
		case <-e.host.Changed():
			e.reconcile()
		case <-resync.C:
			e.reconcile()
			e.alarms.look(e)
			e.listen()
			e.opts.Supervisor.Status(e.inOneLine)
		case <-e.bgp.Remotes():
			e.reconcile()
		case <-e.bgp.Missed():
			e.bgp.LookMissedHosts()
		case <-e.bgp.Complete():
			e.sweepBGP()
		case <-e.mtus.Found():
			e.reconcile()
		case <-tick.C:
			e.tick()
			e.turned()
			interval.set(tick, e.hostEvents.IsWaiting())
		case <-e.hostEvents.Waits():
			interval.set(tick, true)
		case <-age.C:
			e.age()
		case job := <-e.jobs.todo:
			job()
		case <-hangup:
			e.transactions.Reload()
		}
	}
}

const (
	// tickEvery is how often hosts that came to a port are told of.
	tickEvery = 50 * time.Millisecond
	// tickIdle is how often time passes for the data path, and reports about paths are looked for.
	tickIdle = 200 * time.Millisecond
)

// tickInterval is how far ticks are apart: an idle edge wakes seldom.
type tickInterval struct{ every time.Duration }

func (p *tickInterval) set(tick *time.Ticker, busy bool) {
	next := tickIdle
	if busy {
		next = tickEvery
	}
	if next != p.every {
		p.every = next
		tick.Reset(next)
	}
}

func (e *edge) tick() {
	if time.Since(e.health.evaluated) >= evaluateEvery {
		readiness{e}.evaluate()
	}
	e.hostEvents.AnnounceMoves(e.state.configured.Segments)
	if e.mtus.Follow(e.state.dp.Paths, e.state.config, e.state.hostState) {
		e.reconcile()
	}
	e.loops.Tick()
	e.faults.Report("advance the clock of the data path", e.state.dp.Clock.Tick())
}

// sweepBGP removes what no neighbour said again after a restart.
func (e *edge) sweepBGP() {
	if e.bgp.Sweep() {
		e.reconcile()
	}
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
