package rfc2544

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/transit"
)

// Run measures, writes result and report and prints the summary. When ctx ends it
// keeps the samples that it has. It fails when a sample did.
func (c *Command) Run(ctx context.Context, console *experiment.Console) error {
	if c.Ports.Given {
		return c.Ports.Run(ctx, console, trials(c), c.Destination)
	}
	return experiment.Run(ctx, console, Experiment(), c.Destination, c.measure)
}

func (c *Command) measure(ctx context.Context, console *experiment.Console, began time.Time) (result.Result, error) {
	r, err := transit.NewRun(c.describe(console, began), c.plan(), console)
	if err != nil {
		return result.Result{}, err
	}
	r.Progress.Note("targets %s", strings.Join(c.Targets, ", "))
	r.Outcome = rateOutcome
	r.Build = func(ctx context.Context) error { return c.buildAll(ctx, r, console.Version) }
	r.Take = func(ctx context.Context, s transit.Step) result.Sample {
		return c.take(ctx, r.Testbeds, r.Testbeds.ByName[s.Target], s, r.Ceilings[s.Ceiling()])
	}
	return r.Measure(ctx, began)
}

func (c *Command) buildAll(ctx context.Context, r *transit.Run, version string) (err error) {
	for _, name := range c.Targets {
		b, err := r.Testbeds.Build(ctx, name, name, c.options(name))
		if err != nil {
			return err
		}
		r.Result.Targets = append(r.Result.Targets, result.Target{Name: name, Description: b.Forwarder.Describe(), InnerMTU: transit.MTUPacket})
	}
	first := r.Testbeds.ByName[c.Targets[0]].Net
	r.Result.Topology = transit.Topology(first)
	r.Result.Environment, err = transit.Environment(ctx, first, version)
	return err
}

// describe is a result of c before anything was measured.
func (c *Command) describe(console *experiment.Console, began time.Time) result.Result {
	p := result.Parameters{
		"rounds":           result.Count(c.Rounds),
		"order":            result.Words("each case of a round runs all targets in balanced order; each has its own hosts and links from the first sample to the last"),
		"directions":       result.Of(result.Texts(c.Directions)),
		"sizes":            result.Counts(c.Sizes).In("bytes").Explained("with FCS, of the inner frame where there is a tunnel; a packet of 1500 bytes is in a frame of 1518"),
		"flows":            result.Count(c.Flows),
		"scenario":         result.Count(c.Scenario).Explained("uplinks, and as many links of the underlay"),
		"family":           result.Words("IPv" + strconv.Itoa(c.Family)),
		"underlay_family":  result.Words("IPv" + strconv.Itoa(c.Underlay)),
		"search":           result.Words(c.Search),
		tolerance:          result.Of(result.Number(c.Tolerance)).In("%"),
		"line_rate":        result.Of(result.Number(c.LineRate)).In("Gbit/s"),
		"rates":            result.Of(result.Numbers{c.MinRate, c.MaxRate}).In("%").Explained("at least and at most, of the line rate or of the generator's ceiling, whichever is less; from 2 %% of what a slower device forwards; where generator and device share a core, the highest rate is over their CPU time, and the fastest trial without loss counts"),
		"generator":        result.Words("a real-time task while it sends, and so is a device in user space"),
		"retries":          result.Count(c.Retries),
		"duration":         result.Time(c.Duration),
		"initial_duration": result.Time(c.InitialDuration),
		"drain":            result.Time(c.Drain).Explained("at most, less when all frames have arrived"),
		"settle":           result.Time(c.Settle),
		"warmup":           result.Words("two frames of each flow, until all of them arrive"),
		"accounts":         result.Words("a trial counts when sent = received + the drops that counters of the kernel, the driver and the device name"),
		"latency_trials":   result.Count(c.LatencyTrials).Explained("of %s at each of 10, 50, 90 and 100 %% of the no-drop rate, means of them; every frame is timed", c.latencyDuration()),
		coresParameter:     result.Words(transit.CoresInWords(isSplit(c))),
		sharedCore:         result.Of(result.Bool(!isSplit(c))),
		"ns_per_packet":    result.Words("one divided by the highest rate; where generator, device and sink share a core, over their CPU time, so it excludes what other processes take of the core"),
		"limit":            result.Words("forwards frames as they come; in decap and both those are VXLAN's"),
		"both":             result.Words("rates are of frames sent; each crosses the device twice"),
	}
	p["selvage_transit"] = result.Words(c.SelvageTransit)
	experiment.NoteBinary(p, c.SelvageBinary)
	c.programs.Record(p)
	return console.Blank(Name, began, p)
}
