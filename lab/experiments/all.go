package experiments

import (
	"fmt"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/report"
	"github.com/selvage/selvage/lab/result"
)

// All are the experiments, in the order of the commands. Adding one adds its folder below
// lab/experiment, and a line here.
func All() []experiment.Experiment {
	return []experiment.Experiment{
		with(report.ABExperiment(), new(abCommands)),
		with(report.MTUExperiment(), new(mtuCommands)),
		with(report.RFC2544Experiment(), new(rfc2544Commands)),
		with(report.LatencyExperiment(), new(latencyCommands)),
		with(report.OffloadExperiment(), new(offloadCommands)),
		with(report.FailoverExperiment(), new(failoverCommands)),
		with(report.ConvergeExperiment(), new(convergeCommands)),
		with(report.EgressExperiment(), new(egressCommands)),
		with(report.AttackExperiment(), new(attackCommands)),
		with(report.CacheExperiment(), new(cacheCommands)),
	}
}

func with(e experiment.Experiment, commands any) experiment.Experiment {
	e.Command = func() any { return commands }
	return e
}

// madeBy is the experiment that made r.
func madeBy(r result.Result) (experiment.Experiment, error) {
	for _, e := range All() {
		if e.Name == r.Experiment {
			return e, nil
		}
	}
	return experiment.Experiment{}, fmt.Errorf("the result is of experiment %q, which this version does not have", r.Experiment)
}
