package policy

import (
	"slices"
)

// side knows to which sets a packet's source, or its destination, belongs.
type side struct {
	*dimension
	addrs    []bound           // covers all addresses
	macs     []macList         // sorted
	segments map[string]uint32 // list
	places   []uint32          // list, by index of places
}

// bound is where a range of addresses begins that are in the same sets.
type bound struct {
	first u128
	list  uint32
}

type macList struct {
	mac  uint64
	list uint32
}

// newSide sorts out the sets of a side that rules use.
func newSide(a *dimension, c *catalogue, limit int) (*side, error) {
	s := &side{dimension: a, segments: map[string]uint32{}, places: make([]uint32, len(c.places))}
	macs, segments, places := map[uint64][]setID{}, map[string][]setID{}, make([][]setID, len(c.places))
	for _, id := range s.usedSets() {
		for _, mac := range c.sets[id].macs {
			macs[mac] = append(macs[mac], id)
		}
		for _, name := range c.sets[id].segments {
			segments[name] = append(segments[name], id)
		}
		for _, place := range c.sets[id].places {
			places[place] = append(places[place], id)
		}
	}
	if err := s.sweep(c, limit); err != nil {
		return nil, err
	}
	if err := s.listOthers(macs, segments, places); err != nil {
		return nil, err
	}
	return s, nil
}

// usedSets are those that rules name, but anySet.
func (s *side) usedSets() []setID {
	var used []setID
	for i := range s.rules {
		if id := setID(i); id > anySet && s.used(id) {
			used = append(used, id)
		}
	}
	return used
}

func (s *side) listOthers(macs map[uint64][]setID, segments map[string][]setID, places [][]setID) error {
	var err error
	list := func(sets []setID) uint32 {
		if err != nil {
			return 0
		}
		slices.SortFunc(sets, s.byRank)
		var n uint32
		n, err = s.list(sets, otherLimit)
		return n
	}
	for _, mac := range sortedKeys(macs) {
		s.macs = append(s.macs, macList{mac, list(macs[mac])})
	}
	for _, name := range sortedKeys(segments) {
		s.segments[name] = list(segments[name])
	}
	for i, sets := range places {
		s.places[i] = list(sets)
	}
	return err
}

// edge is where a set begins or ends among the addresses.
type edge struct {
	at    u128
	set   setID
	begin bool
}

// sweep walks over all addresses, and notes where the sets change that they are in. Every
// address is in anySet, so that no packet has to be asked about it apart.
func (s *side) sweep(c *catalogue, limit int) error {
	var active []setID
	if s.used(anySet) {
		active = append(active, anySet)
	}
	first, err := s.list(active, limit)
	if err != nil {
		return err
	}
	s.addrs = []bound{{u128{}, first}}
	edges := s.edges(c)
	for i := 0; i < len(edges); {
		at := edges[i].at
		for ; i < len(edges) && edges[i].at == at; i++ {
			active = s.step(active, edges[i])
		}
		list, err := s.list(active, limit)
		if err != nil {
			return err
		}
		last := &s.addrs[len(s.addrs)-1]
		switch {
		case last.first == at:
			last.list = list
		case last.list != list:
			s.addrs = append(s.addrs, bound{at, list})
		}
	}
	return nil
}

// step is active after an edge.
func (s *side) step(active []setID, e edge) []setID {
	i, _ := slices.BinarySearchFunc(active, e.set, s.byRank)
	if e.begin {
		return slices.Insert(active, i, e.set)
	}
	return slices.Delete(active, i, i+1)
}

func (s *side) edges(c *catalogue) []edge {
	used, spans := s.usedSets(), 0
	for _, id := range used {
		spans += len(c.sets[id].spans)
	}
	edges := make([]edge, 0, 2*spans)
	for _, id := range used {
		for _, p := range c.sets[id].spans {
			edges = append(edges, edge{p.first, id, true})
			if after, more := p.last.next(); more {
				edges = append(edges, edge{after, id, false})
			}
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return a.at.compare(b.at) })
	return edges
}
