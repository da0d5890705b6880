package datapath

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

// localSegment is the segment of an address that the edge has itself, without the LOCAL_ flags.
func localSegment(value uint32) uint32 { return value &^ (localNAT | localLeased | localLoopback) }

// admission is what may be learned by the tables of a plan. The data path asks when a frame comes; what was learned by earlier
// tables is held against it here.
type admission struct {
	numbers *numbers
	plan    *plan
	// thawed: nothing is frozen by these tables. nowS is the time.
	thawed bool
	nowS   uint32
}

func (ho *Hosts) admission(p *plan) (admission, error) {
	now, err := ho.prog.kernel.Clock.Monotonic()
	return admission{ho.numbers, p, ho.prog.cfg.FDB.Duplicates.Moves == 0, uint32(now / uint64(time.Second))}, err
}

// refusesMAC reports whether a learned entry of the FDB would not be learned now, or not be frozen.
func (a *admission) refusesMAC(k bpfFdbKey, e bpfFdbEntry) bool {
	if e.Origin != bpfHostOriginORIGIN_LEARNED {
		return false
	}
	s := &a.numbers.segments[k.Segment]
	return s.Router != 0 && s.GatewayMac == k.Mac || !a.isAllowedMAC(e.Vport, k.Mac) || a.thawed && e.FrozenS > a.nowS
}

// refusesNeighbour reports whether a learned neighbour would not be learned now: its port may not use its addresses, a static
// entry has its MAC address elsewhere, or its address is the edge's own.
func (a *admission) refusesNeighbour(k bpfNeighbourKey, n bpfNeighbour) bool {
	if n.Origin != bpfHostOriginORIGIN_LEARNED {
		return false
	}
	static, is := a.plan.static[bpfFdbKey{Segment: k.Segment, Mac: n.Mac}]
	addr := addrOf(k.Addr.W)
	return is && static != n.Vport || a.isOwn(k) || !a.isAllowedMAC(n.Vport, n.Mac) || !a.isAllowedAddr(n.Vport, addr)
}

func (a *admission) isOwn(k bpfNeighbourKey) bool {
	key := bpfLocalKey{Router: a.numbers.segments[k.Segment].Router, Addr: k.Addr}
	if key.Router == 0 {
		return false
	}
	if addr := addrOf(k.Addr.W); addr.Is6() && addr.IsLinkLocalUnicast() {
		key.Router = localLink | k.Segment
	}
	value, local := a.plan.locals[key]
	return local && localSegment(value) == k.Segment
}

func (a *admission) isAllowedMAC(vport uint32, mac overlay.MAC) bool {
	allowed := a.plan.allowed[vport]
	if allowed == nil || len(allowed.MACs) == 0 {
		return true
	}
	_, ok := a.plan.allowedMACs[bpfAllowedMac{Vport: vport, Mac: mac}]
	return ok
}

// isAllowedAddr is may_send_as() of bpf/l2/source_guard.h: hosts choose their link-local addresses.
func (a *admission) isAllowedAddr(vport uint32, addr netip.Addr) bool {
	allowed := a.plan.allowed[vport]
	if allowed == nil || len(allowed.Addresses) == 0 || addr.Is6() && addr.IsLinkLocalUnicast() {
		return true
	}
	return slices.ContainsFunc(allowed.Addresses, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// trim has ports and segments with more learned entries of a table than they may have lose their oldest ones: limits may be lower
// than they were. In observe mode nothing goes.
func trim[K comparable, V any](ho *Hosts, t hostTable[K, V]) error {
	names := &ho.numbers.names
	var errs []error
	for _, of := range []struct {
		ids   map[string]uint32
		first uint32
	}{{names.portIDs, 0}, {names.segIDs, segmentOwner}} {
		excess, err := ho.limits.excess(of.ids, of.first, t.count)
		if err != nil {
			return err
		}
		if len(excess) > 0 {
			errs = append(errs, trimOwners(ho, t, excess))
		}
	}
	return errors.Join(errs...)
}

// excess is how many entries owners have above their limits.
func (li *Limits) excess(ids map[string]uint32, first uint32, count bpfLimitedCount) (map[uint32]int, error) {
	excess := make(map[uint32]int)
	for _, id := range ids {
		owner := first + id
		used := li.used(owner, count)
		if used == 0 {
			continue
		}
		limits, err := li.limits(owner)
		if err != nil {
			return nil, err
		}
		if most := limits.Counts[count]; most > 0 && limits.Observe == 0 && used > most {
			excess[owner] = int(used - most)
		}
	}
	return excess, nil
}

// trimOwners has owners lose so many of their entries.
func trimOwners[K comparable, V any](ho *Hosts, t hostTable[K, V], excess map[uint32]int) error {
	type entry struct {
		key    K
		sinceS uint32
	}
	owned := make(map[uint32][]entry)
	if err := walk(t.Map, func(k K, v V) {
		l := t.learned(&k, &v)
		for _, owner := range []uint32{l.owner, segmentOwner + l.segment} {
			if l.owner != 0 && excess[owner] > 0 {
				owned[owner] = append(owned[owner], entry{k, l.sinceS})
			}
		}
	}); err != nil {
		return err
	}
	var failed fewErrors
	n := 0
	for owner, list := range owned {
		slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.sinceS, b.sinceS) })
		for _, e := range list[:min(excess[owner], len(list))] {
			gone, err := deleteHost(ho, t, e.key, func(k K, v V) bool { return t.learned(&k, &v).owner != 0 })
			failed.add(err)
			if gone {
				n++
			}
		}
		if owner&segmentOwner == 0 {
			failed.add(forgetKeys(ho, t, owner))
		}
	}
	ho.prog.filling.of(t.count).less(n)
	return failed.err()
}
