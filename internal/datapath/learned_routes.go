package datapath

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// PutRoutes changes single routes of routers, those that are listed; one of kind "" goes.
// The next Apply knows nothing of them. What is about unknown routers, segments and remotes
// is left out, as what there is no room for: the error names it (rib.LeftOut).
func (ro *Routes) PutRoutes(list []fib.Router) error {
	c := routeChanges{want: make(map[bpfRouteKey]bpfRoute), concerns: make(map[bpfRouteKey]bool), touched: make(map[uint32]bool)}
	c.plan = &plan{groups: map[uint32]bool{}, hops: map[uint16]bool{}}
	for _, r := range list {
		ro.planChanges(r, &c)
	}
	errs := []error{c.unplaced.err()}
	if len(ro.routes)+c.fresh > int(ro.maps.Routes.MaxEntries()) { // room is made first
		errs = append(errs, ro.dropRoutes(c.gone, c.touched))
		c.gone = nil
	}
	errs = append(errs, ro.putHops(c.plan), ro.putRoutes(c.want, c.touched), ro.dropRoutes(c.gone, c.touched))
	if u := ro.numbers.underway.plan; u != nil {
		ro.overtake(u, &c)
	}
	for id := range c.touched {
		errs = append(errs, ro.putRouter(id, false))
	}
	return rib.WithNoRoom(errors.Join(append(errs, ro.changes.changed())...), rib.NoRoom{Routes: c.left})
}

// routeChanges are what is to be done to the map routes.
type routeChanges struct {
	plan     *plan // groups and next hops
	want     map[bpfRouteKey]bpfRoute
	concerns map[bpfRouteKey]bool
	fresh    int // of want that are not in the map
	gone     []bpfRouteKey
	touched  map[uint32]bool // routers
	unplaced fewErrors
	left     []rib.Place // learned ones that are left out
}

// overtake has the plan that is being carried out have the routes as they were changed.
func (ro *Routes) overtake(p *plan, c *routeChanges) {
	for key := range c.concerns {
		p.overtaken[key] = true
		if route, ok := ro.routes[key]; ok {
			p.routes[key] = route
		} else {
			delete(p.routes, key)
		}
	}
	maps.Copy(p.groups, c.plan.groups)
	maps.Copy(p.hops, c.plan.hops)
}

// notOvertaken leaves out the routes that were changed since p was made.
func (ro *Routes) notOvertaken(list []fib.Router, p *plan) []fib.Router {
	if len(p.overtaken) == 0 {
		return list
	}
	return keep(list, func(r *fib.Router) bool {
		router := ro.numbers.names.routeIDs[r.Name]
		r.Routes = keep(r.Routes, func(route *fib.Route) bool { return !p.overtaken[routeKey(router, route.Prefix)] })
		return true
	})
}

func (ro *Routes) planChanges(r fib.Router, c *routeChanges) {
	router, ok := ro.numbers.names.routeIDs[r.Name]
	if !ok {
		c.unplaced.add(fmt.Errorf("there is no router %q", r.Name))
		for _, route := range r.Routes {
			c.left = leaveOut(c.left, r.Name, route)
		}
		return
	}
	for _, route := range r.Routes {
		key := routeKey(router, route.Prefix)
		now, known := ro.routes[key]
		c.concerns[key] = true
		if route.Kind == "" {
			if known {
				c.gone = append(c.gone, key)
			}
			continue
		}
		if most := ro.mostRoutes(route.Learned); !known && len(ro.routes)+c.fresh-len(c.gone) >= most {
			c.unplaced.add(noRouteRoom(r.Name, route, most))
			c.left = leaveOut(c.left, r.Name, route)
			continue
		}
		entry, err := ro.planRoute(now, route, c.plan)
		if err != nil {
			c.unplaced.add(fmt.Errorf("router %s: route %s: %w", r.Name, route.Prefix, err))
			c.left = leaveOut(c.left, r.Name, route)
			continue
		}
		if !known || now != entry {
			c.want[key] = entry
		}
		if !known {
			c.fresh++
		}
	}
}

// planRoute is the entry of a route in the place of the old one. Groups that only former
// routes used are collected when there is no room for a new one.
func (ro *Routes) planRoute(old bpfRoute, r fib.Route, p *plan) (bpfRoute, error) {
	entry := bpfRoute{Kind: routeKinds[r.Kind], IsDefault: isDefault(r.Prefix)}
	if r.Kind != overlay.Unicast {
		return entry, nil
	}
	full := &p.noRoom
	if r.Learned {
		full = &p.noLearnedRoom
	}
	var err error
	entry.Group, err = ro.group(old, r, *full, p)
	if errors.Is(err, errNoRoom) && !*full {
		if ro.freeable {
			if err := ro.collect(p); err != nil {
				return entry, err
			}
			entry.Group, err = ro.group(old, r, false, p)
		}
		*full = errors.Is(err, errNoRoom)
	}
	return entry, err
}

// globalUnicast is all of IPv6 that is assigned (RFC 4291 section 2.4), which some route by default.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// isDefault is 1 for the prefix of a default route.
func isDefault(p netip.Prefix) uint8 {
	if p.Bits() == 0 || p == globalUnicast {
		return 1
	}
	return 0
}

// putRoutes writes routes that differ, each of which is tried; the generations of the routers that it touched are
// written last.
func (ro *Routes) putRoutes(want map[bpfRouteKey]bpfRoute, touched map[uint32]bool) error {
	keys, values := make([]bpfRouteKey, 0, len(want)), make([]bpfRoute, 0, len(want))
	for _, k := range keysOf(want) {
		keys, values = append(keys, k), append(values, want[k])
	}
	var failed fewErrors
	for len(keys) > 0 {
		n, err := ro.maps.Routes.BatchUpdate(keys, values, nil)
		if err == nil {
			n = len(keys)
		}
		for i, k := range keys[:n] {
			ro.noteRoute(k, values[i])
			ro.invalidateRoute(k)
			touched[k.Router] = true
		}
		if err != nil { // the one behind them is left out, and keeps no other one from it
			failed.add(fmt.Errorf("write the map %s of %d entries: %w", ro.maps.Routes, ro.maps.Routes.MaxEntries(), err))
			n = min(n+1, len(keys))
		}
		keys, values = keys[n:], values[n:]
	}
	return failed.err()
}

// dropRoutes removes routes, likewise.
func (ro *Routes) dropRoutes(gone []bpfRouteKey, touched map[uint32]bool) error {
	for _, k := range gone {
		if err := ro.maps.Routes.Delete(k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete from the map %s: %w", ro.maps.Routes, err)
		}
		ro.forgetRoute(k)
		ro.invalidateRoute(k)
		touched[k.Router] = true
	}
	return nil
}

// keepRoutes plans to keep what a former process had of BGP, as far as it still leads
// somewhere.
func (ro *Routes) keepRoutes(p *plan) {
	vports := make(map[uint32]bool, len(ro.numbers.names.tepIDs))
	for _, id := range ro.numbers.names.tepIDs {
		vports[id] = true
	}
	good := func(hop uint16) bool {
		h := ro.hops[hop]
		return ro.numbers.names.segments[h.Segment] != "" && (h.Vport == 0 || vports[uint32(h.Vport)])
	}
	for k, r := range ro.routes {
		_, planned := p.routes[k]
		if planned || ro.numbers.names.routers[k.Router] == "" || r.Kind != bpfRouteKindROUTE_GROUP || !ro.leads(r.Group, good) {
			continue
		}
		p.routes[k], p.groups[r.Group] = r, true
		for _, hop := range ro.groups[r.Group].Buckets {
			p.hops[hop] = true
		}
	}
}

// leads reports whether all next hops of a group are good.
func (ro *Routes) leads(group uint32, good func(hop uint16) bool) bool {
	for _, hop := range ro.groups[group].Buckets {
		if !good(hop) {
			return false
		}
	}
	return true
}

// collect frees the groups that no route uses, and the next hops that neither groups nor
// egresses use; p has those that are about to be used.
func (ro *Routes) collect(p *plan) error {
	groups, hops := ro.inUse(p)
	for id := range groups {
		groups[id] = groups[id] || ro.groupRoutes[id] > 0
		if !groups[id] {
			continue
		}
		for _, hop := range ro.groups[id].Buckets {
			hops[hop] = true
		}
	}
	for i := range ro.numbers.egresses {
		ro.numbers.egresses[i].eachHop(func(hop uint16) { hops[hop] = true })
	}
	return ro.freeHops(groups, hops)
}
