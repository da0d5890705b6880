package edge

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/fault"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// fillAt is the filling of ports and of the table of sessions that is an alarm, until it is
// below fillClear.
const fillAt, fillClear = 0.80, 0.75

// natSweep is the least time between two sweeps over the sessions.
const natSweep = 10 * time.Second

// mostPressures bounds the pressures that become alarms.
const mostPressures = 5

// Reasons and events of bpf/core/reasons.h that raise an alarm when they happen.
const (
	reasonExhausted = "nat-exhausted"
	reasonFull      = "nat-full"
	reasonNoGateway = "no-gateway"

	eventEarlyDropped = "nat-early-dropped"
)

// natGuard is what the edge saw of its sessions.
type natGuard struct {
	gcStats       datapath.NATGCStats
	sweptAt       time.Time
	pressures     []datapath.PortUsage // the fullest
	drops         map[string]uint64
	natEventsLost uint64
	earlyDropped  uint64
	known         bool // of drops and events: there was a sweep before
	alarm.Tables
}

// natWatch has NAT sessions expire, and raises alarms of them.
type natWatch struct {
	log         *slog.Logger
	state       *state
	faults      *fault.Faults
	role        *gateway.Role
	replication *gateway.Replication
	every       time.Duration // the least time between two sweeps

	guard natGuard // under the mu of state
}

func newNATWatch(e *edge) natWatch {
	return natWatch{log: e.log, state: &e.state, faults: e.faults, role: e.egress.role, replication: e.egress.replication, every: e.opts.NATSweep}
}

// run has sessions expire and raises alarms until ctx ends.
func (w *natWatch) run(ctx context.Context) {
	tick := time.NewTicker(alarm.LogEvery)
	defer tick.Stop()
	var sweepAt time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		begin := time.Now()
		if begin.Before(sweepAt) {
			continue
		}
		took, err := alarm.Timed(func() error {
			w.sweep()
			return w.role.WatchDrain(natOf{w.state})
		})
		w.faults.Report("check the sessions of a drain", err)
		sweepAt = begin.Add(max(w.every, alarm.TimeShare*took))
	}
}

// sweep lets the expired sessions go, and looks at how full tables and ports are.
func (w *natWatch) sweep() {
	w.state.mu.RLock()
	if w.state.dp == nil || w.state.config.Egress == nil {
		quiet := len(w.guard.Problems) == 0 && w.guard.sweptAt.IsZero()
		w.state.mu.RUnlock()
		if !quiet {
			w.set(natGuard{}, nil)
		}
		return
	}
	next, err := w.read()
	was, config := w.guard, w.state.config
	if err == nil {
		next.evaluate(was, *config.Egress)
		next.Problems = append(next.Problems, w.replication.Problems(config, w.role.States(), next.sweptAt)...)
	} else {
		next = was
	}
	w.state.mu.RUnlock()
	w.set(next, err)
}

// read sweeps and reads. mu is held.
func (w *natWatch) read() (g natGuard, err error) {
	if g.gcStats, err = w.state.dp.NAT.NATSweep(); err != nil {
		return g, err
	}
	g.sweptAt = time.Now()
	if g.pressures, err = w.state.dp.Egress.PortUsages(mostPressures); err != nil {
		return g, err
	}
	drops, err := w.state.dp.Drops.Drops()
	if err != nil {
		return g, err
	}
	g.drops = make(map[string]uint64)
	for _, d := range drops {
		g.drops[d.Reason] = d.Packets
	}
	events, err := w.state.dp.Drops.Events()
	g.natEventsLost, g.earlyDropped = events[gateway.EventsLost], events[eventEarlyDropped]
	g.known = err == nil
	return g, err
}

func (w *natWatch) set(next natGuard, err error) {
	w.state.mu.Lock()
	was := w.guard.Problems
	w.guard = next
	w.state.mu.Unlock()
	w.faults.Report("sweep the sessions", err)
	alarm.LogChanges(w.log, was, next.Problems)
}

// madeRoom is how many sessions were dropped early since the guard before.
func (g *natGuard) madeRoom(was natGuard) uint64 {
	if !was.known || g.earlyDropped < was.earlyDropped {
		return 0
	}
	return g.earlyDropped - was.earlyDropped
}

// evaluate says what is wrong, when was is the guard before.
func (g *natGuard) evaluate(was natGuard, config overlay.Egress) {
	pressed := func(what string, used, size int) bool {
		return g.Fills(was.Tables, what, used, size, fillAt, fillClear)
	}
	since := func(reason string) uint64 {
		if now, before := g.drops[reason], was.drops[reason]; was.known && now > before {
			return now - before
		}
		return 0
	}
	if n := g.gcStats.Sessions + g.gcStats.Mappings; pressed("table", n, int(config.NATSessions)) || since(reasonFull) > 0 || g.madeRoom(was) > 0 {
		g.Warn("egress: %d of %d sessions; just now %d that were over or unanswered made room, and %d packets found none (%s): raise spec.egress.sessions, "+
			"or find the busiest sources with `selvage nat --top sources`", n, config.NATSessions, g.madeRoom(was), since(reasonFull), reasonFull)
	}
	for _, p := range g.pressures {
		if what := fmt.Sprint(p.Proto, p.Egress, p.Outside); pressed(what, p.Used, p.Size) {
			g.Warn("egress: %d of %d %s ports of %s are in use for %s: give policy %s more addresses, or find the busiest sources with `selvage nat --port-usage` and `--top sources`",
				p.Used, p.Size, api.ProtoName(p.Proto), p.Egress, p.Outside, p.Policy)
		}
	}
	if n := since(reasonExhausted); n > 0 {
		g.Fail("egress: %d packets were just dropped because no port was free (%s): `selvage nat --port-usage` shows for which destination", n, reasonExhausted)
	}
	if n := since(reasonNoGateway); n > 0 {
		g.Fail("egress: %d packets were just dropped because no gateway serves their sources (%s): see `selvage egress`", n, reasonNoGateway)
	}
	if was.known && g.natEventsLost > was.natEventsLost {
		g.Warn("egress: %d sessions began or ended without being logged or replicated (%s): the ring of events was full", g.natEventsLost-was.natEventsLost, gateway.EventsLost)
	}
	slices.SortFunc(g.Problems, func(a, b problem.Problem) int { return cmp.Compare(a.Text, b.Text) })
}
