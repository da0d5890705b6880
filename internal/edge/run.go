// Package edge runs one edge: it keeps the data path what configuration and
// host ask for, and answers for it on a unix socket.
//
// Its one invariant: the data path never depends on this process. A wrong
// configuration, a failing reload or a killed process leaves a running data
// path forwarding; only Remove and RemoveAtExit remove it. Do not decide here what the
// tables contain (reconcile) nor how they are written (datapath).
package edge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/apiserver"
	"github.com/selvage/selvage/internal/apiserver/listeners"
	"github.com/selvage/selvage/internal/background"
	"github.com/selvage/selvage/internal/bgp"
	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/duplicate"
	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/evpn/speaker"
	"github.com/selvage/selvage/internal/failover"
	"github.com/selvage/selvage/internal/fault"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/hostevent"
	"github.com/selvage/selvage/internal/liveness"
	"github.com/selvage/selvage/internal/logging"
	"github.com/selvage/selvage/internal/loop"
	"github.com/selvage/selvage/internal/metrics"
	"github.com/selvage/selvage/internal/namespace"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/pathmtu/discovery"
	"github.com/selvage/selvage/internal/peering"
	"github.com/selvage/selvage/internal/replica"
	"github.com/selvage/selvage/internal/supervise"
	"github.com/selvage/selvage/internal/transaction"
	"github.com/selvage/selvage/internal/writer"
)

// defaultResync is how often is looked for what needs no event.
const defaultResync = 10 * time.Second

// RunOptions are what an edge needs besides its configuration.
type RunOptions struct {
	ConfigPath string
	RuntimeDir string       // "" is DefaultRuntimeDir
	APIGroup   string       // whose members may read the API; "": nobody but root
	StateDir   string       // of what outlasts a reboot; "" is api.DefaultStateDir
	PinRoot    string       // a bpffs directory; "" is the data path's default, see datapath.PinRoot
	Logger     *slog.Logger // nil is slog.Default()
	Events     *event.Log   // nil is a new one
	Version    string       // what Status reports; "" is the version of this build
	// RemoveAtExit removes the data path when ctx ends, and undoes the changes of the host. Without it they stay:
	// the next Run of the same edge takes them over, Remove removes them.
	RemoveAtExit bool
	// RemoveAtExitIf is RemoveAtExit where this file is there when ctx ends; "": never.
	RemoveAtExitIf string
	// LostLogLines is how many lines of the log nobody took; nil: none are lost.
	LostLogLines func() uint64
	// Supervisor hears when the data path forwards, and that the loop turns; nil is nobody.
	Supervisor *supervise.Supervisor
	// Name refuses the configuration of an edge with another name; "": it may have any.
	Name string
	// LogLevels can be changed by the API; nil: they cannot.
	LogLevels *logging.Levels
	// Timing has the data path write down when packets pass, for measuring.
	Timing bool

	// Hangup has the edge reload its configuration; nil is SIGHUP.
	Hangup <-chan os.Signal
	// Resync is how often is looked for alarms, and everything compared again without an event: each time while something
	// is wrong, each third time else; 0 is 10 s.
	Resync time.Duration
	// Sweep is the least time between two sweeps of the firewall's connections; 0 is 5 s.
	Sweep time.Duration
	// NATSweep is that of NAT's sessions; 0 is 10 s.
	NATSweep time.Duration
	// Linger is how long after its neighbours said all what a former process learned by BGP
	// stays; 0 is evpn.Linger.
	Linger time.Duration

	// The edge's dependencies; nil is the real one.
	Listen       func(path, group string) (net.Listener, error)
	Load         func(path string) (overlay.Edge, config.Source, error)
	Parse        func(config.Source) (overlay.Edge, config.Source, error)
	OpenDataPath func(datapath.Config) (*DataPath, error)
	// PinsEnd says of the pins below a root whether they end with the mount namespace, and that with this process.
	PinsEnd      func(pinRoot string) (withNamespace, withProcess bool)
	OpenHost     func(recordPath string, log *slog.Logger) (Host, error)
	OpenProbes   func(tep netip.Addr, ifindex int, log *slog.Logger) (discovery.Probes, error)
	OpenLiveness func(log *slog.Logger) (liveness.Monitor, error)
	// AskForAddresses says which other hosts have addresses.
	AskForAddresses func(ctx context.Context, l duplicate.Link, addrs []netip.Addr, probes int) (map[netip.Addr]overlay.MAC, error)

	OpenReplication func(o replica.Options) (gateway.Replicator, error)
	OpenSpeaker     func(ctx context.Context, o speaker.Options) (bgp.Speaker, error)
}

// orReal sets a dependency that is nil to the real one.
func orReal[F any](dependency *F, to F) {
	if reflect.ValueOf(*dependency).IsNil() {
		*dependency = to
	}
}

func (o RunOptions) withDefaults() RunOptions {
	o.RuntimeDir, o.StateDir = cmp.Or(o.RuntimeDir, api.DefaultRuntimeDir), cmp.Or(o.StateDir, api.DefaultStateDir)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Events == nil {
		o.Events = event.New()
	}
	o.Logger = slog.New(event.NewHandler(o.Logger.Handler(), o.Events))
	o.Resync, o.Sweep = cmp.Or(o.Resync, defaultResync), cmp.Or(o.Sweep, alarm.SweepLeast)
	o.NATSweep, o.Linger = cmp.Or(o.NATSweep, alarm.NATSweepLeast), cmp.Or(o.Linger, evpn.Linger)
	if build, ok := debug.ReadBuildInfo(); ok && o.Version == "" {
		o.Version = build.Main.Version
	}
	orReal(&o.Listen, apiserver.Listen)
	orReal(&o.Load, config.LoadSource)
	orReal(&o.Parse, config.Source.Read)
	orReal(&o.OpenDataPath, openDataPath)
	orReal(&o.PinsEnd, datapath.PinsEnd)
	orReal(&o.OpenHost, openHost)
	orReal(&o.OpenProbes, openPathProbes)
	orReal(&o.AskForAddresses, duplicate.Ask)
	orReal(&o.OpenLiveness, liveness.OpenMonitor)
	orReal(&o.OpenReplication, openReplication)
	orReal(&o.OpenSpeaker, peering.OpenSpeaker)
	return o
}

// transactions are the options of those.
func (o RunOptions) transactions() transaction.Options {
	return transaction.Options{Path: o.ConfigPath, StateDir: o.StateDir, RuntimeDir: o.RuntimeDir, Load: o.Load, Parse: o.Parse}
}

// hangups are Hangup, or SIGHUPs until ignore is called.
func (o RunOptions) hangups() (hangups <-chan os.Signal, ignore func()) {
	if o.Hangup != nil {
		return o.Hangup, func() {}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	return signals, func() { signal.Stop(signals) }
}

// Run runs the edge that opts.ConfigPath describes, in the network namespace
// of the calling thread, until ctx ends (the caller ends it on SIGTERM and
// SIGINT). The data path goes on forwarding then, unless opts.RemoveAtExit. SIGHUP, or
// opts.Hangup, reloads the configuration.
//
// An error before the data path was opened means that nothing was touched; a
// later one leaves the data path forwarding, for the next Run to take over.
func Run(ctx context.Context, opts RunOptions) (err error) {
	opts = opts.withDefaults()
	hangup, ignore := opts.hangups()
	defer ignore()

	started := opts.Supervisor.Starting(ctx)
	defer started()
	first, passedOver, err := opts.first()
	if err != nil {
		return err
	}
	cfg := first.Edge
	lock, err := acquire(opts.RuntimeDir, cfg.Name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	listener, err := opts.Listen(api.SocketPath(opts.RuntimeDir, cfg.Name), opts.APIGroup)
	if err != nil {
		return err
	}
	gate := apiserver.NewGate(cfg.Name)
	srv := apiserver.Serve(listener, gate, logging.For(opts.Logger.With("edge", cfg.Name), "api"))
	defer func() { err = errors.Join(err, srv.Stop()) }() // again, when it was stopped: harmless
	h, err := opts.OpenHost(filepath.Join(opts.RuntimeDir, cfg.Name+".held"), logging.For(opts.Logger.With("edge", cfg.Name), "host"))
	if err != nil {
		return fmt.Errorf("watch the host: %w", err)
	}
	defer func() { err = errors.Join(err, h.Close()) }()

	ns, err := namespace.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ns.Close()) }()
	e := newEdge(opts, first, h, ns)
	e.remember(passedOver)
	e.listeners = listeners.New(gate, e.log)
	defer func() { err = errors.Join(err, e.listeners.Close()) }()
	e.listen()
	endWork := e.work(ctx, h)
	defer func() { err = errors.Join(err, endWork()) }()
	if err := e.start(ctx); err != nil {
		return err
	}
	e.transactions.KeepFirst(e.started)
	gate.Open(handler(e))
	started()
	endEvents, end := e.keepEvents(), e.follow(ctx)
	broken := e.loop(ctx, hangup, srv.Failed())
	end()
	remove := broken == nil && (opts.removesAtExit() || e.pins.endWithProcess(opts))
	e.stopping(remove)
	return errors.Join(broken, srv.Stop(), e.stop(remove), endEvents(remove))
}

// removesAtExit is asked at the end.
func (o RunOptions) removesAtExit() bool {
	return o.RemoveAtExit || o.RemoveAtExitIf != "" && anyExists([]string{o.RemoveAtExitIf})
}

// remember takes what a former process left, and says why its file was passed over.
func (e *edge) remember(passedOver error) {
	e.faults.Report(readEvents, e.events.Join(e.eventsFile()))
	e.faults.Report(transaction.StartConfiguration, passedOver)
}

// work is what goes on beside the loop, until what it returns is called.
func (e *edge) work(ctx context.Context, h Host) (end func() error) {
	endWriter := background.Start(context.WithoutCancel(ctx), func(ctx context.Context) {
		e.writer.Run(ctx, func(err error) { e.faults.Report(writeTables, err) })
	})
	endLinks := background.OnEach(h.LinksLost(), e.linkLost)
	endAnnouncer, endLease := background.Start(ctx, e.failover.AnnounceAddresses), background.Start(ctx, func(ctx context.Context) { e.lease.Keep(ctx, logging.For(e.log, "gateway")) })
	endFree := background.Start(ctx, func(ctx context.Context) { freeLater(ctx, e.log) })
	return func() error {
		endFree()
		endLinks()
		e.hostEvents.Unfollow()
		err := errors.Join(e.bgp.End(true), e.mtus.Close(), e.liveness.Close(false), e.replication.Close())
		endAnnouncer()
		endLease()
		endWriter()
		return err
	}
}

// NameError is of a configuration that is another edge's than the one that was to run.
type NameError struct{ Path, Name, Wanted string }

// Error says what to do.
func (e NameError) Error() string {
	return fmt.Sprintf("%s: metadata.name is %s, and edge %s was to run: give both the same name", e.Path, e.Name, e.Wanted)
}

// first is the configuration to start with, which is that of Name.
func (o RunOptions) first() (first transaction.Candidate, passedOver, err error) {
	first, passedOver, err = transaction.First(o.transactions())
	if name := first.Edge.Name; err == nil && o.Name != "" && name != o.Name {
		err = NameError{Path: o.ConfigPath, Name: name, Wanted: o.Name}
	}
	return first, passedOver, err
}

// newEdge is an edge with nothing open but what it is given.
func newEdge(opts RunOptions, first transaction.Candidate, h Host, ns namespace.Namespace) *edge {
	cfg := first.Edge
	e := &edge{
		opts: opts, host: h, events: opts.Events,
		started: time.Now(), state: state{configured: cfg, config: cfg, policies: first.Policies},
		jobs: jobs{make(chan func()), make(chan struct{})},
		ns:   ns,
	}
	e.log = opts.Logger.With("edge", cfg.Name)
	e.changes = newChanges(e)
	e.faults, e.lease = fault.New(e.log), gateway.NewLease()
	e.health.turn()
	e.instruments = metrics.NewInstruments(opts.Version, e.health.LastTurn, opts.LostLogLines)
	o := opts.transactions()
	o.Log, o.Report, o.Counter, o.Changing = logging.For(e.log, "config"), e.faults.Report, e.instruments, func() (end func()) {
		changed := e.opts.Supervisor.Changing()
		return func() { changed(); e.opts.Supervisor.Status(e.inOneLine) }
	}
	e.transactions = transaction.New(o, configured{e}, e.jobs, first)
	nat := sessionsOf{&e.state}
	e.replication = gateway.NewReplication(gateway.ReplicationOptions{
		NAT: nat, Log: logging.For(e.log, "nat"), Open: e.opts.OpenReplication, Enter: e.ns.Enter, Report: e.faults.Report,
	})
	e.role = gateway.NewRole(logging.For(e.log, "gateway"), e.replication)
	e.liveness = liveness.New(liveness.Options{
		Open: e.opts.OpenLiveness, Gateway: e.role, Log: logging.For(e.log, "paths"), Report: e.faults.Report,
		Changed: func() {
			e.failover.Steer()
			e.changes.lookPaths()
			e.bgp.FailNeighbours()
		},
	})
	e.writer = writer.New(writer.Options{Edge: cfg, Role: e.role, Liveness: e.liveness, Enter: e.ns.Enter})
	e.duplicates = newDuplicates(e)
	e.failover = failover.New(failover.Options{
		Prober: e.duplicates,
		Edge:   steered{e}, Writer: e.writer, Role: e.role, Replication: e.replication, NAT: nat, Log: logging.For(e.log, "failover"), Report: e.faults.Report,
		Steered: e.instruments.Steered,
	})
	e.bgp = peering.New(peering.Options{
		Edge: peered{e}, Writer: e.writer, Owned: e.role.Owned, Failed: e.liveness.Failed, Session: e.role.Sessions.Set, Linger: e.opts.Linger, Open: e.opts.OpenSpeaker,
		Enter: e.ns.Enter, Log: logging.For(e.log, "bgp"), Report: e.faults.Report,
	})
	e.mtus = discovery.New(discovery.Options{Open: e.opts.OpenProbes, Log: logging.For(e.log, "paths"), Report: e.faults.Report})
	e.loops = loop.New(loop.Options{Ports: loopPorts{e}, TEP: cfg.Underlay.TEP, Log: logging.For(e.log, "loops"), Report: e.faults.Report})
	e.hostEvents = hostevent.New(hostevent.Options{Listener: e.bgp, Loops: e.loops, Paths: e.mtus, Log: logging.For(e.log, "hosts"), Report: e.faults.Report})
	e.alarms = newAlarms(e)
	e.scrapes = apiserver.NewScrapes(served{e}, served{e}.bgp, e.instruments, e.readNow)
	return e
}

// follow has goroutines look at what changes without the loop, until the returned function is called.
func (e *edge) follow(ctx context.Context) (end func()) {
	var ends []func()
	for _, watch := range []func(context.Context){
		func(ctx context.Context) { e.alarms.firewall.Watch(ctx, e.opts.Sweep) }, func(ctx context.Context) { e.alarms.nat.Watch(ctx, e.opts.NATSweep) }, e.failover.Watch, e.replication.Follow, e.replication.Refresh, e.failover.ResolveNextHops, e.duplicates.Run, e.scrapes.Run,
	} {
		ends = append(ends, background.Start(ctx, watch))
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}
