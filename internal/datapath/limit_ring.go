package datapath

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
)

// keyRing is an owner's ring of keys when it was read: those in the slots from oldest + 1 to newest.
type keyRing struct {
	live           *bpfLimitRing
	slot           bpfLimitSlot // without its number
	limit, mask    uint32
	oldest, newest uint32
}

func (li *Limits) keyRing(owner uint32, count bpfLimitedCount) (keyRing, error) {
	limits, err := li.limits(owner)
	if err != nil {
		return keyRing{}, err
	}
	r := keyRing{
		live: &li.usage(owner).Rings[count], slot: bpfLimitSlot{Owner: owner, Count: count},
		limit: limits.Counts[count], mask: limits.RingMasks[count],
	}
	r.newest, r.oldest = atomic.LoadUint32(&r.live.Newest), atomic.LoadUint32(&r.live.Oldest)
	if r.newest-r.oldest > r.mask { // overwritten since
		r.oldest = r.newest - r.mask - 1
	}
	return r, nil
}

// at is the slot of a number.
func (r *keyRing) at(number uint32) bpfLimitSlot {
	slot := r.slot
	slot.Slot = number & r.mask
	return slot
}

// forgetKeys removes from an owner's ring the keys of entries that are gone, once there are twice
// as many keys as entries: keys of all owners share one table.
func forgetKeys[K comparable, V any](ho *Hosts, t hostTable[K, V], owner uint32) error {
	r, err := ho.limits.keyRing(owner, t.count)
	if err != nil {
		return err
	}
	if r.newest-r.oldest <= 2*ho.limits.used(owner, t.count) {
		return nil
	}
	leading := true // no key is older than those that are gone
	for n := r.oldest; n != r.newest; n++ {
		gone, err := forgetKey(ho, t, r.at(n+1))
		if err != nil {
			return err
		}
		leading = leading && gone && atomic.CompareAndSwapUint32(&r.live.Oldest, n, n+1)
	}
	return nil
}

// forgetKey removes the key in a slot if its entry is gone, or another's. gone: the slot is empty.
func forgetKey[K comparable, V any](ho *Hosts, t hostTable[K, V], slot bpfLimitSlot) (gone bool, err error) {
	var noted bpfLimitEntry
	err = ho.limits.maps.LimitEntries.Lookup(slot, &noted)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the map %s: %w", ho.limits.maps.LimitEntries, err)
	}
	k, v := *(*K)(unsafe.Pointer(&noted.Key)), *new(V)
	if t.Lookup(k, &v) == nil && t.learned(&k, &v).owner == slot.Owner {
		return false, nil
	}
	return true, ho.limits.deleteKey(slot)
}

func (li *Limits) deleteKey(slot bpfLimitSlot) error {
	err := li.maps.LimitEntries.Delete(slot)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("delete from the map %s: %w", li.maps.LimitEntries, err)
	}
	return nil
}

// clearFlowRings removes the keys of flows of ports that have less than half of what they may
// have: no new keys are noted of those, and the old ones are of flows that are gone.
func (li *Limits) clearFlowRings() error {
	const count = bpfLimitedCountCOUNT_FLOWS
	for _, owner := range li.numbers.names.portIDs {
		r, err := li.keyRing(owner, count)
		if err != nil {
			return err
		}
		if r.newest == r.oldest || li.used(owner, count) >= r.limit/2 {
			continue
		}
		for n := r.oldest; n != r.newest; n++ {
			if err := li.deleteKey(r.at(n + 1)); err != nil {
				return err
			}
		}
		atomic.StoreUint32(&r.live.Oldest, r.newest)
	}
	return nil
}
