package datapath

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// usageStride is how far apart the kernel has the entries of the map owner_usages.
const usageStride = (unsafe.Sizeof(bpfLimitUsage{}) + 7) &^ 7

// usage is what an owner has taken, as the programs have it.
func (li *Limits) usage(owner uint32) *bpfLimitUsage {
	return (*bpfLimitUsage)(unsafe.Pointer(&li.usages[uintptr(ownerIndex(owner))*usageStride]))
}

// clearUsage starts what is counted of a number's new owner at zero. The entries of the former
// owner are counted until they are gone.
func (li *Limits) clearUsage(owner uint32) {
	u := li.usage(owner)
	*u = bpfLimitUsage{Used: u.Used, Rings: u.Rings}
}

// used is how many entries an owner has. Cores that count at once may leave it below zero.
func (li *Limits) used(owner uint32, count bpfLimitedCount) uint32 {
	return uint32(max(atomic.LoadInt32(&li.usage(owner).Used[count]), 0))
}

// addUsed corrects how many entries an owner has.
func (li *Limits) addUsed(owner uint32, count bpfLimitedCount, n int32) {
	if n != 0 {
		atomic.AddInt32(&li.usage(owner).Used[count], n)
	}
}

// learnedBy is who has learned an entry of the FDB or of the neighbour table.
type learnedBy struct {
	owner, segment uint32 // owner is 0 where nobody has: the configuration says it, or BGP
	sinceS         uint32
}

func (li *Limits) countHost(l learnedBy, count bpfLimitedCount, n int32) {
	if l.owner != 0 {
		li.addUsed(l.owner, count, n)
		li.addUsed(segmentOwner+l.segment, count, n)
	}
}

// hostTable is the FDB or the neighbour table.
type hostTable[K comparable, V any] struct {
	kernel.Map
	count   bpfLimitedCount
	learned func(*K, *V) learnedBy
	// invalidate has decisions be taken again that rest on an entry.
	invalidate func(K, V)
}

func (ho *Hosts) fdbTable() hostTable[bpfFdbKey, bpfFdbEntry] {
	return hostTable[bpfFdbKey, bpfFdbEntry]{
		ho.maps.Fdb, bpfLimitedCountCOUNT_MACS,
		func(k *bpfFdbKey, e *bpfFdbEntry) learnedBy {
			if e.Origin != bpfHostOriginORIGIN_LEARNED {
				return learnedBy{}
			}
			return learnedBy{e.Vport, k.Segment, e.SinceS}
		},
		func(k bpfFdbKey, _ bpfFdbEntry) { ho.changes.invalidateMAC(k.Segment, k.Mac) },
	}
}

func (ho *Hosts) neighbourTable() hostTable[bpfNeighbourKey, bpfNeighbour] {
	return hostTable[bpfNeighbourKey, bpfNeighbour]{
		ho.maps.Neighbours, bpfLimitedCountCOUNT_NEIGHBOURS,
		func(k *bpfNeighbourKey, n *bpfNeighbour) learnedBy {
			if n.Origin != bpfHostOriginORIGIN_LEARNED {
				return learnedBy{}
			}
			return learnedBy{n.Vport, k.Segment, n.SinceS}
		},
		func(k bpfNeighbourKey, n bpfNeighbour) { ho.changes.invalidateMAC(k.Segment, n.Mac) },
	}
}

// recount has the counts of owners be what the table holds: each walk corrects what
// changes at the same time on several cores have made of them. do has each entry.
func recount[K comparable, V any](ho *Hosts, t hostTable[K, V], do func(K, V)) error {
	found, n := ho.limits.beginRecount(t.count), 0
	err := walk(t.Map, func(k K, v V) {
		n++
		if l := t.learned(&k, &v); l.owner != 0 {
			found.add(l.owner)
			found.add(segmentOwner + l.segment)
		}
		do(k, v)
	})
	if err != nil {
		return err
	}
	ho.limits.endRecount(t.count, found)
	ho.prog.filling.of(t.count).set(n)
	return ho.limits.findLargest(t.count)
}

// recounted are by how many entries owners have more than they are said to have.
type recounted struct{ vports, segments []int32 }

// beginRecount is where to count the entries of each owner whose number was ever given: what they are said to have, negated.
// The data path goes on counting meanwhile.
func (li *Limits) beginRecount(count bpfLimitedCount) recounted {
	r := recounted{make([]int32, li.numbers.reached.vports), make([]int32, li.numbers.reached.segments)}
	r.each(func(owner uint32, n *int32) { *n = -atomic.LoadInt32(&li.usage(owner).Used[count]) })
	return r
}

func (li *Limits) endRecount(count bpfLimitedCount, r recounted) {
	r.each(func(owner uint32, n *int32) { li.addUsed(owner, count, *n) })
}

func (r recounted) each(do func(owner uint32, n *int32)) {
	for id := range r.vports {
		do(uint32(id), &r.vports[id])
	}
	for id := range r.segments {
		do(segmentOwner+uint32(id), &r.segments[id])
	}
}

// add counts an entry. One that a former process left to a number which nobody has had since is counted when somebody has.
func (r recounted) add(owner uint32) {
	list := r.vports
	if owner&segmentOwner != 0 {
		list, owner = r.segments, owner&^segmentOwner
	}
	if int(owner) < len(list) {
		list[owner]++
	}
}

// findLargest notes the port or remote with the most entries, which loses its own when a table
// is full.
func (li *Limits) findLargest(count bpfLimitedCount) error {
	largest, most := uint32(0), uint32(0)
	for owner := range uint32(li.numbers.reached.vports) {
		if n := li.used(owner, count); n > most {
			largest, most = owner, n
		}
	}
	if err := li.maps.LimitLargest.Put(count, largest); err != nil {
		return fmt.Errorf("write the map %s: %w", li.maps.LimitLargest, err)
	}
	return nil
}

// recountHosts counts what a former process's data path has learned.
func (ho *Hosts) recountHosts() error {
	return errors.Join(
		recount(ho, ho.fdbTable(), func(bpfFdbKey, bpfFdbEntry) {}),
		recount(ho, ho.neighbourTable(), func(bpfNeighbourKey, bpfNeighbour) {}),
	)
}

// putHost writes an entry of the configuration or of BGP. It always finds room: who has learned
// the most loses its oldest.
func putHost[K comparable, V any](ho *Hosts, t hostTable[K, V], k K, v V) error {
	ho.hosting.Lock()
	defer ho.hosting.Unlock()
	var was V
	known := t.Lookup(k, &was) == nil
	err := t.Put(k, v)
	if isFull(err) && evictLearned(ho, t, 1) > 0 {
		err = t.Put(k, v)
	}
	if err == nil && known {
		ho.limits.countHost(t.learned(&k, &was), t.count, -1)
	}
	return err
}

// evictLearned removes n learned entries, the oldest of those who have the most. d.hosting is
// held.
func evictLearned[K comparable, V any](ho *Hosts, t hostTable[K, V], n int) (evicted int) {
	type entry struct {
		key   K
		value V
		learnedBy
	}
	owned := make(map[uint32][]entry)
	if err := walk(t.Map, func(k K, v V) {
		if l := t.learned(&k, &v); l.owner != 0 {
			owned[l.owner] = append(owned[l.owner], entry{k, v, l})
		}
	}); err != nil {
		return 0
	}
	owners := make([][]entry, 0, len(owned))
	for _, list := range owned {
		owners = append(owners, list)
	}
	slices.SortFunc(owners, func(a, b []entry) int { return cmp.Compare(len(b), len(a)) })
	for _, list := range owners {
		slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.sinceS, b.sinceS) })
		for _, e := range list[:min(n-evicted, len(list))] {
			if t.Delete(e.key) != nil {
				continue
			}
			ho.limits.countHost(e.learnedBy, t.count, -1)
			atomic.AddUint64(&ho.limits.usage(e.owner).Exceeded[t.count], 1)
			t.invalidate(e.key, e.value)
			evicted++
		}
	}
	return evicted
}
