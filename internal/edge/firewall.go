package edge

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/policy"
)

// ruled is a configuration's policies. Its zero value is of one without a firewall and
// egress policies.
type ruled struct {
	policy *policy.Policy
	places []policy.Place
	// shadows are found when somebody asks: for many rules it takes long.
	shadows func() []policy.Shadow

	egress       *policy.Policy // nil without egress policies
	egressRules  overlay.Firewall
	egressPlaces []policy.Place
}

// compile makes the policies of next. Each is the former itself when nothing of it changed,
// so that the data path need not load it again.
func compile(was overlay.Edge, previous ruled, next overlay.Edge) (r ruled, err error) {
	if err := r.compileEgress(previous, next); err != nil || next.Firewall == nil {
		return r, err
	}
	r.places = plan.Places(next)
	if previous.policy != nil && reflect.DeepEqual(was.Firewall, next.Firewall) && reflect.DeepEqual(previous.places, r.places) {
		r.policy, r.shadows = previous.policy, previous.shadows
		return r, nil
	}
	if r.policy, err = policy.Compile(*next.Firewall, r.places); err != nil {
		return ruled{}, fmt.Errorf("spec.firewall: %w", err)
	}
	r.shadows = sync.OnceValue(r.policy.Shadowed)
	return r, nil
}

func (r *ruled) compileEgress(previous ruled, next overlay.Edge) (err error) {
	if next.Egress == nil || len(next.Egress.Policies) == 0 {
		return nil
	}
	r.egressRules, r.egressPlaces = plan.EgressRules(next)
	if previous.egress != nil && reflect.DeepEqual(previous.egressRules, r.egressRules) && reflect.DeepEqual(previous.egressPlaces, r.egressPlaces) {
		r.egress = previous.egress
		return nil
	}
	if r.egress, err = policy.Compile(r.egressRules, r.egressPlaces); err != nil {
		return fmt.Errorf("spec.egress: %w", err)
	}
	return nil
}

// manyRules take more memory to read and compile than the runtime should keep for itself.
const manyRules = 10_000

// freeMemory gives that memory back, when one of the configurations has that many.
func freeMemory(configs ...overlay.Edge) {
	for _, c := range configs {
		if c.Firewall != nil && len(c.Firewall.Rules) >= manyRules {
			debug.FreeOSMemory()
			return
		}
	}
}

const (
	// logEvery is how often lines of the log are taken over, logMost how many at a time.
	logEvery = 100 * time.Millisecond
	logMost  = 10_000
	// sweepLeast is the time between two sweeps, unless one takes so long that they
	// would cost more than one per cent of a core.
	sweepLeast = 5 * time.Second
)

// guard is what the edge saw of its firewall.
type guard struct {
	gcStats datapath.GCStats
	sweptAt time.Time
	events  map[string]uint64
	tableAlarms
}

// watchFirewall writes the firewall's log, has connections expire and raises alarms
// until ctx ends.
func (e *edge) watchFirewall(ctx context.Context) {
	tick := time.NewTicker(logEvery)
	defer tick.Stop()
	var notBefore time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		e.writeLog()
		begin := time.Now()
		if begin.Before(notBefore) {
			continue
		}
		took, err := timed(func() error {
			e.sweep()
			return nil
		})
		e.reportProblem(timeSweep, err)
		notBefore = begin.Add(max(e.opts.Sweep, watchShare*took))
	}
}

// sweep lets the expired connections go, and looks at how full the tables are.
func (e *edge) sweep() {
	e.mu.RLock()
	if e.dp == nil || e.config.Firewall == nil {
		quiet := len(e.guard.problems) == 0 && e.guard.sweptAt.IsZero()
		e.mu.RUnlock()
		if !quiet {
			e.setGuard(guard{}, nil)
		}
		return
	}
	gcStats, err := e.dp.Firewall.Sweep()
	next := guard{gcStats: gcStats, sweptAt: time.Now()}
	if err == nil {
		next.events, err = e.dp.Drops.Events()
	}
	limits, was := *e.config.Firewall, e.guard
	e.mu.RUnlock()
	if err == nil {
		next.evaluate(was, limits)
	} else {
		next = was
	}
	e.setGuard(next, err)
}

func (e *edge) setGuard(next guard, err error) {
	e.mu.Lock()
	was := e.guard.problems
	e.guard = next
	e.mu.Unlock()
	e.reportProblem("sweep the firewall's connections", err)
	e.tell(was, next.problems)
}

// A table is under pressure from pressedAt of its size on, until it is below clearAt.
const pressedAt, clearAt = 0.90, 0.80

// Events of bpf/core/reasons.h that raise an alarm when they happen.
const eventConnFull, eventLogLost = "conntrack-full", "log-lost"

// evaluate says what is wrong, when was is the guard before.
func (g *guard) evaluate(was guard, fw overlay.Firewall) {
	pressed := func(what string, used int, size uint32) bool {
		return g.fills(was.tableAlarms, what, used, int(size), pressedAt, clearAt)
	}
	since := func(event string) uint64 {
		before, known := was.events[event]
		if now := g.events[event]; known && now > before {
			return now - before
		}
		return 0
	}
	if n := g.gcStats.Connections; pressed(datapath.TableConnections, n, fw.Sizes.Connections) || since(eventConnFull) > 0 {
		g.warn("firewall: %d of %d connections, the oldest idle ones of the ports that have the most are evicted: raise spec.firewall.connections, "+
			"or find the busiest sources with `selvage sessions --top sources`", n, fw.Sizes.Connections)
	}
	if n := g.gcStats.Waiting; pressed(datapath.TableHalfOpen, n, fw.Sizes.HalfOpen) {
		g.warn("firewall: %d of %d half-open connections, the oldest of the ports that have the most are evicted: check with `selvage sessions --top sources` "+
			"for a scan or a flood, or raise spec.firewall.halfOpen", n, fw.Sizes.HalfOpen)
	}
	for _, port := range slices.Sorted(maps.Keys(g.gcStats.HalfOpens)) {
		half := g.gcStats.HalfOpens[port]
		if n := max(half.In, half.Out); pressed("port "+port, n, half.Limit) {
			g.warn("firewall: port %s has %d half-open connections, near its limit of %d, and loses its oldest: check with "+
				"`selvage sessions --port %s --top sources` for a scan or a flood, or raise its limits.halfOpen", port, n, half.Limit, port)
		}
	}
	if n := since(eventLogLost); n > 0 {
		g.warn("firewall: %d log lines were over the rate limit and not written: raise spec.firewall.logRate, or log fewer rules", n)
	}
}

// writeLog takes over the lines that the data path wrote.
func (e *edge) writeLog() {
	e.mu.RLock()
	if e.dp == nil || e.config.Firewall == nil {
		e.mu.RUnlock()
		return
	}
	var lines []datapath.LogLine // written when nobody waits for the lock
	err := e.dp.Firewall.Logs(logMost, func(l datapath.LogLine) { lines = append(lines, l) })
	e.mu.RUnlock()
	for _, l := range lines {
		e.logLine(l)
	}
	e.reportProblem(readLog, err)
}

// logLine writes one of them.
func (e *edge) logLine(l datapath.LogLine) {
	attrs := []any{
		"verdict", string(l.Verdict), "section", l.Rule.Section, "rule", l.Rule.Name, "port", l.Port, "direction", string(l.Direction),
		"proto", api.ProtoName(l.Proto), "src", l.Src, "dst", l.Dst,
	}
	switch {
	case isICMP(l.Proto):
		attrs = append(attrs, "type", l.DstPort>>8, "code", l.DstPort&0xff)
	case l.SrcPort != 0 || l.DstPort != 0:
		attrs = append(attrs, "sport", l.SrcPort, "dport", l.DstPort)
	}
	if l.TCPFlags != 0 {
		attrs = append(attrs, "flags", tcpFlags(l.TCPFlags))
	}
	attrs = append(attrs, "bytes", l.Len)
	if l.Reason != "" {
		attrs = append(attrs, "reason", l.Reason)
	}
	if l.Lost > 0 {
		attrs = append(attrs, "lost", l.Lost)
	}
	e.log.Info("firewall", attrs...)
}

// tcpFlags names the bits of a TCP header (RFC 9293 section 3.1).
func tcpFlags(bits uint8) string {
	var names []string
	for i, name := range []string{"fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"} {
		if bits>>i&1 == 1 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}
