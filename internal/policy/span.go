package policy

import (
	"cmp"
	"encoding/binary"
	"math"
	"net/netip"
	"slices"
)

// u128 is an address as a number: IPv6, or IPv4 mapped into it.
type u128 struct{ hi, lo uint64 }

func (a u128) compare(b u128) int {
	if c := cmp.Compare(a.hi, b.hi); c != 0 {
		return c
	}
	return cmp.Compare(a.lo, b.lo)
}

// next is a+1, and false behind the last address.
func (a u128) next() (u128, bool) {
	a.lo++
	if a.lo == 0 {
		a.hi++
	}
	return a, a != u128{}
}

// before is a-1.
func (a u128) before() u128 {
	if a.lo == 0 {
		a.hi--
	}
	a.lo--
	return a
}

// word is the i-th of the four words of 32 bits, the highest first.
func (a u128) word(i int) uint32 {
	half := a.hi
	if i >= 2 {
		half = a.lo
	}
	if i%2 == 0 {
		return uint32(half >> 32)
	}
	return uint32(half)
}

func addrOf(a netip.Addr) u128 {
	b := a.As16()
	return u128{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

var (
	mapped     = u128{0, 0xffff << 32} // ::ffff:0:0, where IPv4 begins
	mappedLast = u128{0, 0xffff<<32 | math.MaxUint32}
	lastAddr   = u128{math.MaxUint64, math.MaxUint64}
)

// span is the addresses from first to last.
type span struct{ first, last u128 }

func prefixSpan(p netip.Prefix) span {
	first, bits := addrOf(p.Masked().Addr()), p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	last := first
	if bits <= 64 {
		last.hi |= ones(64 - bits)
		last.lo = math.MaxUint64
	} else {
		last.lo |= ones(128 - bits)
	}
	return span{first, last}
}

// ones has the n lowest bits set.
func ones(n int) uint64 {
	if n >= 64 {
		return math.MaxUint64
	}
	return 1<<n - 1
}

// addSpan adds addresses, of IPv6 without those that mean IPv4.
func (s *set) addSpan(p span, v4 bool) {
	if v4 || p.last.compare(mapped) < 0 || p.first.compare(mappedLast) > 0 {
		s.spans = append(s.spans, p)
		return
	}
	if p.first.compare(mapped) < 0 {
		s.spans = append(s.spans, span{p.first, mapped.before()})
	}
	if p.last.compare(mappedLast) > 0 {
		after, _ := mappedLast.next()
		s.spans = append(s.spans, span{after, p.last})
	}
}

// joined sorts spans and joins those that overlap or touch.
func joined(spans []span) []span {
	if len(spans) < 2 {
		return spans
	}
	slices.SortFunc(spans, func(a, b span) int { return a.first.compare(b.first) })
	out := spans[:1]
	for _, s := range spans[1:] {
		end := &out[len(out)-1]
		if after, more := end.last.next(); more && s.first.compare(after) > 0 {
			out = append(out, s)
		} else if s.last.compare(end.last) > 0 {
			end.last = s.last
		}
	}
	return out
}

// covers reports whether all of inner is in outer; both are joined.
func covers(outer, inner []span) bool {
	for _, s := range inner {
		i, found := slices.BinarySearchFunc(outer, s.first, func(o span, a u128) int { return o.first.compare(a) })
		if !found {
			i--
		}
		if i < 0 || outer[i].last.compare(s.last) < 0 {
			return false
		}
	}
	return true
}

// prefixes are the fewest prefixes that make up s, as spans.
func prefixes(s span) []span {
	var out []span
	for {
		last := longest(s)
		out = append(out, span{s.first, last})
		if last == s.last {
			return out
		}
		s.first, _ = last.next()
	}
}

// longest is the last address of the largest prefix that begins with s and is in it.
func longest(s span) u128 {
	last := s.first
	for bit := range 128 {
		grown := last
		if bit < 64 {
			grown.lo |= 1 << bit
		} else {
			grown.hi |= 1 << (bit - 64)
		}
		if grown == last || grown.compare(s.last) > 0 {
			return last
		}
		last = grown
	}
	return last
}
