package experiments

import (
	"slices"
	"time"

	"github.com/selvage/selvage/lab/stats"
)

// climb is one sample of the egress experiment.
type climb struct {
	step
	rung stats.Rung
	what string // of --measure
}

// String names the sample in a progress line.
func (s climb) String() string {
	return s.step.String() + map[string]string{"tcp": ", TCP", "rr": ", TCP_RR", "conn": ", connections"}[s.what]
}

// plan lists the samples in the order in which they are taken: in each round one case after
// the other from the bottom of the ladder, and of each case all contenders in the round's
// balanced order.
func (c *Egress) plan() []climb {
	var steps []climb
	for i, order := range stats.Balanced(c.Contenders, c.Rounds) {
		for _, kind := range c.kinds() {
			for _, contender := range order {
				if c.climbs(contender, kind) {
					kind.round, kind.contender = i+1, contender
					steps = append(steps, kind)
				}
			}
		}
	}
	return steps
}

// kinds are the samples without round and contender: throughput with the wires' rate, then
// all without. What does not fill a wire is measured without one, and has the rung's plain name.
// Connections from node to node are what the end systems can do by themselves.
func (c *Egress) kinds() []climb {
	var kinds []climb
	add := func(rung stats.Rung, kase, what string, planned time.Duration) {
		kinds = append(kinds, climb{step{kase: kase, planned: planned}, rung, what})
	}
	rungs := slices.DeleteFunc(stats.Ladder(), func(name string) bool { return !slices.Contains(c.Rungs, name) })
	for _, free := range c.settings() {
		for _, way := range c.Directions {
			for _, name := range rungs {
				rung := stats.Rung{Name: name, Free: free, Reverse: way == "receive"}
				if slices.Contains(c.Measure, "tcp") {
					add(rung, rung.Case(), "tcp", c.Duration)
				}
			}
		}
	}
	for _, what := range []string{"rr", "conn"} {
		for _, name := range rungs {
			if slices.Contains(c.Measure, what) && (what == "rr" || name != stats.RungTunnel) {
				add(stats.Rung{Name: name, Free: true}, name, what, c.Sample)
			}
		}
	}
	return kinds
}

// settings says of each setting whether its wires have no rate.
func (c *Egress) settings() []bool {
	var free []bool
	if c.Wire > 0 {
		free = append(free, false)
	}
	if c.Free || c.Wire == 0 {
		free = append(free, true)
	}
	return free
}

// climbs says whether a contender has a rung. Without a tunnel there is neither its rung nor
// translation; a tunnel without its checksum offload differs in its own rungs' throughput alone.
func (c *Egress) climbs(contender string, s climb) bool {
	switch {
	case contender == stats.Routing:
		return s.rung.Name == stats.RungNode || s.rung.Name == stats.RungRouted
	case stats.EgressBase(contender) != contender:
		return s.what == "tcp" && (s.rung.Name == stats.RungTunnel || s.rung.Name == stats.RungEgress)
	}
	return true
}

// egressPace guesses the time that a sample takes besides measuring.
func egressPace() *pace { return &pace{first: 600 * time.Millisecond} }

// climbSteps are climbs as far as the estimate of time needs them.
func climbSteps(all []climb) []step {
	list := make([]step, len(all))
	for i, s := range all {
		list[i] = s.step
	}
	return list
}
