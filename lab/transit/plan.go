package transit

import (
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/stats"
)

// Step is one sample of an experiment on transit.
type Step struct {
	experiment.Step
	Direction string
	Stream    gen.Stream
	Size      float64 // bytes of a frame with FCS, on average
	Routes    int     // behind the data path
}

// Plan lists samples: in each round all kinds, and of each all targets in balanced order.
func Plan(targets []string, rounds int, kinds []Step) []Step {
	var steps []Step
	for i, order := range stats.Balanced(targets, rounds) {
		for _, kind := range kinds {
			for _, target := range order {
				// Nothing loops frames back that came without a tunnel.
				if target == RouteName && kind.Direction == Both {
					continue
				}
				kind.Round, kind.Target = i+1, target
				steps = append(steps, kind)
			}
		}
	}
	return steps
}
