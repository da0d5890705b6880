package latency

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
)

// measure builds the targets, takes all samples and removes the targets again. With
// an error the result holds what was measured until then.
func (c *Command) measure(ctx context.Context, console *experiment.Console, began time.Time) (r result.Result, err error) {
	steps := c.plan()
	guess := latencyPace().Left(experiment.Steps(steps))
	p := experiment.NewProgress(console.Err, len(steps))
	defer p.Close()
	p.Note("%s: %s, about %s", c, result.Counted(len(steps), "sample"), experiment.About(guess))
	p.Begin("building networks", guess)
	all := &policedTestbeds{byName: map[string]*policed{}}
	r = c.describe(console, began)
	err = c.prepare(ctx, all, &r, console.Version, p)
	if err == nil {
		err = c.takeAll(ctx, all, steps, &r, p)
	}
	if err == nil && c.Breakdown {
		err = c.takeApart(ctx, all, &r, p)
	}
	r.Duration = time.Since(began).Seconds()
	return r, experiment.RemoveAll(ctx, err, all.close, p)
}

// latencyPace guesses the time that a sample takes besides measuring; changes of the policy
// are part of it.
func latencyPace() *experiment.Pace { return &experiment.Pace{First: 1300 * time.Millisecond} }

// prepare looks at the machine, builds all targets and writes down what they are.
func (c *Command) prepare(ctx context.Context, all *policedTestbeds, r *result.Result, version string, p *experiment.Progress) error {
	err := experiment.NoteMachine(ctx, r, p)
	if err != nil {
		return err
	}
	scenarios := []string{TwoHosts}
	if slices.Contains(c.Scenarios, SameHost) {
		scenarios = append(scenarios, SameHost)
	}
	for _, name := range c.Targets {
		for i, scenario := range scenarios {
			b, err := c.buildTestbed(ctx, all, name, scenario)
			if err != nil {
				return err
			}
			if i == 0 {
				r.Targets = append(r.Targets, result.Target{Name: name, Description: b.path.Description, InnerMTU: b.path.InnerMTU})
				r.Topology = experiment.Topology(b.net)
			}
			if b.loop != nil {
				maps.Copy(r.Parameters, appParameters(b.loop, appLoops(c.Sample, appRate)))
			}
		}
	}
	first := all.byName[testbedOf(c.Targets[0], TwoHosts)]
	r.Environment, err = measure.Environment(ctx, first.net, version)
	return err
}

// takeAll takes the samples of steps and appends them to r, until ctx ends.
func (c *Command) takeAll(ctx context.Context, all *policedTestbeds, steps []policedStep, r *result.Result, p *experiment.Progress) error {
	taking := experiment.Taking[policedStep]{
		Pace: latencyPace(), Outcome: policedOutcome,
		Take: func(ctx context.Context, s policedStep) (result.Sample, error) {
			return c.take(ctx, all.byName[testbedOf(s.Target, s.setting.Scenario)], s), nil
		},
	}
	return taking.All(ctx, steps, r, p)
}

// takeApart appends the samples of the breakdown.
func (c *Command) takeApart(ctx context.Context, all *policedTestbeds, r *result.Result, p *experiment.Progress) error {
	p.Begin("breakdown", 0)
	samples, err := c.breakDown(ctx, all, r.Started, func(s result.Sample) { p.Note("%s", brokenOutcome(s)) })
	result.Add(r, samples...)
	if ctx.Err() != nil {
		experiment.Interrupt(r, "the breakdown")
	}
	return err
}

// describe is a result of c before anything was measured.
func (c *Command) describe(console *experiment.Console, began time.Time) result.Result {
	p := result.Parameters{
		"rounds":      result.Count(c.Rounds),
		"scenarios":   result.Of(result.Texts(c.Scenarios)),
		"rules":       result.Counts(c.Rules),
		"measure":     result.Of(result.Texts(c.Measure)),
		"order":       result.Words("each round first measures round trips, for each target with all numbers of rules, then rates, for each number of rules with all targets, in balanced order; each target has its own hosts and links from the first sample to the last, and only its policy changes"),
		"policy":      result.Words("the last rule allows the guests' traffic and the default drops; the other rules all differ and do not match it: one in four has the guests' network as source, one as destination"),
		"proof":       result.Words("before and after each sample, a port that only this policy allows answers, and one that no policy allows is silent (without a firewall it answers); before it, every firewall on the path has counted the connection"),
		"duration":    result.Time(c.Duration).Explained("of TCP_RR 1024 in the scenarios"),
		"sample":      result.Time(c.Sample).Explained("of all others, of TCP throughput in whole seconds"),
		"loop":        result.Words("closed: a transaction begins when the last one has ended, so it measures service time, and a stall counts once though many would have waited (coordinated omission)"),
		"warmup":      result.Words(fmt.Sprintf("%s of rest before each sample, then 200ms of the same transactions", experiment.SettleTime)),
		"at_once":     result.Count(c.AtOnce).Explained("connections, where there are many"),
		"pairs":       result.Count(c.Pairs),
		"pinning":     result.Words("request/response and single connections: both ends on core 0; pairs: each on a core, in turn; all else: client on core 0, server on core 1"),
		"histogram":   result.Words("HdrHistogram, three digits, up to p99.99 in the summary"),
		"connections": result.Words("tables of 262144 on either side; a connection is kept for 20 s after its end"),
	}
	if c.Rate > 0 {
		p["open_loop"] = result.Count(c.Rate).In("1/s").Explained("transactions at fixed times; latency counts from when they were due, the instrument's own wake-up included")
	}
	experiment.NoteBinary(p, c.SelvageBinary)
	c.programs.Record(p)
	return console.Blank(Name, began, p)
}
