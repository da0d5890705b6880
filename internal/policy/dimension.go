package policy

import (
	"fmt"
	"slices"
)

// dimension is one of the three things that a rule asks for besides its services: source,
// destination, and scope. A packet is found to be in some sets of each axis, a list; a
// rule is entered for each combination of its sets. So that lists stay short, the sets
// that are too many for one, those of the fewest rules, are merged into one more set,
// which has the rules of all of them.
type dimension struct {
	name   string
	rules  []int     // by set: how many name it
	rank   []int     // by set: position in lists before they are merged, most rules first
	alone  []bool    // by set: some list has it as itself
	within [][]setID // by set: what it is merged into
	next   setID     // the next merged set's
	merged table
	lists  table
	work   int
}

// What a compilation may cost. They bound memory and time, not the look-up.
const (
	maxWork    = 8 << 20 // members of lists looked at
	maxEntries = 4 << 20 // of rules, for combinations of sets
	maxSets    = 1 << 20 // of one axis, by the key of combinations
)

// A packet's list on one side is made of up to four: by address, MAC, segment and place.
const (
	otherLimit = 4  // sets of those that are not by address
	scopeLimit = 6  // and of scopes
	wideLimit  = 20 // of those by address, where that saves merged sets: 3*4+20 = MAX_SETS
	slimLimit  = 8  // of those by address otherwise
)

func newDimension(name string, sets int, uses func(yield func(setID) bool)) *dimension {
	a := &dimension{name: name, rules: make([]int, sets), rank: make([]int, sets), alone: make([]bool, sets),
		within: make([][]setID, sets), next: setID(sets)}
	for s := range uses {
		a.rules[s]++
	}
	order := make([]setID, sets)
	for i := range order {
		order[i] = setID(i)
	}
	slices.SortStableFunc(order, func(x, y setID) int { return a.rules[y] - a.rules[x] })
	for i, s := range order {
		a.rank[s] = i
	}
	a.lists.number(nil) // list 0 is the empty one
	return a
}

// used reports whether a rule names the set.
func (a *dimension) used(s setID) bool { return a.rules[s] > 0 }

func (a *dimension) byRank(x, y setID) int { return a.rank[x] - a.rank[y] }

// list is the number of the list of these sets, which are sorted by rank.
func (a *dimension) list(sets []setID, limit int) (uint32, error) {
	a.work += len(sets) + 1
	if a.work > maxWork {
		return 0, &tooLarge{fmt.Sprintf("the %ss overlap in too many ways", a.name)}
	}
	if len(sets) <= limit {
		for _, s := range sets {
			a.alone[s] = true
		}
		return a.lists.number(sets), nil
	}
	kept, rest := sets[:limit-1], sets[limit-1:]
	for _, s := range kept {
		a.alone[s] = true
	}
	before := a.merged.len()
	n := a.merged.number(rest)
	own := a.next + setID(n)
	if int(n) == before {
		for _, s := range rest {
			a.within[s] = append(a.within[s], own)
		}
	}
	return a.lists.number(append(slices.Clone(kept), own)), nil
}

// entered are the sets under which a rule that names these is entered.
func (a *dimension) entered(named []setID, into []setID) []setID {
	into = into[:0]
	for _, s := range named {
		if a.alone[s] {
			into = append(into, s)
		}
		into = append(into, a.within[s]...)
	}
	if len(into) > 1 {
		slices.Sort(into)
		into = slices.Compact(into)
	}
	return into
}

// sets is how many there are, with the merged ones.
func (a *dimension) sets() int { return int(a.next) + a.merged.len() }

// forget lets go of what only compiling needs.
func (a *dimension) forget() {
	a.rules, a.rank, a.alone, a.within = nil, nil, nil, nil
	a.merged, a.lists.index, a.lists.next = table{}, nil, nil
}

// tooLarge is an error of a compilation that may do better with other limits.
type tooLarge struct{ what string }

func (e *tooLarge) Error() string {
	return e.what + "; use fewer, larger groups, or prefixes in the place of ranges"
}

// table numbers rows, equal ones alike.
type table struct {
	data   []setID // of all rows
	vports []uint32
	index  map[uint64]uint32 // number + 1 of the last row with a hash
	next   []uint32          // by row: number + 1 of another one with its hash
}

func (t *table) len() int { return len(t.vports) }

func (t *table) row(n uint32) []setID {
	start := uint32(0)
	if n > 0 {
		start = t.vports[n-1]
	}
	return t.data[start:t.vports[n]:t.vports[n]]
}

// number is that of the row, of which the table keeps a copy.
func (t *table) number(row []setID) uint32 {
	h := uint64(len(row))
	for _, x := range row {
		h = mix(h, uint64(x))
	}
	for n := t.index[h]; n != 0; n = t.next[n-1] {
		if slices.Equal(t.row(n-1), row) {
			return n - 1
		}
	}
	if t.index == nil {
		t.index = map[uint64]uint32{}
	}
	n := uint32(len(t.vports))
	t.data = append(t.data, row...)
	t.vports = append(t.vports, uint32(len(t.data)))
	t.next = append(t.next, t.index[h])
	t.index[h] = n + 1
	return n
}
