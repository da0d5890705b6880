package alarm

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
)

const (
	// LogEvery is how often lines of the log are taken over, logMost how many at a time.
	LogEvery = 100 * time.Millisecond
	logMost  = 10_000
	// SweepLeast is the time between two sweeps, unless one takes so long that they
	// would cost more than one per cent of a core.
	SweepLeast = 5 * time.Second
)

// Conntrack is the connection tracking of a data path. Sweep and Logs are not called twice at
// once.
type Conntrack interface {
	// Sweep has connections expire, and counts the others.
	Sweep() (datapath.GCStats, error)
	Events() (map[string]uint64, error)
	Logs(most int, do func(datapath.LogLine)) error
}

// FirewallSource lends the firewall of a data path.
type FirewallSource interface {
	// WithFirewall calls do while nothing changes, or reports that there is no firewall.
	WithFirewall(do func(overlay.Firewall, Conntrack) error) (is bool, err error)
}

// Firewall writes the firewall's log, has connections expire and watches over its tables.
type Firewall struct {
	o    Options
	from FirewallSource
	mu   sync.Mutex
	last FirewallReading
}

// FirewallReading is what a sweep saw of the firewall. Its zero value has seen nothing. It is
// replaced, never changed.
type FirewallReading struct {
	GCStats datapath.GCStats
	SweptAt time.Time
	events  map[string]uint64
	Tables
}

// NewFirewall has seen nothing.
func NewFirewall(o Options, from FirewallSource) *Firewall { return &Firewall{o: o, from: from} }

// Last is the last reading.
func (f *Firewall) Last() FirewallReading {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// Watch works until ctx ends. Two sweeps are least apart, or more where they cost much.
func (f *Firewall) Watch(ctx context.Context, least time.Duration) {
	f.o.sweepEvery(ctx, least, TimeSweep, f.writeLog, f.sweep)
}

// sweep lets the expired connections go, and looks at how full the tables are.
func (f *Firewall) sweep() {
	was := f.Last()
	var next FirewallReading
	var fw overlay.Firewall
	is, err := f.from.WithFirewall(func(config overlay.Firewall, tables Conntrack) (err error) {
		fw = config
		next.GCStats, err = tables.Sweep()
		next.SweptAt = time.Now()
		if err == nil {
			next.events, err = tables.Events()
		}
		return err
	})
	switch {
	case !is && len(was.Problems) == 0 && was.SweptAt.IsZero():
		return
	case !is: // it was taken away
	case err == nil:
		next.evaluate(was, fw)
	default:
		next = was
	}
	f.mu.Lock()
	f.last = next
	f.mu.Unlock()
	f.o.Report("sweep the firewall's connections", err)
	LogChanges(f.o.Log, was.Problems, next.Problems)
}

// A table is under pressure from pressedAt of its size on, until it is below clearAt.
const pressedAt, clearAt = 0.90, 0.80

// Events of bpf/core/reasons.h that raise an alarm when they happen.
const (
	EventConnFull = "conntrack-full"
	EventLogLost  = "log-lost"
)

// evaluate says what is wrong, when was is the reading before.
func (g *FirewallReading) evaluate(was FirewallReading, fw overlay.Firewall) {
	pressed := func(what string, used int, size uint32) bool {
		return g.Fills(was.Tables, what, used, int(size), pressedAt, clearAt)
	}
	since := func(event string) uint64 {
		before, known := was.events[event]
		if now := g.events[event]; known && now > before {
			return now - before
		}
		return 0
	}
	if n := g.GCStats.Connections; pressed(datapath.TableConnections, n, fw.Sizes.Connections) || since(EventConnFull) > 0 {
		g.Warn("firewall: %d of %d connections, the oldest idle ones of the ports that have the most are evicted: raise spec.firewall.connections, "+
			"or find the busiest sources with `selvage sessions --top sources`", n, fw.Sizes.Connections)
	}
	if n := g.GCStats.Waiting; pressed(datapath.TableHalfOpen, n, fw.Sizes.HalfOpen) {
		g.Warn("firewall: %d of %d half-open connections, the oldest of the ports that have the most are evicted: check with `selvage sessions --top sources` "+
			"for a scan or a flood, or raise spec.firewall.halfOpen", n, fw.Sizes.HalfOpen)
	}
	for _, port := range slices.Sorted(maps.Keys(g.GCStats.HalfOpens)) {
		half := g.GCStats.HalfOpens[port]
		if n := max(half.In, half.Out); pressed("port "+port, n, half.Limit) {
			g.Warn("firewall: port %s has %d half-open connections, near its limit of %d, and loses its oldest: check with "+
				"`selvage sessions --port %s --top sources` for a scan or a flood, or raise its limits.halfOpen", port, n, half.Limit, port)
		}
	}
	if n := since(EventLogLost); n > 0 {
		g.Warn("firewall: %d log lines were over the rate limit and not written: raise spec.firewall.logRate, or log fewer rules", n)
	}
}

// writeLog takes over the lines that the data path wrote, where there is a firewall.
func (f *Firewall) writeLog() (is bool) {
	var lines []datapath.LogLine // written when nobody waits for the lock
	is, err := f.from.WithFirewall(func(_ overlay.Firewall, tables Conntrack) error {
		return tables.Logs(logMost, func(l datapath.LogLine) { lines = append(lines, l) })
	})
	if !is {
		return false
	}
	for _, l := range lines {
		f.logLine(l)
	}
	f.o.Report(readLog, err)
	return true
}

// logLine writes one of them.
func (f *Firewall) logLine(l datapath.LogLine) {
	attrs := []any{
		"verdict", string(l.Verdict), "section", l.Rule.Section, "rule", l.Rule.Name, "port", l.Port, "direction", string(l.Direction),
		"proto", api.ProtoName(l.Proto), "src", l.Src, "dst", l.Dst,
	}
	switch {
	case l.Proto == unix.IPPROTO_ICMP || l.Proto == unix.IPPROTO_ICMPV6:
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
	f.o.Log.Info("firewall", attrs...)
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
