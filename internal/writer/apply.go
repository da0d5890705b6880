package writer

import (
	"errors"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
	"github.com/selvage/selvage/internal/rib"
)

// Selection is which paths, gateways and learned routes are used.
type Selection struct {
	Paths    PathPlan
	Gateways gateway.Decision
	Outages  plan.Outages
	Routing  *plan.Routing // who plans by it reads it
}

// Change is tables to be.
type Change struct {
	DataPath *DataPath // that gets them: the one in force, or its successor
	Snapshot
	// Plan makes them. It is pure, but for Selection.Routing.
	Plan func(Selection) (fib.Tables, []problem.Problem)
}

// Planned is a change with its tables.
type Planned struct {
	Change
	Tables   fib.Tables
	Problems []problem.Problem
	Learned  rib.Routes // that the tables have

	selection Selection
}

// Applied is what came of a change.
type Applied struct {
	Came gateway.Announcement
	// Begun: tables were written. InForce: the tables have taken the place of those before, but for what the error names.
	Begun, InForce bool
	Problems       []problem.Problem
}

// ErrEnded is of tables that nobody writes any more.
var ErrEnded = errors.New("the edge is stopping")

// Plan plans c with what is selected now. Nobody waits for it meanwhile; Apply knows what was selected since.
func (w *Writer) Plan(c Change) (*Planned, error) {
	p := &Planned{Change: c}
	var routing *plan.Routing
	if !w.queue.Urgent(func() {
		w.planning, w.since, w.replaced = true, nil, false
		routing, p.selection = w.view.routing.Snapshot(), w.selected(c)
		w.liveness.SetService(p.selection.Gateways.Service()) // who goes says so before
	}) {
		return nil, ErrEnded
	}
	p.Learned = routing.Learned()
	p.selection.Routing = plan.NewRouting(c.Edge, p.Learned)
	p.selection.Routing.SetOutages(p.selection.Outages)
	p.Tables, p.Problems = c.Plan(p.selection)
	return p, nil
}

// selected is what is selected for c now, but for routes.
func (w *Writer) selected(c Change) Selection {
	paths := w.planPaths(c.Snapshot, w.view.paths)
	return Selection{
		Paths: paths, Gateways: w.role.Evaluate(w.facts(c.Snapshot), time.Now()),
		Outages: plan.OutagesOf(c.Edge, w.hostOf(c.Snapshot), paths.PathPolicies),
	}
}

// Apply writes what was planned. What is urgent is done meanwhile.
func (w *Writer) Apply(p *Planned) (a Applied, err error) {
	if !w.queue.Long(func() { a, err = w.apply(p) }) {
		return a, ErrEnded
	}
	return a, err
}

func (w *Writer) apply(p *Planned) (a Applied, err error) {
	before := w.view
	if before.dp != nil && before.dp != p.DataPath {
		w.outgoing, w.view.dp = &before, p.DataPath // which knows the names of the one before
	}
	taken := false
	err = p.DataPath.Tables.ApplyIn(p.Tables, datapath.Steps{Yield: w.queue.Yield, Beside: w.queue.Beside, Latest: func(t fib.Tables) fib.Tables {
		taken = true
		return w.take(p, t)
	}})
	a.Problems = p.Problems
	w.outgoing, w.planning, w.since, w.replaced = nil, false, nil, false
	if !taken {
		w.view.dp = before.dp
		return a, err
	}
	a.Begun = true
	var partial datapath.PartialError
	if err != nil && !errors.As(err, &partial) {
		return a, err
	}
	a.InForce = true
	if w.role.Rewrites() { // else it was steered in the new tables, and has been taken over
		a.Came = w.role.Take(p.selection.Gateways, p.Tables.Egress)
	}
	return a, err
}

// take has the view be of the tables of p, which are about to be written, with what was selected since they
// were planned. t is what of them there is room for.
func (w *Writer) take(p *Planned, t fib.Tables) fib.Tables {
	next := w.selected(p.Change)
	next.Routing = w.view.routing
	again := !w.planning // some had to be written first, to make room
	if !again {
		next.Routing = p.selection.Routing
	}
	if w.replaced {
		again, next.Routing = true, plan.NewRouting(p.Edge, w.view.routing.Learned())
	}
	places := append(next.Routing.Learn(w.since), next.Routing.SetOutages(next.Outages)...)
	w.planning, w.replaced, w.since = false, false, nil
	maps.DeleteFunc(w.lost, func(_ int, n uint64) bool { return n <= p.Losses })
	w.liveness.SetService(next.Gateways.Service())
	switch {
	case again || !reflect.DeepEqual(next.Paths.PathPolicies, p.selection.Paths.PathPolicies) || !next.Gateways.Same(p.selection.Gateways):
		t, p.Problems = p.Plan(next)
	case len(places) > 0:
		t.Routers = withRoutes(t.Routers, next.Routing.Rewritten(places))
	}
	p.Tables, p.selection = t, next
	w.view = view{
		dp: p.DataPath, Snapshot: p.Snapshot, paths: next.Paths, routing: next.Routing, reach: plan.Reach(p.Edge),
	}
	w.role.Rewrite() // what is selected from now on is written, also when it is what was in force before
	w.publish()
	return t
}

// withRoutes is a list in which the changed routes have their place; those without a kind are gone.
func withRoutes(list, changed []fib.Router) []fib.Router {
	all := slices.Clone(list)
	for _, c := range changed {
		i := slices.IndexFunc(all, func(r fib.Router) bool { return r.Name == c.Name })
		if i < 0 {
			continue
		}
		other := make(map[netip.Prefix]bool, len(c.Routes))
		for _, route := range c.Routes {
			other[route.Prefix] = true
		}
		all[i].Routes = slices.DeleteFunc(slices.Clone(all[i].Routes), func(route fib.Route) bool { return other[route.Prefix] })
		for _, route := range c.Routes {
			if route.Kind != "" {
				all[i].Routes = append(all[i].Routes, route)
			}
		}
	}
	return all
}
