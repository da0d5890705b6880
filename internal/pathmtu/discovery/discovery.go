// Package discovery finds the path MTUs that the tunnels of an edge obey: what probes find, and what ICMP messages of the
// underlay report.
//
// Its one invariant: a report is obeyed without a probe only where no probe can decide, and never below what leaves
// inner IPv6 its minimum. Do not use it for one path alone: that is pathmtu's.
package discovery

import (
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/background"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/pathmtu"
)

// Faults of discovery.
const (
	ProbeMTUs    = "probe path MTUs"
	readReports  = "read the path MTUs that ICMP messages reported"
	decideReport = "end a report of a path MTU"
	readTraffic  = "read which paths are used"
)

// IsMinor reports whether a fault is one of discovery, with which packets still go where they should.
func IsMinor(what string) bool {
	return slices.Contains([]string{ProbeMTUs, readReports, decideReport, readTraffic}, what)
}

// Probes find the path MTU from one TEP to each remote, by one interface or by the routing table.
type Probes interface {
	// Set says which remotes there are, and the most that each can have.
	Set(ceilings map[netip.Addr]int)
	Results() map[netip.Addr]pathmtu.Result
	Changed() <-chan struct{}
	Recheck(remote netip.Addr, reported int)
	// Used has the path to a remote confirmed again, where that was not done lately.
	Used(remote netip.Addr)
	Close() error
}

// Traffic is what a data path has sent by each path.
type Traffic interface {
	Paths() (map[overlay.Pair]datapath.Counters, error)
}

// Reports are what a data path was told by ICMP messages of the underlay.
type Reports interface {
	PathReports() (map[overlay.Pair]datapath.PathReport, error)
	// DecidePath ends what PathReports says of a path.
	DecidePath(pair overlay.Pair) error
}

// Options are what a Discovery needs.
type Options struct {
	// Open opens probes from a TEP by an interface, or with 0 by the routing table.
	Open func(tep netip.Addr, ifindex int, log *slog.Logger) (Probes, error)
	Log  *slog.Logger
	// Report keeps an error as a problem until it is called with nil.
	Report func(what string, err error)
}

// Discovery is what is known of the MTU on the way to remotes. One goroutine changes it, in the network namespace of the
// underlay; Read and Applied may be called by any.
type Discovery struct {
	o       Options
	found   chan struct{} // has a mark when probes have news
	reports chan struct{} // has a mark when the data path has a report

	mu       sync.Mutex // held while what follows changes
	probes   map[probeSource]followed
	applied  map[overlay.Pair]int    // in bytes of an IP packet: what the tables in force obey
	obeyed   map[overlay.Pair]report // without a confirmation
	outcomes map[string]uint64       // how many reports came to what
	// asked is when probes were asked to look into a message. The goroutine that changes has it alone.
	asked map[overlay.Pair]time.Time
	// sent is how many packets paths had at the last look, which was at looked. The same goroutine has both.
	sent   map[overlay.Pair]uint64
	looked time.Time
}

// New knows nothing yet.
func New(o Options) *Discovery {
	return &Discovery{
		o: o, found: make(chan struct{}, 1), reports: make(chan struct{}, 1), probes: make(map[probeSource]followed), asked: make(map[overlay.Pair]time.Time),
		obeyed: make(map[overlay.Pair]report), outcomes: make(map[string]uint64),
	}
}

// Found has a mark when probes have found another path MTU.
func (d *Discovery) Found() <-chan struct{} { return d.found }

// Reported has Reports have a mark. It waits for nobody, and may be called by any goroutine.
func (d *Discovery) Reported() { background.Notify(d.reports) }

// Reports has a mark when Follow is to be called soon: the data path said that it has a report.
func (d *Discovery) Reports() <-chan struct{} { return d.reports }

// IsWaiting reports whether probes are asked about reports, so that Follow is to be called often. It is for the goroutine
// that calls Follow.
func (d *Discovery) IsWaiting() bool { return len(d.asked) > 0 }

// Probe makes the probes be those of an edge on its host, and returns the path MTUs that tables are to obey, in bytes
// of an IP packet.
func (d *Discovery) Probe(config overlay.Edge, hostState host.State) map[overlay.Pair]int {
	var errs []error
	wanted := probesWanted(config, hostState)
	for source := range wanted {
		errs = append(errs, d.openProbes(source))
	}
	for source := range d.probes {
		if wanted[source] == nil {
			errs = append(errs, d.endProbes(source))
		}
	}
	d.o.Report(ProbeMTUs, errors.Join(errs...))
	for source, probes := range d.probes {
		probes.Set(wanted[source])
	}
	results := d.results()
	probed := make(map[overlay.Pair]int)
	for pair, r := range results {
		if r.MTU > 0 {
			probed[pair] = r.MTU
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.obey(probed, results, time.Now())
	return probed
}

// SetApplied says which of what Probe returned is in force.
func (d *Discovery) SetApplied(probed map[overlay.Pair]int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.applied = probed
}

// Applied are the path MTUs that are in force, in bytes of an IP packet.
func (d *Discovery) Applied() map[overlay.Pair]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.applied)
}

// lookEach is the least time between looks at which paths are used. A look of an idle edge costs a system call or two.
const lookEach = 2 * time.Second

// ConfirmUsed has probes confirm the MTU of paths by which packets were sent since the last look. It may be called often.
func (d *Discovery) ConfirmUsed(from Traffic) {
	now := time.Now()
	if len(d.probes) == 0 || now.Sub(d.looked) < lookEach {
		return
	}
	d.looked = now
	counters, err := from.Paths()
	d.o.Report(readTraffic, err)
	if err != nil {
		return
	}
	sent := make(map[overlay.Pair]uint64, len(counters))
	for pair, c := range counters {
		sent[pair] = c.Packets
		if c.Packets == d.sent[pair] {
			continue
		}
		for source, probes := range d.probes {
			if source.tep == pair.Local {
				probes.Used(pair.Remote) // which ignores remotes that it does not probe
			}
		}
	}
	d.sent = sent
}

// Close ends the probes.
func (d *Discovery) Close() error {
	var errs []error
	for source := range d.probes {
		errs = append(errs, d.endProbes(source))
	}
	return errors.Join(errs...)
}

// Read reads what is known.
func (d *Discovery) Read(from Reports) (Readings, error) {
	reported, err := from.PathReports()
	d.mu.Lock()
	defer d.mu.Unlock()
	return Readings{d.results(), maps.Clone(d.obeyed), reported, maps.Clone(d.outcomes)}, err
}

// States of path MTUs.
const (
	pathConfirmed  = "confirmed"
	pathUnanswered = "unanswered"
	pathReported   = "reported by ICMP"
	pathProbing    = "probing"
	pathNotProbed  = "not probed"
)

// Readings are what is known of path MTUs.
type Readings struct {
	results map[overlay.Pair]pathmtu.Result
	obeyed  map[overlay.Pair]report
	// Reported are messages that are pending.
	Reported map[overlay.Pair]datapath.PathReport
	outcomes map[string]uint64 // of former ones
}

// State is where the path MTU that tunnels of a path obey comes from.
func (r Readings) State(pair overlay.Pair) string {
	if _, ok := r.obeyed[pair]; ok {
		return pathReported
	}
	switch r.results[pair].State {
	case pathmtu.Confirmed:
		return pathConfirmed
	case pathmtu.Unanswered:
		return pathUnanswered
	case pathmtu.Probing:
		return pathProbing
	}
	return pathNotProbed
}

// IsAnswered reports whether the far end of a path answers probes.
func (r Readings) IsAnswered(pair overlay.Pair) bool {
	return r.results[pair].State == pathmtu.Confirmed
}

// Outcome is how often a report came to that.
type Outcome struct {
	Name  string
	Times uint64
}

// Outcomes are what became of former reports, all there are, in the order of the metrics.
func (r Readings) Outcomes() (list []Outcome) {
	for _, name := range reportOutcomes {
		list = append(list, Outcome{name, r.outcomes[name]})
	}
	return list
}
