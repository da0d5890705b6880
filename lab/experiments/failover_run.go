package experiments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/report"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
)

// Run measures, writes result and report and prints the summary. When ctx ends it
// keeps the kills that it has. It fails when one could not be measured.
func (c *Failover) Run(ctx context.Context, console *Console) error {
	return runExperiment(ctx, console, report.FailoverExperiment(), c.Results, c.Output, c.measure)
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
func (c *Failover) measure(ctx context.Context, console *Console, began time.Time) (r result.Result, err error) {
	plan, pace := c.plan(), &pace{first: killExtra}
	guess := pace.left(stepsOf(plan))
	p := newProgress(console.Err, len(plan))
	defer p.close()
	p.note("%s: %d kills, about %s", c.What, len(plan), about(guess))
	p.begin("building the network", guess)
	r = c.describe(console, began)
	testbed := new(failoverTestbed)
	if err = c.prepare(ctx, testbed, &r, console.Version); err == nil {
		err = c.killAll(ctx, testbed, plan, &r, p)
	}
	r.Duration = time.Since(began).Seconds()
	return r, removeAll(ctx, err, testbed, p)
}

func stepsOf(plan []killStep) []step {
	steps := make([]step, len(plan))
	for i, s := range plan {
		steps[i] = s.step
	}
	return steps
}

// failoverTestbed is the network of a run.
type failoverTestbed struct {
	*topo.Failover
	lab   *topo.Lab
	kills int // in it
}

func (b *failoverTestbed) close() error {
	if b.lab == nil {
		return nil
	}
	return b.lab.Close()
}

// soonReady says whether the network is worth waiting for: a new one takes about as long.
func (b *failoverTestbed) soonReady(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return b.Ready(ctx) == nil
}

// prepare builds the network and writes down what it is.
func (c *Failover) prepare(ctx context.Context, testbed *failoverTestbed, r *result.Result, version string) (err error) {
	if r.Environment, err = failoverEnvironment(ctx, version); err != nil {
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
func (c *Failover) build(ctx context.Context, testbed *failoverTestbed) (err error) {
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

// failoverEnvironment records the machine with a network as the other experiments have it.
func failoverEnvironment(ctx context.Context, version string) (result.Environment, error) {
	lab, err := topo.New(ctx, "failover environment")
	if err != nil {
		return result.Environment{}, err
	}
	n, err := topo.NewTwoHosts(ctx, lab, topo.TwoHostsOptions{})
	var env result.Environment
	if err == nil {
		env, err = measure.Environment(ctx, n, version)
	}
	return env, errors.Join(err, lab.Close())
}

// killAll kills as planned and appends to r what came of it, until ctx ends.
func (c *Failover) killAll(ctx context.Context, testbed *failoverTestbed, plan []killStep, r *result.Result, p *progress) error {
	pace, left := &pace{first: killExtra}, stepsOf(plan)
	for i, s := range plan {
		p.begin(s.String(), pace.left(left[i:]))
		began := time.Now()
		sample, err := c.killOnce(ctx, testbed, s)
		if ctx.Err() != nil { // the sample is half a one
			r.Parameters[interrupted] = fmt.Sprintf("kill %d of %d", s.round, len(plan))
			return ctx.Err()
		}
		if err != nil {
			sample.Error = err.Error()
		}
		if sample.Metrics == nil {
			sample.Metrics = map[string]float64{}
		}
		sample.Target, sample.Case, sample.Round = s.target, s.caseName, s.round
		sample.Start = began.Sub(r.Started).Seconds()
		r.Samples = append(r.Samples, sample)
		pace.took(s.step, time.Since(began))
		p.ended(killOutcome(sample), pace.left(left[i+1:]))
	}
	return nil
}

// killOnce kills in a network that is good for that: after a kill that could not be
// measured nobody knows what state it is in.
func (c *Failover) killOnce(ctx context.Context, testbed *failoverTestbed, s killStep) (result.Sample, error) {
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
		return failure(s)
	}
	survived := fmt.Sprintf("%.0f of %.0f connections survived", s.Metrics[stats.WentOn], s.Metrics[stats.Connections])
	if s.Metrics[stats.AffectedFlows] == 0 {
		return "no flow was affected, " + survived
	}
	return fmt.Sprintf("%.0f flows affected, outage p50 %s ms, longest %s ms, %s", s.Metrics[stats.AffectedFlows], value(stats.OutageP50), value(stats.OutageMax), survived)
}

// describe is a result of c before anything was measured.
func (c *Failover) describe(console *Console, began time.Time) result.Result {
	p := map[string]string{
		"what":          c.What,
		"kills":         strconv.Itoa(c.Kills),
		"faults":        strings.Join(c.Faults, ", "),
		"order":         fmt.Sprintf("all faults in turn; each kill is undone, and the next follows when every edge reports the initial state; after %d kills the network is rebuilt, since edges hold back paths that fail often", killsPerNetwork),
		"flows":         fmt.Sprintf("%d UDP flows, each with a packet every %s, which the target sends back", c.Flows, c.Interval),
		"connections":   fmt.Sprintf("%d TCP connections, each with a line of 16 bytes every %s, which the target sends back", c.Connections, c.LineInterval),
		"outage":        "the longest time without an answer in a flow, less the interval; of the flows that lost packets or were silent for " + affectedSilence.String(),
		"survival":      fmt.Sprintf("a connection survives when it resumes within %s without being reopened", survival),
		"fault_time":    "when the first lost packet was sent",
		"liveness":      fmt.Sprintf("BFD every %s × %d", c.Liveness, c.Multiplier),
		"watch":         c.Watch.String() + " from the kill to its undoing, longer until all flows have resumed",
		"quiet":         quietBefore.String() + " before the kill; the longest silence in it is noise",
		"flow_interval": c.Interval.String(),
		"detection_ms":  strconv.FormatFloat(float64(c.Liveness*time.Duration(c.Multiplier))/float64(time.Millisecond), 'g', -1, 64),
		"pinning":       "none: the edges' processes need the cores too; edges run at nice -20, the ends of the flows at real-time priority",
	}
	if c.SelvageBinary != "" {
		p["selvage_binary"] = c.SelvageBinary
	}
	return result.Result{
		Schema: result.Schema, Experiment: stats.Failover, Started: began.UTC(), Command: append([]string{"selvage"}, console.Args...),
		Parameters: p, Samples: []result.Sample{},
	}
}
