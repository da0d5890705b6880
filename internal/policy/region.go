package policy

import (
	"container/heap"
	"fmt"
	"math"
	"slices"
)

// decision is what the rules of one combination say about a packet: the order of the
// first that decides, and of the first on trial. none is behind all.
type decision struct{ rule, logOnly uint32 }

const none = math.MaxUint32

// interval is where a decision begins that holds up to the next one's beginning. Where
// source ports tell packets apart it has intervals of them instead.
type interval struct {
	first   uint32
	says    decision
	sources []interval
}

// piece is a box of one rule, on the line that is being cut into intervals.
type piece struct {
	box
	order   uint32
	logOnly bool
}

// maxCuts is how many pieces may be looked at to cut one line: services of many ranges of
// destination and of source ports, all across each other, would take for ever.
const maxCuts = 8 << 20

// cutServices cuts the pieces of a combination, which are sorted by order, into intervals.
func cutServices(pieces []piece) ([]interval, error) {
	plain, special := make([]piece, 0, len(pieces)), []piece(nil)
	for _, p := range pieces {
		if p.anySource() {
			plain = append(plain, p)
		} else {
			special = append(special, p)
		}
	}
	out := cutLine(plain, decision{none, none})
	if len(special) == 0 {
		return out, nil
	}
	return withSources(out, special)
}

// withSources cuts the intervals further where the pieces are, which ask for source ports.
func withSources(plain []interval, special []piece) ([]interval, error) {
	points := make([]uint32, 0, len(plain)+2*len(special))
	for _, i := range plain {
		points = append(points, i.first)
	}
	for _, p := range special {
		points = append(points, p.first)
		if p.last != lastService {
			points = append(points, p.last+1)
		}
	}
	slices.Sort(points)
	byFirst := sortedByFirst(special)
	var out []interval
	var active []piece
	at, cuts := 0, 0
	for _, point := range slices.Compact(points) {
		for at+1 < len(plain) && plain[at+1].first <= point {
			at++
		}
		active = slices.DeleteFunc(active, func(p piece) bool { return p.last < point })
		for len(byFirst) > 0 && byFirst[0].first == point {
			active, byFirst = append(active, byFirst[0]), byFirst[1:]
		}
		if cuts += len(active); cuts > maxCuts {
			return nil, fmt.Errorf("the rules for one source and destination ask for too many combinations of source and destination ports; write fewer ranges of source ports")
		}
		i := interval{first: point, says: plain[at].says}
		if sources := cutLine(bySource(active), i.says); len(sources) > 1 || sources[0].says != i.says {
			i.sources = sources
		}
		out = appendInterval(out, i)
	}
	return out, nil
}

// bySource turns pieces towards their source ports.
func bySource(pieces []piece) []piece {
	out := slices.Clone(pieces)
	for i, p := range out {
		out[i].box = box{first: p.sourceFirst, last: p.sourceLast}
	}
	return out
}

func sortedByFirst(pieces []piece) []piece {
	out := slices.Clone(pieces)
	slices.SortStableFunc(out, func(a, b piece) int { return int(a.first) - int(b.first) })
	return out
}

// cutLine cuts pieces by their first and last keys; where there is none it says base, and
// nothing that comes after base.
func cutLine(pieces []piece, base decision) []interval {
	points := make([]uint32, 1, 1+2*len(pieces))
	for _, p := range pieces {
		points = append(points, p.first)
		if p.last != math.MaxUint32 {
			points = append(points, p.last+1)
		}
	}
	slices.Sort(points)
	byFirst := sortedByFirst(pieces)
	var out []interval
	var deciding, onTrial queue
	for _, point := range slices.Compact(points) {
		for len(byFirst) > 0 && byFirst[0].first == point {
			if byFirst[0].logOnly {
				heap.Push(&onTrial, byFirst[0])
			} else {
				heap.Push(&deciding, byFirst[0])
			}
			byFirst = byFirst[1:]
		}
		says := decision{min(base.rule, deciding.top(point)), min(base.logOnly, onTrial.top(point))}
		if says.logOnly > says.rule {
			says.logOnly = none
		}
		out = appendInterval(out, interval{first: point, says: says})
	}
	return out
}

func appendInterval(out []interval, i interval) []interval {
	if n := len(out); n > 0 && out[n-1].says == i.says && out[n-1].sources == nil && i.sources == nil {
		return out
	}
	return append(out, i)
}

// queue has the piece of the first rule on top.
type queue []piece

// top is the order of the first rule whose piece reaches the key.
func (q *queue) top(key uint32) uint32 {
	for len(*q) > 0 && (*q)[0].last < key {
		heap.Pop(q)
	}
	if len(*q) == 0 {
		return none
	}
	return (*q)[0].order
}

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].order < q[j].order }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(piece)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
