package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/reconcile"
)

// settle is how long a start waits for next hops to answer before it goes on without.
const settle = 300 * time.Millisecond

// changeHost names the fault of a host that does not let itself be changed.
const changeHost = "change the host"

// edge is one running edge. The goroutine of Run owns and changes it; the
// API's read it. So Run's changes what they read under mu, and they hold it
// while they read.
type edge struct {
	opts    RunOptions
	log     *slog.Logger
	host    Host
	started time.Time

	mu         sync.RWMutex
	configured overlay.Edge
	config     overlay.Edge // that, and what BGP told of other edges
	ruled      ruled        // the policy of config
	dp         DataPath     // nil after it was lost
	adopted    bool
	view       host.View
	paths      paths
	steering   steering
	asked      asked
	cache      cacheWatch
	balance    balance
	guard      guard
	natGuard   natGuard
	problems   []string         // of the last reconciliation
	faults     map[string]error // of what is tried again, by what it is

	// Of egress: where bindings are told to other gateways, nil without.
	replication    Replication
	replicas       *replicas
	endReplication func()
	ns             namespace
	came           chan announcement // addresses that came to this edge
	lease          lease
	logLost        atomic.Uint64 // lines about bindings that were not written
	offloads       offloads

	// Of BGP: nil without.
	bgp         atomic.Pointer[bgp]
	learnt      learnt
	arrivals    arrivals
	endArrivals func()

	jobs  chan func()   // what has to be done by the goroutine of Run
	ended chan struct{} // closed when it takes no more of them
}

// start opens the data path, or adopts a running one, and makes it current.
func (e *edge) start(ctx context.Context) error {
	ruled, err := compile(overlay.Edge{}, e.ruled, e.config)
	if err != nil {
		return err
	}
	e.ruled = ruled
	view, err := e.host.Observe(reconcile.Want(e.config))
	if err != nil {
		return fmt.Errorf("observe the host: %w", err)
	}
	dp, err := e.opts.OpenDataPath(dataPathConfig(e.config, e.opts))
	if err != nil {
		return fmt.Errorf("open the data path: %w", err)
	}
	e.dp, e.adopted = dp, dp.Adopted()
	e.lease.of(dp)
	e.steering.routing = reconcile.NewRouting(e.config)
	e.lookAsked()
	e.asked.before = e.asked.last // a former process's are no news
	e.fault("remember the gateways", e.joinGateways())
	e.rememberFabric()
	e.hold(view)
	e.settle(ctx)
	e.reconcile()
	e.followArrivals()
	e.followBGP()
	shed(e.config)
	e.log.Info("edge runs", "tep", e.config.Underlay.TEP, "adopted", e.adopted,
		"segments", len(e.config.Segments), "ports", len(e.config.Ports))
	return nil
}

// settle gives next hops a moment to answer, so that the first tables are
// complete and no problem is reported that is none.
func (e *edge) settle(ctx context.Context) {
	deadline := time.After(settle)
	for {
		view, err := e.host.Observe(reconcile.Want(e.config))
		if err != nil || !unresolved(e.config, view) {
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
func unresolved(e overlay.Edge, v host.View) bool {
	return slices.ContainsFunc(reconcile.Pairs(e), func(pair overlay.Pair) bool {
		way, ok := reconcile.Way(e, v, pair)
		return ok && way.NextMAC == overlay.MAC{}
	})
}

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
		return result, errors.New("the edge ends")
	}
}

// loop reconciles, ages and reloads until ctx ends. An error means that the
// edge cannot go on.
func (e *edge) loop(ctx context.Context, hangup <-chan os.Signal, failed <-chan error) error {
	resync := time.NewTicker(e.opts.Resync)
	defer resync.Stop()
	age := newAgePace(e.config.FDB.Ageing)
	defer age.Stop()
	defer close(e.ended)
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
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
			e.lookAsked()
			e.watchCache()
			e.watchBalance()
			e.watchBGP()
		case <-e.learnt.remotes:
			e.reconcile()
		case <-e.learnt.missed:
			e.lookHosts()
		case <-e.learnt.complete:
			e.sweepBGP()
		case <-e.paths.found:
			e.reconcile()
			e.followPaths()
		case <-beat.C:
			e.announceMoves()
			e.fault("have time pass in the data path", e.dp.Beat())
		case <-age.C:
			e.age()
			e.lookHosts()
			e.followPaths()
		case job := <-e.jobs:
			job()
		case <-hangup:
			if err := e.reload(); err != nil {
				return err
			}
		}
	}
}

// beatEvery is how often time passes for the data path, and hosts that came to a port are
// told of.
const beatEvery = 50 * time.Millisecond

// reconcile makes host and data path what the configuration asks for. What
// does not work is reported and tried again at the next event or tick.
func (e *edge) reconcile() {
	begin := time.Now()
	e.mergeFabric()
	view, err := e.host.Observe(reconcile.Want(e.config))
	if err == nil && e.hold(view) {
		view, err = e.host.Observe(reconcile.Want(e.config))
	}
	e.fault("observe the host", err)
	if err != nil {
		return
	}
	probed := e.probe(view)
	e.mu.Lock()
	was := slices.Concat(e.problems, e.steering.problems())
	came, err := e.apply(view, probed)
	now := slices.Concat(e.problems, e.steering.problems())
	e.mu.Unlock()
	for _, what := range e.dp.OlderPins() {
		e.log.Info("pins of a former process", "what", what)
	}
	e.fault(applyTables, err)
	e.announce(came)
	e.replicate()
	if err == nil {
		e.release(view)
	}
	e.watchOver(view)
	e.tell(was, now)
	if err == nil {
		e.tellBGP(time.Since(begin))
		e.lookPorts(view)
	}
}

// apply plans, and has the data path do it. It says which egress addresses came here. mu is
// held.
func (e *edge) apply(view host.View, probed map[overlay.Pair]int) (came announcement, err error) {
	s := &e.steering
	s.mu.Lock()
	defer s.mu.Unlock()
	e.config = s.withRoutes(e.config)
	on := ground{e.dp, e.config, view, probed}
	next := s.plan(on)
	routing := reconcile.NewRouting(e.config)
	tables, problems := reconcile.DesiredBy(routing, e.config, view, next.teams)
	tables.Untaught, tables.Keep = reconcile.Untaught(e.configured, e.config), e.learnt.former != nil
	tables.Firewall, tables.EgressRules = e.ruled.policy, e.ruled.egress
	begin := time.Now()
	all, own, again := s.judge(on, begin)
	s.say(own)
	reconcile.Translate(&tables, e.config, view, standings(all))
	if e.config.Egress != nil {
		leased(e.config, tables.Egress, all)
	}
	e.view, e.problems = view, problems
	err = e.dp.Apply(tables)
	e.problems = append(e.problems, e.dp.NewerPins()...)
	if err != nil {
		return came, err
	}
	e.paths.probed = probed
	s.ground, s.paths = on, next
	s.route(routing, e.config, next.teams)
	came = s.gate.take(e.config, all, own, tables.Egress)
	s.gate.askAgain(again, begin)
	return came, nil
}

// tell logs the problems that are new and those that are over.
func (e *edge) tell(was, now []string) {
	for _, p := range now {
		if !slices.Contains(was, p) {
			e.log.Warn("problem", "what", p)
		}
	}
	for _, p := range was {
		if !slices.Contains(now, p) {
			e.log.Info("problem is over", "what", p)
		}
	}
}

// hold changes the host before the tables are changed: devices that they will
// name are made, and those that the ones in force name are kept. It reports
// whether the host has to be observed again.
func (e *edge) hold(view host.View) (again bool) {
	holds := reconcile.Holds(e.config, view)
	for _, port := range holds.Checksummers {
		again = again || view.Checksummers[port] == 0
	}
	again = again || view.Coalescer == (host.Coalescer{})
	holds.Checksummers = append(holds.Checksummers, unwanted(holds, view)...)
	holds.Offloads = e.offloads.wanted(e.config.Underlay.OffloadProbe)
	e.fault(changeHost, e.host.Hold(holds))
	return again
}

// release undoes what of the host the tables no longer need, now that they are in force.
func (e *edge) release(view host.View) {
	if holds := reconcile.Holds(e.config, view); len(unwanted(holds, view)) > 0 {
		holds.Offloads = e.offloads.wanted(e.config.Underlay.OffloadProbe)
		e.fault(changeHost, e.host.Hold(holds))
	}
}

// unwanted are the UDP ports of view's checksummers that are not among holds.
func unwanted(holds host.Holds, view host.View) []uint16 {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(view.Checksummers)), func(port uint16) bool {
		return slices.Contains(holds.Checksummers, port) || slices.Contains(holds.Gatherers, port)
	})
}

func (e *edge) age() {
	e.mu.Lock()
	aged, err := e.dp.Age(e.config.FDB.Ageing)
	e.mu.Unlock()
	e.fault("age the FDB", err)
	if aged > 0 {
		e.log.Debug("FDB entries aged", "entries", aged)
	}
}

// reload takes over a changed configuration. A wrong one changes nothing. An
// error means that the data path was lost on the way.
func (e *edge) reload() error {
	next, err := e.opts.Load(e.opts.ConfigPath)
	if err == nil && next.Name != e.config.Name {
		err = fmt.Errorf("%s: metadata.name changed from %s to %s: stop this edge and start the other",
			e.opts.ConfigPath, e.config.Name, next.Name)
	}
	var rules ruled
	if err == nil {
		rules, err = compile(e.configured, e.ruled, next)
	}
	if err == nil {
		err = e.reopen(next)
	}
	e.fault("reload the configuration, the former one stays", err)
	if e.dp == nil {
		return err
	}
	if err != nil {
		return nil
	}
	was := e.configured
	e.mu.Lock()
	e.configured, e.config, e.ruled = next, next, rules
	e.mu.Unlock()
	e.log.Info("configuration reloaded", "segments", len(next.Segments), "ports", len(next.Ports))
	e.configureBGP()
	e.reconcile()
	e.followBGP()
	shed(was, next)
	return nil
}

// reopen loads the programs anew when next needs that, and the former ones
// again when it fails. The pinned links forward all the while.
func (e *edge) reopen(next overlay.Edge) error {
	was, will := dataPathConfig(e.configured, e.opts), dataPathConfig(next, e.opts)
	if reflect.DeepEqual(was, will) {
		return nil
	}
	e.unfollowArrivals()
	defer e.followArrivals()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.steering.mu.Lock()
	defer e.steering.mu.Unlock()
	e.steering.ground.dp = nil // until the new one has tables
	e.lease.of(nil)
	defer func() { e.lease.of(e.dp) }()
	closed := e.dp.Close()
	e.dp = nil
	dp, err := e.opts.OpenDataPath(will)
	if err != nil {
		err = errors.Join(fmt.Errorf("open the data path: %w", err), closed)
		former, again := e.opts.OpenDataPath(was)
		if again != nil {
			return errors.Join(err, fmt.Errorf("open the former data path: %w", again))
		}
		e.dp = former
		return err
	}
	e.dp = dp
	return nil
}

// stop lets go of the data path; remove also takes it and the changes of the
// host away. The API must not be served any more.
func (e *edge) stop(remove bool) error {
	e.unfollowArrivals()
	unspoken := e.endBGP(!remove) // first, so that the others send no more
	e.mu.Lock()
	dp := e.dp
	e.dp = nil
	e.mu.Unlock()
	e.lease.of(nil)
	if dp == nil {
		return unspoken
	}
	if !remove {
		e.log.Info("edge ends, its data path goes on forwarding")
		e.leaveGateways()
		return errors.Join(unspoken, e.stopReplication(), e.endLiveness(false), dp.Close())
	}
	e.log.Info("edge ends")
	e.steering.stand()
	left := e.endLiveness(true) // first, so that the remotes send no more while it ends
	err := errors.Join(unspoken, left, e.stopReplication(), dp.Remove())
	for _, what := range dp.NewerPins() {
		e.log.Warn("left behind", "what", what)
	}
	return errors.Join(err, e.host.Hold(host.Holds{}))
}

// fault keeps err as a problem until the same thing works again.
func (e *edge) fault(what string, err error) {
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
func (e *edge) allProblems() []string {
	problems := slices.Concat(e.problems, e.steering.problems(), e.balance.problems, e.guard.problems, e.natGuard.problems, e.offloads.problems(e.config), e.bgpProblems())
	for _, what := range slices.Sorted(maps.Keys(e.faults)) {
		problems = append(problems, fmt.Sprintf("%s: %v", what, e.faults[what]))
	}
	return problems
}

// agePace ticks ten times in an ageing time, and every ten seconds at least:
// idle flows are forgotten even where MAC addresses live for ever (zero).
type agePace struct {
	*time.Ticker
	ageing time.Duration
}

func newAgePace(ageing time.Duration) *agePace {
	return &agePace{time.NewTicker(tenth(ageing)), ageing}
}

func (a *agePace) set(ageing time.Duration) {
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
