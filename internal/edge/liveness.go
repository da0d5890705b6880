package edge

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
)

const (
	// patience is how long after the start paths that never answered count as alive while
	// others to the same remote answer: the first that is up should not have to carry
	// everything.
	patience = gateway.Patience
	// leaveTimeout bounds how long the remotes are told that this edge goes.
	leaveTimeout = 2 * time.Second
	// watchLiveness names the fault of sessions that cannot be had.
	watchLiveness = "watch remotes by BFD"
)

// pathSelector is which paths the flows take, and why. A goroutine of its own moves them
// at each event of the monitor: it waits neither for the loop nor for readers, both of
// which may walk a table of a million flows meanwhile.
type pathSelector struct {
	// mu is held while the paths of the data path change. The edge's mu is taken before
	// it, and never by who holds it.
	mu       sync.Mutex
	monitor  Liveness // nil without liveness
	opened   time.Time
	end      func() // ends the goroutine and waits for it
	snapshot snapshot
	paths    pathPlan
	routing  *plan.Routing // of ground, and learned since
	reach    map[string]map[netip.Addr]bool
	dead     map[netip.Addr]bool // remotes that routes do not lead by
	// neighbours are BGP's that are watched over, and lives what was last known of them. No
	// path is by those that are strangers.
	neighbours map[overlay.Pair]netip.Addr
	lives      map[netip.Addr]bfd.Result
	strangers  map[overlay.Pair]bool
	failed     bool // the last time
}

// snapshot is what plans rest on, as of the last reconciliation.
type snapshot struct {
	dp        *DataPath // nil until it has tables
	config    overlay.Edge
	hostState host.State
	probed    map[overlay.Pair]int
}

// pathPlan is a plan that is in force. It is replaced, never changed.
type pathPlan struct {
	pathPolicies plan.PathPolicies
	problems     []problem.Problem          // of teams
	since        map[overlay.Pair]time.Time // when each path went out of use, or came back
	moves        int                        // how often flows were given to other paths
}

// then is the plan that follows p.
func (p pathPlan) then(pathPolicies plan.PathPolicies, problems []problem.Problem) pathPlan {
	was := make(map[overlay.Pair]bool)
	for _, path := range p.pathPolicies.Paths {
		was[path.Pair] = path.Down != ""
	}
	next := pathPlan{pathPolicies: pathPolicies, problems: problems, since: make(map[overlay.Pair]time.Time), moves: p.moves}
	now := time.Now()
	for _, path := range pathPolicies.Paths {
		next.since[path.Pair] = p.since[path.Pair]
		if down, ok := was[path.Pair]; !ok || down != (path.Down != "") {
			next.since[path.Pair] = now
		}
	}
	if !reflect.DeepEqual(p.pathPolicies.PathPolicies, pathPolicies.PathPolicies) {
		next.moves++
	}
	return next
}

// inForce is the plan of now.
func (s *pathSelector) inForce() pathPlan {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paths
}

// results are what liveness knows by now.
func (s *pathSelector) results() map[overlay.Pair]bfd.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known()
}

// known are the results; mu is held.
func (s *pathSelector) known() map[overlay.Pair]bfd.Result {
	if s.monitor == nil {
		return nil
	}
	results := s.monitor.Results()
	maps.DeleteFunc(results, func(p overlay.Pair, _ bfd.Result) bool { return s.strangers[p] })
	return results
}

// plan says which paths the flows shall take; mu is held.
func (s *pathSelector) plan(g snapshot) pathPlan {
	results := s.known()
	if time.Since(s.opened) < patience {
		maps.DeleteFunc(results, func(_ overlay.Pair, r bfd.Result) bool { return r.State == bfd.Unknown })
	}
	facts := plan.FactsOf(g.config, g.hostState, g.probed, plan.Dead(g.config, results))
	return s.paths.then(plan.Teamed(g.config, facts, s.paths.pathPolicies))
}

// steer moves flows from paths that died, or to those that came back. It looks at
// nothing else, because every packet until then is lost.
func (e *edge) steer() {
	s := &e.pathSelector
	s.mu.Lock()
	if s.snapshot.dp == nil {
		s.mu.Unlock()
		return // the tables that are about to be applied know
	}
	was, failed, owned := slices.Concat(s.paths.problems, e.role.Problems()), s.failed, e.role.Owned()
	came, err := e.role.Move(s.facts(s.snapshot), s, time.Now()) // first: of these more depends than of paths
	next := s.plan(s.snapshot)
	err = errors.Join(err, s.reroute(next.pathPolicies))
	steered := s.snapshot.dp.Paths.Steer(plan.PathSelection(s.snapshot.config, next.pathPolicies))
	if steered == nil {
		s.paths = next
	}
	err = errors.Join(err, steered)
	s.failed = err != nil
	now, moved := slices.Concat(s.paths.problems, e.role.Problems()), !maps.Equal(owned, e.role.Owned())
	s.mu.Unlock()
	e.announcer.Announce(came)
	if moved {
		e.offerPrefixes()
	}
	if err != nil || failed {
		e.reportProblem("steer the flows", err)
	}
	e.tell(was, now)
}

// problems are those of paths.
func (s *pathSelector) problems() []problem.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paths.problems
}

// facts are what gateways are judged by. mu is held.
func (s *pathSelector) facts(g snapshot) gateway.Facts {
	f := gateway.Facts{Config: g.config, HostState: g.hostState, Results: s.known()}
	if s.monitor != nil {
		f.Watched = s.opened
	}
	return f
}

// SetService tells the other edges what this one does for them. mu is held.
func (s *pathSelector) SetService(service bfd.Service) {
	if s.monitor != nil {
		s.monitor.SetService(service)
	}
}

// SteerEgress has the tables obey. mu is held.
func (s *pathSelector) SteerEgress(list []fib.Egress) error {
	return s.snapshot.dp.Egress.SteerEgress(list)
}

// stand ends all steering.
func (s *pathSelector) stand() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshot.dp = nil
}

// watchOver has the paths watched, if the configuration asks for that.
func (e *edge) watchOver(hostState host.State) {
	s := &e.pathSelector
	if e.config.Underlay.Liveness == nil {
		e.reportProblem(watchLiveness, e.endLiveness(true))
		return
	}
	if s.monitor == nil {
		monitor, err := e.opts.OpenLiveness(e.log)
		e.reportProblem(watchLiveness, err)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.monitor, s.opened, s.end = monitor, time.Now(), onEach(monitor.Changed(), func() {
			e.failNeighbours()
			e.steerAndSave()
		})
		s.SetService(e.role.Service())
		s.mu.Unlock()
		if e.config.Egress != nil {
			e.role.Wake() // sessions that never answer are judged when patience ends
		}
	}
	peers := plan.Peers(e.config, s.inForce().pathPolicies, hostState.Routes)
	more, neighbours, err := neighbourPeers(e.config, peers)
	s.watch(neighbours, more)
	e.reportProblem(watchLiveness, errors.Join(err, s.monitor.Set(slices.Concat(peers, more))))
}

// watch says which sessions are with BGP neighbours, and which with them alone.
func (s *pathSelector) watch(neighbours map[overlay.Pair]netip.Addr, alone []bfd.Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.neighbours, s.strangers = neighbours, make(map[overlay.Pair]bool)
	for _, p := range alone {
		s.strangers[p.Pair] = true
	}
	if s.lives == nil {
		s.lives = make(map[netip.Addr]bfd.Result)
	}
}

// endLiveness ends the watching. With leave the remotes are told first, for whom it is
// no failure then; without they see one on all paths at once, and use them on.
func (e *edge) endLiveness(leave bool) error {
	s := &e.pathSelector
	s.mu.Lock()
	monitor, end := s.monitor, s.end
	s.monitor = nil
	s.mu.Unlock()
	if monitor == nil {
		return nil
	}
	end()
	var left error
	if leave {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		defer cancel()
		left = monitor.Leave(ctx)
	}
	return errors.Join(left, monitor.Close())
}
