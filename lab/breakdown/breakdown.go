// Package breakdown tells where the time of a round trip goes. It puts together what
// client and server wrote down and what the data paths between them stamped.
//
// Its one invariant: the steps of a transaction make up its whole time, each beginning
// where the one before ends. A transaction that cannot be followed so, or went another
// way than most, is left out and counted. What stamps cost is in the steps; to take it
// out is lab/stats's. Do not use it with more than one transaction outstanding.
package breakdown

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/lab/measure"
)

// Leg is one run of a data path's program on a transaction's way.
type Leg struct {
	Host  string // a name of Put's stamps
	Entry datapath.Point
}

// Plan is the way that transactions take.
type Plan struct {
	Legs []Leg
	// Served is the number of legs until the server.
	Served int
	// Needed is the number of legs until the client has its answer. What comes after them
	// may be within its call, or not.
	Needed int
}

// Whose stamps there are: of the hosts' edges, and of the guests' stacks, without which
// those are one step.
const (
	HostA     = "host A"
	HostB     = "host B"
	AllGuests = "guests"
)

// TwoHosts is the way of requests and answers through a tunnel between A and B; connect
// that of the opening of a connection: SYN, SYN with ACK, and the client's ACK.
func TwoHosts(connect bool) Plan {
	there := []Leg{{HostA, datapath.PointPort}, {HostB, datapath.PointUnderlay}}
	back := []Leg{{HostB, datapath.PointPort}, {HostA, datapath.PointUnderlay}}
	return newPlan(there, back, connect)
}

// SameHost is the way between two ports of A.
func SameHost(connect bool) Plan {
	one := []Leg{{HostA, datapath.PointPort}}
	return newPlan(one, one, connect)
}

func newPlan(there, back []Leg, connect bool) Plan {
	p := Plan{Legs: slices.Concat(there, back), Served: len(there), Needed: len(there) + len(back)}
	if connect {
		p.Legs = slices.Concat(p.Legs, there)
	}
	return p
}

// Step is a part of the way.
type Step struct {
	Part  string // stats.StackPart and so on
	Place string
	// Times are those of the transactions that were followed, in their order.
	Times []time.Duration
	// Stamps is how many stamps' cost is within.
	Stamps int
}

// Breakdown is where the time went.
type Breakdown struct {
	Steps []Step
	RTT   []time.Duration // of the same transactions
	// LeftOut could not be followed or went another way than most.
	LeftOut int
}

// leastShare of the transactions has to be followed for steps to stand for all.
const leastShare = 0.5

// Put follows the transactions through the stamps of each host.
func (p Plan) Put(transactions []measure.Transaction, stamps map[string][]datapath.Stamp) (*Breakdown, error) {
	runs, moments := p.runs(stamps), inOrder(stamps[AllGuests])
	ways := make([]*way, 0, len(transactions))
	next := 0
	for _, t := range transactions {
		for next < len(runs) && runs[next].begin() < t.Sent {
			next++
		}
		end := next
		for end < len(runs) && runs[end].begin() <= t.Received {
			end++
		}
		if w := p.follow(t, runs[next:end], within(moments, t.Sent, t.Received)); w != nil {
			ways = append(ways, w)
		}
		next = end
	}
	usual := usualShape(ways)
	b := &Breakdown{}
	for _, w := range ways {
		if w.shape == usual {
			b.add(w)
		}
	}
	b.LeftOut = len(transactions) - len(b.RTT)
	if float64(len(b.RTT)) < leastShare*float64(len(transactions)) || len(b.RTT) == 0 {
		return nil, fmt.Errorf("only %[2]d of %[1]d transactions could be followed through the stamps: other traffic uses these edges, or packets are lost",
			len(transactions), len(b.RTT))
	}
	return b, nil
}

// run is what one program did with one packet.
type run struct {
	host   string
	stamps []datapath.Stamp
}

func (r run) begin() time.Duration { return r.stamps[0].At }

// runs are those of packets that went on, in the order of their beginnings.
func (p Plan) runs(stamps map[string][]datapath.Stamp) []run {
	var runs []run
	for host, all := range stamps {
		if host == AllGuests {
			continue
		}
		begin := 0
		for i, s := range all {
			switch s.Point {
			case datapath.PointPort, datapath.PointUnderlay:
				begin = i
			case datapath.PointSent:
				runs = append(runs, run{host, all[begin : i+1]})
			}
		}
	}
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.begin(), b.begin()) })
	return runs
}

// inOrder are stamps of all cores by their times.
func inOrder(stamps []datapath.Stamp) []datapath.Stamp {
	sorted := slices.Clone(stamps)
	slices.SortFunc(sorted, func(a, b datapath.Stamp) int { return cmp.Compare(a.At, b.At) })
	return sorted
}

// within are those of stamps in order from a time on and before another.
func within(stamps []datapath.Stamp, from, to time.Duration) []datapath.Stamp {
	index := func(at time.Duration) int {
		i, _ := slices.BinarySearchFunc(stamps, at, func(s datapath.Stamp, at time.Duration) int { return cmp.Compare(s.At, at) })
		return i
	}
	return stamps[index(from):max(index(from), index(to))]
}

// way is one transaction's steps.
type way struct {
	moments []datapath.Stamp // of the guests, meanwhile
	steps   []Step           // each with one time
	rtt     time.Duration
	shape   string
	at      time.Duration // where the steps end so far
	good    bool
}

// step goes on until the time to. stamps counts those whose cost is within.
func (w *way) step(part, place string, to time.Duration, stamps int) {
	w.good = w.good && to >= w.at
	stamps += len(within(w.moments, w.at+1, to)) // a step may begin with one of those
	w.steps = append(w.steps, Step{Part: part, Place: place, Times: []time.Duration{to - w.at}, Stamps: stamps})
	w.shape += fmt.Sprintf("%s@%s/%d ", part, place, stamps)
	w.at = to
}

// send is a guest's way to its port, whose program begins at to.
func (w *way) send(place string, to time.Duration, stamps int) {
	for _, m := range slices.Backward(within(w.moments, w.at, to)) {
		if m.Point == pointLeaves {
			w.step(StackPart, place, m.At, stamps)
			w.step(PortPart, place, to, 1)
			return
		}
	}
	w.step(StackPart, place, to, stamps)
}

// receive is a packet's way from the data path to the end of a guest's system call.
func (w *way) receive(place string, to time.Duration) {
	for _, m := range within(w.moments, w.at, to) {
		if m.Point == pointReady {
			w.step(StackPart, place, m.At, 1)
			w.step(WakePart, place, to, 1)
			return
		}
	}
	w.step(StackPart, place, to, 1)
}

// follow returns the steps of a transaction during which there were these runs and moments
// of guests, or nil.
func (p Plan) follow(t measure.Transaction, runs []run, moments []datapath.Stamp) *way {
	if len(runs) != p.Needed && len(runs) != len(p.Legs) {
		return nil
	}
	w := &way{rtt: t.RTT(), at: t.Sent, good: true, moments: moments}
	for i, r := range runs {
		if r.host != p.Legs[i].Host || r.stamps[0].Point != p.Legs[i].Entry {
			return nil
		}
		p.reach(w, t, i, r.begin())
		w.pass(r, p.isLocal(i))
	}
	place := ClientPlace
	if len(runs) > p.Needed { // the server has the client's ACK, which wakes it up
		place = BothPlace
	}
	w.receive(place, t.Received)
	if !w.good {
		return nil
	}
	return w
}

// reach makes the steps up to the beginning of a leg.
func (p Plan) reach(w *way, t measure.Transaction, leg int, begin time.Duration) {
	switch {
	case leg == 0:
		w.send(ClientPlace, begin, 0)
	case leg == p.Needed:
		w.send(ClientPlace, begin, 1)
	case leg != p.Served:
		w.step(UnderlayPart, UnderlayPlace, begin, 1)
	case t.ServerReceived == 0:
		w.send(ServerPlace, begin, 1)
	default:
		w.receive(ServerPlace, t.ServerReceived)
		w.step(ProgramPart, ServerPlace, t.ServerSent, 0)
		w.send(ServerPlace, begin, 0)
	}
}

// isLocal says whether a leg goes from a port to a port.
func (p Plan) isLocal(leg int) bool {
	next := leg + 1
	return p.Legs[leg].Entry == datapath.PointPort && (next == p.Served || next == p.Needed || next == len(p.Legs))
}

// pass makes the steps of a program's run.
func (w *way) pass(r run, local bool) {
	for _, s := range r.stamps[1:] {
		w.step(partOf(s.Point, r.stamps[0].Point, local), r.host, s.At, 1)
	}
}

// partOf names what ends at a point.
func partOf(p, entry datapath.Point, local bool) string {
	switch p {
	case datapath.PointParsed:
		return ParsePart
	case datapath.PointCached:
		return CachePart
	case datapath.PointSwitched:
		return DecidePart
	case datapath.PointPoliced:
		return FirewallPart
	case datapath.PointDecided:
		return KeepPart
	}
	switch {
	case entry == datapath.PointUnderlay:
		return DecapPart
	case local:
		return DeliverPart
	}
	return EncapPart
}

// usualShape is that of the most ways.
func usualShape(ways []*way) string {
	counts := map[string]int{}
	usual := ""
	for _, w := range ways {
		counts[w.shape]++
		if n := counts[w.shape]; n > counts[usual] || n == counts[usual] && w.shape < usual {
			usual = w.shape
		}
	}
	return usual
}

func (b *Breakdown) add(w *way) {
	if b.Steps == nil {
		b.Steps = make([]Step, len(w.steps))
		for i, s := range w.steps {
			b.Steps[i] = Step{Part: s.Part, Place: s.Place, Stamps: s.Stamps}
		}
	}
	for i, s := range w.steps {
		b.Steps[i].Times = append(b.Steps[i].Times, s.Times...)
	}
	b.RTT = append(b.RTT, w.rtt)
}
