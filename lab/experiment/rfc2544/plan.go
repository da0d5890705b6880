package rfc2544

import (
	"slices"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/transit"
)

// kinds are the cases without round and target: direction by direction, the flow
// sweep after them.
func (c *Command) kinds() []transit.Step {
	var kinds []transit.Step
	add := func(t Traffic) {
		flows := t.Flows
		if flows == 0 {
			flows = c.Flows
		}
		s := gen.Stream{Frame: t.Size, Flows: flows, Family: c.Family}
		size := float64(t.Size)
		if t.Size == 0 {
			s.IMIX, size = imix(), mean(imix())
		}
		t.Pairs = c.Scenario
		kinds = append(kinds, transit.Step{
			Step: experiment.Step{CaseName: t.Case(), Planned: c.planned()}, Direction: t.Direction, Stream: s, Size: size,
		})
	}
	sizes := slices.Clone(c.Sizes)
	if c.Imix {
		sizes = append(sizes, 0)
	}
	for _, direction := range c.Directions {
		for _, size := range sizes {
			add(Traffic{Direction: direction, Size: size})
		}
	}
	for _, flows := range c.FlowSweep {
		add(Traffic{Direction: transit.Encap, Size: c.Sizes[0], Flows: flows})
	}
	return kinds
}

// mean is the size of a mix's average frame.
func mean(mix []gen.Share) float64 {
	bytes, weights := 0, 0
	for _, s := range mix {
		bytes, weights = bytes+s.Frame*s.Weight, weights+s.Weight
	}
	return float64(bytes) / float64(weights)
}

// plan lists the samples: one case after the other in each round, and for each case
// all targets in the round's balanced order.
func (c *Command) plan() []transit.Step {
	return transit.Plan(c.Targets, c.Rounds, c.kinds())
}

// planned is about how long a sample's trials are: a search that ends at its first
// rate, as on one core it mostly does, and latency.
func (c *Command) planned() time.Duration {
	const initial, final = 2, 2
	trials := initial + final + 4*c.LatencyTrials
	if c.LossCurve {
		trials += 3
	}
	return initial*c.InitialDuration + final*c.Duration + time.Duration(4*c.LatencyTrials)*c.latencyDuration() + time.Duration(trials)*c.Settle
}

// latencyDuration is the time of a latency trial. RFC 2544 section 26.2 has 120 seconds and
// one marked frame; here each frame is timed.
func (c *Command) latencyDuration() time.Duration {
	if c.Quick {
		return c.InitialDuration
	}
	return c.Duration
}
