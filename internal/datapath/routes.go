package datapath

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/overlay"
)

// groupBuckets is GROUP_BUCKETS of bpf/abi.h.
const groupBuckets = len(edgeGroup{}.Buckets)

var routeKinds = map[overlay.RouteKind]edgeRouteKind{
	overlay.Unicast:     edgeRouteKindROUTE_GROUP,
	overlay.Blackhole:   edgeRouteKindROUTE_BLACKHOLE,
	overlay.Unreachable: edgeRouteKindROUTE_UNREACHABLE,
	overlay.Prohibit:    edgeRouteKindROUTE_PROHIBIT,
}

// restoreRoutes reads the numbers of routers, next hops and groups.
func (d *Datapath) restoreRoutes() error {
	d.routers = make([]edgeRouter, d.objs.Routers.MaxEntries())
	d.hops = make([]edgeHop, d.objs.Hops.MaxEntries())
	d.groups = make([]edgeGroup, d.objs.Groups.MaxEntries())
	if err := readArray(d.objs.Routers, d.routers); err != nil {
		return err
	}
	if err := readArray(d.objs.Hops, d.hops); err != nil {
		return err
	}
	return readArray(d.objs.Groups, d.groups)
}

// assignRouter knows a router again by its name's hash, which its entry keeps.
func (d *Datapath) assignRouter(name string) error {
	tag := NameTag(name)
	id, ok := find(d.routers, func(r edgeRouter) bool { return r.Used == tag })
	if !ok {
		id, ok = find(d.routers, func(r edgeRouter) bool { return r.Used == 0 })
	}
	if !ok {
		return fmt.Errorf("router %s: the table of %d routers is full", name, len(d.routers)-1)
	}
	if other, taken := d.names.routers[id]; taken {
		return fmt.Errorf("router %s: choose another name, its hash is that of %s", name, other)
	}
	d.routers[id].Used = tag
	d.names.routers[id], d.names.routeIDs[name] = name, id
	d.names.tagged[routerTags][tag] = id
	return nil
}

// planRoutes plans the routers' tables, with a group of next hops for each set of them.
func (d *Datapath) planRoutes(t Tables, p *plan) error {
	now, bySet, err := d.groupsInUse()
	if err != nil {
		return err
	}
	for id := range d.names.routers {
		d.routers[id].Source4.W, d.routers[id].Source6.W = [4]uint32{}, [4]uint32{}
	}
	for _, s := range t.Segments {
		d.setRouterSource(s)
	}
	for _, r := range t.Routers {
		router := d.names.routeIDs[r.Name]
		for _, route := range r.Routes {
			key := edgeRouteKey{Prefixlen: prefixLen(route.Prefix), Router: router}
			key.Addr.W = wireAddr(route.Prefix.Masked().Addr())
			entry := edgeRoute{Kind: routeKinds[route.Kind]}
			if route.Kind == overlay.Unicast {
				if entry.Group, err = d.group(now[key], route.Hops, bySet, p); err != nil {
					return fmt.Errorf("router %s: route %s: %w", r.Name, route.Prefix, err)
				}
			}
			p.routes[key] = entry
		}
	}
	return nil
}

// setRouterSource lets a router speak from the address of one of its gateways.
func (d *Datapath) setRouterSource(s overlay.Segment) {
	if s.Gateway == nil {
		return
	}
	r := &d.routers[d.names.routeIDs[s.Gateway.Router]]
	global, _ := gatewayAddrs(s.Gateway)
	setSources(&r.Source4.W, &r.Source6.W, global)
}

// groupsInUse are the routes that there are, and the groups that they refer to by
// their set of next hops.
func (d *Datapath) groupsInUse() (now map[edgeRouteKey]edgeRoute, bySet map[string]uint32, err error) {
	now, bySet = make(map[edgeRouteKey]edgeRoute), make(map[string]uint32)
	err = iterate(d.objs.Routes, func(k edgeRouteKey, r edgeRoute) {
		now[k] = r
		if r.Kind == edgeRouteKindROUTE_GROUP && int(r.Group) < len(d.groups) {
			bySet[setOf(d.groups[r.Group].Buckets[:])] = r.Group
		}
	})
	return now, bySet, err
}

// setOf names a set of next hops.
func setOf(hops []uint16) string {
	sorted := slices.Clone(hops)
	slices.Sort(sorted)
	var b strings.Builder
	for _, h := range slices.Compact(sorted) {
		fmt.Fprintf(&b, "%d ", h)
	}
	return b.String()
}

// group finds or makes the group of these next hops. A new one begins with the
// buckets of the group that the route had, so that most flows stay where they are.
func (d *Datapath) group(old edgeRoute, want []Hop, bySet map[string]uint32, p *plan) (uint32, error) {
	if len(want) == 0 {
		return 0, errors.New("it has no next hop")
	}
	hops := make([]uint16, 0, len(want))
	for _, h := range want {
		id, err := d.hop(h)
		if err != nil {
			return 0, err
		}
		p.hops[id] = true
		hops = append(hops, id)
	}
	slices.Sort(hops)
	hops = slices.Compact(hops)
	set := setOf(hops)
	if id, ok := bySet[set]; ok {
		p.groups[id] = true
		return id, nil
	}
	id, ok := find(d.groups, func(g edgeGroup) bool { return g == edgeGroup{} })
	if !ok {
		return 0, fmt.Errorf("the table of %d groups of next hops is full", len(d.groups)-1)
	}
	var before [groupBuckets]uint16
	if old.Kind == edgeRouteKindROUTE_GROUP {
		before = d.groups[old.Group].Buckets
	}
	d.groups[id].Buckets = share(before, hops)
	bySet[set] = id
	p.groups[id] = true
	return id, nil
}

// share gives the buckets to hops (resilient hashing). Number 0 is no hop.
func share(before [groupBuckets]uint16, hops []uint16) [groupBuckets]uint16 {
	return [groupBuckets]uint16(overlay.Share(before[:], hops))
}

// hop finds or makes the number of a next hop.
func (d *Datapath) hop(h Hop) (uint16, error) {
	segment, ok := d.names.segIDs[h.Segment]
	if !ok {
		return 0, fmt.Errorf("there is no segment %q", h.Segment)
	}
	want := edgeHop{Segment: segment, Mac: h.MAC}
	switch {
	case h.Remote.IsValid():
		end, ok := d.names.tepIDs[h.Remote]
		if !ok {
			return 0, fmt.Errorf("remote %s has no entry among the TEPs", h.Remote)
		}
		want.End = uint16(end)
	case h.Addr.IsValid():
		want.Addr.W = wireAddr(h.Addr)
	}
	id, ok := find(d.hops, func(e edgeHop) bool { return e == want })
	if !ok {
		id, ok = find(d.hops, func(e edgeHop) bool { return e == edgeHop{} })
	}
	if !ok {
		return 0, fmt.Errorf("the table of %d next hops is full", len(d.hops)-1)
	}
	d.hops[id] = want
	return uint16(id), nil
}

// writeRoutes writes what routes refer to before the routes, and the routers'
// generations last.
func (d *Datapath) writeRoutes(p *plan) error {
	for id := range p.hops {
		if err := putSlot(d.objs.Hops, uint32(id), d.hops[id]); err != nil {
			return err
		}
	}
	for id := range p.groups {
		if err := putSlot(d.objs.Groups, id, d.groups[id]); err != nil {
			return err
		}
	}
	changed, err := putTrie(d.objs.Routes, p.routes)
	if err != nil {
		return err
	}
	for _, k := range changed {
		p.rerouted[k.Router] = true
	}
	locals, err := put(d.objs.Locals, p.locals)
	if err != nil {
		return err
	}
	for _, k := range locals { // a segment's own are asked for each time
		p.rerouted[k.Router] = true
	}
	for id := range d.names.routers {
		if err := d.putRouter(id, p.rerouted[id]); err != nil {
			return err
		}
	}
	return nil
}

// putTrie does what put does. A look-up in a trie finds the cover of a prefix that
// is not there, so the trie is read as a whole.
func putTrie[K, V comparable](m *ebpf.Map, want map[K]V) ([]K, error) {
	now := make(map[K]V)
	if err := iterate(m, func(k K, v V) { now[k] = v }); err != nil {
		return nil, err
	}
	var changed []K
	for k, v := range want {
		if old, ok := now[k]; ok && old == v {
			continue
		}
		if err := m.Put(k, v); err != nil {
			return nil, fmt.Errorf("write the map %s: %w", m, err)
		}
		changed = append(changed, k)
	}
	return changed, nil
}

// putSlot writes an entry of an array when it differs.
func putSlot[V comparable](m *ebpf.Map, id uint32, want V) error {
	var now V
	if err := m.Lookup(id, &now); err != nil {
		return fmt.Errorf("read entry %d of the map %s: %w", id, m, err)
	}
	if now == want {
		return nil
	}
	if err := m.Put(id, want); err != nil {
		return fmt.Errorf("write entry %d of the map %s: %w", id, m, err)
	}
	return nil
}

func (d *Datapath) putRouter(id uint32, rerouted bool) error {
	var now edgeRouter
	if err := d.objs.Routers.Lookup(id, &now); err != nil {
		return fmt.Errorf("read router %d: %w", id, err)
	}
	want := d.routers[id]
	want.Generation = now.Generation
	if rerouted {
		want.Generation += generationStep
	}
	d.routers[id] = want
	return putSlot(d.objs.Routers, id, want)
}

// pruneRoutes removes routes, then what only they referred to.
func (d *Datapath) pruneRoutes(p *plan) error {
	errs := []error{
		pruneMap(d.objs.Routes, p.routes, func(k edgeRouteKey) error { return d.reroute(k.Router) }),
		pruneMap(d.objs.Locals, p.locals, func(k edgeLocalKey) error { return d.reroute(k.Router) }),
	}
	for id := range d.groups {
		if (d.groups[id] != edgeGroup{}) && !p.groups[uint32(id)] {
			d.groups[id] = edgeGroup{}
			errs = append(errs, putSlot(d.objs.Groups, uint32(id), d.groups[id]))
		}
	}
	for id := range d.hops {
		if (d.hops[id] != edgeHop{}) && !p.hops[uint16(id)] {
			d.hops[id] = edgeHop{}
			errs = append(errs, putSlot(d.objs.Hops, uint32(id), d.hops[id]))
		}
	}
	for id := range d.routers {
		if _, ok := d.names.routers[uint32(id)]; ok || d.routers[id].Used == 0 {
			continue
		}
		// The generation goes on, so that a decision of a former owner never fits a new one.
		d.routers[id] = edgeRouter{Generation: d.routers[id].Generation + generationStep}
		errs = append(errs, putSlot(d.objs.Routers, uint32(id), d.routers[id]))
	}
	return errors.Join(errs...)
}

// iterate walks a map that has no batches: a trie.
func iterate[K, V any](m *ebpf.Map, do func(K, V)) error {
	var key K
	var value V
	it := m.Iterate()
	for it.Next(&key, &value) {
		do(key, value)
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("walk the map %s: %w", m, err)
	}
	return nil
}
