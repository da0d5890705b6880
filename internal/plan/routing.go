package plan

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// Routing is the tables of an edge's routers while routes are learned. Unlike all else here
// it changes: it is for one goroutine at a time.
type Routing struct {
	routers []overlay.Router
	tables  map[string]*routing
	outages Outages
}

// routing is that of one router.
type routing struct {
	router    overlay.Router
	connected []network
	own       []Route // connected and static ones, in order
	ownAt     map[netip.Prefix]int
	learned   map[netip.Prefix]overlay.Route
	list      []overlay.Route // learned, sorted; nil: to be made
}

// NewRouting is that of e, with what its routers learned by now, and no outages.
func NewRouting(e overlay.Edge, known rib.Routes) *Routing {
	all := &Routing{routers: e.Routers, tables: make(map[string]*routing, len(e.Routers))}
	for _, r := range e.Routers {
		learned, t := known[r.Name], newRouting(e, r)
		t.learned = make(map[netip.Prefix]overlay.Route, len(learned))
		for _, route := range learned {
			t.learned[route.Prefix] = route
		}
		if slices.IsSortedFunc(learned, compareRoutes) && len(t.learned) == len(learned) {
			t.list = learned
		}
		all.tables[r.Name] = t
	}
	return all
}

// newRouting has the routes of r that are its own.
func newRouting(e overlay.Edge, r overlay.Router) *routing {
	t := &routing{router: r, connected: networks(e, r), ownAt: make(map[netip.Prefix]int)}
	t.own = ownRoutes(r, t.connected)
	for i, route := range t.own {
		t.ownAt[route.Prefix] = i
	}
	return t
}

// Learn takes routes over, of which those without next hops go, and says where something may
// have changed, each place once.
func (all *Routing) Learn(list []rib.LearnedRoute) (changed []rib.Place) {
	seen := make(map[rib.Place]bool, len(list))
	for _, route := range list {
		t := all.tables[route.Router]
		if t == nil {
			continue // it went from the configuration
		}
		t.list = nil
		if len(route.Via) == 0 {
			delete(t.learned, route.Prefix)
		} else {
			t.learned[route.Prefix] = route.Route
		}
		changed = all.concerned(changed, seen, route.Router, route.Prefix)
	}
	return changed
}

// Forget has nothing learned.
func (all *Routing) Forget() {
	for _, t := range all.tables {
		clear(t.learned)
		t.list = nil
	}
}

// Snapshot is a copy that no longer changes.
func (all *Routing) Snapshot() *Routing {
	c := &Routing{routers: all.routers, tables: make(map[string]*routing, len(all.tables)), outages: all.outages}
	for name, t := range all.tables {
		own := *t
		own.learned = maps.Clone(t.learned)
		c.tables[name] = &own
	}
	return c
}

// Learned is all that the routers learned.
func (all *Routing) Learned() rib.Routes {
	routes := make(rib.Routes, len(all.tables))
	for name, t := range all.tables {
		routes[name] = t.sorted()
	}
	return routes
}

func (t *routing) sorted() []overlay.Route {
	if t.list != nil || len(t.learned) == 0 {
		return t.list
	}
	t.list = make([]overlay.Route, 0, len(t.learned))
	for _, route := range t.learned {
		t.list = append(t.list, route)
	}
	slices.SortFunc(t.list, compareRoutes)
	return t.list
}

func compareRoutes(a, b overlay.Route) int { return comparePrefixes(a.Prefix, b.Prefix) }

// concerned adds the places that a route of router stands in, or may be leaked to.
func (all *Routing) concerned(list []rib.Place, seen map[rib.Place]bool, router string, prefix netip.Prefix) []rib.Place {
	add := func(name string) {
		if at := (rib.Place{Router: name, Prefix: prefix}); !seen[at] {
			seen[at] = true
			list = append(list, at)
		}
	}
	add(router)
	for _, r := range all.routers {
		if slices.ContainsFunc(r.Leaks, func(l overlay.Leak) bool { return l.From == router && within(prefix, l.Prefixes) }) {
			add(r.Name)
		}
	}
	return list
}

// SetOutages says what carries nothing now, and where that changes a route.
func (all *Routing) SetOutages(out Outages) (changed []rib.Place) {
	was := all.outages
	all.outages = out
	if was.Equal(out) {
		return nil
	}
	differs := func(hop fib.Hop) bool { return was.ofHop(hop) != out.ofHop(hop) || was.isHeld(hop) != out.isHeld(hop) }
	seen := make(map[rib.Place]bool)
	for _, r := range all.routers {
		t := all.tables[r.Name]
		for _, own := range t.own {
			if slices.ContainsFunc(own.Hops, differs) {
				changed = all.concerned(changed, seen, r.Name, own.Prefix)
			}
		}
		for prefix, route := range t.learned {
			if slices.ContainsFunc(resolve(t.router, t.connected, route).Hops, func(hop fib.Hop) bool {
				// A learned route whose remotes are all dead stays as it is.
				return differs(hop) && (len(route.Via) > 1 || !hop.Remote.IsValid())
			}) {
				changed = all.concerned(changed, seen, r.Name, prefix)
			}
		}
	}
	return changed
}

// Outages are those that were set last.
func (all *Routing) Outages() Outages { return all.outages }

// At is the route that counts. Where there is none, Down says why, if a route is out of use.
func (all *Routing) At(at rib.Place) (Route, bool) {
	t := all.tables[at.Router]
	if t == nil {
		return Route{}, false
	}
	own, ok := t.at(at.Prefix, all.outages)
	if ok {
		return own, true
	}
	for _, leak := range t.router.Leaks {
		from := all.tables[leak.From]
		if from == nil || !within(at.Prefix, leak.Prefixes) {
			continue
		}
		if route, ok := from.at(at.Prefix, all.outages); ok {
			route.Origin, route.From = Leaked, leak.From
			return route, true
		}
	}
	return own, false
}

// at is that of t itself.
func (t *routing) at(prefix netip.Prefix, out Outages) (route Route, ok bool) {
	if i, owns := t.ownAt[prefix]; owns {
		if route, ok = t.living(t.own[i], out); ok {
			return route, true
		}
	}
	if learned, knows := t.learned[prefix]; knows {
		if other, lives := t.resolved(learned, out); lives || route.Kind == "" {
			return other, lives
		}
	}
	return route, false
}

// living is the route with the next hops by which packets get on; the others are Down. A learned route whose
// remotes are all dead keeps them: its advertiser has the last word. Nobody else is asked for the hosts of a segment, so
// that its network stays.
func (t *routing) living(r Route, out Outages) (Route, bool) {
	if r.Kind != overlay.Unicast || len(out.Remotes)+len(out.Segments) == 0 {
		return r, r.Counts()
	}
	hops := r.Hops
	r.Hops = nil
	for _, hop := range hops {
		why := out.ofHop(hop)
		if r.Origin == Connected && !t.isUplink(hop.Segment) {
			why = ""
		}
		if why == "" {
			r.Hops = append(r.Hops, hop)
		} else {
			r.Down = append(r.Down, DownHop{hop, why})
		}
	}
	if len(r.Hops) == 0 {
		r.lastResort(out)
	}
	return r, len(r.Hops) > 0
}

// lastResort takes remotes back that are better than none.
func (r *Route) lastResort(out Outages) {
	r.Down = slices.DeleteFunc(r.Down, func(down DownHop) bool {
		back := down.Remote.IsValid() && (r.Learned || out.isHeld(down.Hop))
		if back {
			r.Hops = append(r.Hops, down.Hop)
		}
		return back
	})
}

func (t *routing) isUplink(segment string) bool {
	return slices.ContainsFunc(t.router.Uplinks, func(u overlay.Uplink) bool { return u.Name == segment })
}

// resolved is a learned route with the next hops that there are.
func (t *routing) resolved(learned overlay.Route, out Outages) (Route, bool) {
	route := Route{Origin: Learned, Route: resolve(t.router, t.connected, learned)}
	route.Learned = true
	route.Hops = slices.DeleteFunc(route.Hops, func(hop fib.Hop) bool { return !t.reaches(hop) })
	return t.living(route, out)
}

// reaches leaves out what the tables have no place for: remotes that come with the next
// reconciliation or are about to go, and next hops on no network of the router.
func (t *routing) reaches(hop fib.Hop) bool {
	if hop.Remote.IsValid() {
		return t.router.L3 != nil && slices.Contains(t.router.L3.Remotes, hop.Remote)
	}
	return hop.Segment != ""
}

// All are the tables, in the configuration's order. Routes without next hops that live are among them, and do not count.
func (all *Routing) All() []Table {
	tables := make([]Table, 0, len(all.routers))
	for _, r := range all.routers {
		t := all.tables[r.Name]
		table := Table{Router: r.Name, Routes: t.routes(all.outages)}
		known := table.prefixes(len(r.Leaks) > 0)
		for _, leak := range r.Leaks {
			from := all.tables[leak.From]
			if from == nil {
				continue
			}
			for _, route := range from.routes(all.outages) {
				if known[route.Prefix] || !route.Counts() || !within(route.Prefix, leak.Prefixes) {
					continue
				}
				known[route.Prefix] = true
				route.Origin, route.From = Leaked, leak.From
				table.Routes = append(table.Routes, route)
			}
		}
		tables = append(tables, table)
	}
	return tables
}

// prefixes are those with a route that counts, where that is needed.
func (t Table) prefixes(needed bool) map[netip.Prefix]bool {
	if !needed {
		return nil
	}
	known := make(map[netip.Prefix]bool, len(t.Routes))
	for _, route := range t.Routes {
		known[route.Prefix] = known[route.Prefix] || route.Counts()
	}
	return known
}

// routes are those of t itself: connected, static, then learned ones.
func (t *routing) routes(out Outages) []Route {
	routes := make([]Route, 0, len(t.own)+len(t.learned))
	hides := make(map[netip.Prefix]bool, len(t.own))
	for _, own := range t.own {
		route, ok := t.living(own, out)
		routes, hides[own.Prefix] = append(routes, route), ok
	}
	for _, learned := range t.sorted() {
		if hides[learned.Prefix] {
			continue
		}
		if route, ok := t.resolved(learned, out); ok || len(route.Down) > 0 {
			routes = append(routes, route)
		}
	}
	return routes
}

// Rewritten is what the data path should hold at these places by now; a route without a kind
// is gone.
func (all *Routing) Rewritten(places []rib.Place) (routers []fib.Router) {
	index, done := make(map[string]int), make(map[rib.Place]bool, len(places))
	for _, at := range places {
		if done[at] {
			continue
		}
		done[at] = true
		i, ok := index[at.Router]
		if !ok {
			i = len(routers)
			index[at.Router], routers = i, append(routers, fib.Router{Name: at.Router})
		}
		rewritten := fib.Route{Prefix: at.Prefix}
		if route, ok := all.At(at); ok {
			rewritten = route.Route
		}
		routers[i].Routes = append(routers[i].Routes, rewritten)
	}
	return routers
}
