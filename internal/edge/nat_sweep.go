package edge

import (
	"fmt"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
)

// fillAt is the filling of ports and of the table of bindings that is an alarm, until it is
// below fillCalm.
const fillAt, fillCalm = 0.80, 0.75

// mostPressures bounds the pressures that become alarms.
const mostPressures = 5

// Reasons and events of bpf/core/reasons.h that raise an alarm when they happen.
const (
	reasonExhausted = "nat-exhausted"
	reasonFull      = "nat-full"
	reasonNoGateway = "no-gateway"
)

// natGuard is what the edge saw of its bindings.
type natGuard struct {
	census    datapath.NATCensus
	sweptAt   time.Time
	pressures []datapath.Pressure // the fullest
	drops     map[string]uint64
	newsLost  uint64
	known     bool            // of drops and newsLost: there was a sweep before
	pressed   map[string]bool // alarms that are raised, by what they are about
	problems  []string
}

// sweepNAT lets the expired bindings go, and looks at how full tables and ports are.
func (e *edge) sweepNAT() {
	e.mu.RLock()
	if e.dp == nil || e.config.Egress == nil {
		quiet := len(e.natGuard.problems) == 0 && e.natGuard.sweptAt.IsZero()
		e.mu.RUnlock()
		if !quiet {
			e.setNATGuard(natGuard{}, nil)
		}
		return
	}
	next, err := e.readNATGuard()
	was, config := e.natGuard, e.config
	if err == nil {
		next.judge(was, *config.Egress)
		next.problems = append(next.problems, e.replicationProblems(e.steering.judgements(), next.sweptAt)...)
	} else {
		next = was
	}
	e.mu.RUnlock()
	e.setNATGuard(next, err)
}

// readNATGuard sweeps and reads. mu is held.
func (e *edge) readNATGuard() (g natGuard, err error) {
	if g.census, err = e.dp.NATSweep(); err != nil {
		return g, err
	}
	g.sweptAt = time.Now()
	if g.pressures, err = e.dp.Pressures(mostPressures); err != nil {
		return g, err
	}
	drops, err := e.dp.Drops()
	if err != nil {
		return g, err
	}
	g.drops = make(map[string]uint64)
	for _, d := range drops {
		g.drops[d.Reason] = d.Packets
	}
	events, err := e.dp.Events()
	g.newsLost = events[eventNewsLost]
	g.known = err == nil
	return g, err
}

func (e *edge) setNATGuard(next natGuard, err error) {
	e.mu.Lock()
	was := e.natGuard.problems
	e.natGuard = next
	e.mu.Unlock()
	e.fault("sweep the bindings", err)
	e.tell(was, next.problems)
}

// judge says what is wrong, when was is the guard before.
func (g *natGuard) judge(was natGuard, config overlay.Egress) {
	g.pressed = make(map[string]bool)
	pressed := func(what string, used, size int) bool {
		limit := fillAt
		if was.pressed[what] {
			limit = fillCalm
		}
		g.pressed[what] = size > 0 && float64(used) >= limit*float64(size)
		return g.pressed[what]
	}
	since := func(reason string) uint64 {
		if now, before := g.drops[reason], was.drops[reason]; was.known && now > before {
			return now - before
		}
		return 0
	}
	say := func(format string, args ...any) { g.problems = append(g.problems, fmt.Sprintf(format, args...)) }
	if n := g.census.Bindings + g.census.Mappings; pressed("table", n, int(config.Bindings)) || since(reasonFull) > 0 {
		say("egress: %d of %d bindings, and connections beyond are dropped (%s): raise spec.egress.bindings, "+
			"or see with `selvage nat --top sources` who has so many", n, config.Bindings, reasonFull)
	}
	for _, p := range g.pressures {
		if what := fmt.Sprint(p.Proto, p.Egress, p.Outside); pressed(what, p.Used, p.Size) {
			say("egress: %d of %d %s ports of %s are in use for %s: give policy %s more addresses, or see with `selvage nat --pressure` and `--top sources` who has so many",
				p.Used, p.Size, ipProto(p.Proto), p.Egress, p.Outside, p.Policy)
		}
	}
	if n := since(reasonExhausted); n > 0 {
		say("egress: %d packets were dropped just now for want of a free port (%s): see with `selvage nat --pressure` for which destination", n, reasonExhausted)
	}
	if n := since(reasonNoGateway); n > 0 {
		say("egress: %d packets were dropped just now because no gateway serves their sources (%s): see `selvage egress`", n, reasonNoGateway)
	}
	if was.known && g.newsLost > was.newsLost {
		say("egress: %d bindings began or ended without log and other gateways hearing of it (%s): their ring was full", g.newsLost-was.newsLost, eventNewsLost)
	}
	slices.Sort(g.problems)
}
