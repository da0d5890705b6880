package datapath

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// PutBGPMACs has MAC addresses be where BGP says. It says more than a host's packets from
// elsewhere, and less than the configuration; of one that it says no more of, it takes away
// what it said itself. What is about unknown segments and remotes, and what there is no room for, is
// left out: the error names it (rib.LeftOut).
func (ho *Hosts) PutBGPMACs(list []rib.BGPMAC) error {
	now, err := ho.prog.kernel.Clock.Monotonic()
	if err != nil {
		return err
	}
	var failed fewErrors
	var left rib.NoRoom
	want := make(map[bpfFdbKey]*bpfFdbEntry, len(list))
	for _, s := range list {
		key, entry, err := ho.fdbEntry(s, now)
		if err != nil {
			failed.add(err)
			left.MACs = append(left.MACs, s)
			continue
		}
		want[key] = entry
	}
	reported := bgpEntries[bpfFdbKey, bpfFdbEntry]{
		hosts:   ho,
		table:   ho.fdbTable(),
		origin:  func(e *bpfFdbEntry) bpfHostOrigin { return e.Origin },
		same:    func(a, b *bpfFdbEntry) bool { return a.Vport == b.Vport && a.Sticky == b.Sticky },
		changed: func(k bpfFdbKey, _ bpfFdbEntry) { ho.changes.invalidateMAC(k.Segment, k.Mac) },
	}
	full := make(map[bpfFdbKey]bool)
	err = errors.Join(failed.err(), reported.put(want, full), ho.changes.changed())
	for _, s := range list {
		if id, ok := ho.numbers.names.segIDs[s.Segment]; ok && full[bpfFdbKey{Segment: id, Mac: s.MAC}] {
			left.MACs = append(left.MACs, s)
		}
	}
	return rib.WithNoRoom(err, left)
}

// station is the entry of s, nil where BGP says no more of it.
func (ho *Hosts) fdbEntry(s rib.BGPMAC, now uint64) (key bpfFdbKey, entry *bpfFdbEntry, err error) {
	id, ok := ho.numbers.names.segIDs[s.Segment]
	if !ok {
		return key, nil, fmt.Errorf("%s: there is no segment %q", s.MAC, s.Segment)
	}
	key = bpfFdbKey{Segment: id, Mac: s.MAC}
	if !s.Remote.IsValid() {
		return key, nil, nil
	}
	first, ok := ho.numbers.edges[s.Remote]
	vport := ho.numbers.names.tepIDs[first]
	if !ok || !ho.members[membership{id, vport}] {
		return key, nil, fmt.Errorf("%s: %s is no remote of segment %s", s.MAC, s.Remote, s.Segment)
	}
	entry = &bpfFdbEntry{Vport: vport, Origin: bpfHostOriginORIGIN_BGP, SeenNs: now}
	if s.Sticky {
		entry.Sticky = 1
	}
	return key, entry, nil
}

// PutARPEntries has IP addresses be of the MAC addresses that BGP says, as PutBGPMACs does
// with those.
func (ho *Hosts) PutARPEntries(list []rib.ARPEntry) error {
	now, err := ho.prog.kernel.Clock.Monotonic()
	if err != nil {
		return err
	}
	var failed fewErrors
	var left rib.NoRoom
	want := make(map[bpfNeighbourKey]*bpfNeighbour, len(list))
	for _, r := range list {
		id, ok := ho.numbers.names.segIDs[r.Segment]
		if !ok {
			failed.add(fmt.Errorf("%s: there is no segment %q", r.Addr, r.Segment))
			left.ARPEntries = append(left.ARPEntries, r)
			continue
		}
		key := bpfNeighbourKey{Segment: id, Addr: bpfAddr{W: wireAddr(r.Addr)}}
		want[key] = nil
		if r.MAC != (overlay.MAC{}) {
			want[key] = &bpfNeighbour{Mac: r.MAC, Origin: bpfHostOriginORIGIN_BGP, Flags: neighbourFlags(r.ND), SeenNs: now}
		}
	}
	reported := bgpEntries[bpfNeighbourKey, bpfNeighbour]{
		hosts:  ho,
		table:  ho.neighbourTable(),
		origin: func(n *bpfNeighbour) bpfHostOrigin { return n.Origin },
		// Of the same host, what packets said of it stays where BGP says nothing.
		same: func(a, b *bpfNeighbour) bool { return a.Mac == b.Mac && (b.Flags == 0 || a.Flags == b.Flags) },
		changed: func(k bpfNeighbourKey, old bpfNeighbour) {
			if n := want[k]; n == nil || n.Mac != old.Mac {
				ho.changes.invalidateMAC(k.Segment, old.Mac)
			}
		},
	}
	full := make(map[bpfNeighbourKey]bool)
	err = errors.Join(failed.err(), reported.put(want, full), ho.changes.changed())
	for _, r := range list {
		if id, ok := ho.numbers.names.segIDs[r.Segment]; ok && full[bpfNeighbourKey{Segment: id, Addr: bpfAddr{W: wireAddr(r.Addr)}}] {
			left.ARPEntries = append(left.ARPEntries, r)
		}
	}
	return rib.WithNoRoom(err, left)
}

// bgpEntries are entries of a table that BGP says, beside those of others.
type bgpEntries[K comparable, V any] struct {
	hosts   *Hosts
	table   hostTable[K, V]
	origin  func(*V) bpfHostOrigin
	same    func(a, b *V) bool // of two of BGP
	changed func(K, V)         // after an entry was replaced, or went
}

// bgpBatch bounds the time between the look at entries and their replacement.
const bgpBatch = 512

// put writes the entries; nil ones go. It notes which are left out, as the table is full.
func (s *bgpEntries[K, V]) put(want map[K]*V, full map[K]bool) error {
	var errs []error
	previous := make(map[K]V)
	keys, values := make([]K, 0, bgpBatch), make([]V, 0, bgpBatch)
	flush := func() {
		errs = append(errs, s.write(keys, values, full))
		for k, old := range previous {
			s.hosts.limits.countHost(s.table.learned(&k, &old), s.table.count, -1)
			s.changed(k, old)
		}
		clear(previous)
		keys, values = keys[:0], values[:0]
	}
	for _, k := range keysOf(want) {
		entry := want[k]
		var old V
		err := s.table.Lookup(k, &old)
		known := err == nil
		if !known && !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, fmt.Errorf("read the map %s: %w", s.table.Map, err))
			continue
		}
		if entry == nil {
			if known && s.origin(&old) == bpfHostOriginORIGIN_BGP {
				errs = append(errs, s.remove(k, old))
			}
			continue
		}
		if known && !s.differs(&old, entry) {
			continue
		}
		if known {
			previous[k] = old
		}
		keys, values = append(keys, k), append(values, *entry)
		if len(keys) == bgpBatch {
			flush()
		}
	}
	flush()
	return errors.Join(errs...)
}

// differs reports whether BGP's entry takes the place of the old one.
func (s *bgpEntries[K, V]) differs(old, entry *V) bool {
	switch s.origin(old) {
	case bpfHostOriginORIGIN_STATIC:
		return false
	case bpfHostOriginORIGIN_BGP:
		return !s.same(old, entry)
	}
	return true
}

func (s *bgpEntries[K, V]) remove(k K, old V) error {
	if err := s.table.Delete(k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("delete from the map %s: %w", s.table.Map, err)
	}
	s.changed(k, old)
	return nil
}

// write writes entries; those behind one that has no room are tried too, as they may be known.
// Learned ones make room.
func (s *bgpEntries[K, V]) write(keys []K, values []V, noRoom map[K]bool) error {
	s.hosts.hosting.Lock()
	defer s.hosts.hosting.Unlock()
	var full error
	for len(keys) > 0 {
		n, err := s.table.BatchUpdate(keys, values, nil)
		if err == nil {
			break
		}
		keys, values = keys[min(n, len(keys)):], values[min(n, len(values)):]
		if isFull(err) && len(keys) > 0 && evictLearned(s.hosts, s.table, len(keys)) > 0 {
			continue
		}
		full = fmt.Errorf("write the map %s of %d entries: %w (raise fdb.size when it is full)", s.table.Map, s.table.MaxEntries(), err)
		if len(keys) > 0 {
			noRoom[keys[0]] = true
		}
		keys, values = keys[min(1, len(keys)):], values[min(1, len(values)):]
	}
	return full
}
