package policy

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// The words of the first line: where things are. Of source and destination each there are
// three trees, by IPv4 address, IPv6 address and MAC.
const (
	headerPolicy = iota
	headerFormat
	headerTrees
	headerVports   = headerTrees + 6 // line
	headerEndCount = headerVports + 1
	headerSegments = headerVports + 2 // line
	headerSegCount = headerVports + 3
	headerTable    = headerVports + 4 // line
	headerMask     = headerVports + 5 // lines of the table - 1
	headerRules    = headerVports + 6 // line
	headerPairs    = headerVports + 7 // line
)

// compiledFormat is POLICY_FORMAT of bpf/firewall/policy_image.h.
const compiledFormat = 0x53565031

// A place takes half a line, a segment an eighth.
const (
	endWords     = 8
	segmentWords = 2
	itemWords    = 4
)

// placeRefs are what a place is known by: lists of sets.
type placeRefs struct {
	sides   [2]uint32
	scopes  [2]uint32 // in, out
	ruleFor uint32    // order of its default
}

// layout is what was written where.
type layout struct {
	header Compiled
	items  [3][]uint32 // value of each list, by axis
	pairs  []decision
}

// item is a set as a list in the image has it.
type item struct {
	first    uint32 // order of the first rule under the set
	partners uint64 // a bit for each combination that the set is in
}

// partner is the bit for a combination: of the two other sets.
func partner(side, scope setID) uint64 {
	return 1 << ((uint64(side) | uint64(scope)<<20) * hashFactor >> 58)
}

const hashFactor = 0x9e3779b97f4a7c15

// write lays out all of the image that does not depend on Numbers.
func (p *Policy) write() error {
	w := &writer{}
	_, header := w.line(1)
	p.layout = layout{header: header}
	header[headerFormat] = compiledFormat
	axes := p.axes()
	var items [3][]item
	for i, a := range axes {
		items[i] = slices.Repeat([]item{{first: none}}, a.sets())
	}
	found, err := p.writeRuleCells(w, items)
	if err != nil {
		return err
	}
	for i, a := range axes {
		p.layout.items[i] = w.lists(a, items[i])
	}
	for i, s := range p.sides {
		p.writeSide(w, i, s)
	}
	if err := p.writeTable(w, found); err != nil {
		return err
	}
	p.writeRules(w)
	p.writePlaces()
	p.compiled = w.compiled
	copy(p.compiled, p.layout.header)
	if lines := len(p.compiled) / LineWords; lines > maxLines {
		return &tooLarge{fmt.Sprintf("the compiled policy has %d MiB, and at most %d fit", lines>>14, maxLines>>14)}
	}
	return nil
}

// ruleCell is where the rules of a combination are found.
type ruleCell struct {
	key   uint64
	value uint32
	first uint32
}

func (p *Policy) writeRuleCells(w *writer, items [3][]item) ([]ruleCell, error) {
	r := ruleCells{p: p, w: w, single: make([]uint32, len(p.asked)), pairs: map[decision]uint32{}}
	var found []ruleCell
	for rest := p.entries; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].key == rest[0].key {
			n++
		}
		group := rest[:n]
		rest = rest[n:]
		value, err := r.value(group)
		if err != nil {
			return nil, err
		}
		found = append(found, ruleCell{group[0].key, value, group[0].rule})
		from, to, scope := group[0].parts()
		items[0][from].meet(group[0].rule, partner(to, scope))
		items[1][to].meet(group[0].rule, partner(from, scope))
		items[2][scope].meet(group[0].rule, 0)
	}
	p.layout.pairs = r.list
	return found, nil
}

func (i *item) meet(rule uint32, partner uint64) {
	i.first = min(i.first, rule)
	i.partners |= partner
}

// lists writes the lists of an axis, and returns the value of each.
func (w *writer) lists(a *dimension, items []item) []uint32 {
	values := make([]uint32, a.lists.len())
	at, room := uint32(0), 0 // the next item's place, and how many there are before a new line
	var sets []setID
	for n := range values {
		sets = append(sets[:0], a.lists.row(uint32(n))...)
		sets = slices.DeleteFunc(sets, func(s setID) bool { return items[s].first == none })
		slices.SortFunc(sets, func(x, y setID) int { return cmp.Compare(items[x].first, items[y].first) })
		if len(sets) == 0 {
			continue
		}
		if len(sets) > room {
			lines := (len(sets)*itemWords + LineWords - 1) / LineWords
			line, _ := w.line(lines)
			at, room = line*(LineWords/itemWords), lines*(LineWords/itemWords)
		}
		values[n] = at<<countBits | uint32(len(sets))
		for _, s := range sets {
			words := w.compiled[at*itemWords:]
			words[0], words[1] = uint32(s), items[s].first
			words[2], words[3] = uint32(items[s].partners), uint32(items[s].partners>>32)
			at, room = at+1, room-1
		}
	}
	return values
}

// writeSide writes the trees in which a side's lists are found.
func (p *Policy) writeSide(w *writer, i int, s *side) {
	lists := p.layout.items[i]
	value := func(b bound) bound { return bound{b.first, lists[b.list]} }
	var v4, v6 []bound
	before := s.addrs[0]
	for _, b := range s.addrs {
		if b.first.compare(mapped) <= 0 {
			before = b
		}
		if b.first.compare(mapped) > 0 && b.first.compare(mappedLast) <= 0 {
			v4 = append(v4, value(b))
		}
		v6 = append(v6, value(b))
	}
	v4 = append([]bound{value(bound{mapped, before.list})}, v4...)
	macs := []bound{{}}
	for _, m := range s.macs {
		at := u128{0, m.mac}
		if macs[len(macs)-1].first == at {
			macs = macs[:len(macs)-1]
		}
		after, _ := at.next()
		macs = append(macs, bound{at, lists[m.list]}, bound{after, 0})
	}
	roots := p.layout.header[headerTrees+3*i:]
	roots[0], roots[1], roots[2] = w.trie(v4, 3), w.trie(v6, 0), w.trie(macs, 2)
}

// Of the table of combinations, a line has four. One that is full goes on in the next ones.
const (
	slotWords = 4
	maxProbes = 8
)

func (p *Policy) writeTable(w *writer, found []ruleCell) error {
	for lines := 1 << bits.Len(uint(len(found)/2)); lines <= maxLines; lines *= 2 {
		slots, fits := hashed(found, lines)
		if !fits {
			continue
		}
		line, room := w.line(lines)
		copy(room, slots)
		p.layout.header[headerTable], p.layout.header[headerMask] = line, uint32(lines-1)
		return nil
	}
	return &tooLarge{fmt.Sprintf("%d combinations of groups do not fit", len(found))}
}

func hashed(found []ruleCell, lines int) (Compiled, bool) {
	slots := make(Compiled, lines*LineWords)
	for _, r := range found {
		slot := vacant(slots, r.key, lines)
		if slot == nil {
			return nil, false
		}
		slot[0], slot[1], slot[2], slot[3] = uint32(r.key), uint32(r.key>>32), r.value, r.first
	}
	return slots, true
}

// vacant is where a combination has room, or nil.
func vacant(slots Compiled, key uint64, lines int) Compiled {
	at := int(key * hashFactor >> 32)
	for probe := range maxProbes {
		line := slots.at(uint32((at + probe) & (lines - 1)))
		for i := 0; i < LineWords; i += slotWords {
			if line[i]|line[i+1] == 0 {
				return line[i:]
			}
		}
		if probe >= lines {
			break
		}
	}
	return nil
}

// A rule's word: its number, and what it says.
const (
	verdictShift = 24
	logBit       = 1 << 28
)

var verdictCodes = map[overlay.Verdict]uint32{overlay.Allow: 0, overlay.Drop: 1, overlay.Reject: 2, overlay.LogOnly: 3}

func (p *Policy) writeRules(w *writer) {
	line, words := w.line((len(p.rules) + LineWords - 1) / LineWords)
	p.layout.header[headerRules] = line
	for i, r := range p.rules {
		words[i] = verdictCodes[r.Verdict] << verdictShift
		if r.Log {
			words[i] |= logBit
		}
	}
	line, words = w.line((2*len(p.layout.pairs) + LineWords - 1) / LineWords)
	p.layout.header[headerPairs] = line
	for i, pair := range p.layout.pairs {
		words[2*i], words[2*i+1] = pair.rule, pair.logOnly
	}
}
