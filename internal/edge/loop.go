package edge

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/background"
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
	timers := loopTimers{resync: time.NewTicker(e.opts.Resync), age: background.NewTicker(tenth(e.state.config.FDB.Ageing)), ticks: tickInterval{background.NewTicker(tickStart)}}
	defer timers.resync.Stop()
	defer timers.age.Stop()
	defer timers.ticks.Stop()
	defer close(e.jobs.ended)
	e.alarms.limits.Look(e.state.dp.Limits)
	e.alarms.remotes(e)
	e.turned()
	for {
		if ended, err := timers.turn(ctx, e, hangup, failed); ended {
			return err
		}
	}
}

// loopTimers say when the loop has something to do that nobody asks for.
type loopTimers struct {
	resync *time.Ticker
	age    *background.Ticker
	ticks  tickInterval
}

// turn waits for the next thing to do, and does it.
func (t loopTimers) turn(ctx context.Context, e *edge, hangup <-chan os.Signal, failed <-chan error) (ended bool, err error) {
	e.health.turn()
	t.age.Set(tenth(e.state.config.FDB.Ageing))
	select {
	case <-ctx.Done():
		e.opts.Supervisor.Stopping("the process ends")
		return true, nil
	case err := <-failed:
		return true, fmt.Errorf("serve the API: %w", err)
	case <-e.host.Changed():
		e.reconcile()
		e.turned()
	case <-t.resync.C:
		compareAgain(e)
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
	case <-t.ticks.C:
		e.tick()
		e.turned()
		t.ticks.Set(tickNeeded(e))
	case <-e.hostEvents.Waits():
		t.ticks.Set(tickHosts)
	case <-e.mtus.Reports():
		t.ticks.hasten()
	case <-t.age.C:
		e.age()
	case job := <-e.jobs.todo:
		job()
	case <-hangup:
		e.transactions.Reload()
	}
	return false, nil
}

// compareEach is after how many looks all is compared again where nothing is wrong, or still the same after as many.
const compareEach = 3

// compareAgain does so without an event. What is wrong may be mended by trying again, so that it is tried at each look; what
// has stood for some looks is waited for as seldom as what an event did not tell.
func compareAgain(e *edge) {
	e.looks++
	wrong := append(appliedProblems(e), e.faults.Problems(faultSeverity)...)
	if slices.Equal(wrong, e.wrong) {
		e.wrongFor++
	} else {
		e.wrong, e.wrongFor = wrong, 0
	}
	if e.looks%compareEach == 0 || len(wrong) > 0 && e.wrongFor < compareEach {
		e.reconcile()
	}
}

const (
	// tickHosts is how soon there is a tick after an event, and the least time between ticks.
	tickHosts = 50 * time.Millisecond
	// tickReports is how far ticks are apart while probes look into reports about paths.
	tickReports = 200 * time.Millisecond
	// tickIdle is how far they are apart while nothing is to be done, and tickStart until the edge is ready. Each wakes several
	// threads.
	tickIdle  = 3 * time.Second
	tickStart = time.Second
)

// tickInterval is the ticker of ticks.
type tickInterval struct{ *background.Ticker }

// hasten has the next tick come soon. Where ticks are frequent already, that is soon enough: reports come as fast as
// others want.
func (t tickInterval) hasten() {
	if t.Every() > tickReports {
		t.Set(tickHosts)
	}
}

// tickNeeded is how long there may be no tick of an edge now.
func tickNeeded(e *edge) time.Duration {
	every := tickIdle
	if !e.opts.Supervisor.IsReady() {
		every = tickStart
	}
	if clock := e.state.dp.Clock.TickEvery(); clock > 0 {
		every = min(every, max(clock, tickHosts))
	}
	if e.mtus.IsWaiting() {
		every = min(every, tickReports)
	}
	if e.hostEvents.IsWaiting() {
		every = tickHosts
	}
	return every
}

func (e *edge) tick() {
	if time.Since(e.health.evaluated) >= evaluateEvery {
		readiness{e}.evaluate()
	}
	e.hostEvents.AnnounceMoves(e.state.configured.Segments)
	if e.mtus.Follow(e.state.dp.Paths, e.state.config, e.state.hostState) {
		e.reconcile()
	}
	e.mtus.ConfirmUsed(e.state.dp.Counters)
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

// tenth is how often hosts age: ten times in an ageing time, and every ten seconds at least:
// idle flows are forgotten even where MAC addresses live for ever (zero).
func tenth(ageing time.Duration) time.Duration {
	const shortest, longest = 100 * time.Millisecond, 10 * time.Second
	if ageing <= 0 {
		return longest
	}
	return min(max(ageing/10, shortest), longest)
}
