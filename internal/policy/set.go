package policy

import "slices"

// setID names a set of a compilation. Equal sets have equal names.
type setID uint32

const anySet setID = 1 // whatever there is; 0 is no set

// set is what one side of an opening may be: a member, or several together.
type set struct {
	spans    []span // joined
	macs     []uint64
	segments []string
	places   []int // indices of places
}

func (s *set) add(o *set) {
	s.spans = append(s.spans, o.spans...)
	s.macs = append(s.macs, o.macs...)
	s.segments = append(s.segments, o.segments...)
	s.places = append(s.places, o.places...)
}

// normalise makes equal sets the same.
func (s *set) normalise() {
	s.spans = joined(s.spans)
	slices.Sort(s.macs)
	s.macs = slices.Compact(s.macs)
	slices.Sort(s.segments)
	s.segments = slices.Compact(s.segments)
	slices.Sort(s.places)
	s.places = slices.Compact(s.places)
}

// all reports whether every packet's address is in s.
func (s *set) all() bool {
	return len(s.spans) == 1 && s.spans[0] == span{u128{}, lastAddr}
}

func (s *set) empty() bool {
	return len(s.spans)+len(s.macs)+len(s.segments)+len(s.places) == 0
}

// hash is the same for equal sets.
func (s *set) hash() uint64 {
	h := uint64(len(s.spans))
	for _, p := range s.spans {
		h = mix(mix(mix(mix(h, p.first.hi), p.first.lo), p.last.hi), p.last.lo)
	}
	for _, mac := range s.macs {
		h = mix(h, mac)
	}
	for _, place := range s.places {
		h = mix(h, uint64(place))
	}
	for _, name := range s.segments {
		for i := range len(name) {
			h = mix(h, uint64(name[i]))
		}
	}
	return h
}

func mix(h, v uint64) uint64 {
	h = (h ^ v) * hashFactor
	return h ^ h>>29
}

func (s *set) equal(o *set) bool {
	return slices.Equal(s.spans, o.spans) && slices.Equal(s.macs, o.macs) &&
		slices.Equal(s.places, o.places) && slices.Equal(s.segments, o.segments)
}

// contains reports whether all of inner is in s.
func (s *set) contains(inner *set) bool {
	return covers(s.spans, inner.spans) && subset(s.macs, inner.macs) &&
		subset(s.segments, inner.segments) && subset(s.places, inner.places)
}

// subset is for sorted lists.
func subset[T uint64 | int | string](outer, inner []T) bool {
	for _, x := range inner {
		if _, found := slices.BinarySearch(outer, x); !found {
			return false
		}
	}
	return true
}
