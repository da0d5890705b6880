package edge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/apiserver"
	"github.com/selvage/selvage/internal/apiserver/listeners"
	"github.com/selvage/selvage/internal/duplicate"
	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/failover"
	"github.com/selvage/selvage/internal/fault"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/hostevent"
	"github.com/selvage/selvage/internal/liveness"
	"github.com/selvage/selvage/internal/loop"
	"github.com/selvage/selvage/internal/metrics"
	"github.com/selvage/selvage/internal/namespace"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/pathmtu/discovery"
	"github.com/selvage/selvage/internal/peering"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
	"github.com/selvage/selvage/internal/revision"
	"github.com/selvage/selvage/internal/rib"
	"github.com/selvage/selvage/internal/transaction"
	"github.com/selvage/selvage/internal/writer"
)

// settle is how long a start waits for next hops to answer before it goes on without.
const settle = 300 * time.Millisecond

// edge is one running edge. The goroutine of Run owns and changes it; the
// API's read it. So Run's changes what they read under the mu of state, and they hold it
// while they read.
type edge struct {
	opts    RunOptions
	log     *slog.Logger
	events  *event.Log
	changes *changes
	host    Host
	started time.Time

	state state

	observed  observed
	successor successor // of dp
	adopted   bool
	pins      pins
	mtus      *discovery.Discovery
	writer    *writer.Writer
	liveness  *liveness.Watch
	alarms    alarms
	looks     int               // by the clock, since the start
	wrong     []problem.Problem // at the last of them
	wrongFor  int               // looks after the first of that
	problems  []problem.Problem // of the last reconciliation
	faults    *fault.Faults

	ns namespace.Namespace

	role        *gateway.Role
	replication *gateway.Replication
	lease       *gateway.Lease
	failover    *failover.Failover
	duplicates  *duplicate.Watch

	bgp        *peering.Peering
	hostEvents *hostevent.Follower
	loops      *loop.Guard

	transactions *transaction.Transactions
	jobs         jobs

	health      health
	instruments *metrics.Instruments
	scrapes     *apiserver.Scrapes
	listeners   *listeners.Set
}

// state is what the goroutine of Run changes under mu, and who reads it holds mu.
type state struct {
	mu         sync.RWMutex
	configured overlay.Edge
	config     overlay.Edge  // that, and what BGP told of other edges
	policies   plan.Policies // of config
	left       error         // what of the tables could not be written
	dp         *DataPath     // nil when the edge stops
	hostState  host.State
}

// start opens the data path, or adopts a running one, and makes it current.
func (e *edge) start(ctx context.Context) error {
	hostState, err := e.host.Observe(plan.Want(e.state.config))
	if err != nil {
		return fmt.Errorf("observe the host: %w", err)
	}
	if err := (observer{e}).beginPorts(&hostState); err != nil {
		return err
	}
	e.successor.cfg = dataPathConfig(e.state.config, e.opts)
	dp, err := e.opts.OpenDataPath(e.successor.cfg)
	if err != nil {
		return fmt.Errorf("open the data path: %w", err)
	}
	e.state.dp, e.adopted = dp, dp.Owner.Adopted()
	e.changes.opened(e.adopted)
	lookAtPins(e)
	if err := e.keepLease(dp); err != nil {
		return err
	}
	e.alarms.nextHops.Begin(dp.Drops)
	e.failover.Join(filepath.Join(e.opts.RuntimeDir, e.state.config.Name+".egress"), filepath.Join(e.opts.StateDir, e.state.config.Name, "drain"), e.adopted)
	e.bgp.Remember(e.adopted, previousNeighbours(e))
	e.ensure(hostState)
	e.settle(ctx)
	e.reconcile()
	e.hostEvents.Follow(dp.HostEvents)
	e.bgp.Follow()
	transaction.FreeMemory(e.state.config)
	e.scrapes.Prime()
	e.log.Info("edge started", event.Is(event.EdgeStarted), "version", e.opts.Version, "tep", e.state.config.Underlay.TEP, "adopted", e.adopted,
		"segments", len(e.state.config.Segments), "ports", len(e.state.config.Ports))
	return nil
}

// settle gives next hops a moment to answer, so that the first tables are
// complete and no problem is reported that is none.
func (e *edge) settle(ctx context.Context) {
	deadline := time.After(settle)
	for {
		hostState, err := e.host.Observe(plan.Want(e.state.config))
		if err != nil || !unresolved(e.state.config, hostState) {
			return
		}
		select {
		case <-e.host.Changed():
		case <-deadline:
			return
		case <-ctx.Done():
			return
		}
	}
}

// unresolved reports whether a next hop of e has no MAC address yet.
func unresolved(e overlay.Edge, v host.State) bool {
	return slices.ContainsFunc(plan.Pairs(e), func(pair overlay.Pair) bool {
		return slices.ContainsFunc(plan.PathsOf(e, v, pair), func(one overlay.Pair) bool { return v.Routes[one].NextMAC == overlay.MAC{} })
	})
}

// reconcile makes host and data path what the configuration asks for. What
// does not work is reported and tried again at the next event or tick.
func (e *edge) reconcile() { e.reconcileBy(observer{e}.all) }

// reconcileBy does so with what observe says of the host.
func (e *edge) reconcileBy(observe func(host.Want) (host.State, error)) {
	begin := time.Now()
	defer readiness{e}.evaluate()
	e.bgp.Merge()
	losses := e.writer.Losses()
	hostState, err := observe(plan.Want(e.state.config))
	if err == nil && e.ensure(hostState) {
		hostState, err = observer{e}.all(plan.Want(e.state.config))
	}
	e.faults.Report(observeHost, err)
	if err != nil {
		return
	}
	observer{e}.followPorts(hostState)
	planned, err := e.planTables(writer.Snapshot{Edge: e.state.config, HostState: hostState, Probed: e.mtus.Probe(e.state.config, hostState), Losses: losses})
	if err != nil {
		e.faults.Report(applyTables, err)
		return
	}
	was := appliedProblems(e)
	came, err := e.apply(planned)
	now := appliedProblems(e)
	for _, what := range e.state.dp.Links.OlderPins() {
		e.log.Info("pins of a previous process", "what", what)
	}
	e.faults.Report(applyTables, err)
	e.failover.Announce(came)
	e.faults.Report(replicateProblem, e.replication.Set(e.state.config))
	if err == nil {
		e.release(hostState)
	}
	e.liveness.Follow(e.state.config, e.writer.InForce().Paths.PathPolicies, hostState.Routes)
	alarm.LogChanges(e.log, was, now)
	e.changes.look(hostState)
	if err == nil {
		e.bgp.Applied(max(time.Since(begin), time.Nanosecond))
		e.bgp.LookPorts(hostState)
	}
}

// linkLost has flows leave a link at once, whether or not paths are watched, and ends the sessions by it.
func (e *edge) linkLost(ifindex int) {
	e.failover.LinkLost(ifindex)
	e.liveness.LinkLost(ifindex)
	e.changes.linkLost(ifindex)
}

// planTables makes the tables, without any lock: what is steered meanwhile is in force, and counts.
func (e *edge) planTables(from writer.Snapshot) (*writer.Planned, error) {
	config, hostState := from.Edge, from.HostState
	policies, noLearning, keep := e.state.policies, plan.NoLearning(e.state.configured, e.state.config), e.bgp.IsSettling()
	return e.writer.Plan(writer.Change{
		DataPath: cmp.Or(e.successor.dp, e.state.dp).writes(), Snapshot: from,
		Plan: func(s writer.Selection) (fib.Tables, []problem.Problem) {
			tables, problems := plan.DesiredBy(s.Routing, config, hostState, s.Paths.PathPolicies)
			tables.NoLearning, tables.Keep = noLearning, keep
			tables.Firewall, tables.EgressRules = policies.Firewall, policies.Egress
			plan.Translate(&tables, config, hostState, s.Gateways.State)
			s.Gateways.Lease(tables.Egress)
			return tables, problems
		},
	})
}

// apply writes them. Who reads waits, and who steers does not. It says which egress addresses came here.
func (e *edge) apply(p *writer.Planned) (came gateway.Announcement, err error) {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	begin := time.Now()
	applied, err := e.writer.Apply(p)
	e.instruments.Applied(time.Since(begin), err)
	e.state.hostState, e.problems = p.HostState, applied.Problems
	e.bgp.SetLeftOut(rib.LeftOut(err).Routes)
	if applied.Begun {
		e.succeed()
	}
	for _, pin := range e.state.dp.Links.NewerPins() {
		e.problems = append(e.problems, problem.Warning("%s", pin))
	}
	if !applied.InForce {
		return came, err
	}
	e.state.left = err
	if err != nil {
		e.problems = append(e.problems, problem.Error("tables are in force, but for parts: %v", err))
	}
	e.mtus.SetApplied(p.Probed)
	return applied.Came, nil
}

// succeed closes the data path whose tables have been replaced by those of another. mu is held.
func (e *edge) succeed() {
	if e.successor.dp == nil {
		return
	}
	e.hostEvents.Unfollow()
	e.alarms.vnis.End()
	err := e.state.dp.Owner.Close()
	e.state.dp, e.successor.dp = e.successor.dp, nil
	e.hostEvents.Follow(e.state.dp.HostEvents)
	e.changes.replaced(e.successor.cfg)
	e.faults.Report(closeDataPath, err)
	e.faults.Report(leaseProblem, e.keepLease(e.state.dp)) // until now it was the former handle's
}

// keepLease has the lease of egress addresses be of a data path from now on; nil has none.
func (e *edge) keepLease(dp *DataPath) error {
	if dp == nil || e.state.config.Egress == nil { // who answers for no address needs none
		return e.lease.Of(nil)
	}
	return e.lease.Of(dp.Clock)
}

// ensure changes the host before the tables are changed: devices that they will
// name are made, and those that the ones in force name are kept. It reports
// whether the host has to be observed again.
func (e *edge) ensure(hostState host.State) (again bool) {
	holds := plan.HostConfig(e.state.config, hostState)
	for _, port := range holds.ChecksumDevices {
		again = again || hostState.ChecksumDevices[port] == 0
	}
	again = again || hostState.GRODevice == (host.GRODevice{})
	holds.ChecksumDevices = append(holds.ChecksumDevices, unwanted(holds, hostState)...)
	e.faults.Report(changeHost, e.host.Ensure(holds))
	return again
}

// release undoes what of the host the tables no longer need, now that they are in force.
func (e *edge) release(hostState host.State) {
	if holds := plan.HostConfig(e.state.config, hostState); len(unwanted(holds, hostState)) > 0 {
		e.faults.Report(changeHost, e.host.Ensure(holds))
	}
}

// unwanted are the UDP ports of view's checksummers that are not among holds.
func unwanted(holds host.Desired, hostState host.State) []uint16 {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(hostState.ChecksumDevices)), func(port uint16) bool {
		return slices.Contains(holds.ChecksumDevices, port) || slices.Contains(holds.GRODevices, port)
	})
}

// stop lets go of the data path; remove also takes it and the changes of the
// host away. The API must not be served any more.
func (e *edge) stop(remove bool) error {
	e.hostEvents.Unfollow()
	e.alarms.vnis.End()
	unspoken := e.bgp.End(!remove) // first, so that the others send no more
	e.state.mu.Lock()
	dp := e.state.dp
	unopened := e.successor.close()
	e.state.dp = nil
	e.state.mu.Unlock()
	unspoken = errors.Join(unspoken, unopened, e.keepLease(nil))
	if dp == nil {
		return unspoken
	}
	if !remove {
		if err := e.writer.Leave(); err != nil {
			e.log.Error("release egress addresses", "err", err)
		}
		return errors.Join(unspoken, e.replication.Close(), e.liveness.Close(false), dp.Owner.Close())
	}
	e.writer.Stand()
	left := e.liveness.Close(true) // first, so that the remotes send no more while it ends
	err := errors.Join(unspoken, left, e.replication.Close(), dp.Owner.Remove())
	for _, what := range dp.Links.NewerPins() {
		e.log.Warn("left behind", "what", what)
	}
	return errors.Join(err, e.host.Ensure(host.Desired{}), e.transactions.ForgetLive())
}

// previousNeighbours are the BGP neighbours of the configuration that was in force last, nil where that is not known.
func previousNeighbours(e *edge) []netip.Addr {
	r, err := revision.Newest(e.opts.StateDir, e.state.config.Name)
	if err != nil {
		return nil
	}
	previous, err := r.Source.Edge()
	if err != nil || previous.BGP == nil {
		return nil
	}
	addrs := make([]netip.Addr, 0, len(previous.BGP.Neighbours))
	for _, n := range previous.BGP.Neighbours {
		addrs = append(addrs, n.Addr)
	}
	return addrs
}
