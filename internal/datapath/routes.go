package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// groupBuckets is NEXTHOP_BUCKETS of bpf/abi/routing.h.
const groupBuckets = len(bpfNexthopGroup{}.Buckets)

var routeKinds = map[overlay.RouteKind]bpfRouteKind{
	overlay.Unicast:     bpfRouteKindROUTE_GROUP,
	overlay.Blackhole:   bpfRouteKindROUTE_BLACKHOLE,
	overlay.Unreachable: bpfRouteKindROUTE_UNREACHABLE,
	overlay.Prohibit:    bpfRouteKindROUTE_PROHIBIT,
}

// restoreRoutes reads the numbers of routers, next hops and groups.
func (ro *Routes) restoreRoutes() error {
	ro.numbers.routers = make([]bpfRouter, ro.numbers.maps.Routers.MaxEntries())
	ro.hops = make([]bpfNexthop, ro.maps.Nexthops.MaxEntries())
	ro.groups = make([]bpfNexthopGroup, ro.maps.NexthopGroups.MaxEntries())
	if err := readArray(ro.numbers.maps.Routers, ro.numbers.routers); err != nil {
		return err
	}
	if err := readArray(ro.maps.Nexthops, ro.hops); err != nil {
		return err
	}
	if err := readArray(ro.maps.NexthopGroups, ro.groups); err != nil {
		return err
	}
	ro.routes, ro.sets, ro.hopIDs = make(map[bpfRouteKey]bpfRoute), make(map[string]uint32), make(map[bpfNexthop]uint16)
	for id, hop := range ro.hops {
		if hop != (bpfNexthop{}) {
			ro.hopIDs[hop] = uint16(id)
		}
	}
	ro.groupRoutes, ro.freeable = make([]int, len(ro.groups)), true
	defer countHops(ro)
	return iterate(ro.maps.Routes, func(k bpfRouteKey, r bpfRoute) {
		ro.noteRoute(k, r)
		if r.Kind == bpfRouteKindROUTE_GROUP && ro.groupRoutes[r.Group] == 1 {
			ro.sets[setOf(ro.groups[r.Group].Buckets[:])] = r.Group
		}
	})
}

// noteRoute notes what the map has of a route now.
func (ro *Routes) noteRoute(k bpfRouteKey, r bpfRoute) {
	ro.forgetRoute(k)
	ro.routes[k] = r
	ro.prog.filling.routes.set(len(ro.routes))
	if r.Kind == bpfRouteKindROUTE_GROUP {
		ro.groupRoutes[r.Group]++
	}
}

func (ro *Routes) forgetRoute(k bpfRouteKey) {
	old, known := ro.routes[k]
	delete(ro.routes, k)
	ro.prog.filling.routes.set(len(ro.routes))
	if known && old.Kind == bpfRouteKindROUTE_GROUP {
		ro.groupRoutes[old.Group]--
		ro.freeable = ro.freeable || ro.groupRoutes[old.Group] == 0
	}
}

// assignRouter knows a router again by its name's hash, which its entry keeps.
func (as *assigner) assignRouter(name string) error {
	tag := NameTag(name)
	id, ok := find(as.numbers.routers, func(r bpfRouter) bool { return r.Used == tag })
	if !ok {
		id, ok = find(as.numbers.routers, func(r bpfRouter) bool { return r.Used == 0 })
	}
	if !ok {
		return fmt.Errorf("router %s: the table of %d routers is full", name, len(as.numbers.routers)-1)
	}
	if other, taken := as.numbers.names.routers[id]; taken {
		return fmt.Errorf("router %s: choose another name, its hash is that of %s", name, other)
	}
	as.numbers.routers[id].Used = tag
	as.numbers.names.routers[id], as.numbers.names.routeIDs[name] = name, id
	as.numbers.names.tagged[routerTags][tag] = id
	return nil
}

// planRoutes plans the routers' tables, with a group of next hops for each set of them.
func (ro *Routes) planRoutes(t fib.Tables, p *plan) error {
	for id := range ro.numbers.names.routers {
		ro.numbers.routers[id].Source4.W, ro.numbers.routers[id].Source6.W = [4]uint32{}, [4]uint32{}
	}
	for _, r := range t.Routers {
		ro.planLoopbacks(r, p)
	}
	for _, s := range t.Segments {
		ro.setRouterSource(s)
	}
	ro.planSome(t, p, false, func(bool) bool { return true })
	fresh := false // learned ones that are in force keep their places
	ro.planSome(t, p, true, func(known bool) bool { fresh = fresh || !known; return known })
	if fresh {
		ro.planSome(t, p, true, func(known bool) bool { return !known })
	}
	if t.Keep {
		ro.keepRoutes(p)
	}
	return nil
}

// planSome plans the routes that are learned, or those that are not, as far as there is room.
func (ro *Routes) planSome(t fib.Tables, p *plan, learned bool, concerned func(known bool) bool) {
	most := ro.mostRoutes(learned)
	for _, r := range t.Routers {
		router := ro.numbers.names.routeIDs[r.Name]
		for i := range r.Routes {
			route := &r.Routes[i]
			if route.Learned != learned {
				continue
			}
			key := routeKey(router, route.Prefix)
			old, known := ro.routes[key]
			if !concerned(known) {
				continue
			}
			if len(p.routes) >= most {
				p.unrouted.add(noRouteRoom(r.Name, *route, most))
				p.left = leaveOut(p.left, r.Name, *route)
				continue
			}
			entry, err := ro.planRoute(old, *route, p)
			if err != nil {
				p.unrouted.add(fmt.Errorf("router %s: route %s: %w", r.Name, route.Prefix, err))
				p.left = leaveOut(p.left, r.Name, *route)
				continue
			}
			p.routes[key] = entry
		}
	}
}

// mostRoutes is up to how many routes there may be when another is added.
func (ro *Routes) mostRoutes(learned bool) int {
	entries := int(ro.maps.Routes.MaxEntries())
	if learned {
		return learnedRoom(entries)
	}
	return entries
}

// leaveOut appends the place of a learned route that is left out.
func leaveOut(list []rib.Place, router string, r fib.Route) []rib.Place {
	if r.Learned {
		list = append(list, rib.Place{Router: router, Prefix: r.Prefix})
	}
	return list
}

func noRouteRoom(router string, r fib.Route, most int) error {
	if r.Learned {
		return fmt.Errorf("router %s: route %s: BGP may fill the table of routes up to %d", router, r.Prefix, most)
	}
	return fmt.Errorf("router %s: route %s: the table of %d routes is full", router, r.Prefix, most)
}

func routeKey(router uint32, prefix netip.Prefix) bpfRouteKey {
	key := bpfRouteKey{Prefixlen: prefixLen(prefix), Router: router}
	key.Addr.W = wireAddr(prefix.Masked().Addr())
	return key
}

// localLoopback is LOCAL_LOOPBACK of bpf/abi/routing.h.
const localLoopback = 1 << 29

// planLoopbacks plans the addresses that a router has on no segment, from which it speaks
// where it has no other.
func (ro *Routes) planLoopbacks(r fib.Router, p *plan) {
	router := ro.numbers.names.routeIDs[r.Name]
	for _, addr := range r.Loopbacks {
		p.locals[localKey(router, addr)] = localLoopback
	}
	setSources(&ro.numbers.routers[router].Source4.W, &ro.numbers.routers[router].Source6.W, r.Loopbacks)
}

// setRouterSource lets a router speak from the address of one of its gateways.
func (ro *Routes) setRouterSource(s overlay.Segment) {
	if s.Gateway == nil {
		return
	}
	r := &ro.numbers.routers[ro.numbers.names.routeIDs[s.Gateway.Router]]
	global, _ := gatewayAddrs(s.Gateway)
	setSources(&r.Source4.W, &r.Source6.W, global)
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

// group finds or makes the group of a route's next hops. A new one begins with the
// buckets of the group that the route had, so that most flows stay where they are. full: there is no room for one.
func (ro *Routes) group(old bpfRoute, r fib.Route, full bool, p *plan) (uint32, error) {
	if len(r.Hops) == 0 {
		return 0, errors.New("it has no next hop")
	}
	room := !full && (!r.Learned || len(ro.sets) < learnedRoom(len(ro.groups)))
	hops, before := make([]uint16, 0, len(r.Hops)), len(ro.hopIDs)
	for _, h := range r.Hops {
		id, err := ro.hop(h, r.Learned, room)
		if err != nil {
			ro.freeable = ro.freeable || len(ro.hopIDs) > before
			return 0, err
		}
		hops = append(hops, id)
	}
	slices.Sort(hops)
	hops = slices.Compact(hops)
	set := setOf(hops)
	id, known := ro.sets[set]
	if !known {
		if room {
			id, room = find(ro.groups, func(g bpfNexthopGroup) bool { return g == bpfNexthopGroup{} })
		}
		if !room {
			return 0, fmt.Errorf("the table of %d groups of next hops has no room: %w", len(ro.groups)-1, errNoRoom)
		}
		var previous [groupBuckets]uint16
		if old.Kind == bpfRouteKindROUTE_GROUP {
			previous = ro.groups[old.Group].Buckets
		}
		ro.groups[id].Buckets = share(previous, hops)
		ro.sets[set] = id
		countHops(ro)
	}
	p.groups[id] = true
	for _, hop := range hops {
		p.hops[hop] = true
	}
	return id, nil
}

// countHops notes how many next hops and groups there are.
func countHops(ro *Routes) {
	ro.prog.filling.nextHops.set(len(ro.hopIDs))
	ro.prog.filling.nhGroup.set(len(ro.sets))
	ro.prog.filling.routes.set(len(ro.routes))
}

// share gives the buckets to hops (resilient hashing). Number 0 is no hop.
func share(before [groupBuckets]uint16, hops []uint16) [groupBuckets]uint16 {
	return [groupBuckets]uint16(overlay.Share(before[:], hops))
}

// hop finds the number of a next hop, or makes one where that is asked for; those of learned routes leave room for
// others.
func (ro *Routes) hop(h fib.Hop, learned, add bool) (uint16, error) {
	segment, ok := ro.numbers.names.segIDs[h.Segment]
	if !ok {
		return 0, fmt.Errorf("there is no segment %q", h.Segment)
	}
	want := bpfNexthop{Segment: segment, Mac: h.MAC}
	switch {
	case h.Remote.IsValid():
		vport, ok := ro.numbers.names.tepIDs[h.Remote]
		if !ok {
			return 0, fmt.Errorf("remote %s has no entry among the TEPs", h.Remote)
		}
		want.Vport = uint16(vport)
	case h.Addr.IsValid():
		want.Addr.W = wireAddr(h.Addr)
	}
	if id, ok := ro.hopIDs[want]; ok {
		return id, nil
	}
	most := len(ro.hops) - 1
	if learned {
		most = learnedRoom(most)
	}
	if !add || len(ro.hopIDs) >= most {
		return 0, fmt.Errorf("the table of %d next hops has no room: %w", len(ro.hops)-1, errNoRoom)
	}
	id, _ := find(ro.hops, func(e bpfNexthop) bool { return e == bpfNexthop{} })
	ro.hops[id], ro.hopIDs[want] = want, uint16(id)
	countHops(ro)
	return uint16(id), nil
}

// errNoRoom is that of a full table.
var errNoRoom = errors.New("lead routes by fewer different next hops")

// iterate walks a map that has no batches: a trie.
func iterate[K, V any](m kernel.Map, do func(K, V)) error {
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
