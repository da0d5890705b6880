package datapath

import (
	"fmt"
	"slices"
)

// poolPart is consecutive addresses of the pool.
type poolPart struct{ first, count uint32 }

// mark gives a part to an entry.
func (n *translation) mark(part poolPart) {
	for i := part.first; i < part.first+part.count; i++ {
		n.taken[i] = true
	}
}

// freePool frees what entries no longer refer to: not at once, for a program may still be
// reading it, but before the next change.
func (n *translation) freePool() {
	clear(n.taken)
	for i := range n.entries {
		for _, f := range n.entries[i].Family {
			n.mark(poolPart{f.Pool, f.Count})
		}
	}
}

// find looks for so many consecutive free places. It goes round, so that what was another's
// is given again as late as can be.
func (n *translation) find(count uint32) (poolPart, error) {
	size := uint32(len(n.taken))
	free := uint32(0)
	for i := range 2 * size {
		at := (n.next + i) % size
		if at == 0 { // a part does not go round
			free = 0
		}
		if free++; n.taken[at] {
			free = 0
		}
		if free == count {
			n.next = at + 1
			return poolPart{at + 1 - count, count}, nil
		}
	}
	return poolPart{}, fmt.Errorf("no room for %d more addresses among the %d of all pools", count, size)
}

// movePool gives an entry a part of the pool that holds addrs. While the entry changes it
// has as many addresses as the smaller part: what a program reads of the old and the new
// one is good together.
func (d *Datapath) movePool(id uint32, family int, addrs []bpfAddr) (err error) {
	e := d.nat.entries[id]
	f := &e.Family[family]
	if slices.Equal(d.nat.pool[f.Pool:f.Pool+f.Count], addrs) {
		return nil
	}
	var next poolPart
	if len(addrs) > 0 {
		if next, err = d.nat.find(uint32(len(addrs))); err != nil {
			return err
		}
		if err := d.putPool(next, addrs); err != nil {
			return err
		}
		d.nat.mark(next)
	}
	f.Count = min(f.Count, next.count)
	if err := d.putEgressEntry(id, e); err != nil {
		return err
	}
	f.Pool = next.first
	return d.putEgressEntry(id, e)
}

func (d *Datapath) putPool(part poolPart, addrs []bpfAddr) error {
	keys := make([]uint32, len(addrs))
	for i := range keys {
		keys[i] = part.first + uint32(i)
	}
	if _, err := d.objs.Pool.BatchUpdate(keys, addrs, nil); err != nil {
		return fmt.Errorf("write the addresses of pools: %w", err)
	}
	copy(d.nat.pool[part.first:], addrs)
	return nil
}
