package edge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
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

// sweepNAT lets the expired sessions go, and looks at how full tables and ports are.
func (e *edge) sweepNAT() {
	e.state.mu.RLock()
	if e.state.dp == nil || e.state.config.Egress == nil {
		quiet := len(e.natGuard.Problems) == 0 && e.natGuard.sweptAt.IsZero()
		e.state.mu.RUnlock()
		if !quiet {
			e.setNATGuard(natGuard{}, nil)
		}
		return
	}
	next, err := e.readNATGuard()
	was, config := e.natGuard, e.state.config
	if err == nil {
		next.evaluate(was, *config.Egress)
		next.Problems = append(next.Problems, e.replication.Problems(config, e.role.States(), next.sweptAt)...)
	} else {
		next = was
	}
	e.state.mu.RUnlock()
	e.setNATGuard(next, err)
}

// readNATGuard sweeps and reads. mu is held.
func (e *edge) readNATGuard() (g natGuard, err error) {
	if g.gcStats, err = e.state.dp.NAT.NATSweep(); err != nil {
		return g, err
	}
	g.sweptAt = time.Now()
	if g.pressures, err = e.state.dp.Egress.PortUsages(mostPressures); err != nil {
		return g, err
	}
	drops, err := e.state.dp.Drops.Drops()
	if err != nil {
		return g, err
	}
	g.drops = make(map[string]uint64)
	for _, d := range drops {
		g.drops[d.Reason] = d.Packets
	}
	events, err := e.state.dp.Drops.Events()
	g.natEventsLost, g.earlyDropped = events[gateway.EventsLost], events[eventEarlyDropped]
	g.known = err == nil
	return g, err
}

func (e *edge) setNATGuard(next natGuard, err error) {
	e.state.mu.Lock()
	was := e.natGuard.Problems
	e.natGuard = next
	e.state.mu.Unlock()
	e.faults.report("sweep the sessions", err)
	e.tell(was, next.Problems)
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
