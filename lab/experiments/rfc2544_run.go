package experiments

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/report"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Run measures, writes result and report and prints the summary. When ctx ends it
// keeps the samples that it has. It fails when a sample did.
func (c *Rfc2544) Run(ctx context.Context, console *Console) error {
	return runExperiment(ctx, console, report.RFC2544Experiment(), c.Results, c.Output, c.measure)
}

// transitRun is a run of an experiment on transit and how far it is.
type transitRun struct {
	result   result.Result
	testbeds *testbeds
	steps    []transitStep
	pace     *pace
	progress *progress
	ceilings map[ceilingKey]ceiling
	// build makes all beds, and take a sample on one of them.
	build func(context.Context) error
	take  func(context.Context, transitStep) result.Sample
	// outcome is a sample in a few words.
	outcome func(result.Sample) string
}

// transitExtra is about what a sample takes besides its trials: programs to load,
// frames that warm up.
const transitExtra = 1500 * time.Millisecond

func newTransitRun(r result.Result, steps []transitStep, console *Console) (*transitRun, error) {
	testbeds, err := openTestbeds()
	if err != nil {
		return nil, err
	}
	return &transitRun{
		result: r, testbeds: testbeds, steps: steps, pace: &pace{first: transitExtra}, progress: newProgress(console.Err, len(steps)), ceilings: map[ceilingKey]ceiling{},
	}, nil
}

// left are the steps from i on, as far as the estimate of time needs them.
func (r *transitRun) left(i int) time.Duration {
	steps := make([]step, 0, len(r.steps)-i)
	for _, s := range r.steps[i:] {
		steps = append(steps, s.step)
	}
	return r.pace.left(steps)
}

// measure builds the beds, takes all samples and removes the beds again. With an error
// the result holds what was measured until then.
func (r *transitRun) measure(ctx context.Context, began time.Time) (result.Result, error) {
	defer r.progress.close()
	r.progress.note("%d samples, about %s", len(r.steps), about(r.left(0)))
	r.progress.begin("testing the generator", r.left(0))
	err := r.selfTest(ctx)
	if err == nil {
		r.progress.begin("building networks", r.left(0))
		err = r.build(ctx)
	}
	if err == nil {
		err = r.takeAll(ctx)
	}
	r.result.Duration = time.Since(began).Seconds()
	return r.result, removeAll(ctx, err, r.testbeds, r.progress)
}

func (r *transitRun) takeAll(ctx context.Context) error {
	for i, s := range r.steps {
		r.progress.begin(s.String(), r.left(i))
		began := time.Now()
		sample := r.take(ctx, s)
		if err := ctx.Err(); err != nil { // the sample is half a one
			r.result.Parameters[interrupted] = fmt.Sprintf("case %s, round %d", s.caseName, s.round)
			return err
		}
		sample.Start = began.Sub(r.result.Started).Seconds()
		r.result.Samples = append(r.result.Samples, sample)
		r.pace.took(s.step, time.Since(began))
		r.progress.ended(r.outcome(sample), r.left(i+1))
	}
	return nil
}

// ceilingKey is what the generator's speed depends on.
type ceilingKey struct {
	frame, flows, family int
	wrapped              bool
}

// ceiling is what the generator does without a device.
type ceiling struct {
	rate float64 // frames/s
	ns   float64 // of a core for a frame
}

func perSecond(ns float64) float64 { return 1e9 / ns }

func (s transitStep) ceiling() ceilingKey {
	return ceilingKey{s.stream.Frame, s.stream.Flows, s.stream.Family, s.direction == stats.Decap}
}

// selfTest loops the generator without a device, for every kind of frames that the
// steps send.
func (r *transitRun) selfTest(ctx context.Context) error {
	core, _ := transitCores()
	for _, s := range r.steps {
		key := s.ceiling()
		if _, done := r.ceilings[key]; done {
			continue
		}
		l := gen.Loop{Stream: s.stream, Core: core, Runs: 3, Load: gen.Load{Duration: 150 * time.Millisecond, Batch: peakBatch, Untimed: true}}
		if key.wrapped {
			l.Tunnel = loopTunnel()
		}
		self, err := gen.Ceiling(ctx, l)
		if err != nil {
			return fmt.Errorf("self-test of the generator: %w", err)
		}
		if len(self.Busy) == 0 {
			return fmt.Errorf("self-test of the generator: no run of %s was timed", s.caseName)
		}
		if self.Lost > 0 {
			return fmt.Errorf("self-test of the generator: %d frames of %s were lost without any device: nothing can be measured with it", self.Lost, s.caseName)
		}
		ns := stats.Median(self.Busy).Median
		r.ceilings[key] = ceiling{perSecond(ns), ns}
		name := "ceiling_" + strings.TrimPrefix(strings.TrimPrefix(s.caseName, "flows-"), s.direction+"-")
		if key.wrapped {
			name += "_tunnel"
		}
		r.result.Parameters[name] = fmt.Sprintf("%s Mpps of CPU time (%s ns a frame, n = %d); by the clock %s",
			stats.Figure(perSecond(ns)/1e6), stats.Figure(ns), len(self.Busy), stats.Figure(self.Median/1e6))
	}
	return nil
}

func (c *Rfc2544) measure(ctx context.Context, console *Console, began time.Time) (result.Result, error) {
	r, err := newTransitRun(c.describe(console, began), c.plan(), console)
	if err != nil {
		return result.Result{}, err
	}
	r.progress.note("targets %s", strings.Join(c.Targets, ", "))
	r.outcome = rateOutcome
	r.build = func(ctx context.Context) error { return c.buildAll(ctx, r, console.Version) }
	r.take = func(ctx context.Context, s transitStep) result.Sample {
		return c.take(ctx, r.testbeds, r.testbeds.byName[s.target], s, r.ceilings[s.ceiling()])
	}
	return r.measure(ctx, began)
}

func (c *Rfc2544) buildAll(ctx context.Context, r *transitRun, version string) (err error) {
	for _, name := range c.Targets {
		b, err := r.testbeds.build(ctx, name, name, c.options(name))
		if err != nil {
			return err
		}
		r.result.Targets = append(r.result.Targets, result.Target{Name: name, Description: b.forwarder.Describe(), InnerMTU: mtuPacket})
	}
	first := r.testbeds.byName[c.Targets[0]].net
	r.result.Topology = transitTopology(first)
	r.result.Environment, err = transitEnvironment(ctx, first, version)
	return err
}

// describe is a result of c before anything was measured.
func (c *Rfc2544) describe(console *Console, began time.Time) result.Result {
	p := map[string]string{
		"rounds":           strconv.Itoa(c.Rounds),
		"order":            "each case of a round runs all targets in balanced order; each has its own hosts and links from the first sample to the last",
		"directions":       strings.Join(c.Directions, ", "),
		"sizes":            numbers(c.Sizes) + " bytes with FCS, of the inner frame where there is a tunnel; a packet of 1500 bytes is in a frame of 1518",
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
		"cores":            coresInWords(c.Cores == "split"),
		"ns_per_packet":    "one divided by the highest rate; where generator, device and sink share a core, over their CPU time, so it excludes what other processes take of the core",
		"limit":            "forwards frames as they come; in decap and both those are VXLAN's",
		"both":             "rates are of frames sent; each crosses the device twice",
	}
	p["selvage_transit"] = c.SelvageTransit
	if c.SelvageBinary != "" {
		p["selvage_binary"] = c.SelvageBinary
	}
	c.programs.record(p)
	return result.Result{
		Schema: result.Schema, Experiment: stats.RFC2544, Started: began.UTC(), Command: append([]string{"selvage"}, console.Args...),
		Parameters: p, Samples: []result.Sample{},
	}
}

// coresInWords says what ran where.
func coresInWords(split bool) string {
	generator, device := transitCores()
	if split {
		return fmt.Sprintf("generator on core %d; device, and the sink after it, on core %d; a device in user space there too", generator, device)
	}
	return fmt.Sprintf("generator, device and sink share core %d, one after the other; a device in user space has core %d, the sink after it too", generator, device)
}

// loopTunnel is VXLAN as a loop without a device has it.
func loopTunnel() *gen.Tunnel {
	return &gen.Tunnel{
		Encapsulation: overlay.VXLAN, VNI: 100, Local: netip.MustParseAddr("192.0.2.2"), Remote: netip.MustParseAddr("192.0.2.1"),
		SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0x0f, 2}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0x0f, 1},
	}
}
