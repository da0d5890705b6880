package writer

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
)

// Steered is what came of steering.
type Steered struct {
	Came     gateway.Announcement
	Moved    bool              // this edge answers for other addresses than before, or other next hops are out of use
	Changed  bool              // packets take other paths or gateways than before
	Was, Now []problem.Problem // of paths and gateways
	Err      error
	Failed   bool // the time before
}

// Steer moves flows from paths and gateways that died, or to those that came back. It looks at
// nothing else, because every packet until then is lost. Without tables it does nothing: those that
// are about to be written know.
func (w *Writer) Steer() (s Steered) {
	w.queue.Urgent(func() { s = w.steer() })
	return s
}

func (w *Writer) steer() (s Steered) {
	v := &w.view
	if v.dp == nil {
		return s
	}
	s.Was, s.Failed = slices.Concat(v.paths.Problems, w.role.Problems()), w.failed
	owned := w.role.Owned()
	came, err := w.role.Move(w.facts(v.Snapshot), steering{w}, time.Now()) // first: of these more depends than of paths
	next := w.planPaths(v.Snapshot, v.paths)
	outages := v.routing.Outages()
	err = errors.Join(err, v.reroute(plan.OutagesOf(v.Edge, w.hostOf(v.Snapshot), next.PathPolicies)))
	before := v.paths.PathPolicies
	steered := v.dp.Paths.Steer(plan.PathSelection(v.Edge, next.PathPolicies))
	if steered == nil {
		v.paths = next
	}
	w.publish()
	s.Came, s.Err = came, errors.Join(err, steered, w.steerOutgoing())
	w.failed = s.Err != nil
	s.Now, s.Moved = slices.Concat(v.paths.Problems, w.role.Problems()), !maps.Equal(owned, w.role.Owned()) || !outages.Equal(v.routing.Outages())
	s.Changed = steered == nil && (s.Moved || !reflect.DeepEqual(next.PathPolicies, before))
	return s
}

// steerOutgoing does so with the paths of tables that are being replaced by larger ones.
func (w *Writer) steerOutgoing() error {
	v := w.outgoing
	if v == nil {
		return nil
	}
	v.paths = w.planPaths(v.Snapshot, v.paths)
	return v.dp.Paths.Steer(plan.PathSelection(v.Edge, v.paths.PathPolicies))
}

// steering obeys a Role.
type steering struct{ w *Writer }

// SetService tells the other edges what this one does for them.
func (s steering) SetService(service bfd.Service) { s.w.liveness.SetService(service) }

// SteerEgress has the tables obey.
func (s steering) SteerEgress(list []fib.Egress) error { return s.w.view.dp.Egress.SteerEgress(list) }

// reroute has routes leave next hops that are out of use, and return to those that are back.
func (v *view) reroute(out plan.Outages) error {
	was := v.routing.Outages()
	places := v.routing.SetOutages(out)
	if len(places) == 0 {
		return nil
	}
	if err := v.dp.Routes.PutRoutes(v.routing.Rewritten(places)); err != nil {
		v.routing.SetOutages(was) // the next time tries again
		return err
	}
	return nil
}
