package edge

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/pathmtu"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/prove"
)

// Data paths as the edge sees them. An edge never calls two methods at once, except
// those of Reader, those of Steerer, one at a time, beside any but Apply, DecidePath,
// Remove and Close, and FollowHostEvents, beside any but Remove and Close.
type (
	// DataPath is the forwarding plane of one edge.
	DataPath interface {
		Writer
		Steerer
		Learner
		Reader
		Owner
		// FollowHostEvents calls do with hosts that come to ports, until ctx ends. The zero
		// Arrival stands for some that were missed.
		FollowHostEvents(ctx context.Context, do func([]datapath.HostEvent)) error
	}
	// Writer changes what the data path does.
	Writer interface {
		Apply(t fib.Tables) error
		Age(ageing time.Duration) (aged int, err error)
		// Tick has time pass for the transit programs. It has to be called often.
		Tick() error
		Announce(list []datapath.Move) error
		// ProbeLoops sends a loop probe out of each port, in the network namespace; CutPorts cuts
		// ports off from floods.
		ProbeLoops() error
		CutPorts(names map[string]bool) error
		// DecidePath ends what PathReports says of a path.
		DecidePath(pair overlay.Pair) error
	}
	// Steerer has packets go elsewhere when something died.
	Steerer interface {
		// Steer changes which paths are used, of those that were applied last.
		Steer(teps []fib.TEP, pathPolicies []fib.PathPolicy) error
		// SteerEgress changes which gateways are, and what this edge does as one.
		SteerEgress(list []fib.Egress) error
		// AnnounceAddress must be called in the network namespace.
		AnnounceAddress(uplink string, addr netip.Addr) error
		// Lease is of the data path, and may be renewed beside any method, also when this handle is closed.
		Lease() (datapath.Lease, error)
	}
	// Learner takes over what BGP says, of the tables that were applied last. Its methods are
	// of those of Steerer. An error is of parts; the rest is done.
	Learner interface {
		PutBGPMACs(list []overlay.BGPMAC) error
		PutARPEntries(list []overlay.ARPEntry) error
		// PutRoutes has routes without a kind be gone.
		PutRoutes(list []fib.Router) error
		// Forget ends what the packets of a host told of its being at a port.
		Forget(segment string, mac overlay.MAC) error
		// SolicitHost must be called in the network namespace.
		SolicitHost(segment, port string, mac overlay.MAC, addrs []netip.Addr) error
	}
	// Reader says what the data path did.
	Reader interface {
		FDB() ([]datapath.FDBEntry, error)
		// Hosts are those at ports.
		Hosts() ([]datapath.LocalHost, error)
		Flows() ([]datapath.Flow, error)
		Drops() ([]datapath.Drop, error)
		OwnerDrops(kind datapath.OwnerKind) ([]datapath.OwnerDrop, error)
		LimitUsages() ([]datapath.LimitUsage, error)
		Ports() (map[string]datapath.PortCounters, error)
		TEPs() (map[netip.Addr]datapath.TEPCounters, error)
		// Paths is what was sent by each path.
		Paths() (map[overlay.Pair]datapath.Counters, error)
		Stats() (datapath.Stats, error)
		Events() (map[string]uint64, error)
		Firewall
		NAT
		// Refused are interfaces whose drivers did not take a transit program, and why.
		Refused() map[int]string
		Neighbours() ([]datapath.Neighbour, error)
		PathReports() (map[overlay.Pair]datapath.PathReport, error)
		// Trace must not be called twice at once, and in the network namespace.
		Trace(in datapath.TraceInput) (datapath.Trace, error)
	}
	// Firewall says what the firewall did. Sweep and Logs must not be called twice at
	// once; what Sweep changes nobody needs to wait for.
	Firewall interface {
		// Sweep has connections expire, and counts the others.
		Sweep() (datapath.GCStats, error)
		FirewallTables(c datapath.GCStats) []datapath.Table
		// Rules are in the policy's order.
		Rules() ([]datapath.RuleCounters, error)
		EachSession(do func(s *datapath.Session) bool) error
		CachedSessions(sessions []datapath.Session) ([][2]datapath.Cached, error)
		Logs(most int, do func(datapath.LogLine)) error
	}
	// NAT says what was translated. NATSweep and News must not be called twice at once; nobody
	// needs to wait for what they and the replicas change.
	NAT interface {
		// NATSweep has sessions expire, and counts the others.
		NATSweep() (datapath.NATGCStats, error)
		NATTables(c datapath.NATGCStats) []datapath.Table
		EachNATSession(do func(b *datapath.NATSession) bool) error
		EachNATRecord(do func(r *datapath.NATRecord) bool) error
		PortUsages(most int) ([]datapath.PortUsage, error)
		ReadNATEvents(most int, do func(n *datapath.NATEvent)) error
		PutNATRecords(records []datapath.NATRecord) (taken, conflicts int, err error)
		DeleteNATRecords(records []datapath.NATRecord) (gone int, err error)
	}
	// Owner ends the data path (Remove) or only its handles (Close).
	Owner interface {
		Adopted() bool
		// OlderPins says what was done with pins of former processes since it was asked last.
		OlderPins() []string
		// NewerPins says which pins of newer builds are left alone, and what that means. It must
		// be called in the network namespace.
		NewerPins() []string
		// PreviousRemotes are remotes, by segment, that a former process knew by BGP alone. It must be
		// called before the first Apply.
		PreviousRemotes(segments []overlay.Segment) (map[string][]netip.Addr, error)
		Remove() error
		Close() error
	}
)

// PathProbes find the path MTU from one TEP to each remote.
type PathProbes interface {
	// Set says which remotes there are, and the most that each can have.
	Set(ceilings map[netip.Addr]int)
	Results() map[netip.Addr]pathmtu.Result
	Changed() <-chan struct{}
	Recheck(remote netip.Addr, reported int)
	Close() error
}

// Liveness watches over the life of paths. Set must be called in the network
// namespace of the underlay.
type Liveness interface {
	// Set says which paths there are.
	Set(peers []bfd.Peer) error
	// SetService says what this edge does for others, which all remotes are told.
	SetService(service bfd.Service)
	Results() map[overlay.Pair]bfd.Result
	Changed() <-chan struct{}
	// Leave tells the remotes that the paths are no longer used.
	Leave(ctx context.Context) error
	// Close ends without a word. A second one does nothing.
	Close() error
}

// Host is the operating system as the edge sees it.
type Host interface {
	Observe(want host.Want) (host.State, error)
	Ensure(want host.Desired) error
	Changed() <-chan struct{}
	Close() error
}

func openDataPath(cfg datapath.Config) (DataPath, error) {
	d, err := datapath.Open(cfg)
	if err != nil {
		return nil, err // not d: a nil pointer would be a DataPath that is not nil
	}
	return d, nil
}

func openHost(recordPath string, log *slog.Logger) (Host, error) {
	h, err := host.Open(recordPath, log)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// pathProbes are a monitor and what it probes with.
type pathProbes struct {
	*pathmtu.Monitor
	prober *pathmtu.Prober
}

func (p pathProbes) Close() error {
	p.Monitor.Close()
	return p.prober.Close()
}

// openPathProbes must run in the network namespace of the underlay.
func openPathProbes(tep netip.Addr, log *slog.Logger) (PathProbes, error) {
	prober, err := pathmtu.Open(tep)
	if err != nil {
		return nil, err
	}
	return pathProbes{pathmtu.NewMonitor(prober, log), prober}, nil
}

func openLiveness(log *slog.Logger) (Liveness, error) {
	m, err := bfd.NewMonitor(log)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// dataPathConfig is the part of e that needs programs to be loaded anew when it changes.
func dataPathConfig(e overlay.Edge, opts RunOptions) datapath.Config {
	cfg := datapath.Config{
		Name: e.Name, FlowCache: e.FlowCache, FDB: e.FDB, Tables: e.Tables, PinRoot: opts.PinRoot,
		Transit: plan.HasTransit(e), Timing: opts.Timing, ProbeMAC: prove.MAC(self(e)),
	}
	if e.Firewall != nil {
		fw := *e.Firewall
		fw.Default, fw.Groups, fw.Rules, fw.Defaults = "", nil, nil, nil // the policy's
		cfg.Firewall = &fw
	}
	cfg.Egress = translation(e)
	for _, t := range e.Underlay.Local() {
		cfg.TEPs = append(cfg.TEPs, t.Addr)
	}
	for _, s := range plan.Segments(e) {
		if s.Tunnel.Encapsulation == overlay.NVGRE {
			cfg.NVGRE = true
			continue
		}
		port := datapath.UDPPort{Port: s.Tunnel.UDPPort, Encapsulation: s.Tunnel.Encapsulation}
		if !slices.Contains(cfg.UDPPorts, port) {
			cfg.UDPPorts = append(cfg.UDPPorts, port)
		}
	}
	slices.SortFunc(cfg.UDPPorts, func(a, b datapath.UDPPort) int { return cmp.Compare(a.Port, b.Port) })
	return cfg
}

// translation is what programs are loaded with of e's egress: sizes, timeouts, and whether
// somebody hears of sessions.
func translation(e overlay.Edge) *overlay.Egress {
	if e.Egress == nil {
		return nil
	}
	t := &overlay.Egress{NATSessions: e.Egress.NATSessions, Timeouts: e.Egress.Timeouts, Log: e.Egress.Log}
	if len(replicaLinks(e)) > 0 {
		t.Gateways = []overlay.GatewayGroup{{Replication: &overlay.Replication{}}}
	}
	return t
}
