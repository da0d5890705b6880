package failover

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
)

// Run measures, writes result and report and prints the summary. When ctx ends it
// keeps the kills that it has. It fails when one could not be measured.
func (c *Command) Run(ctx context.Context, console *experiment.Console) error {
	return experiment.Run(ctx, console, Experiment(), c.Destination, c.measure)
}

const (
	// killExtra is about what a kill takes besides watching: flows that begin and end, and
	// edges that come back.
	killExtra = 5 * time.Second
	// killsPerNetwork is after how many kills the network is built anew: edges hold back a
	// path that failed, for twice as long each time, so that after many the next kill would
	// wait for minutes.
	killsPerNetwork = 3
)

// measure builds the network and kills in it, and removes it again.
func (c *Command) measure(ctx context.Context, console *experiment.Console, began time.Time) (r result.Result, err error) {
	plan, pace := c.plan(), &experiment.Pace{First: killExtra}
	guess := pace.Left(stepsOf(plan))
	p := experiment.NewProgress(console.Err, len(plan))
	defer p.Close()
	p.Note("%s: %d kills, about %s", c.What, len(plan), experiment.About(guess))
	p.Begin("building the network", guess)
	r = c.describe(console, began)
	network := new(testbed)
	if err = c.prepare(ctx, network, &r, console.Version); err == nil {
		err = c.killAll(ctx, network, plan, &r, p)
	}
	r.Duration = time.Since(began).Seconds()
	return r, experiment.RemoveAll(ctx, err, network.close, p)
}

func stepsOf(plan []killStep) []experiment.Step {
	steps := make([]experiment.Step, len(plan))
	for i, s := range plan {
		steps[i] = s.Step
	}
	return steps
}

// testbed is the network of a run.
type testbed struct {
	*topo.Failover
	lab   *topo.Lab
	kills int // in it
}

func (b *testbed) close() error {
	if b.lab == nil {
		return nil
	}
	return b.lab.Close()
}

// soonReady says whether the network is worth waiting for: a new one takes about as long.
func (b *testbed) soonReady(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return b.Ready(ctx) == nil
}

// prepare builds the network and writes down what it is.
func (c *Command) prepare(ctx context.Context, testbed *testbed, r *result.Result, version string) (err error) {
	if r.Environment, err = inject.Environment(ctx, version); err != nil {
		return err
	}
	if err := c.build(ctx, testbed); err != nil {
		return err
	}
	for _, f := range testbed.Faults {
		if slices.Contains(c.Faults, f.Name) {
			r.Parameters["fault_"+f.Name] = f.Words
		}
	}
	r.Targets = []result.Target{{Name: "selvage", Description: testbed.Description}}
	return nil
}

// build makes the network, in place of the one that there may be.
func (c *Command) build(ctx context.Context, testbed *testbed) (err error) {
	if err := testbed.close(); err != nil {
		return err
	}
	if testbed.lab, err = topo.New(ctx, "failover "+c.What); err != nil {
		return err
	}
	build := map[string]func(context.Context, *topo.Lab, topo.FailoverOptions) (*topo.Failover, error){
		"gateway": topo.NewFailoverGateway, "tep": topo.NewFailoverTEP, "edge": topo.NewFailoverEdge,
	}[c.What]
	testbed.Failover, err = build(ctx, testbed.lab, topo.FailoverOptions{Binary: c.SelvageBinary, Liveness: c.Liveness, Multiplier: c.Multiplier})
	testbed.kills = 0
	return err
}

// killAll kills as planned and appends to r what came of it, until ctx ends.
func (c *Command) killAll(ctx context.Context, testbed *testbed, plan []killStep, r *result.Result, p *experiment.Progress) error {
	pace, left := &experiment.Pace{First: killExtra}, stepsOf(plan)
	for i, s := range plan {
		p.Begin(s.String(), pace.Left(left[i:]))
		began := time.Now()
		sample, err := c.killOnce(ctx, testbed, s)
		if ctx.Err() != nil { // the sample is half a one
			r.Parameters[experiment.Interrupted] = fmt.Sprintf("kill %d of %d", s.Round, len(plan))
			return ctx.Err()
		}
		if err != nil {
			sample.Error = err.Error()
		}
		if sample.Metrics == nil {
			sample.Metrics = map[string]float64{}
		}
		sample.Target, sample.Case, sample.Round = s.Target, s.CaseName, s.Round
		sample.Start = began.Sub(r.Started).Seconds()
		r.Samples = append(r.Samples, sample)
		pace.Took(s.Step, time.Since(began))
		p.Ended(killOutcome(sample), pace.Left(left[i+1:]))
	}
	return nil
}

// killOnce kills in a network that is good for that: after a kill that could not be
// measured nobody knows what state it is in.
func (c *Command) killOnce(ctx context.Context, testbed *testbed, s killStep) (result.Sample, error) {
	if testbed.kills >= killsPerNetwork || !testbed.soonReady(ctx) {
		if err := c.build(ctx, testbed); err != nil {
			testbed.kills = killsPerNetwork
			return result.Sample{}, err
		}
	}
	testbed.kills++
	sample, err := c.kill(ctx, testbed, s)
	if err != nil {
		testbed.kills = killsPerNetwork
	}
	return sample, err
}

// killOutcome is a kill in a few words.
func killOutcome(s result.Sample) string {
	value := func(name string) string { return stats.Figure(s.Metrics[name]) }
	if s.Error != "" {
		return experiment.Failure(s)
	}
	survived := fmt.Sprintf("%.0f of %.0f connections survived", s.Metrics[inject.WentOn], s.Metrics[inject.Connections])
	if s.Metrics[inject.AffectedFlows] == 0 {
		return "no flow was affected, " + survived
	}
	return fmt.Sprintf("%.0f flows affected, outage p50 %s ms, longest %s ms, %s", s.Metrics[inject.AffectedFlows], value(inject.OutageP50), value(inject.OutageMax), survived)
}

// describe is a result of c before anything was measured.
func (c *Command) describe(console *experiment.Console, began time.Time) result.Result {
	p := map[string]string{
		"what":          c.What,
		"kills":         strconv.Itoa(c.Kills),
		"faults":        strings.Join(c.Faults, ", "),
		"order":         fmt.Sprintf("all faults in turn; each kill is undone, and the next follows when every edge reports the initial state; after %d kills the network is rebuilt, since edges hold back paths that fail often", killsPerNetwork),
		"flows":         fmt.Sprintf("%d UDP flows, each with a packet every %s, which the target sends back", c.Flows, c.Interval),
		"connections":   fmt.Sprintf("%d TCP connections, each with a line of 16 bytes every %s, which the target sends back", c.Connections, c.LineInterval),
		"outage":        "the longest time without an answer in a flow, less the interval; of the flows that lost packets or were silent for " + inject.AffectedSilence.String(),
		"survival":      fmt.Sprintf("a connection survives when it resumes within %s without being reopened", inject.Survival),
		"fault_time":    "when the first lost packet was sent",
		"liveness":      fmt.Sprintf("BFD every %s × %d", c.Liveness, c.Multiplier),
		"watch":         c.Watch.String() + " from the kill to its undoing, longer until all flows have resumed",
		"quiet":         inject.QuietBefore.String() + " before the kill; the longest silence in it is noise",
		"flow_interval": c.Interval.String(),
		"detection_ms":  strconv.FormatFloat(float64(c.Liveness*time.Duration(c.Multiplier))/float64(time.Millisecond), 'g', -1, 64),
		"pinning":       "none: the edges' processes need the cores too; edges run at nice -20, the ends of the flows at real-time priority",
	}
	if c.SelvageBinary != "" {
		p["selvage_binary"] = c.SelvageBinary
	}
	return result.Result{
		Schema: result.Schema, Experiment: Name, Started: began.UTC(), Command: append([]string{"selvage"}, console.Args...),
		Parameters: p, Samples: []result.Sample{},
	}
}
