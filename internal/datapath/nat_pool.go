package datapath

import (
	"fmt"
	"slices"
)

// poolPart is consecutive addresses of the pool.
type poolPart struct{ first, count uint32 }

// addressPool are the addresses of all egresses.
type addressPool struct {
	addrs []bpfAddr
	taken []bool // which are an entry's, or were before the last change
	next  uint32 // where the search for free ones begins
}

// mark gives a part to an entry.
func (a *addressPool) mark(part poolPart) {
	for i := part.first; i < part.first+part.count; i++ {
		a.taken[i] = true
	}
}

// freePool frees what entries no longer refer to: not at once, for a program may still be
// reading it, but before the next change.
func (eg *Egress) freePool() {
	clear(eg.pool.taken)
	for i := range eg.numbers.egresses {
		for _, f := range eg.numbers.egresses[i].Family {
			eg.pool.mark(poolPart{f.Pool, f.Count})
		}
	}
}

// find looks for so many consecutive free places. It goes round, so that what was another's
// is given again as late as can be.
func (a *addressPool) find(count uint32) (poolPart, error) {
	size := uint32(len(a.taken))
	free := uint32(0)
	for i := range 2 * size {
		at := (a.next + i) % size
		if at == 0 { // a part does not go round
			free = 0
		}
		if free++; a.taken[at] {
			free = 0
		}
		if free == count {
			a.next = at + 1
			return poolPart{at + 1 - count, count}, nil
		}
	}
	return poolPart{}, fmt.Errorf("no room for %d more addresses among the %d of all pools", count, size)
}

// movePool gives an entry a part of the pool that holds addrs. While the entry changes it
// has as many addresses as the smaller part: what a program reads of the old and the new
// one is good together.
func (eg *Egress) movePool(id uint32, family int, addrs []bpfAddr) (err error) {
	e := eg.numbers.egresses[id]
	f := &e.Family[family]
	if slices.Equal(eg.pool.addrs[f.Pool:f.Pool+f.Count], addrs) {
		return nil
	}
	var next poolPart
	if len(addrs) > 0 {
		if next, err = eg.pool.find(uint32(len(addrs))); err != nil {
			return err
		}
		if err := eg.putPool(next, addrs); err != nil {
			return err
		}
		eg.pool.mark(next)
	}
	f.Count = min(f.Count, next.count)
	if err := eg.putEgressEntry(id, e); err != nil {
		return err
	}
	f.Pool = next.first
	return eg.putEgressEntry(id, e)
}

func (eg *Egress) putPool(part poolPart, addrs []bpfAddr) error {
	keys := make([]uint32, len(addrs))
	for i := range keys {
		keys[i] = part.first + uint32(i)
	}
	if _, err := eg.maps.Pool.BatchUpdate(keys, addrs, nil); err != nil {
		return fmt.Errorf("write the addresses of pools: %w", err)
	}
	copy(eg.pool.addrs[part.first:], addrs)
	return nil
}
