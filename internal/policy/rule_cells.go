package policy

import "fmt"

// ruleCells writes what the rules of combinations say, by service. Combinations with the
// same rules share it.
type ruleCells struct {
	p      *Policy
	w      *writer
	single []uint32 // value of a rule alone, 0 before it is known
	lists  table    // of several rules
	values []uint32 // of each list
	pairs  map[decision]uint32
	list   []decision
}

// value is that of a combination's rules.
func (r *ruleCells) value(group []entry) (uint32, error) {
	row := make([]setID, 0, len(group))
	for _, e := range group {
		row = append(row, setID(e.rule))
		if r.decidesAll(e.rule) {
			break // what follows never decides
		}
	}
	if len(row) == 1 {
		return r.alone(row)
	}
	before := r.lists.len()
	n := int(r.lists.number(row))
	if n == before {
		value, err := r.cut(row)
		if err != nil {
			return 0, err
		}
		r.values = append(r.values, value)
	}
	return r.values[n], nil
}

func (r *ruleCells) alone(row []setID) (uint32, error) {
	if r.single[row[0]] != 0 {
		return r.single[row[0]], nil
	}
	value, err := r.cut(row)
	r.single[row[0]] = value
	return value, err
}

func (r *ruleCells) decidesAll(rule uint32) bool {
	asked := &r.p.asked[rule]
	return !asked.logOnly && len(asked.services) == 1 && asked.services[0] == everyService
}

func (r *ruleCells) cut(row []setID) (uint32, error) {
	var pieces []piece
	for _, order := range row {
		for _, b := range r.p.asked[order].services {
			pieces = append(pieces, piece{b, uint32(order), r.p.asked[order].logOnly})
		}
	}
	intervals, err := cutServices(pieces)
	if err != nil {
		return 0, fmt.Errorf("rule %s and those like it: %w", r.p.rules[row[0]].name(), err)
	}
	return r.tree(intervals), nil
}

func (r *ruleCells) tree(intervals []interval) uint32 {
	keys, values := make([]uint32, len(intervals)), make([]uint32, len(intervals))
	for i, in := range intervals {
		keys[i] = in.first
		if in.sources != nil {
			values[i] = r.tree(in.sources)
		} else {
			values[i] = r.decision(in.says)
		}
	}
	return r.w.tree(keys, values)
}

// decision is 0 where no rule matches, the rule's order + 1 where one decides, and with
// pairBit the number of a pair where there is one on trial too.
func (r *ruleCells) decision(d decision) uint32 {
	switch {
	case d.rule == none && d.logOnly == none:
		return 0
	case d.logOnly == none:
		return d.rule + 1
	}
	n, known := r.pairs[d]
	if !known {
		n = uint32(len(r.list))
		r.pairs[d] = n
		r.list = append(r.list, d)
	}
	return n | pairBit
}
