package datapath

import (
	"errors"
	"fmt"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// putHops writes the next hops and groups that routes refer to.
func (ro *Routes) putHops(p *plan) error {
	for id := range p.hops {
		if err := putSlot(ro.maps.Nexthops, uint32(id), ro.hops[id]); err != nil {
			return err
		}
	}
	for id := range p.groups {
		if err := putSlot(ro.maps.NexthopGroups, id, ro.groups[id]); err != nil {
			return err
		}
	}
	return nil
}

// writeRoutes writes what routes refer to before the routes, and the routers'
// generations last.
func (ro *Routes) writeRoutes(p *plan) error {
	if err := ro.putHops(p); err != nil {
		return err
	}
	changed, fresh := make(map[bpfRouteKey]bpfRoute), 0
	for k, r := range p.routes {
		now, ok := ro.routes[k]
		if !ok {
			fresh++
		}
		if !ok || now != r {
			changed[k] = r
		}
	}
	if len(ro.routes)+fresh > int(ro.maps.Routes.MaxEntries()) { // room is made first
		if err := ro.dropRoutes(ro.superseded(p), map[uint32]bool{}); err != nil {
			return err
		}
	}
	errs := []error{ro.putRoutes(changed, map[uint32]bool{}), ro.putLocalAddrs(p)}
	for id := range ro.numbers.names.routers { // all of them
		errs = append(errs, ro.putRouter(id, p.rerouted[id]))
	}
	return errors.Join(errs...)
}

// putLocalAddrs writes the edge's own addresses. Decisions about packets to and from new ones
// are taken again.
func (ro *Routes) putLocalAddrs(p *plan) error {
	changed, err := put(ro.maps.LocalAddrs, p.locals)
	if err != nil {
		return err
	}
	for _, k := range changed {
		if _, ok := ro.numbers.names.routers[k.Router]; ok {
			ro.numbers.routers[k.Router].Generation += generationStep
		}
		for id := range ro.numbers.names.segments {
			if k.Router != ro.numbers.segments[id].Router && k.Router != localLink|id {
				continue
			}
			if err := ro.changes.invalidate(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// putTrie does what put does. A look-up in a trie finds the cover of a prefix that
// is not there, so the trie is read as a whole.
func putTrie[K, V comparable](m kernel.Map, want map[K]V) ([]K, error) {
	now := make(map[K]V)
	if err := iterate(m, func(k K, v V) { now[k] = v }); err != nil {
		return nil, err
	}
	var differ []K
	var failed fewErrors
	for k, v := range want {
		if old, ok := now[k]; !ok || old != v {
			differ = append(differ, k)
		}
	}
	return putThose(m, inOrder(differ), want, &failed), failed.err()
}

// putSlot writes an entry of an array when it differs.
func putSlot[V comparable](m kernel.Map, id uint32, want V) error {
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

// putRouter writes a router when it differs, which nobody else does.
func (ro *Routes) putRouter(id uint32, rerouted bool) error {
	if rerouted {
		ro.numbers.routers[id].Generation += generationStep
	}
	return putSlot(ro.numbers.maps.Routers, id, ro.numbers.routers[id])
}

// pruneRoutes removes routes, then what only they referred to.
func (ro *Routes) pruneRoutes(p *plan) error {
	touched := make(map[uint32]bool)
	errs := []error{
		ro.dropRoutes(ro.superseded(p), touched),
		pruneMap(ro.maps.LocalAddrs, p.locals, func(k bpfLocalKey) error { return ro.reroute(k.Router) }),
		ro.freeHops(ro.inUse(p)),
	}
	for id := range touched {
		errs = append(errs, ro.putRouter(id, false))
	}
	for id := range ro.numbers.routers {
		if _, ok := ro.numbers.names.routers[uint32(id)]; ok || ro.numbers.routers[id].Used == 0 {
			continue
		}
		// The generation goes on, so that a decision of a former owner never fits a new one.
		was := ro.numbers.routers[id]
		ro.numbers.routers[id] = bpfRouter{Generation: was.Generation + generationStep, Shards: was.Shards, Translated: was.Translated}
		errs = append(errs, putSlot(ro.numbers.maps.Routers, uint32(id), ro.numbers.routers[id]))
	}
	return errors.Join(errs...)
}

// superseded are the routes that are no longer wanted.
func (ro *Routes) superseded(p *plan) (gone []bpfRouteKey) {
	for k := range ro.routes {
		if _, ok := p.routes[k]; !ok {
			gone = append(gone, k)
		}
	}
	return gone
}

// inUse marks the groups and next hops that p has.
func (ro *Routes) inUse(p *plan) (groups, hops []bool) {
	groups, hops = make([]bool, len(ro.groups)), make([]bool, len(ro.hops))
	for _, p := range []*plan{p, ro.numbers.underway.plan} { // what is about to be written is in use
		if p == nil {
			continue
		}
		for id := range p.groups {
			groups[id] = true
		}
		for id := range p.hops {
			hops[id] = true
		}
	}
	return groups, hops
}

// freeHops clears the groups and next hops that are not in use.
func (ro *Routes) freeHops(groups, hops []bool) error {
	ro.freeable = false
	defer countHops(ro)
	var errs []error
	for set, id := range ro.sets {
		if !groups[id] {
			delete(ro.sets, set)
		}
	}
	for id := range ro.groups {
		if (ro.groups[id] != bpfNexthopGroup{}) && !groups[id] {
			ro.groups[id] = bpfNexthopGroup{}
			errs = append(errs, putSlot(ro.maps.NexthopGroups, uint32(id), ro.groups[id]))
		}
	}
	for id := range ro.hops {
		if (ro.hops[id] != bpfNexthop{}) && !hops[id] {
			delete(ro.hopIDs, ro.hops[id])
			ro.hops[id] = bpfNexthop{}
			errs = append(errs, putSlot(ro.maps.Nexthops, uint32(id), ro.hops[id]))
		}
	}
	return errors.Join(errs...)
}
