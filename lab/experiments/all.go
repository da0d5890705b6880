package experiments

import (
	"fmt"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/ab"
	"github.com/selvage/selvage/lab/experiment/ab/paths"
	"github.com/selvage/selvage/lab/experiment/attack"
	"github.com/selvage/selvage/lab/experiment/cache"
	"github.com/selvage/selvage/lab/experiment/converge"
	"github.com/selvage/selvage/lab/experiment/egress"
	egressplaces "github.com/selvage/selvage/lab/experiment/egress/places"
	"github.com/selvage/selvage/lab/experiment/failover"
	"github.com/selvage/selvage/lab/experiment/latency"
	latencyplaces "github.com/selvage/selvage/lab/experiment/latency/places"
	"github.com/selvage/selvage/lab/experiment/mtu"
	mtuplaces "github.com/selvage/selvage/lab/experiment/mtu/places"
	"github.com/selvage/selvage/lab/experiment/offload"
	offloadplaces "github.com/selvage/selvage/lab/experiment/offload/places"
	"github.com/selvage/selvage/lab/experiment/rfc2544"
	rfc2544ports "github.com/selvage/selvage/lab/experiment/rfc2544/ports"
	"github.com/selvage/selvage/lab/experiment/why"
	"github.com/selvage/selvage/lab/result"
)

// All are the experiments, in the order of the commands. Adding one adds its folder below
// lab/experiment, and a line here.
func All() []experiment.Experiment {
	return []experiment.Experiment{
		ab.Experiment(),
		paths.Experiment(),
		mtu.Experiment(),
		mtuplaces.Experiment(),
		rfc2544.Experiment(),
		rfc2544ports.Experiment(),
		latency.Experiment(),
		latencyplaces.Experiment(),
		offload.Experiment(),
		offloadplaces.Experiment(),
		failover.Experiment(),
		converge.Experiment(),
		egress.Experiment(),
		egressplaces.Experiment(),
		attack.Experiment(),
		cache.Experiment(),
		why.Experiment(),
	}
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
