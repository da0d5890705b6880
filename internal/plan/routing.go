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

// NewRouting is that of e, with what its routers learned by now.
func NewRouting(e overlay.Edge, known rib.Routes) *Routing {
	all := &Routing{routers: e.Routers, tables: make(map[string]*routing, len(e.Routers))}
	for _, r := range e.Routers {
		learned := known[r.Name]
		t := &routing{
			router: r, connected: networks(e, r), ownAt: make(map[netip.Prefix]int), learned: make(map[netip.Prefix]overlay.Route, len(learned)),
		}
		t.own = ownRoutes(r, t.connected)
		for i, route := range t.own {
			t.ownAt[route.Prefix] = i
		}
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
	c := &Routing{routers: all.routers, tables: make(map[string]*routing, len(all.tables))}
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

// SharedBy are the places of routes that lead by one of the remotes, and have other next
// hops.
func (all *Routing) SharedBy(remotes map[netip.Addr]bool) (list []rib.Place) {
	seen := make(map[rib.Place]bool)
	shared := func(via []overlay.NextHop) bool {
		return len(via) > 1 && slices.ContainsFunc(via, func(n overlay.NextHop) bool { return remotes[n.Remote] })
	}
	for _, r := range all.routers {
		t := all.tables[r.Name]
		for _, static := range r.Routes {
			if shared(static.Via) {
				list = all.concerned(list, seen, r.Name, static.Prefix)
			}
		}
		for prefix, route := range t.learned {
			if shared(route.Via) {
				list = all.concerned(list, seen, r.Name, prefix)
			}
		}
	}
	return list
}

// At is the route that counts.
func (all *Routing) At(at rib.Place) (Route, bool) {
	t := all.tables[at.Router]
	if t == nil {
		return Route{}, false
	}
	if route, ok := t.at(at.Prefix); ok {
		return route, true
	}
	for _, leak := range t.router.Leaks {
		from := all.tables[leak.From]
		if from == nil || !within(at.Prefix, leak.Prefixes) {
			continue
		}
		if route, ok := from.at(at.Prefix); ok {
			route.Origin, route.From = Leaked, leak.From
			return route, true
		}
	}
	return Route{}, false
}

// at is that of t itself.
func (t *routing) at(prefix netip.Prefix) (Route, bool) {
	if i, ok := t.ownAt[prefix]; ok {
		return t.own[i], true
	}
	learned, ok := t.learned[prefix]
	if !ok {
		return Route{}, false
	}
	return t.resolved(learned)
}

// resolved is a learned route with the next hops that there are.
func (t *routing) resolved(learned overlay.Route) (Route, bool) {
	route := Route{Origin: Learned, Route: resolve(t.router, t.connected, learned)}
	route.Learned = true
	route.Hops = slices.DeleteFunc(route.Hops, func(hop fib.Hop) bool { return !t.reaches(hop) })
	return route, len(route.Hops) > 0
}

// reaches leaves out what the tables have no place for: remotes that come with the next
// reconciliation or are about to go, and next hops on no network of the router.
func (t *routing) reaches(hop fib.Hop) bool {
	if hop.Remote.IsValid() {
		return t.router.L3 != nil && slices.Contains(t.router.L3.Remotes, hop.Remote)
	}
	return hop.Segment != ""
}

// All are the tables, in the configuration's order.
func (all *Routing) All() []Table {
	tables := make([]Table, 0, len(all.routers))
	for _, r := range all.routers {
		t := all.tables[r.Name]
		table := Table{Router: r.Name, Routes: t.routes()}
		known := table.prefixes(len(r.Leaks) > 0)
		for _, leak := range r.Leaks {
			from := all.tables[leak.From]
			if from == nil {
				continue
			}
			for _, route := range from.routes() {
				if known[route.Prefix] || !within(route.Prefix, leak.Prefixes) {
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

// prefixes are those with a route, where that is needed.
func (t Table) prefixes(needed bool) map[netip.Prefix]bool {
	if !needed {
		return nil
	}
	known := make(map[netip.Prefix]bool, len(t.Routes))
	for _, route := range t.Routes {
		known[route.Prefix] = true
	}
	return known
}

// routes are those of t itself: connected, static, then learned ones.
func (t *routing) routes() []Route {
	routes := append(make([]Route, 0, len(t.own)+len(t.learned)), t.own...)
	for _, learned := range t.sorted() {
		if _, hidden := t.ownAt[learned.Prefix]; hidden {
			continue
		}
		if route, ok := t.resolved(learned); ok {
			routes = append(routes, route)
		}
	}
	return routes
}

// Living is the route without next hops whose remotes are dead, unless no other is left.
func (r Route) Living(dead map[netip.Addr]bool) fib.Route {
	living := slices.DeleteFunc(slices.Clone(r.Hops), func(hop fib.Hop) bool { return dead[hop.Remote] })
	if len(living) > 0 {
		r.Hops = living
	}
	return r.Route
}

// Rewritten is what the data path should hold at these places by now; a route without a kind
// is gone.
func (all *Routing) Rewritten(places []rib.Place, dead map[netip.Addr]bool) (routers []fib.Router) {
	index := make(map[string]int)
	for _, at := range places {
		i, ok := index[at.Router]
		if !ok {
			i = len(routers)
			index[at.Router], routers = i, append(routers, fib.Router{Name: at.Router})
		}
		rewritten := fib.Route{Prefix: at.Prefix}
		if route, ok := all.At(at); ok {
			rewritten = route.Living(dead)
		}
		routers[i].Routes = append(routers[i].Routes, rewritten)
	}
	return routers
}

// DeadRemotes are those all of whose paths are out of use, by their first addresses.
func DeadRemotes(t PathPolicies) map[netip.Addr]bool {
	dead := make(map[netip.Addr]bool)
	for _, p := range t.Paths {
		if _, known := dead[p.Edge]; !known || p.Down == "" {
			dead[p.Edge] = p.Down != ""
		}
	}
	for remote, is := range dead {
		if !is {
			delete(dead, remote)
		}
	}
	return dead
}
