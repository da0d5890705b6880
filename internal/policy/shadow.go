package policy

import (
	"cmp"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// maxCandidates for a rule are looked at one by one. Of further combinations it is only
// the first rule that matches the packet.
const maxCandidates = 512

// Shadowed are the rules that one earlier rule leaves nothing to decide about, in order.
// What several rules hide together is not found, nor always what is hidden where there are
// more than maxCandidates. A rule that is named is hidden for certain.
//
// A rule that covers another matches every packet of it, so also one that is picked: only
// the rules that match that packet are candidates.
func (p *Policy) Shadowed() []Shadow {
	if len(p.sets.places) == 0 {
		return nil
	}
	s := shadower{Policy: p, whole: make([][2]*set, len(p.asked)), starts: make(map[uint64]uint32, len(p.entries))}
	for i, side := range p.sides {
		s.plain[i] = s.shortest(side)
	}
	for i, e := range p.entries {
		if i == 0 || p.entries[i-1].key != e.key {
			s.starts[e.key] = uint32(i)
		}
	}
	var found []Shadow
	for i := range p.asked {
		if by := s.coveredBy(uint32(i)); by != none {
			same := s.covers(uint32(i), by) && p.rules[i].Verdict == p.rules[by].Verdict
			found = append(found, Shadow{Rule: i, By: int(by), Duplicate: same})
		}
	}
	return found
}

// shadower keeps what Shadowed looks up.
type shadower struct {
	*Policy
	whole  [][2]*set         // by rule: all of from, and of to
	plain  [2]uint32         // list of an address that is in as few sets as any
	starts map[uint64]uint32 // where a combination's entries begin
	left   int               // candidates that may still be looked at for a rule
}

func (s *shadower) shortest(side *side) uint32 {
	least := side.addrs[0].list
	for _, b := range side.addrs {
		if len(side.lists.row(b.list)) < len(side.lists.row(least)) {
			least = b.list
		}
	}
	return least
}

// coveredBy is the first rule that covers one, of the candidates, or none.
func (s *shadower) coveredBy(rule uint32) uint32 {
	from, to := s.picked(rule, 0), s.picked(rule, 1)
	scopes := s.pickedScopes(rule)
	by := rule
	s.left = maxCandidates
	for _, f := range from {
		for _, t := range to {
			for _, k := range scopes {
				by = min(by, s.inCombination(combination(f, t, k), rule, by))
			}
		}
	}
	if by == rule {
		return none
	}
	return by
}

// picked are the sets that an address, MAC, segment or place of the rule is in.
func (s *shadower) picked(rule uint32, i int) []setID {
	side, all := s.sides[i], s.all(rule, i)
	if len(all.spans) > 0 && !all.all() {
		n, found := slices.BinarySearchFunc(side.addrs, all.spans[0].first, func(b bound, a u128) int { return b.first.compare(a) })
		if !found {
			n--
		}
		return side.lists.row(side.addrs[n].list)
	}
	list := uint32(0)
	switch {
	case len(all.macs) > 0:
		n, _ := slices.BinarySearchFunc(side.macs, all.macs[0], func(m macList, mac uint64) int { return cmp.Compare(m.mac, mac) })
		list = side.macs[n].list
	case len(all.segments) > 0:
		list = side.segments[all.segments[0]]
	case len(all.places) > 0:
		list = side.places[all.places[0]]
	case all.empty():
		return nil
	}
	return append(slices.Clone(side.lists.row(s.plain[i])), side.lists.row(list)...)
}

func (s *shadower) pickedScopes(rule uint32) []setID {
	scope, place := s.scopes.known[s.asked[rule].scope], 0
	if scope.places != anySet {
		places := s.sets.sets[scope.places].places
		if len(places) == 0 {
			return nil
		}
		place = places[0]
	}
	return s.scopes.lists.row(s.scopes.at[direction(scope.direction)][place])
}

// inCombination is the first rule of a combination that covers one and comes before
// another, or none.
func (s *shadower) inCombination(key uint64, rule, before uint32) uint32 {
	slot := s.slot(key)
	if slot == nil || slot[3] >= before {
		return none
	}
	for _, e := range s.entries[s.starts[key]:] {
		if e.key != key || e.rule >= before {
			return none
		}
		if s.left == 0 {
			break
		}
		s.left--
		if s.covers(e.rule, rule) {
			return e.rule
		}
	}
	box := s.asked[rule].services[0]
	says := s.decision(s.compiled.find(slot[2], u128{0, uint64(box.first)<<32 | uint64(box.sourceFirst)}, 2))
	if says.rule < before && s.covers(says.rule, rule) {
		return says.rule
	}
	return none
}

// covers reports whether the rule decides about all that the other one matches.
func (s *shadower) covers(rule, other uint32) bool {
	r, o := &s.asked[rule], &s.asked[other]
	return !r.logOnly && s.inScope(r.scope, o.scope) && servicesCover(r.services, o.services) &&
		s.sideCovers(rule, other, 0) && s.sideCovers(rule, other, 1)
}

func (s *shadower) sideCovers(rule, other uint32, i int) bool {
	outer := s.all(rule, i)
	return outer.all() || outer.contains(s.all(other, i))
}

func (s *shadower) inScope(outer, inner setID) bool {
	o, i := s.scopes.known[outer], s.scopes.known[inner]
	if o.direction != overlay.Both && o.direction != i.direction {
		return false
	}
	if o.places == anySet || o.places == i.places {
		return true
	}
	return i.places != anySet && s.sets.sets[o.places].contains(s.sets.sets[i.places])
}

// servicesCover asks for one box of the outer ones for each inner one.
func servicesCover(outer, inner []box) bool {
	for _, b := range inner {
		if !slices.ContainsFunc(outer, func(o box) bool { return o.contains(b) }) {
			return false
		}
	}
	return true
}

// all is a rule's whole side.
func (s *shadower) all(rule uint32, i int) *set {
	known := &s.whole[rule][i]
	if *known != nil {
		return *known
	}
	ids := s.asked[rule].side(i)
	if len(ids) == 1 {
		*known = s.sets.sets[ids[0]]
		return *known
	}
	*known = &set{}
	for _, id := range ids {
		(*known).add(s.sets.sets[id])
	}
	(*known).normalise()
	return *known
}
