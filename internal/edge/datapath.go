package edge

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/apiserver"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/pathmtu"
	"github.com/selvage/selvage/internal/pathmtu/discovery"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/prove"
	"github.com/selvage/selvage/internal/replica"
	"github.com/selvage/selvage/internal/rib"
	"github.com/selvage/selvage/internal/writer"
)

// DataPath is the forwarding plane of one edge, by subject. What writes (ApplyIn, CutPorts, Steer, SteerEgress, those of
// Learner and Routes, Forget, and of HostEvents SolicitHost and AnnounceAddress) is called by the goroutine of
// the writer, one at a time, and in ApplyIn when it yields. Of the rest an edge never calls two methods at once,
// except those that only read, and none beside ApplyIn. FollowHostEvents runs beside any but Remove and Close.
type DataPath struct {
	Tables     Tables
	Owner      Owner
	Links      Links
	Clock      Clock
	HostEvents HostEvents
	Ports      Ports
	Hosts      Hosts
	Learner    Learner
	Routes     Routes
	Paths      Paths
	Egress     Egress
	Drops      Drops
	Counters   Counters
	Flows      Flows
	Limits     Limits
	Firewall   Firewall
	NAT        NAT
	Replicas   Replicas
	Tracer     Tracer
	Monitors   apiserver.Monitors

	written *writer.DataPath
}

// writes are the subjects that the writer has alone.
func (d *DataPath) writes() *writer.DataPath {
	if d.written == nil {
		d.written = &writer.DataPath{
			Tables: d.Tables, Paths: d.Paths, Egress: d.Egress, Routes: d.Routes, Learner: d.Learner, Hosts: d.Hosts, Frames: d.HostEvents,
		}
	}
	return d.written
}

// The subjects of a data path.
type (
	// Tables are what it forwards by.
	Tables interface {
		ApplyIn(t fib.Tables, steps datapath.Steps) error
		Age(ageing time.Duration) (aged int, err error)
	}
	// Owner ends the data path (Remove) or only its handles (Close).
	Owner interface {
		Adopted() bool
		Remove() error
		Close() error
	}
	// Links are the programs that are attached, and pins of other builds.
	Links interface {
		// Refused are interfaces whose drivers did not take a transit program, and why.
		Refused() map[int]string
		// OlderPins says what was done with pins of former processes since it was asked last.
		OlderPins() []string
		// NewerPins says which pins of newer builds are left alone, and what that means. It must
		// be called in the network namespace.
		NewerPins() []string
	}
	// Clock is what programs see pass.
	Clock interface {
		// Tick has time pass for the transit programs. It has to be called each TickEvery; 0: it need not be.
		Tick() error
		TickEvery() time.Duration
		// Lease is of the data path, and may be renewed beside any method, also when this handle is closed.
		Lease() (datapath.Lease, error)
	}
	// HostEvents tell of hosts at ports, and tell others of them. All must be called in the network
	// namespace.
	HostEvents interface {
		// FollowHostEvents calls do with hosts that come to ports, until ctx ends. The zero
		// event stands for some that were missed.
		FollowHostEvents(ctx context.Context, do func([]datapath.HostEvent)) error
		Announce(list []datapath.Move) error
		AnnounceAddress(uplink string, addr netip.Addr) error
		SolicitHost(segment, port string, mac overlay.MAC, addrs []netip.Addr) error
		// ProbeLoops sends a loop probe out of each port.
		ProbeLoops() error
	}
	// Ports are those of segments, and their remotes.
	Ports interface {
		// CutPorts cuts ports off from floods.
		CutPorts(names map[string]bool) error
		// PreviousRemotes are remotes, by segment, that a former process knew by BGP alone. It must be
		// called before the first Apply.
		PreviousRemotes(segments []overlay.Segment) (map[string][]netip.Addr, error)
	}
	// Hosts are where addresses are.
	Hosts interface {
		FDB() ([]datapath.FDBEntry, error)
		// Hosts are those at ports.
		Hosts() ([]datapath.LocalHost, error)
		Neighbours() ([]datapath.Neighbour, error)
		// Forget ends what the packets of a host told of its being at a port.
		Forget(segment string, mac overlay.MAC) error
	}
	// Learner takes over what BGP says of hosts, of the tables that were applied last. An error is of
	// parts; the rest is done.
	Learner interface {
		PutBGPMACs(list []rib.BGPMAC) error
		PutARPEntries(list []rib.ARPEntry) error
	}
	// Routes does so with routes.
	Routes interface {
		// PutRoutes has routes without a kind be gone.
		PutRoutes(list []fib.Router) error
	}
	// Paths are the ways to remotes.
	Paths interface {
		// Steer changes which paths are used, of those that were applied last.
		Steer(teps []fib.TEP, pathPolicies []fib.PathPolicy) error
		PathReports() (map[overlay.Pair]datapath.PathReport, error)
		// DecidePath ends what PathReports says of a path.
		DecidePath(pair overlay.Pair) error
	}
	// Egress is who translates which sources to what.
	Egress interface {
		// SteerEgress changes which gateways are, and what this edge does as one.
		SteerEgress(list []fib.Egress) error
		NATTables(c datapath.NATGCStats) []datapath.Table
		PortUsages(most, least int) ([]datapath.PortUsage, error)
	}
	// Drops are counters by reason, and by name of what was done.
	Drops interface {
		Drops() ([]datapath.Drop, error)
		OwnerDrops(kind datapath.OwnerKind) ([]datapath.OwnerDrop, error)
		Events() (map[string]uint64, error)
	}
	// Counters are of packets, by where they go.
	Counters interface {
		Ports() (map[string]datapath.PortCounters, error)
		TEPs() (map[netip.Addr]datapath.TEPCounters, error)
		// Paths is what was sent by each path.
		Paths() (map[overlay.Pair]datapath.Counters, error)
	}
	// Flows are the cached decisions.
	Flows interface {
		Flows() ([]datapath.Flow, error)
		Stats() (datapath.Stats, error)
		// Totals are Stats with entries as of the last count, and Tables how full tables are, likewise.
		Totals() (datapath.Stats, error)
		Tables() ([]datapath.Table, error)
		CachedSessions(sessions []datapath.Session) ([][2]datapath.Cached, error)
	}
	// Limits are what ports and segments have taken of what all share.
	Limits interface {
		LimitUsages() ([]datapath.LimitUsage, error)
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
		Logs(most int, do func(datapath.LogLine)) error
	}
	// NAT says what was translated. NATSweep and ReadNATEvents must not be called twice at once; nobody
	// needs to wait for what they and Replicas change.
	NAT interface {
		// NATSweep has sessions expire, and counts the others.
		NATSweep() (datapath.NATGCStats, error)
		EachNATSession(do func(b *datapath.NATSession) bool) error
		EachNATRecord(do func(r *datapath.NATRecord) bool) error
		ReadNATEvents(most int, do func(n *datapath.NATEvent)) error
	}
	// Replicas are sessions of other gateways.
	Replicas interface {
		PutNATRecords(records []datapath.NATRecord) (taken, conflicts int, err error)
		DeleteNATRecords(records []datapath.NATRecord) (gone int, err error)
	}
	// Tracer tells a packet's way.
	Tracer interface {
		// Trace must not be called twice at once, and in the network namespace.
		Trace(in datapath.TraceInput) (datapath.Trace, error)
	}
)

// Host is the operating system as the edge sees it.
type Host interface {
	Observe(want host.Want) (host.State, error)
	// Links are those of the names that exist, as Observe finds them.
	Links(names []string) (map[string]host.Link, error)
	Ensure(want host.Desired) error
	Changed() <-chan struct{}
	// LinksLost receives the indexes of links that were lost, before Changed and before anything is observed.
	LinksLost() <-chan int
	Close() error
}

func openDataPath(cfg datapath.Config) (*DataPath, error) {
	d, err := datapath.Open(cfg)
	if err != nil {
		return nil, err
	}
	return NewDataPath(d), nil
}

// NewDataPath is an open data path, by subject.
func NewDataPath(d *datapath.Datapath) *DataPath {
	return &DataPath{
		Tables: d, Owner: d, Links: d.Links, Clock: d.Changes, HostEvents: d.HostEvents, Ports: d.Ports, Hosts: d.Hosts, Learner: d.Hosts,
		Routes: d.Routes, Paths: d.Paths, Egress: d.Egress, Drops: d.Traffic, Counters: d.Traffic, Flows: d.Flows, Limits: d.Limits,
		Firewall: d.Firewall, NAT: d.NATSessions, Replicas: d.NATSessions, Tracer: d.Tracer, Monitors: monitors{d.Monitors},
	}
}

// monitors are those of a data path, for the API.
type monitors struct{ *datapath.Monitors }

// StartMonitor implements apiserver.Monitors.
func (m monitors) StartMonitor(o datapath.MonitorOptions) (apiserver.MonitorSession, error) {
	s, err := m.Start(o)
	if err != nil {
		return nil, err
	}
	return s, nil
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
func openPathProbes(tep netip.Addr, ifindex int, log *slog.Logger) (discovery.Probes, error) {
	prober, err := pathmtu.OpenBy(tep, ifindex)
	if err != nil {
		return nil, err
	}
	return pathProbes{pathmtu.NewMonitor(prober, log), prober}, nil
}

func openReplication(o replica.Options) (gateway.Replicator, error) {
	r, err := replica.New(o)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// dataPathConfig is the part of e that needs programs to be loaded anew when it changes.
func dataPathConfig(e overlay.Edge, opts RunOptions) datapath.Config {
	cfg := datapath.Config{
		Name: e.Name, FlowCache: e.FlowCache, FDB: e.FDB, Tables: e.Tables, PinRoot: opts.PinRoot,
		Transit: plan.HasTransit(e), Timing: opts.Timing, ProbeMAC: prove.MAC(gateway.Self(e)),
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
	if gateway.Replicates(e) {
		t.Gateways = []overlay.GatewayGroup{{Replication: &overlay.Replication{}}}
	}
	return t
}
