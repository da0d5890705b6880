package alarm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// fillAt is the filling of ports and of the table of sessions that is an alarm, until it is
// below fillClear.
const fillAt, fillClear = 0.80, 0.75

// NATSweepLeast is the time between two sweeps over NAT sessions, unless one takes so long that they
// would cost more than one per cent of a core.
const NATSweepLeast = 10 * time.Second

// mostPortUsages bounds the port usages that become alarms.
const mostPortUsages = 5

// Reasons and events of bpf/core/reasons.h that raise an alarm when they happen.
const (
	reasonExhausted = "nat-exhausted"
	reasonFull      = "nat-full"
	reasonNoGateway = "no-gateway"

	eventEarlyDropped = "nat-early-dropped"
	eventNATLost      = "nat-event-lost"
	eventEvicted      = "nat-inbound-evicted"
)

// NATTables are the NAT sessions of a data path, and what it counts of them. NATSweep is not called twice at once.
type NATTables interface {
	// NATSweep has sessions expire, and counts the others.
	NATSweep() (datapath.NATGCStats, error)
	// PortUsages are the fullest, so many at most.
	PortUsages(most, least int) ([]datapath.PortUsage, error)
	Drops() ([]datapath.Drop, error)
	Events() (map[string]uint64, error)
}

// NATSource lends the NAT sessions of a data path.
type NATSource interface {
	// WithNAT calls do while nothing changes, or reports that there is no egress.
	WithNAT(do func(overlay.Egress, NATTables) error) (is bool, err error)
	// ReplicationProblems are what is wrong with the replication of sessions.
	ReplicationProblems(now time.Time) []problem.Problem
	// Swept is called after each sweep.
	Swept()
}

// NATReading is what a sweep saw of NAT sessions. Its zero value has seen nothing. It is replaced, never changed.
type NATReading struct {
	GCStats datapath.NATGCStats
	SweptAt time.Time
	Fullest []datapath.PortUsage
	drops   map[string]uint64
	events  map[string]uint64
	known   bool // of drops and events: there was a sweep before
	Tables
}

// NAT has NAT sessions expire, and watches over their tables.
type NAT struct {
	o    Options
	from NATSource
	mu   sync.Mutex
	last NATReading
}

// NewNAT has seen nothing.
func NewNAT(o Options, from NATSource) *NAT { return &NAT{o: o, from: from} }

// Last is the last reading.
func (n *NAT) Last() NATReading {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last
}

// Watch works until ctx ends. Two sweeps are least apart, or more where they cost much.
func (n *NAT) Watch(ctx context.Context, least time.Duration) {
	n.o.sweepEvery(ctx, least, timeNATSweep, nil, func() {
		n.sweep()
		n.from.Swept()
	})
}

// sweep lets the expired sessions go, and looks at how full tables and ports are.
func (n *NAT) sweep() {
	was := n.Last()
	var next NATReading
	var config overlay.Egress
	is, err := n.from.WithNAT(func(e overlay.Egress, tables NATTables) error {
		config = e
		return next.read(tables)
	})
	switch {
	case !is && len(was.Problems) == 0 && was.SweptAt.IsZero():
		return
	case !is: // it was taken away
	case err == nil:
		next.evaluate(was, config)
		next.Problems = append(next.Problems, n.from.ReplicationProblems(next.SweptAt)...)
	default:
		next = was
	}
	n.mu.Lock()
	n.last = next
	n.mu.Unlock()
	n.o.Report("sweep the sessions", err)
	LogChanges(n.o.Log, was.Problems, next.Problems)
}

// read sweeps and reads.
func (g *NATReading) read(tables NATTables) (err error) {
	if g.GCStats, err = tables.NATSweep(); err != nil {
		return err
	}
	g.SweptAt = time.Now()
	if g.Fullest, err = tables.PortUsages(mostPortUsages, fewPlaces); err != nil {
		return err
	}
	drops, err := tables.Drops()
	if err != nil {
		return err
	}
	g.drops = make(map[string]uint64)
	for _, d := range drops {
		g.drops[d.Reason] = d.Packets
	}
	g.events, err = tables.Events()
	g.known = err == nil
	return err
}

// madeRoom is how many sessions were dropped early since the reading before.
func (g *NATReading) madeRoom(was NATReading) uint64 {
	return g.eventsSince(was, eventEarlyDropped)
}

// eventsSince is how often something happened since the reading before.
func (g *NATReading) eventsSince(was NATReading, event string) uint64 {
	if !was.known || g.events[event] < was.events[event] {
		return 0
	}
	return g.events[event] - was.events[event]
}

// evaluate says what is wrong, when was is the reading before.
func (g *NATReading) evaluate(was NATReading, config overlay.Egress) {
	pressed := func(what string, used, size int) bool {
		return g.Fills(was.Tables, what, used, size, fillAt, fillClear)
	}
	since := func(reason string) uint64 {
		if now, before := g.drops[reason], was.drops[reason]; was.known && now > before {
			return now - before
		}
		return 0
	}
	if n := g.GCStats.Sessions + g.GCStats.Mappings; pressed("table", n, int(config.NATSessions)) || since(reasonFull) > 0 || g.madeRoom(was) > 0 {
		g.Warn("egress: %d of %d sessions; just now %d that were over or unanswered made room, and %d packets found none (%s): raise spec.egress.sessions, "+
			"or find the busiest sources with `selvage nat --top sources`", n, config.NATSessions, g.madeRoom(was), since(reasonFull), reasonFull)
	}
	for _, p := range g.Fullest {
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
	if n := g.eventsSince(was, eventNATLost); n > 0 {
		g.Warn("egress: %d sessions began or ended without being logged or replicated (%s): the ring of events was full", n, eventNATLost)
	}
	if n := g.eventsSince(was, eventEvicted); n > 0 {
		g.Warn("egress: %d connections from outside were just forgotten before they were answered (%s), so that their answers may leave translated: "+
			"find who floods a host with `selvage flows`, or raise spec.egress.sessions", n, eventEvicted)
	}
	slices.SortFunc(g.Problems, func(a, b problem.Problem) int { return cmp.Compare(a.Text, b.Text) })
}
