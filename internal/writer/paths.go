package writer

import (
	"maps"
	"reflect"
	"time"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
)

// Patience is how long after the start paths that never answered count as alive while
// others to the same remote answer: the first that is up should not have to carry
// everything.
const Patience = gateway.Patience

// PathPlan is which paths the flows take, and why. It is replaced, never changed.
type PathPlan struct {
	plan.PathPolicies
	Problems []problem.Problem          // of teams
	Since    map[overlay.Pair]time.Time // when each path went out of use, or came back
	Moves    int                        // how often flows were given to other paths
}

// Then is the plan that follows p.
func (p PathPlan) Then(pathPolicies plan.PathPolicies, problems []problem.Problem) PathPlan {
	was := make(map[overlay.Pair]bool)
	for _, path := range p.Paths {
		was[path.Pair] = path.Down != ""
	}
	next := PathPlan{PathPolicies: pathPolicies, Problems: problems, Since: make(map[overlay.Pair]time.Time), Moves: p.Moves}
	now := time.Now()
	for _, path := range pathPolicies.Paths {
		next.Since[path.Pair] = p.Since[path.Pair]
		if down, ok := was[path.Pair]; !ok || down != (path.Down != "") {
			next.Since[path.Pair] = now
		}
	}
	if !reflect.DeepEqual(p.PathPolicies.PathPolicies, pathPolicies.PathPolicies) {
		next.Moves++
	}
	return next
}

// planPaths says which paths the flows shall take now, when they took those of before.
func (w *Writer) planPaths(s Snapshot, before PathPlan) PathPlan {
	results := w.liveness.Results()
	if time.Since(w.liveness.Since()) < Patience {
		maps.DeleteFunc(results, func(_ overlay.Pair, r bfd.Result) bool { return r.State == bfd.Unknown })
	}
	facts := plan.FactsOf(s.Edge, w.hostOf(s), s.Probed, plan.Dead(s.Edge, results))
	facts.Held = plan.Held(results)
	return before.Then(plan.Teamed(s.Edge, facts, before.PathPolicies))
}

// facts are what gateways are judged by.
func (w *Writer) facts(s Snapshot) gateway.Facts {
	return gateway.Facts{Config: s.Edge, HostState: w.hostOf(s), Results: w.liveness.Results(), Watched: w.liveness.Since(), Dead: w.liveness.Dead()}
}
