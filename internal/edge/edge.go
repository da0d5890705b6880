package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/bgp"
	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/offload/schedule"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
	"github.com/selvage/selvage/internal/revision"
	"github.com/selvage/selvage/internal/rib"
)

// settle is how long a start waits for next hops to answer before it goes on without.
const settle = 300 * time.Millisecond

// changeHost names the fault of a host that does not let itself be changed.
const changeHost = "change the host"

// applyTables names the fault of tables that are not in force.
const applyTables = "apply to the data path"

// observeHost names the fault of a host that does not let itself be read.
const observeHost = "observe the host"

// edge is one running edge. The goroutine of Run owns and changes it; the
// API's read it. So Run's changes what they read under mu, and they hold it
// while they read.
type edge struct {
	opts    RunOptions
	log     *slog.Logger
	host    Host
	started time.Time

	mu           sync.RWMutex
	configured   overlay.Edge
	config       overlay.Edge      // that, and what BGP told of other edges
	ruled        ruled             // the policy of config
	inForce      revision.Revision // that configured is
	awaited      *awaited          // it, when it goes back by itself; else nil
	left         error             // what of the tables could not be written
	dp           *DataPath         // nil after it was lost
	adopted      bool
	hostState    host.State
	paths        paths
	pathSelector pathSelector
	alarms       alarms
	natGuard     natGuard
	problems     []problem.Problem // of the last reconciliation
	faults       map[string]error  // of what is tried again, by what it is

	// Of egress.
	role        *gateway.Role
	replication *gateway.Replication
	announcer   *gateway.Announcer
	lease       gateway.Lease

	ns       namespace
	offloads *schedule.Probes

	// Of BGP: nil without.
	bgp           atomic.Pointer[bgp.Process]
	learned       learned
	hostEvents    hostEvents
	loops         loops
	tep           netip.Addr // the first of this edge
	endHostEvents func()

	// Of changes of the configuration: one is read at a time.
	turn                   turn
	reloading, reloadAgain bool
	reloadConfirmed        bool  // a reload found that the configuration waits for its confirmation
	lost                   error // why dp is nil

	jobs  chan func()   // what has to be done by the goroutine of Run
	ended chan struct{} // closed when it takes no more of them
}

// start opens the data path, or adopts a running one, and makes it current.
func (e *edge) start(ctx context.Context) error {
	hostState, err := e.host.Observe(plan.Want(e.config))
	if err != nil {
		return fmt.Errorf("observe the host: %w", err)
	}
	dp, err := e.opts.OpenDataPath(dataPathConfig(e.config, e.opts))
	if err != nil {
		return fmt.Errorf("open the data path: %w", err)
	}
	e.dp, e.adopted = dp, dp.Owner.Adopted()
	if err := e.keepLease(dp); err != nil {
		return err
	}
	e.pathSelector.routing = plan.NewRouting(e.config, nil)
	e.alarms.nextHops.Begin(dp.Drops)
	e.reportProblem(rememberGateways, e.role.Join(filepath.Join(e.opts.RuntimeDir, e.config.Name+".egress"), filepath.Join(e.opts.StateDir, e.config.Name, "drain"), e.adopted))
	e.rememberLearned()
	e.ensure(hostState)
	e.settle(ctx)
	e.reconcile()
	e.followHostEvents()
	e.followBGP()
	freeMemory(e.config)
	e.log.Info("edge started", "tep", e.config.Underlay.TEP, "adopted", e.adopted,
		"segments", len(e.config.Segments), "ports", len(e.config.Ports))
	return nil
}

// settle gives next hops a moment to answer, so that the first tables are
// complete and no problem is reported that is none.
func (e *edge) settle(ctx context.Context) {
	deadline := time.After(settle)
	for {
		hostState, err := e.host.Observe(plan.Want(e.config))
		if err != nil || !unresolved(e.config, hostState) {
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

var errStopping = errors.New("the edge is stopping")

// inLoop has f done by the goroutine of Run, in its network namespace and while
// nothing changes.
func inLoop[T any](e *edge, f func() (T, error)) (result T, err error) {
	done := make(chan struct{})
	job := func() {
		defer close(done)
		result, err = f()
	}
	select {
	case e.jobs <- job:
		<-done
		return result, err
	case <-e.ended:
		return result, errStopping
	}
}

// loop reconciles, ages and reloads until ctx ends. An error means that the
// edge cannot go on.
func (e *edge) loop(ctx context.Context, hangup <-chan os.Signal, failed <-chan error) error {
	resync := time.NewTicker(e.opts.Resync)
	defer resync.Stop()
	age := newAgeTicker(e.config.FDB.Ageing)
	defer age.Stop()
	defer close(e.ended)
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	e.alarms.limits.Look(e.dp.Limits)
	for {
		age.set(e.config.FDB.Ageing)
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return fmt.Errorf("serve the API: %w", err)
		case <-e.host.Changed():
			e.reconcile()
		case <-resync.C:
			e.reconcile()
			e.alarms.look(e)
		case <-e.learned.remotes:
			e.reconcile()
		case <-e.learned.missed:
			e.lookMissedHosts()
		case <-e.learned.complete:
			e.sweepBGP()
		case <-e.paths.found:
			e.reconcile()
		case <-tick.C:
			e.tick()
		case <-age.C:
			e.age()
			e.lookHosts()
			e.expireReports()
		case job := <-e.jobs:
			job()
			if e.dp == nil {
				return e.lost
			}
		case <-hangup:
			e.reload()
		}
	}
}

// tickEvery is how often time passes for the data path, and hosts that came to a port are
// told of.
const tickEvery = 50 * time.Millisecond

func (e *edge) tick() {
	e.announceMoves()
	e.followReports()
	e.followLoops()
	e.reportProblem("advance the clock of the data path", e.dp.Clock.Tick())
}

// reconcile makes host and data path what the configuration asks for. What
// does not work is reported and tried again at the next event or tick.
func (e *edge) reconcile() {
	begin := time.Now()
	e.mergeLearned()
	hostState, err := e.host.Observe(plan.Want(e.config))
	if err == nil && e.ensure(hostState) {
		hostState, err = e.host.Observe(plan.Want(e.config))
	}
	e.reportProblem(observeHost, err)
	if err != nil {
		return
	}
	probed := e.probe(hostState)
	e.mu.Lock()
	was := slices.Concat(e.problems, e.pathSelector.problems(), e.role.Problems())
	came, err := e.apply(hostState, probed)
	now := slices.Concat(e.problems, e.pathSelector.problems(), e.role.Problems())
	e.mu.Unlock()
	for _, what := range e.dp.Links.OlderPins() {
		e.log.Info("pins of a previous process", "what", what)
	}
	e.reportProblem(applyTables, err)
	e.announcer.Announce(came)
	e.reportProblem(replicateProblem, e.replication.Set(e.config))
	if err == nil {
		e.release(hostState)
	}
	e.watchOver(hostState)
	e.tell(was, now)
	if err == nil {
		e.tellBGP(max(time.Since(begin), time.Nanosecond))
		e.lookPorts(hostState)
	}
}

// apply plans, and has the data path do it. It says which egress addresses came here. mu is
// held.
func (e *edge) apply(hostState host.State, probed map[overlay.Pair]int) (came gateway.Announcement, err error) {
	s := &e.pathSelector
	s.mu.Lock()
	defer s.mu.Unlock()
	on := snapshot{e.dp, e.config, hostState, probed}
	next := s.plan(on)
	e.learned.known.Routes = s.routing.Learned()
	routing := plan.NewRouting(e.config, e.learned.known.Routes)
	tables, problems := plan.DesiredBy(routing, e.config, hostState, next.pathPolicies)
	tables.NoLearning, tables.Keep = plan.NoLearning(e.configured, e.config), e.learned.known.IsSettling()
	tables.Firewall, tables.EgressRules = e.ruled.policy, e.ruled.egress
	begin := time.Now()
	gateways := e.role.Evaluate(s.facts(on), begin)
	s.SetService(gateways.Service())
	plan.Translate(&tables, e.config, hostState, gateways.State)
	gateways.Lease(tables.Egress)
	e.hostState, e.problems = hostState, problems
	err = e.dp.Tables.Apply(tables)
	e.learned.left = rib.LeftOut(err).Routes
	for _, pin := range e.dp.Links.NewerPins() {
		e.problems = append(e.problems, problem.Warning("%s", pin))
	}
	var partial datapath.PartialError
	if err != nil && !errors.As(err, &partial) {
		return came, err
	}
	e.left = err
	if err != nil {
		e.problems = append(e.problems, problem.Error("tables are in force, but for parts: %v", err))
	}
	e.paths.probed = probed
	s.snapshot, s.paths = on, next
	s.route(routing, e.config, next.pathPolicies)
	return e.role.Take(gateways, tables.Egress), nil
}

// tell logs the problems that are new and those that are over.
func (e *edge) tell(was, now []problem.Problem) { alarm.LogChanges(e.log, was, now) }

// ensure changes the host before the tables are changed: devices that they will
// name are made, and those that the ones in force name are kept. It reports
// whether the host has to be observed again.
func (e *edge) ensure(hostState host.State) (again bool) {
	holds := plan.HostConfig(e.config, hostState)
	for _, port := range holds.ChecksumDevices {
		again = again || hostState.ChecksumDevices[port] == 0
	}
	again = again || hostState.GRODevice == (host.GRODevice{})
	holds.ChecksumDevices = append(holds.ChecksumDevices, unwanted(holds, hostState)...)
	holds.Offloads = e.offloads.Wanted(e.config.Underlay.OffloadProbe)
	e.reportProblem(changeHost, e.host.Ensure(holds))
	return again
}

// release undoes what of the host the tables no longer need, now that they are in force.
func (e *edge) release(hostState host.State) {
	if holds := plan.HostConfig(e.config, hostState); len(unwanted(holds, hostState)) > 0 {
		holds.Offloads = e.offloads.Wanted(e.config.Underlay.OffloadProbe)
		e.reportProblem(changeHost, e.host.Ensure(holds))
	}
}

// unwanted are the UDP ports of view's checksummers that are not among holds.
func unwanted(holds host.Desired, hostState host.State) []uint16 {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(hostState.ChecksumDevices)), func(port uint16) bool {
		return slices.Contains(holds.ChecksumDevices, port) || slices.Contains(holds.GRODevices, port)
	})
}

func (e *edge) age() {
	e.mu.Lock()
	aged, err := e.dp.Tables.Age(e.config.FDB.Ageing)
	e.mu.Unlock()
	e.reportProblem("age the FDB", err)
	if aged > 0 {
		e.log.Debug("FDB entries aged", "entries", aged)
	}
}

// fault is what is wrong with something, nil when nothing is.
func (e *edge) fault(what string) error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.faults[what]
}

// noteVersion tells the warnings about a file, and that it is of an older version of the format, which a later build
// may no longer read.
func (e *edge) noteVersion(c overlay.Edge) {
	for _, warning := range c.Warnings {
		e.log.Warn("the configuration is good, but: " + warning)
	}
	if c.APIVersion == config.PreviousVersion {
		e.log.Warn("the configuration is of an older apiVersion; selvage convert -w rewrites it", "file", e.opts.ConfigPath, "apiVersion", c.APIVersion)
	}
}

// reopen loads the programs anew when next needs that, and the former ones
// again when it fails. The pinned links forward all the while.
func (e *edge) reopen(next overlay.Edge) error {
	was, will := dataPathConfig(e.configured, e.opts), dataPathConfig(next, e.opts)
	if reflect.DeepEqual(was, will) {
		return nil
	}
	e.unfollowHostEvents()
	defer e.followHostEvents()
	defer func() { e.reportProblem(keepLease, e.keepLease(e.dp)) }() // until then it is the former handle's
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pathSelector.mu.Lock()
	defer e.pathSelector.mu.Unlock()
	e.pathSelector.snapshot.dp = nil // until the new one has tables
	closed := e.dp.Owner.Close()
	e.dp = nil
	dp, err := e.opts.OpenDataPath(will)
	if err != nil {
		err = errors.Join(fmt.Errorf("open the data path: %w", err), closed)
		previous, again := e.opts.OpenDataPath(was)
		if again != nil {
			e.lost = errors.Join(err, fmt.Errorf("open the previous data path: %w", again))
			return e.lost
		}
		e.dp = previous
		return err
	}
	e.dp = dp
	return nil
}

// stop lets go of the data path; remove also takes it and the changes of the
// host away. The API must not be served any more.
func (e *edge) stop(remove bool) error {
	e.unfollowHostEvents()
	unspoken := e.endBGP(!remove) // first, so that the others send no more
	e.mu.Lock()
	dp := e.dp
	e.dp = nil
	e.mu.Unlock()
	unspoken = errors.Join(unspoken, e.keepLease(nil))
	if dp == nil {
		return unspoken
	}
	if !remove {
		e.log.Info("edge stops, its data path keeps forwarding")
		e.leaveGateways()
		return errors.Join(unspoken, e.replication.Close(), e.endLiveness(false), dp.Owner.Close())
	}
	e.log.Info("edge stops")
	e.pathSelector.stand()
	left := e.endLiveness(true) // first, so that the remotes send no more while it ends
	err := errors.Join(unspoken, left, e.replication.Close(), dp.Owner.Remove())
	for _, what := range dp.Links.NewerPins() {
		e.log.Warn("left behind", "what", what)
	}
	return errors.Join(err, e.host.Ensure(host.Desired{}))
}

// reportProblem keeps err as a problem until the same thing works again.
func (e *edge) reportProblem(what string, err error) {
	if err == nil && e.fault(what) == nil { // as nearly always: this must not wait for readers of long tables
		return
	}
	e.mu.Lock()
	was := e.faults[what]
	if err == nil {
		delete(e.faults, what)
	} else {
		e.faults[what] = err
	}
	e.mu.Unlock()
	switch {
	case err != nil && (was == nil || was.Error() != err.Error()):
		e.log.Error(what, "err", err)
	case err == nil && was != nil:
		e.log.Info(what + ": works again")
	}
}

// allProblems are those of the tables, the paths and of what is tried again. mu is held.
func (e *edge) allProblems() []problem.Problem {
	problems := slices.Concat(e.problems, e.pathSelector.problems(), e.role.Problems(), e.alarms.balance.Problems(), e.alarms.limits.Problems(), e.alarms.firewall.Last().Problems, e.natGuard.Problems, e.offloads.Problems(e.config), e.bgpProblems(), e.hostEvents.frozen.Problems(time.Now()), e.loops.problems(time.Now()), e.configProblems())
	for _, what := range slices.Sorted(maps.Keys(e.faults)) {
		problems = append(problems, problem.Problem{Severity: faultSeverity(what), Text: fmt.Sprintf("%s: %v", what, e.faults[what])})
	}
	return problems
}

// Faults that other files name too, or that are minor.
const (
	probeMTUs        = "probe path MTUs"
	readReports      = "read the path MTUs that ICMP messages reported"
	decideReport     = "end a report of a path MTU"
	rememberGateways = "save the states of gateways"
	replicateProblem = "replicate sessions"
	announceProblem  = "announce egress addresses"
	resolveProblem   = "resolve the next hops of uplinks"
	keepLease        = "keep the lease of egress addresses"
)

// minorFaults are those with which packets still go where they should.
var minorFaults = []string{
	probeMTUs, readReports, decideReport, rememberGateways, replicateProblem, resolveProblem, gateway.RefreshReplicas,
	keepRevisions,
}

func faultSeverity(what string) problem.Severity {
	if slices.Contains(minorFaults, what) || alarm.IsMinor(what) || schedule.IsMinor(what) {
		return problem.SeverityWarning
	}
	return problem.SeverityError
}

// ageTicker ticks ten times in an ageing time, and every ten seconds at least:
// idle flows are forgotten even where MAC addresses live for ever (zero).
type ageTicker struct {
	*time.Ticker
	ageing time.Duration
}

func newAgeTicker(ageing time.Duration) *ageTicker {
	return &ageTicker{time.NewTicker(tenth(ageing)), ageing}
}

func (a *ageTicker) set(ageing time.Duration) {
	if ageing != a.ageing {
		a.Reset(tenth(ageing))
		a.ageing = ageing
	}
}

func tenth(ageing time.Duration) time.Duration {
	const shortest, longest = 100 * time.Millisecond, 10 * time.Second
	if ageing <= 0 {
		return longest
	}
	return min(max(ageing/10, shortest), longest)
}
