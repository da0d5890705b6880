package experiments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/report"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
)

// Cache is the command line of the experiment on the flow cache: what a packet costs
// with it and without, by flows and by routes behind it.
type Cache struct {
	Targets   []string `placeholder:"NAME" default:"cache-on,cache-off" help:"An edge with its flow cache and one without; ${default} by default. Shares are against cache-off."`
	Direction string   `enum:"encap,decap" default:"encap" help:"From uplink to tunnel, or back: ${enum}."`
	Quick     bool     `help:"In about a minute: up to 100,000 flows, without routes and with 1,000, 3 rounds of short trials."`
	Rounds    int      `default:"3" help:"Samples of each target and case."`
	Output    string   `short:"o" enum:"table,json" default:"table" help:"Print a table or the result as JSON: ${enum}."`
	Results   string   `placeholder:"DIR" default:"results" help:"Directory in which each run makes its own; ${default}."`

	Flows  []int                 `group:"Traffic" placeholder:"FLOWS" help:"UDP flows; 1,1280,10000,100000,1000000 by default, with --quick 1,1280,100000."`
	Routes []int                 `group:"Traffic" placeholder:"ROUTES" default:"0,1000" help:"More specific routes below the one that the frames use, to the same next hops; ${default} by default."`
	Frame  int                   `group:"Traffic" placeholder:"BYTES" default:"64" help:"Frame size with FCS; ${default}."`
	Encap  overlay.Encapsulation `group:"Traffic" enum:"vxlan,geneve,nvgre" default:"vxlan" help:"Encapsulation: ${enum}."`

	Duration       time.Duration `group:"Trials" placeholder:"TIME" help:"Duration of a trial; 2s by default, with --quick 200ms."`
	Drain          time.Duration `group:"Trials" default:"200ms" help:"Longest wait after a trial for frames in flight."`
	SelvageTransit string        `group:"Device" placeholder:"MODE" enum:"auto,native,generic,tc" default:"native" help:"Transit mode of the edges: auto, native, generic or tc; ${default}. The links are veths, on which auto is tc."`
	SelvageBinary  string        `group:"Device" placeholder:"FILE" type:"existingfile" help:"Program that runs the edges; this one by default."`
}

// Validate checks what belongs together and fills in what --quick means.
func (c *Cache) Validate() error {
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
	if err := checkNames(c.Targets, []string{stats.CacheOn, stats.CacheOff}); err != nil {
		return err
	}
	return errors.Join(c.checkCases(), c.checkTrials())
}

func (c *Cache) checkCases() error {
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
		if n < 0 || n > topo.MostRoutes {
			return fmt.Errorf("--routes: %d is not within 0 … %d", n, topo.MostRoutes)
		}
	}
	if len(c.Routes) == 0 {
		return errors.New("--routes: name at least one number, 0 being none")
	}
	return nil
}

func (c *Cache) checkTrials() error {
	switch {
	case c.Rounds < 1:
		return fmt.Errorf("--rounds: %d is not 1 or more", c.Rounds)
	case c.Frame > mtuFrame:
		return fmt.Errorf("--frame: %d is more than %d bytes, the largest frame of Ethernet", c.Frame, mtuFrame)
	case c.Duration < 20*time.Millisecond:
		return fmt.Errorf("--duration: %s is less than 20ms", c.Duration)
	case c.Drain < time.Millisecond:
		return fmt.Errorf("--drain: %s is less than 1ms, in which no queue runs empty", c.Drain)
	}
	return nil
}

// Run measures, writes result and report and prints the summary. When ctx ends it
// keeps the samples that it has. It fails when a sample did.
func (c *Cache) Run(ctx context.Context, console *Console) error {
	return runExperiment(ctx, console, report.CacheExperiment(), c.Results, c.Output, c.measure)
}

// plan lists the samples: one case after the other in each round, and for each case
// all targets in the round's balanced order.
func (c *Cache) plan() []transitStep {
	var kinds []transitStep
	for _, routes := range c.Routes {
		for _, flows := range c.Flows {
			kinds = append(kinds, transitStep{
				step:      step{caseName: stats.Load{Flows: flows, Routes: routes}.Case(), planned: c.Duration + warmTime(flows)},
				direction: c.Direction, stream: gen.Stream{Frame: c.Frame, Flows: flows}, size: float64(c.Frame), routes: routes,
			})
		}
	}
	return planTransit(c.Targets, c.Rounds, kinds)
}

// testbedName tells the beds of a target apart: each number of routes has its own.
func (c *Cache) testbedName(target string, routes int) string {
	return target + " with " + strconv.Itoa(routes) + " routes"
}

func (c *Cache) measure(ctx context.Context, console *Console, began time.Time) (result.Result, error) {
	r, err := newTransitRun(c.describe(console, began), c.plan(), console)
	if err != nil {
		return result.Result{}, err
	}
	r.progress.note("%s, %s flows, %s routes", strings.Join(c.Targets, ", "), numbers(c.Flows), numbers(c.Routes))
	r.outcome = cacheOutcome
	r.build = func(ctx context.Context) error { return c.buildAll(ctx, r, console.Version) }
	r.take = func(ctx context.Context, s transitStep) result.Sample {
		return c.take(ctx, r.testbeds, r.testbeds.byName[c.testbedName(s.target, s.routes)], s, r.ceilings[s.ceiling()])
	}
	return r.measure(ctx, began)
}

func (c *Cache) buildAll(ctx context.Context, r *transitRun, version string) (err error) {
	for _, name := range c.Targets {
		for _, routes := range c.Routes {
			b, err := r.testbeds.build(ctx, c.testbedName(name, routes), name, c.options(name, routes))
			if err != nil {
				return err
			}
			if routes == c.Routes[0] {
				r.result.Targets = append(r.result.Targets, result.Target{Name: name, Description: b.forwarder.Describe(), InnerMTU: mtuPacket})
			}
		}
	}
	first := r.testbeds.byName[c.testbedName(c.Targets[0], c.Routes[0])].net
	r.result.Topology = transitTopology(first)
	r.result.Environment, err = transitEnvironment(ctx, first, version)
	return err
}

// options are a target's bed. Its cache holds every flow.
func (c *Cache) options(target string, routes int) testbedOptions {
	return testbedOptions{
		experiment: stats.Cache,
		transit:    topo.TransitOptions{Routes: routes},
		forwarder: topo.TransitSelvage{
			Binary: c.SelvageBinary, Encapsulation: c.Encap, Mode: c.SelvageTransit,
			NoFlowCache: target == stats.CacheOff, FlowCacheSize: cacheSize(slices.Max(c.Flows)),
		},
	}
}

// take takes the sample of s on b. A failure is in the sample, not beside it.
func (c *Cache) take(ctx context.Context, all *testbeds, b *testbed, s transitStep, ceiling ceiling) result.Sample {
	began := time.Now()
	sample := result.Sample{Target: s.target, Case: s.caseName, Round: s.round, Metrics: map[string]float64{}}
	if err := c.attempt(ctx, all, b, s, ceiling, &sample); err != nil {
		sample.Error = err.Error()
	}
	sample.Duration = time.Since(began).Seconds()
	return sample
}

func (c *Cache) attempt(ctx context.Context, all *testbeds, b *testbed, s transitStep, ceiling ceiling, sample *result.Sample) (err error) {
	busy, err := settle(ctx, 50*time.Millisecond)
	if err != nil {
		return err
	}
	r, err := all.instruments(b, instrumentsOptions{direction: s.direction, stream: s.stream, drain: c.Drain})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.warm(ctx); err != nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	before, err := b.device.Edge.FlowCache(ctx)
	if err != nil {
		return err
	}
	p, err := r.peak(ctx, c.Duration)
	if err != nil {
		return err
	}
	after, err := b.device.Edge.FlowCache(ctx)
	if err != nil {
		return err
	}
	switch {
	case p.void != "":
		return errors.New(p.void)
	case p.lost > 0:
		return fmt.Errorf("%d of %d frames were lost (%s)", p.lost, p.sent.Frames, p.dropped)
	case p.got.Frames == 0:
		return fmt.Errorf("the device's interface accepted none of %d frames", p.sent.Offered)
	}
	perNS := perPacket(p.forwarded(b.inline()))
	sample.Metrics = map[string]float64{
		idleBusy: busy, stats.NSPerPacket: perNS, stats.DeviceNS: perNS - ceiling.ns, stats.Ceiling: ceiling.rate / 1e6,
		"forwarded": p.forwarded(b.inline()) / 1e6, stats.HitRate: hitRate(after.Hits-before.Hits, after.Misses-before.Misses),
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
		return "FAILED: " + strings.Join(strings.Fields(s.Error), " ")
	}
	words := fmt.Sprintf("%s ns a packet, of these the device's %s", stats.Figure(s.Metrics[stats.NSPerPacket]), stats.Figure(s.Metrics[stats.DeviceNS]))
	if s.Target == stats.CacheOn {
		words += fmt.Sprintf(", %.4g %% hits", 100*s.Metrics[stats.HitRate])
	}
	if busy := s.Metrics[idleBusy]; busy > busyLimit {
		words += fmt.Sprintf(", but other processes kept the machine %.0f %% busy", 100*busy)
	}
	return words
}

// describe is a result of c before anything was measured.
func (c *Cache) describe(console *Console, began time.Time) result.Result {
	p := map[string]string{
		"rounds":        strconv.Itoa(c.Rounds),
		"order":         "each case of a round runs all targets in balanced order; each has its own hosts and links for each number of routes, from the first sample to the last",
		"direction":     c.Direction,
		"flows":         numbers(c.Flows),
		"routes":        numbers(c.Routes) + ", each a /26 below the frames' networks, to the same next hops",
		"frame":         fmt.Sprintf("%d bytes with FCS", c.Frame),
		"encapsulation": string(c.Encap),
		"duration":      c.Duration.String(),
		"drain":         c.Drain.String() + " at most, less when all frames have arrived",
		"warmup":        "two frames of each flow, until all of them arrive",
		"cache_size":    "holds every flow both ways",
		"rate":          "as fast as generator, device and sink can on one core; all frames must arrive",
		"ns_per_packet": "one divided by the rate, over the CPU time of generator, device and sink, so it excludes what other processes take of the core",
		"generator":     "a real-time task while it sends",
		"cores":         coresInWords(false),
	}
	p["selvage_transit"] = c.SelvageTransit
	if c.SelvageBinary != "" {
		p["selvage_binary"] = c.SelvageBinary
	}
	return result.Result{
		Schema: result.Schema, Experiment: stats.Cache, Started: began.UTC(), Command: append([]string{"selvage"}, console.Args...),
		Parameters: p, Samples: []result.Sample{},
	}
}

func numbers(list []int) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ", ")
}

// cacheCommands is the command as kong reads it.
type cacheCommands struct {
	Cache Cache `cmd:"" help:"Measure what the flow cache saves, by flows and routes."`
}
