package failover

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/failover/network"
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
	guess := pace.Left(experiment.Steps(plan))
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

// testbed is the network of a run.
type testbed struct {
	*network.Network
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
			r.Parameters[faultParameter(f.Name)] = result.Words(f.Words)
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
	build := map[string]func(context.Context, *topo.Lab, network.Options) (*network.Network, error){
		"gateway": network.NewGateway, "tep": network.NewTEP, "edge": network.NewEdge,
	}[c.What]
	testbed.Network, err = build(ctx, testbed.lab, network.Options{Binary: c.SelvageBinary, Liveness: c.Liveness, Multiplier: c.Multiplier})
	testbed.kills = 0
	return err
}

// killAll kills as planned and appends to r what came of it, until ctx ends.
func (c *Command) killAll(ctx context.Context, testbed *testbed, plan []killStep, r *result.Result, p *experiment.Progress) error {
	taking := experiment.Taking[killStep]{
		Pace: &experiment.Pace{First: killExtra}, Outcome: killOutcome,
		Take: func(ctx context.Context, s killStep) (result.Sample, error) {
			began := time.Now()
			sample, err := c.killOnce(ctx, testbed, s)
			return experiment.Attempted(began, sample, err), nil
		},
	}
	return taking.All(ctx, plan, r, p)
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
	p := result.Parameters{
		"what":          result.Words(c.What),
		"kills":         result.Count(c.Kills),
		"faults":        result.Of(result.Texts(c.Faults)),
		"order":         result.Words(fmt.Sprintf("all faults in turn; each kill is undone, and the next follows when every edge reports the initial state; after %d kills the network is rebuilt, since edges hold back paths that fail often", killsPerNetwork)),
		"flows":         result.Count(c.Flows).Explained("UDP flows, each with a packet every %s, which the target sends back", c.Interval),
		"connections":   result.Count(c.Connections).Explained("TCP connections, each with a line of 16 bytes every %s, which the target sends back", c.LineInterval),
		"outage":        result.Words("the longest time without an answer in a flow, less the interval; of the flows that lost packets or were silent for " + inject.AffectedSilence.String()),
		"survival":      result.Time(inject.Survival).Explained("within which a connection that survives resumes, without being reopened"),
		"fault_time":    result.Words("when the first lost packet was sent"),
		"watch":         result.Time(c.Watch).Explained("from the kill to its undoing, longer until all flows have resumed"),
		"quiet":         result.Time(inject.QuietBefore).Explained("before the kill; the longest silence in it is noise"),
		"flow_interval": result.Time(c.Interval),
		"pinning":       result.Words("none: the edges' processes need the cores too; edges run at nice -20, the ends of the flows at real-time priority"),
	}
	inject.NoteLiveness(p, c.Liveness, c.Multiplier, "")
	experiment.NoteBinary(p, c.SelvageBinary)
	return console.Blank(Name, began, p)
}
