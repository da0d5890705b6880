package offload

import (
	"slices"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/stats"
)

// streamStep is one sample of the offload experiment.
type streamStep struct {
	experiment.Step
	stream Stream
}

// plan lists the samples in the order in which they are taken: in each round, for one size
// after the other, all states, and in each state all targets, both in balanced order. So
// the targets of a state are neighbours in time, and the states of a size close.
func (c *Command) plan(takes func(target string, e overlay.Encapsulation) bool) []streamStep {
	var steps []streamStep
	targets := stats.Balanced(c.Targets, c.Rounds)
	for i, states := range stats.Balanced(c.States, c.Rounds) {
		for _, s := range c.streams() {
			for k, state := range states {
				s.State = state
				names := targets[i]
				if k%2 == 1 { // else one target would always be the first after a change
					names = slices.Clone(names)
					slices.Reverse(names)
				}
				for _, name := range names {
					if takes(name, overlay.Encapsulation(s.Encapsulation)) {
						steps = append(steps, streamStep{experiment.Step{Round: i + 1, CaseName: s.Case(), Target: name, Planned: c.Duration}, s})
					}
				}
			}
		}
	}
	return steps
}

// streams are the cases without their states.
func (c *Command) streams() []Stream {
	var all []Stream
	for _, e := range c.Encap {
		for _, way := range c.Ways {
			for _, size := range c.Sizes {
				all = append(all, Stream{Encapsulation: string(e), Size: 1024 * size, BothWays: way == bothWays})
			}
		}
	}
	return all
}

// offloadPace guesses what a sample takes besides measuring: changes of the offloads, a rest,
// the processes of all pairs.
func offloadPace() *experiment.Pace { return &experiment.Pace{First: 800 * time.Millisecond} }
