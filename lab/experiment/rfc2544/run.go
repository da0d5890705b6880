package rfc2544

import (
	"context"
	"fmt"
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
	p := map[string]string{
		"rounds":           strconv.Itoa(c.Rounds),
		"order":            "each case of a round runs all targets in balanced order; each has its own hosts and links from the first sample to the last",
		"directions":       strings.Join(c.Directions, ", "),
		"sizes":            experiment.Numbers(c.Sizes) + " bytes with FCS, of the inner frame where there is a tunnel; a packet of 1500 bytes is in a frame of 1518",
		"flows":            strconv.Itoa(c.Flows),
		"scenario":         fmt.Sprintf("%d uplinks, %d links of the underlay", c.Scenario, c.Scenario),
		"family":           "IPv" + strconv.Itoa(c.Family),
		"underlay_family":  "IPv" + strconv.Itoa(c.Underlay),
		"search":           c.Search,
		"tolerance":        fmt.Sprintf("%g %%", c.Tolerance),
		"line_rate":        fmt.Sprintf("%g Gbit/s", c.LineRate),
		"rates":            fmt.Sprintf("%g … %g %% of the line rate or of the generator's ceiling, whichever is less; from 2 %% of what a slower device forwards; where generator and device share a core, the highest rate is over their CPU time, and the fastest trial without loss counts", c.MinRate, c.MaxRate),
		"generator":        "a real-time task while it sends, and so is a device in user space",
		"retries":          strconv.Itoa(c.Retries),
		"duration":         c.Duration.String(),
		"initial_duration": c.InitialDuration.String(),
		"drain":            c.Drain.String() + " at most, less when all frames have arrived",
		"settle":           c.Settle.String(),
		"warmup":           "two frames of each flow, until all of them arrive",
		"accounts":         "a trial counts when sent = received + the drops that counters of the kernel, the driver and the device name",
		"latency_trials":   fmt.Sprintf("%d of %s at each of 10, 50, 90 and 100 %% of the no-drop rate, means of them; every frame is timed", c.LatencyTrials, c.latencyDuration()),
		"cores":            transit.CoresInWords(c.Cores == "split"),
		"ns_per_packet":    "one divided by the highest rate; where generator, device and sink share a core, over their CPU time, so it excludes what other processes take of the core",
		"limit":            "forwards frames as they come; in decap and both those are VXLAN's",
		"both":             "rates are of frames sent; each crosses the device twice",
	}
	p["selvage_transit"] = c.SelvageTransit
	if c.SelvageBinary != "" {
		p["selvage_binary"] = c.SelvageBinary
	}
	c.programs.Record(p)
	return result.Result{
		Schema: result.Schema, Experiment: Name, Started: began.UTC(), Command: append([]string{"selvage"}, console.Args...),
		Parameters: p, Samples: []result.Sample{},
	}
}
