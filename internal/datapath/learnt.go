package datapath

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/overlay"
)

// PutStations has MAC addresses be where BGP says. It says more than a host's packets from
// elsewhere, and less than the configuration; of one that it says no more of, it takes away
// what it said itself. What is about unknown segments and remotes is left out, and an error.
func (d *Datapath) PutStations(list []overlay.Station) error {
	now, err := monotonicNS()
	if err != nil {
		return err
	}
	var errs []error
	want := make(map[edgeFdbKey]*edgeFdbEntry, len(list))
	for _, s := range list {
		key, entry, err := d.station(s, now)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		want[key] = entry
	}
	said := sayings[edgeFdbKey, edgeFdbEntry]{
		mutex:  &d.hosting,
		table:  d.objs.Fdb,
		origin: func(e *edgeFdbEntry) edgeHostOrigin { return e.Origin },
		same:   func(a, b *edgeFdbEntry) bool { return a.End == b.End && a.Sticky == b.Sticky },
		told:   func(k edgeFdbKey, _ edgeFdbEntry) { d.outdateMAC(k.Segment, k.Mac) },
	}
	return errors.Join(append(errs, said.put(want), d.changed())...)
}

// station is the entry of s, nil where BGP says no more of it.
func (d *Datapath) station(s overlay.Station, now uint64) (key edgeFdbKey, entry *edgeFdbEntry, err error) {
	id, ok := d.names.segIDs[s.Segment]
	if !ok {
		return key, nil, fmt.Errorf("%s: there is no segment %q", s.MAC, s.Segment)
	}
	key = edgeFdbKey{Segment: id, Mac: s.MAC}
	if !s.Remote.IsValid() {
		return key, nil, nil
	}
	first, ok := d.edges[s.Remote]
	end := d.names.tepIDs[first]
	if !ok || !d.members[membership{id, end}] {
		return key, nil, fmt.Errorf("%s: %s is no remote of segment %s", s.MAC, s.Remote, s.Segment)
	}
	entry = &edgeFdbEntry{End: end, Origin: edgeHostOriginORIGIN_BGP, SeenNs: now}
	if s.Sticky {
		entry.Sticky = 1
	}
	return key, entry, nil
}

// PutResidents has IP addresses be of the MAC addresses that BGP says, as PutStations does
// with those.
func (d *Datapath) PutResidents(list []overlay.Resident) error {
	now, err := monotonicNS()
	if err != nil {
		return err
	}
	var errs []error
	want := make(map[edgeNeighbourKey]*edgeNeighbour, len(list))
	for _, r := range list {
		id, ok := d.names.segIDs[r.Segment]
		if !ok {
			errs = append(errs, fmt.Errorf("%s: there is no segment %q", r.Addr, r.Segment))
			continue
		}
		key := edgeNeighbourKey{Segment: id, Addr: edgeAddr{W: wireAddr(r.Addr)}}
		want[key] = nil
		if r.MAC != (overlay.MAC{}) {
			want[key] = &edgeNeighbour{Mac: r.MAC, Origin: edgeHostOriginORIGIN_BGP, SeenNs: now}
		}
	}
	said := sayings[edgeNeighbourKey, edgeNeighbour]{
		mutex:  &d.hosting,
		table:  d.objs.Neighbours,
		origin: func(n *edgeNeighbour) edgeHostOrigin { return n.Origin },
		same:   func(a, b *edgeNeighbour) bool { return a.Mac == b.Mac },
		told: func(k edgeNeighbourKey, old edgeNeighbour) {
			if n := want[k]; n == nil || n.Mac != old.Mac {
				d.outdateMAC(k.Segment, old.Mac)
			}
		},
	}
	return errors.Join(append(errs, said.put(want), d.changed())...)
}

// sayings are entries of a table that BGP says, beside those of others.
type sayings[K comparable, V any] struct {
	mutex  *sync.Mutex // held while entries are written
	table  *ebpf.Map
	origin func(*V) edgeHostOrigin
	same   func(a, b *V) bool // of two of BGP
	told   func(K, V)         // after an entry was replaced, or went
}

// sayingsAtOnce bounds the time between the look at entries and their replacement.
const sayingsAtOnce = 512

// put writes the entries; nil ones go.
func (s *sayings[K, V]) put(want map[K]*V) error {
	var errs []error
	former := make(map[K]V)
	keys, values := make([]K, 0, sayingsAtOnce), make([]V, 0, sayingsAtOnce)
	flush := func() {
		errs = append(errs, s.write(keys, values))
		for k, old := range former {
			s.told(k, old)
		}
		clear(former)
		keys, values = keys[:0], values[:0]
	}
	for k, entry := range want {
		var old V
		err := s.table.Lookup(k, &old)
		known := err == nil
		if !known && !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, fmt.Errorf("read the map %s: %w", s.table, err))
			continue
		}
		if entry == nil {
			if known && s.origin(&old) == edgeHostOriginORIGIN_BGP {
				errs = append(errs, s.remove(k, old))
			}
			continue
		}
		if known && !s.differs(&old, entry) {
			continue
		}
		if known {
			former[k] = old
		}
		keys, values = append(keys, k), append(values, *entry)
		if len(keys) == sayingsAtOnce {
			flush()
		}
	}
	flush()
	return errors.Join(errs...)
}

// differs reports whether BGP's entry takes the place of the old one.
func (s *sayings[K, V]) differs(old, entry *V) bool {
	switch s.origin(old) {
	case edgeHostOriginORIGIN_STATIC:
		return false
	case edgeHostOriginORIGIN_BGP:
		return !s.same(old, entry)
	}
	return true
}

func (s *sayings[K, V]) remove(k K, old V) error {
	if err := s.table.Delete(k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("delete from the map %s: %w", s.table, err)
	}
	s.told(k, old)
	return nil
}

// write writes entries; those behind one that has no room are tried too, as they may be known.
func (s *sayings[K, V]) write(keys []K, values []V) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var full error
	for len(keys) > 0 {
		n, err := s.table.BatchUpdate(keys, values, nil)
		if err == nil {
			break
		}
		full = fmt.Errorf("write the map %s of %d entries: %w (raise fdb.size when it is full)", s.table, s.table.MaxEntries(), err)
		keys, values = keys[min(n+1, len(keys)):], values[min(n+1, len(values)):]
	}
	return full
}
