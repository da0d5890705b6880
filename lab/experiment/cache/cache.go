// Package cache is the experiment on the flow cache: what a packet costs with it and without, by flows and
// by routes behind it.
//
// Its invariant: a sample loses no frame.
// Do not use it to compare data paths; both of its targets are edges.
package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/dut/router"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
)

// Experiment is this one.
func Experiment() experiment.Experiment {
	return experiment.Experiment{
		Name: Name, Command: func() any { return new(commands) },
		Summarise: summarise, Metrics: figures, Verdict: verdict, Page: page, Table: table,
	}
}

// Command is the command line of the experiment on the flow cache: what a packet costs
// with it and without, by flows and by routes behind it.
type Command struct {
	Targets   []string `placeholder:"NAME" default:"cache-on,cache-off" help:"An edge with its flow cache and one without; ${default} by default. Shares are against cache-off."`
	Direction string   `enum:"encap,decap" default:"encap" help:"From uplink to tunnel, or back: ${enum}."`
	Quick     bool     `help:"In about a minute: up to 100,000 flows, without routes and with 1,000, 3 rounds of short trials."`
	Rounds    int      `default:"3" help:"Samples of each target and case."`

	experiment.Destination

	Flows  []int                 `group:"Traffic" placeholder:"FLOWS" help:"UDP flows; 1,1280,10000,100000,1000000 by default, with --quick 1,1280,100000."`
	Routes []int                 `group:"Traffic" placeholder:"ROUTES" default:"0,1000" help:"More specific routes below the one that the frames use, to the same next hops; ${default} by default."`
	Frame  int                   `group:"Traffic" placeholder:"BYTES" default:"64" help:"Frame size with FCS; ${default}."`
	Encap  overlay.Encapsulation `group:"Traffic" enum:"vxlan,geneve,nvgre" default:"vxlan" help:"Encapsulation: ${enum}."`

	Duration       time.Duration `group:"Trials" placeholder:"TIME" help:"Duration of a trial; 2s by default, with --quick 200ms."`
	Drain          time.Duration `group:"Trials" default:"200ms" help:"Longest wait after a trial for frames in flight."`
	SelvageTransit string        `group:"Device" placeholder:"MODE" enum:"auto,native,generic,tc" default:"native" help:"Transit mode of the edges: auto, native, generic or tc; ${default}. The links are veths, on which auto is tc."`
	SelvageBinary  string        `group:"Device" placeholder:"FILE" type:"existingfile" help:"Program that runs the edges; selvage of this build by default."`
}

// Validate checks what belongs together and fills in what --quick means.
func (c *Command) Validate() error {
	flows, duration := []int{1, 1280, 10000, 100000, 1000000}, 2*time.Second
	if c.Quick {
		flows, duration = []int{1, 1280, 100000}, 200*time.Millisecond
	}
	if len(c.Flows) == 0 {
		c.Flows = flows
	}
	if c.Duration == 0 {
		c.Duration = duration
	}
	if err := experiment.CheckNames(c.Targets, []string{CacheOn, CacheOff}); err != nil {
		return err
	}
	return errors.Join(c.checkCases(), c.checkTrials())
}

func (c *Command) checkCases() error {
	for i, n := range c.Flows {
		if slices.Contains(c.Flows[:i], n) {
			return fmt.Errorf("--flows: %d is named twice", n)
		}
		if err := (gen.Stream{Frame: c.Frame, Flows: n}).Check(); err != nil || n < 1 {
			return errors.Join(fmt.Errorf("--flows, --frame: %d flows of %d bytes", n, c.Frame), err)
		}
	}
	for i, n := range c.Routes {
		if slices.Contains(c.Routes[:i], n) {
			return fmt.Errorf("--routes: %d is named twice", n)
		}
		if n < 0 || n > router.MostRoutes {
			return fmt.Errorf("--routes: %d is not within 0 … %d", n, router.MostRoutes)
		}
	}
	if len(c.Routes) == 0 {
		return errors.New("--routes: name at least one number, 0 being none")
	}
	return nil
}

func (c *Command) checkTrials() error {
	switch {
	case c.Rounds < 1:
		return fmt.Errorf("--rounds: %d is not 1 or more", c.Rounds)
	case c.Frame > transit.MTUFrame:
		return fmt.Errorf("--frame: %d is more than %d bytes, the largest frame of Ethernet", c.Frame, transit.MTUFrame)
	case c.Duration < 20*time.Millisecond:
		return fmt.Errorf("--duration: %s is less than 20ms", c.Duration)
	case c.Drain < time.Millisecond:
		return fmt.Errorf("--drain: %s is less than 1ms, in which no queue runs empty", c.Drain)
	}
	return nil
}

// Run measures, writes result and report and prints the summary. When ctx ends it
// keeps the samples that it has. It fails when a sample did.
func (c *Command) Run(ctx context.Context, console *experiment.Console) error {
	return experiment.Run(ctx, console, Experiment(), c.Destination, c.measure)
}

// plan lists the samples: one case after the other in each round, and for each case
// all targets in the round's balanced order.
func (c *Command) plan() []transit.Step {
	var kinds []transit.Step
	for _, routes := range c.Routes {
		for _, flows := range c.Flows {
			kinds = append(kinds, transit.Step{
				Step:      experiment.Step{CaseName: Load{Flows: flows, Routes: routes}.Case(), Planned: c.Duration + transit.WarmTime(flows)},
				Direction: c.Direction, Stream: gen.Stream{Frame: c.Frame, Flows: flows}, Size: float64(c.Frame), Routes: routes,
			})
		}
	}
	return transit.Plan(c.Targets, c.Rounds, kinds)
}

// testbedName tells the beds of a target apart: each number of routes has its own.
func (c *Command) testbedName(target string, routes int) string {
	return target + " with " + strconv.Itoa(routes) + " routes"
}

func (c *Command) measure(ctx context.Context, console *experiment.Console, began time.Time) (result.Result, error) {
	r, err := transit.NewRun(c.describe(console, began), c.plan(), console)
	if err != nil {
		return result.Result{}, err
	}
	r.Progress.Note("%s, %s flows, %s routes", strings.Join(c.Targets, ", "), experiment.Numbers(c.Flows), experiment.Numbers(c.Routes))
	r.Outcome = cacheOutcome
	r.Build = func(ctx context.Context) error { return c.buildAll(ctx, r, console.Version) }
	r.Take = func(ctx context.Context, s transit.Step) result.Sample {
		return c.take(ctx, r.Testbeds, r.Testbeds.ByName[c.testbedName(s.Target, s.Routes)], s, r.Ceilings[s.Ceiling()])
	}
	return r.Measure(ctx, began)
}

func (c *Command) buildAll(ctx context.Context, r *transit.Run, version string) (err error) {
	for _, name := range c.Targets {
		for _, routes := range c.Routes {
			b, err := r.Testbeds.Build(ctx, c.testbedName(name, routes), name, c.options(name, routes))
			if err != nil {
				return err
			}
			if routes == c.Routes[0] {
				r.Result.Targets = append(r.Result.Targets, result.Target{Name: name, Description: b.Forwarder.Describe(), InnerMTU: transit.MTUPacket})
			}
		}
	}
	first := r.Testbeds.ByName[c.testbedName(c.Targets[0], c.Routes[0])].Net
	r.Result.Topology = transit.Topology(first)
	r.Result.Environment, err = transit.Environment(ctx, first, version)
	return err
}

// options are a target's bed. Its cache holds every flow.
func (c *Command) options(target string, routes int) transit.Options {
	return transit.Options{
		Experiment: Name,
		Transit:    router.Options{Routes: routes},
		Forwarder: router.Selvage{
			Binary: c.SelvageBinary, Encapsulation: c.Encap, Mode: c.SelvageTransit,
			NoFlowCache: target == CacheOff, FlowCacheSize: transit.CacheSize(slices.Max(c.Flows)),
		},
	}
}

// take takes the sample of s on b. A failure is in the sample, not beside it.
func (c *Command) take(ctx context.Context, all *transit.Testbeds, b *transit.Testbed, s transit.Step, ceiling transit.Ceiling) result.Sample {
	began := time.Now()
	sample := result.Sample{Target: s.Target, Case: s.CaseName, Round: s.Round, Metrics: map[string]float64{}}
	if err := c.attempt(ctx, all, b, s, ceiling, &sample); err != nil {
		sample.Error = err.Error()
	}
	sample.Duration = time.Since(began).Seconds()
	return sample
}

func (c *Command) attempt(ctx context.Context, all *transit.Testbeds, b *transit.Testbed, s transit.Step, ceiling transit.Ceiling, sample *result.Sample) (err error) {
	busy, err := experiment.Settle(ctx, 50*time.Millisecond)
	if err != nil {
		return err
	}
	r, err := all.Instruments(b, transit.InstrumentOptions{Direction: s.Direction, Stream: s.Stream, Drain: c.Drain})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.Warm(ctx); err != nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	before, err := b.Device.Edge.FlowCache(ctx)
	if err != nil {
		return err
	}
	p, err := r.Peak(ctx, c.Duration)
	if err != nil {
		return err
	}
	after, err := b.Device.Edge.FlowCache(ctx)
	if err != nil {
		return err
	}
	switch {
	case p.Void != "":
		return errors.New(p.Void)
	case p.Lost > 0:
		return fmt.Errorf("%d of %d frames were lost (%s)", p.Lost, p.Sent.Frames, p.Dropped)
	case p.Got.Frames == 0:
		return fmt.Errorf("the device's interface accepted none of %d frames", p.Sent.Offered)
	}
	perNS := transit.PerPacket(p.Forwarded(b.Inline()))
	sample.Metrics = map[string]float64{
		experiment.IdleBusy: busy, transit.NSPerPacket: perNS, transit.DeviceNS: perNS - ceiling.NS, transit.GeneratorCeiling: ceiling.Rate / 1e6,
		"forwarded": p.Forwarded(b.Inline()) / 1e6, HitRate: hitRate(after.Hits-before.Hits, after.Misses-before.Misses),
	}
	return nil
}

// hitRate is the share of look-ups that the cache answered; without any, none.
func hitRate(hits, misses uint64) float64 {
	if hits+misses == 0 {
		return 0
	}
	return float64(hits) / float64(hits+misses)
}

// cacheOutcome is the sample in a few words.
func cacheOutcome(s result.Sample) string {
	if s.Error != "" {
		return experiment.Failure(s)
	}
	words := fmt.Sprintf("%s ns a packet, of these the device's %s", stats.Figure(s.Metrics[transit.NSPerPacket]), stats.Figure(s.Metrics[transit.DeviceNS]))
	if s.Target == CacheOn {
		words += fmt.Sprintf(", %.4g %% hits", 100*s.Metrics[HitRate])
	}
	if busy := s.Metrics[experiment.IdleBusy]; busy > experiment.BusyLimit {
		words += fmt.Sprintf(", but other processes kept the machine %.0f %% busy", 100*busy)
	}
	return words
}

// describe is a result of c before anything was measured.
func (c *Command) describe(console *experiment.Console, began time.Time) result.Result {
	p := result.Parameters{
		"rounds":        result.Count(c.Rounds),
		"order":         result.Words("each case of a round runs all targets in balanced order; each has its own hosts and links for each number of routes, from the first sample to the last"),
		"direction":     result.Words(c.Direction),
		"flows":         result.Counts(c.Flows),
		"routes":        result.Counts(c.Routes).Explained("each a /26 below the frames' networks, to the same next hops"),
		"frame":         result.Count(c.Frame).In("bytes").Explained("with FCS"),
		"encapsulation": result.Words(string(c.Encap)),
		"duration":      result.Time(c.Duration),
		"drain":         result.Time(c.Drain).Explained("at most, less when all frames have arrived"),
		"warmup":        result.Words("two frames of each flow, until all of them arrive"),
		"cache_size":    result.Words("holds every flow both ways"),
		"rate":          result.Words("as fast as generator, device and sink can on one core; all frames must arrive"),
		"ns_per_packet": result.Words("one divided by the rate, over the CPU time of generator, device and sink, so it excludes what other processes take of the core"),
		"generator":     result.Words("a real-time task while it sends"),
		"cores":         result.Words(transit.CoresInWords(false)),
	}
	p["selvage_transit"] = result.Words(c.SelvageTransit)
	experiment.NoteBinary(p, c.SelvageBinary)
	return console.Blank(Name, began, p)
}

// commands is the command as kong reads it.
type commands struct {
	Cache Command `cmd:"" help:"Measure what the flow cache saves, by flows and routes."`
}
