package policy

import (
	"fmt"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

func (p *Policy) writePlaces() {
	segments := sortedDefaults(p.rules[len(p.asked):])
	p.places = make([]placeRefs, len(p.sets.places))
	for i, place := range p.sets.places {
		refs := placeRefs{ruleFor: uint32(len(p.rules) - 1)}
		if k, found := slices.BinarySearch(segments, place.Segment); found {
			refs.ruleFor = uint32(len(p.asked) + k)
		}
		for k, s := range p.sides {
			refs.sides[k] = p.layout.items[k][s.places[i]]
			refs.scopes[k] = p.layout.items[2][p.scopes.at[k][i]]
		}
		p.places[i] = refs
	}
	p.segments = map[string][2]uint32{}
	for k, s := range p.sides {
		for name, list := range s.segments {
			refs := p.segments[name]
			refs[k] = p.layout.items[k][list]
			p.segments[name] = refs
		}
	}
}

// sortedDefaults are the segments that have one, of the defaults.
func sortedDefaults(rules []Rule) []string {
	var names []string
	for _, r := range rules[:len(rules)-1] {
		names = append(names, r.Name)
	}
	return names
}

// maxNumber is the greatest number of a rule.
const maxNumber = 1<<verdictShift - 1

// Compiled is the policy with the data path's numbers in it. Its length is a multiple of
// LineWords.
func (p *Policy) Compiled(n Numbers) (Compiled, error) {
	if len(n.Rules) != len(p.rules) {
		return nil, fmt.Errorf("the policy has %d rules with its defaults, and %d numbers are given", len(p.rules), len(n.Rules))
	}
	w := &writer{compiled: make(Compiled, len(p.compiled), len(p.compiled)+LineWords*(2+len(n.Vports)/2+len(n.Segments)/8))}
	copy(w.compiled, p.compiled)
	words := w.compiled[p.compiled[headerRules]*LineWords:]
	for i, number := range n.Rules {
		if number == 0 || number > maxNumber {
			return nil, fmt.Errorf("rule %s: number %d is not from 1 to %d", p.rules[i].name(), number, maxNumber)
		}
		words[i] |= number
	}
	w.compiled[headerPolicy] = n.Policy
	if err := p.numberVports(w, n.Vports); err != nil {
		return nil, err
	}
	p.numberSegments(w, n.Segments)
	return w.compiled, nil
}

// numberVports writes the table of places by the number of their ends. One without a number
// has no interface now, so that no packet comes from it or goes there.
func (p *Policy) numberVports(w *writer, vports map[string]uint16) error {
	most := uint16(0)
	for _, end := range vports {
		most = max(most, end)
	}
	count := int(most) + 1
	line, words := w.line((count*endWords + LineWords - 1) / LineWords)
	w.compiled[headerVports], w.compiled[headerEndCount] = line, uint32(count)
	for i, place := range p.sets.places {
		end := vports[place.Name]
		if end == 0 {
			continue
		}
		at := words[int(end)*endWords:]
		if at[0] != 0 {
			return fmt.Errorf("place %s has the number %d, which another one has", place.Name, end)
		}
		refs := p.places[i]
		at[0] = refs.ruleFor + 1
		at[1], at[2] = refs.sides[0], refs.sides[1]
		at[3], at[4] = refs.scopes[0], refs.scopes[1]
	}
	return nil
}

// numberSegments writes the table of segments. One without a number is not on this edge.
func (p *Policy) numberSegments(w *writer, segments map[string]uint16) {
	most := uint16(0)
	for name := range p.segments {
		most = max(most, segments[name])
	}
	count := int(most) + 1
	line, words := w.line((count*segmentWords + LineWords - 1) / LineWords)
	w.compiled[headerSegments], w.compiled[headerSegCount] = line, uint32(count)
	for name, refs := range p.segments {
		if number, known := segments[name]; known {
			copy(words[int(number)*segmentWords:], refs[:])
		}
	}
}

// direction is the index of what is kept by direction; Both has that of In.
func direction(d overlay.Direction) int {
	if d == overlay.Out {
		return 1
	}
	return 0
}
