package datapath

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
)

// PutRoutes changes single routes of routers, those that are listed; one of kind "" goes.
// The next Apply knows nothing of them. What is about unknown routers, segments and remotes
// is left out, and an error.
func (d *Datapath) PutRoutes(list []fib.Router) error {
	c := routeChanges{want: make(map[bpfRouteKey]bpfRoute), touched: make(map[uint32]bool)}
	c.plan = &plan{groups: map[uint32]bool{}, hops: map[uint16]bool{}}
	for _, r := range list {
		d.planChanges(r, &c)
	}
	errs := []error{c.unplaced.err()}
	if len(d.routes)+c.fresh > int(d.objs.Routes.MaxEntries()) { // room is made first
		errs = append(errs, d.dropRoutes(c.gone, c.touched))
		c.gone = nil
	}
	errs = append(errs, d.putHops(c.plan), d.putRoutes(c.want, c.touched), d.dropRoutes(c.gone, c.touched))
	for id := range c.touched {
		errs = append(errs, d.putRouter(id, false))
	}
	return errors.Join(append(errs, d.changed())...)
}

// routeChanges are what is to be done to the map routes.
type routeChanges struct {
	plan     *plan // groups and next hops
	want     map[bpfRouteKey]bpfRoute
	fresh    int // of want that are not in the map
	gone     []bpfRouteKey
	touched  map[uint32]bool // routers
	unplaced fewErrors
}

func (d *Datapath) planChanges(r fib.Router, c *routeChanges) {
	router, ok := d.names.routeIDs[r.Name]
	if !ok {
		c.unplaced.add(fmt.Errorf("there is no router %q", r.Name))
		return
	}
	for _, route := range r.Routes {
		key := routeKey(router, route.Prefix)
		now, known := d.routes[key]
		if route.Kind == "" {
			if known {
				c.gone = append(c.gone, key)
			}
			continue
		}
		if most := d.mostRoutes(route.Learned); !known && len(d.routes)+c.fresh-len(c.gone) >= most {
			c.unplaced.add(noRouteRoom(r.Name, route, most))
			continue
		}
		entry, err := d.planRoute(now, route, c.plan)
		if err != nil {
			c.unplaced.add(fmt.Errorf("router %s: route %s: %w", r.Name, route.Prefix, err))
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
func (d *Datapath) planRoute(old bpfRoute, r fib.Route, p *plan) (bpfRoute, error) {
	entry := bpfRoute{Kind: routeKinds[r.Kind], IsDefault: isDefault(r.Prefix)}
	if r.Kind != overlay.Unicast {
		return entry, nil
	}
	full := &p.noRoom
	if r.Learned {
		full = &p.noLearnedRoom
	}
	var err error
	entry.Group, err = d.group(old, r, *full, p)
	if errors.Is(err, errNoRoom) && !*full {
		if d.freeable {
			if err := d.collect(p); err != nil {
				return entry, err
			}
			entry.Group, err = d.group(old, r, false, p)
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

// putRoutes writes routes that differ; the generations of the routers that it touched are
// written last.
func (d *Datapath) putRoutes(want map[bpfRouteKey]bpfRoute, touched map[uint32]bool) error {
	keys, values := make([]bpfRouteKey, 0, len(want)), make([]bpfRoute, 0, len(want))
	for _, k := range keysOf(want) {
		keys, values = append(keys, k), append(values, want[k])
	}
	if len(keys) == 0 {
		return nil
	}
	n, err := d.objs.Routes.BatchUpdate(keys, values, nil)
	if err == nil {
		n = len(keys)
	}
	for i, k := range keys[:n] {
		d.noteRoute(k, values[i])
		d.invalidateRoute(k)
		touched[k.Router] = true
	}
	if err != nil {
		return fmt.Errorf("write the map %s of %d entries: %w", d.objs.Routes, d.objs.Routes.MaxEntries(), err)
	}
	return nil
}

// dropRoutes removes routes, likewise.
func (d *Datapath) dropRoutes(gone []bpfRouteKey, touched map[uint32]bool) error {
	for _, k := range gone {
		if err := d.objs.Routes.Delete(k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete from the map %s: %w", d.objs.Routes, err)
		}
		d.forgetRoute(k)
		d.invalidateRoute(k)
		touched[k.Router] = true
	}
	return nil
}

// keepRoutes plans to keep what a former process had of BGP, as far as it still leads
// somewhere.
func (d *Datapath) keepRoutes(p *plan) {
	vports := make(map[uint32]bool, len(d.names.tepIDs))
	for _, id := range d.names.tepIDs {
		vports[id] = true
	}
	good := func(hop uint16) bool {
		h := d.hops[hop]
		return d.names.segments[h.Segment] != "" && (h.Vport == 0 || vports[uint32(h.Vport)])
	}
	for k, r := range d.routes {
		_, planned := p.routes[k]
		if planned || d.names.routers[k.Router] == "" || r.Kind != bpfRouteKindROUTE_GROUP || !d.leads(r.Group, good) {
			continue
		}
		p.routes[k], p.groups[r.Group] = r, true
		for _, hop := range d.groups[r.Group].Buckets {
			p.hops[hop] = true
		}
	}
}

// leads reports whether all next hops of a group are good.
func (d *Datapath) leads(group uint32, good func(hop uint16) bool) bool {
	for _, hop := range d.groups[group].Buckets {
		if !good(hop) {
			return false
		}
	}
	return true
}

// collect frees the groups that no route uses, and the next hops that neither groups nor
// egresses use; p has those that are about to be used.
func (d *Datapath) collect(p *plan) error {
	groups, hops := d.inUse(p)
	for id := range groups {
		groups[id] = groups[id] || d.groupRoutes[id] > 0
		if !groups[id] {
			continue
		}
		for _, hop := range d.groups[id].Buckets {
			hops[hop] = true
		}
	}
	for i := range d.nat.entries {
		d.nat.entries[i].eachHop(func(hop uint16) { hops[hop] = true })
	}
	return d.freeHops(groups, hops)
}
