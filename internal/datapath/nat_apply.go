package datapath

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
)

const (
	// localNAT is LOCAL_NAT of bpf/abi/routing.h.
	localNAT = 1 << 31
	// wayNone is WAY_NONE of bpf/abi/abi.h.
	wayNone = 0xffff
	// localLeased is LOCAL_LEASED of bpf/abi/routing.h.
	localLeased = 1 << 30
)

// Indexes of names.tagged.
const (
	routerTags = iota
	egressTags
)

// egressPlan is what the maps shall hold of egresses.
type egressPlan struct {
	entries map[uint32]*egressEntry
	owned   map[bpfLocalKey]uint32
	owners  map[bpfLocalKey]egressOwner
	hops    map[fib.Hop]uint16
}

// egressEntry is an entry, and what its parts of the pool hold.
type egressEntry struct {
	bpfEgressPolicy
	pool [2][]bpfAddr
}

// egressOwner is who an egress address belongs to, and how many ports it has.
type egressOwner struct {
	name  string
	ports int
}

// assignEgress knows an egress again by its name's hash, which its entry keeps.
func (as *assigner) assignEgress(name string) error {
	tag := NameTag(name)
	id, ok := find(as.numbers.egresses, func(e bpfEgressPolicy) bool { return e.Used == tag })
	if !ok {
		id, ok = findSlot(as.numbers.egresses, func(id uint32, e bpfEgressPolicy) bool {
			_, given := as.numbers.names.egresses[id]
			return e.Used == 0 && !given
		})
	}
	if !ok {
		return fmt.Errorf("egress %s: the table of %d egress policies is full", name, len(as.numbers.egresses)-1)
	}
	if other, taken := as.numbers.names.egresses[id]; taken {
		return fmt.Errorf("egress %s: choose another name, its hash is that of %s", name, other)
	}
	as.numbers.names.egresses[id], as.numbers.names.egressIDs[name] = name, id
	as.numbers.names.tagged[egressTags][tag] = id
	return nil
}

// planEgresses plans those of list that have a number. One that cannot be planned stays as it is,
// and is an error.
func (eg *Egress) planEgresses(list []fib.Egress) (*egressPlan, error) {
	var errs []error
	p := &egressPlan{
		entries: map[uint32]*egressEntry{}, owned: map[bpfLocalKey]uint32{}, owners: map[bpfLocalKey]egressOwner{}, hops: map[fib.Hop]uint16{},
	}
	for i := range list {
		e := &list[i]
		id, ok := eg.numbers.names.egressIDs[e.Name]
		if !ok {
			continue
		}
		entry, err := eg.egressEntry(e, p)
		if err == nil {
			err = eg.planOwned(e, entry.Router, p)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("egress %s: %w", e.Name, err))
			continue
		}
		p.entries[id] = entry
	}
	return p, errors.Join(errs...)
}

func (eg *Egress) egressEntry(e *fib.Egress, p *egressPlan) (*egressEntry, error) {
	router, ok := eg.numbers.names.routeIDs[e.Router]
	if !ok {
		return nil, fmt.Errorf("there is no router %q", e.Router)
	}
	if e.Ports.First == 0 || e.Ports.First > e.Ports.Last {
		return nil, fmt.Errorf("ports %d-%d are no range", e.Ports.First, e.Ports.Last)
	}
	entry := &egressEntry{bpfEgressPolicy: bpfEgressPolicy{
		Used: NameTag(e.Name), Router: router, FirstPort: e.Ports.First, LastPort: e.Ports.Last, Limit: e.Limit,
		InboundLimit: e.InboundLimit,
	}}
	if e.Segment != "" {
		if entry.Segment, ok = eg.numbers.names.segIDs[e.Segment]; !ok {
			return nil, fmt.Errorf("there is no segment %q", e.Segment)
		}
	}
	for flag, set := range map[bpfEgressFlags]bool{
		bpfEgressFlagsEGRESS_BY_CONNECTION: e.PerConnection, bpfEgressFlagsEGRESS_INDEPENDENT: e.Independent, bpfEgressFlagsEGRESS_OPEN: e.Open,
	} {
		if set {
			entry.Flags |= flag
		}
	}
	for f, pool := range e.Pool {
		for _, addr := range pool {
			entry.pool[f] = append(entry.pool[f], bpfAddr{W: wireAddr(addr)})
		}
	}
	return entry, eg.setNexthops(entry, e, p)
}

// setNexthops sets the next hops to the gateways.
func (eg *Egress) setNexthops(entry *egressEntry, e *fib.Egress, p *egressPlan) (err error) {
	if len(e.Kept) > len(entry.Kept) {
		return fmt.Errorf("%d gateways, at most %d", len(e.Kept), len(entry.Kept))
	}
	for i, gateway := range e.Kept {
		if entry.Kept[i], err = eg.gatewayHop(e, gateway, p); err != nil {
			return err
		}
	}
	for f, ways := range e.Ways {
		family := &entry.Family[f]
		for bucket, way := range ways {
			family.First[bucket] = way.First
			switch {
			case way.Remote.IsValid():
				family.Nexthops[bucket], err = eg.gatewayHop(e, way.Remote, p)
			case !way.Here:
				family.Nexthops[bucket] = wayNone
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// gatewayHop is the number of the next hop to a gateway by the segment of e.
func (eg *Egress) gatewayHop(e *fib.Egress, gateway netip.Addr, p *egressPlan) (uint16, error) {
	h := fib.Hop{Segment: e.Segment, Remote: gateway, MAC: overlay.EgressMAC}
	if id, known := p.hops[h]; known {
		return id, nil
	}
	id, err := eg.routes.hop(h, false, true)
	if err == nil {
		p.hops[h] = id
	}
	return id, err
}

// planOwned plans the addresses that this edge answers for in the place of others. Its
// own are so already.
func (eg *Egress) planOwned(e *fib.Egress, router uint32, p *egressPlan) error {
	owner := egressOwner{e.Name, int(e.Ports.Last) - int(e.Ports.First) + 1}
	for _, list := range [][]netip.Addr{e.Pool[0], e.Pool[1], e.Owned} {
		for _, addr := range list {
			p.owners[localKey(router, addr)] = owner
		}
	}
	uplink, ok := eg.numbers.names.segIDs[e.Uplink]
	if len(e.Owned) > 0 && !ok {
		return fmt.Errorf("it answers for addresses at the uplink %q, which is not there", e.Uplink)
	}
	value := localNAT | uplink
	if e.Leased {
		value |= localLeased
	}
	for _, addr := range e.Owned {
		if key := localKey(router, addr); !eg.own[key] {
			p.owned[key] = value
		}
	}
	return nil
}

func localKey(router uint32, addr netip.Addr) bpfLocalKey {
	return bpfLocalKey{Router: router, Addr: bpfAddr{W: wireAddr(addr)}}
}

// writeEgresses writes what differs and returns the routers concerned. Next hops and
// parts of the pool are there before the entries that point at them.
func (eg *Egress) writeEgresses(p *egressPlan) (changed map[uint32]bool, err error) {
	for _, id := range p.hops {
		if err := putSlot(eg.routes.maps.Nexthops, uint32(id), eg.routes.hops[id]); err != nil {
			return nil, err
		}
	}
	if len(p.entries) > 0 {
		eg.freePool()
	}
	changed = map[uint32]bool{}
	for _, id := range keysOf(p.entries) {
		e := p.entries[id]
		different, err := eg.putEgress(id, e)
		if err != nil {
			return nil, fmt.Errorf("egress %s: %w", eg.numbers.names.egresses[id], err)
		}
		if different {
			changed[e.Router] = true
		}
	}
	eg.owners = p.owners
	return changed, nil
}

// putEgress writes an entry that differs.
func (eg *Egress) putEgress(id uint32, e *egressEntry) (different bool, err error) {
	previous := eg.numbers.egresses[id]
	for f := range e.pool {
		if err := eg.movePool(id, f, e.pool[f]); err != nil {
			return true, err
		}
		e.Family[f].Pool, e.Family[f].Count = eg.numbers.egresses[id].Family[f].Pool, uint32(len(e.pool[f]))
	}
	return previous != e.bpfEgressPolicy, eg.putEgressEntry(id, e.bpfEgressPolicy)
}

// eachHop calls do with the next hops of an entry.
func (e *bpfEgressPolicy) eachHop(do func(hop uint16)) {
	for _, list := range [][]uint16{e.Kept[:], e.Family[0].Nexthops[:], e.Family[1].Nexthops[:]} {
		for _, hop := range list {
			if hop != wayNone {
				do(hop)
			}
		}
	}
}

// putEgressEntry writes an entry when it differs from what the map has.
func (eg *Egress) putEgressEntry(id uint32, e bpfEgressPolicy) error {
	if eg.numbers.egresses[id] == e {
		return nil
	}
	if err := eg.maps.EgressPolicies.Put(id, &e); err != nil {
		return fmt.Errorf("write egress %d: %w", id, err)
	}
	eg.numbers.egresses[id] = e
	eg.routes.freeable = true
	return nil
}

// SteerEgress changes who serves which sources, what this edge translates to and which
// addresses it answers for, and nothing else of what Apply wrote. Egresses that Apply does
// not know are left out. It may run beside all but Apply, Remove and Close.
func (eg *Egress) SteerEgress(list []fib.Egress) error {
	eg.changing.Lock()
	defer eg.changing.Unlock()
	if eg.numbers.names.incomplete {
		list = keep(list, eg.numbers.names.hasEgress)
	}
	p, unplanned := eg.planEgresses(list)
	rerouted, err := eg.writeEgresses(p)
	if err != nil {
		return errors.Join(unplanned, err)
	}
	if err := eg.steerOwned(p.owned, rerouted); err != nil {
		return err
	}
	if u := eg.numbers.underway.plan; u != nil {
		u.takeEgresses(p)
	}
	for id := range rerouted {
		if err := eg.routes.putRouter(id, true); err != nil {
			return err
		}
	}
	return errors.Join(unplanned, eg.changes.changed())
}

// takeEgresses has the plan be what was steered while it is carried out.
func (p *plan) takeEgresses(steered *egressPlan) {
	for k := range p.nat.egresses.owned {
		delete(p.locals, k)
	}
	maps.Copy(p.locals, steered.owned)
	for id, entry := range p.nat.egresses.entries {
		if steered.entries[id] == nil { // it stays as it is
			steered.entries[id] = entry
		}
	}
	p.nat.egresses = steered
	for _, hop := range steered.hops {
		p.hops[hop] = true
	}
}

// steerOwned brings the addresses that gateways answer for to what is wanted.
func (eg *Egress) steerOwned(want map[bpfLocalKey]uint32, rerouted map[uint32]bool) error {
	for k, segment := range want {
		if now, ok := eg.owned[k]; ok && now == segment {
			continue
		}
		if err := eg.routes.maps.LocalAddrs.Put(k, segment); err != nil {
			return fmt.Errorf("answer for %s: %w", addrOf(k.Addr.W), err)
		}
		rerouted[k.Router] = true
	}
	for k := range eg.owned {
		if _, ok := want[k]; ok {
			continue
		}
		if err := eg.routes.maps.LocalAddrs.Delete(k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("no longer answer for %s: %w", addrOf(k.Addr.W), err)
		}
		rerouted[k.Router] = true
	}
	eg.owned = want
	return nil
}
