package experiments

import (
	"slices"
	"time"

	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/stats"
)

// transitStep is one sample of an experiment on transit.
type transitStep struct {
	step
	direction string
	stream    gen.Stream
	size      float64 // bytes of a frame with FCS, on average
	routes    int     // behind the data path
}

// kinds are the cases without round and target: direction by direction, the flow
// sweep after them.
func (c *Rfc2544) kinds() []transitStep {
	var kinds []transitStep
	add := func(t stats.Traffic) {
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
		kinds = append(kinds, transitStep{
			step: step{caseName: t.Case(), planned: c.planned()}, direction: t.Direction, stream: s, size: size,
		})
	}
	sizes := slices.Clone(c.Sizes)
	if c.Imix {
		sizes = append(sizes, 0)
	}
	for _, direction := range c.Directions {
		for _, size := range sizes {
			add(stats.Traffic{Direction: direction, Size: size})
		}
	}
	for _, flows := range c.FlowSweep {
		add(stats.Traffic{Direction: stats.Encap, Size: c.Sizes[0], Flows: flows})
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
func (c *Rfc2544) plan() []transitStep {
	return planTransit(c.Targets, c.Rounds, c.kinds())
}

func planTransit(targets []string, rounds int, kinds []transitStep) []transitStep {
	var steps []transitStep
	for i, order := range stats.Balanced(targets, rounds) {
		for _, kind := range kinds {
			for _, target := range order {
				// Nothing loops frames back that came without a tunnel.
				if target == routeName && kind.direction == stats.Both {
					continue
				}
				kind.round, kind.target = i+1, target
				steps = append(steps, kind)
			}
		}
	}
	return steps
}

// planned is about how long a sample's trials are: a search that ends at its first
// rate, as on one core it mostly does, and latency.
func (c *Rfc2544) planned() time.Duration {
	const initial, final = 2, 2
	trials := initial + final + 4*c.LatencyTrials
	if c.LossCurve {
		trials += 3
	}
	return initial*c.InitialDuration + final*c.Duration + time.Duration(4*c.LatencyTrials)*c.latencyDuration() + time.Duration(trials)*c.Settle
}

// latencyDuration is the time of a latency trial. RFC 2544 section 26.2 has 120 seconds and
// one marked frame; here each frame is timed.
func (c *Rfc2544) latencyDuration() time.Duration {
	if c.Quick {
		return c.InitialDuration
	}
	return c.Duration
}
