package egress

import (
	"slices"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/stats"
)

// climb is one sample of the egress experiment.
type climb struct {
	experiment.Step
	stage Stage
	what  string // of --measure
}

// String names the sample in a progress line.
func (s climb) String() string {
	return s.Step.String() + map[string]string{"tcp": ", TCP", "rr": ", TCP_RR", "conn": ", connections"}[s.what]
}

// plan lists the samples in the order in which they are taken: in each round one case after
// the other from the bottom of the stages, and of each case all targets in the round's
// balanced order.
func (c *Command) plan() []climb {
	var steps []climb
	for i, order := range stats.Balanced(c.Targets, c.Rounds) {
		for _, kind := range c.kinds() {
			for _, target := range order {
				if c.climbs(target, kind) {
					kind.Round, kind.Target = i+1, target
					steps = append(steps, kind)
				}
			}
		}
	}
	return steps
}

// kinds are the samples without round and target: throughput with the wires' rate, then
// all without. What does not fill a wire is measured without one, and has the stage's plain name.
// Connections from node to node are what the end systems can do by themselves.
func (c *Command) kinds() []climb {
	var kinds []climb
	add := func(stage Stage, caseName, what string, planned time.Duration) {
		kinds = append(kinds, climb{experiment.Step{CaseName: caseName, Planned: planned}, stage, what})
	}
	stages := slices.DeleteFunc(Stages(), func(name string) bool { return !slices.Contains(c.Stages, name) })
	for _, free := range c.settings() {
		for _, way := range c.Directions {
			for _, name := range stages {
				stage := Stage{Name: name, Free: free, Reverse: way == "receive"}
				if slices.Contains(c.Measure, "tcp") {
					add(stage, stage.Case(), "tcp", c.Duration)
				}
			}
		}
	}
	for _, what := range []string{"rr", "conn"} {
		for _, name := range stages {
			if slices.Contains(c.Measure, what) && (what == "rr" || name != StageTunnel) {
				add(Stage{Name: name, Free: true}, name, what, c.Sample)
			}
		}
	}
	return kinds
}

// settings says of each setting whether its wires have no rate.
func (c *Command) settings() []bool {
	var free []bool
	if c.Wire > 0 {
		free = append(free, false)
	}
	if c.Free || c.Wire == 0 {
		free = append(free, true)
	}
	return free
}

// climbs says whether a target has a stage. Without a tunnel there is neither its stage nor
// translation; a tunnel without its checksum offload differs in its own stages' throughput alone.
func (c *Command) climbs(target string, s climb) bool {
	switch {
	case target == Routing:
		return s.stage.Name == StageNode || s.stage.Name == StageRouted
	case baseOf(target) != target:
		return s.what == "tcp" && (s.stage.Name == StageTunnel || s.stage.Name == StageEgress)
	}
	return true
}

// egressPace guesses the time that a sample takes besides measuring.
func egressPace() *experiment.Pace { return &experiment.Pace{First: 600 * time.Millisecond} }
