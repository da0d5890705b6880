package ab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/selvage/selvage/lab/dut/router"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
)

// transitCase is the case of Ab that has beds of its own.
const transitCase = "transit"

// stand is a target of a round: its beds, and an instrument for each case, which all stand
// ready at once.
type stand struct {
	target  string
	net     *experiment.Network // nil where transit alone is measured
	transit *transit.Testbed    // nil where it is not measured
	turns   uint32              // of harm to transit
	before  experiment.Counters
	slicers map[string]measure.Sliced // by case
	failed  map[string]error
	began   map[string]time.Time
}

func isTransit(kind string) bool { return strings.HasPrefix(kind, transitCase) }

// kinds are the cases of result samples, in the order in which they are measured.
func (c *Command) kinds() []string {
	var kinds []string
	for _, name := range c.Cases {
		switch name {
		case "rr":
			kinds = append(kinds, "rr-1", "rr-1024")
		case transitCase:
			kinds = append(kinds, TransitEncap, TransitDecap)
		default:
			kinds = append(kinds, name)
		}
	}
	if c.only != nil {
		kinds = slices.DeleteFunc(kinds, func(kind string) bool { return !slices.Contains(c.only, kind) })
	}
	return kinds
}

// turns is how often each target has a case's turn in a cycle, the more often the more
// its slices differ. Bulk transfers copy, and what a copy takes changes most; a loss of few
// packets needs many of them.
func turns(kind string) int {
	switch kind {
	case "tcp":
		return 5
	case "udp":
		return 4
	}
	return 2
}

// buildTime is about how long a target's beds of a round take to build and remove.
const buildTime = 2000 * time.Millisecond

// planned is about how long a round takes.
func (c *Command) planned() time.Duration {
	const besides = 4 * time.Millisecond // of each slice
	slices := 0
	for _, kind := range c.kinds() {
		slices += len(c.Targets) * turns(kind) * (c.Cycles + 1)
	}
	return time.Duration(slices)*(c.Slice+besides) + time.Duration(len(c.Targets))*buildTime + experiment.SettleTime
}

// round is what all targets of one round have.
type round struct {
	*Command
	labs     experiment.Labs
	testbeds *transit.Testbeds // of transit, nil without
	stands   []*stand
}

// takeRound builds everything, measures, removes everything, and adds the samples to r.
func (c *Command) takeRound(ctx context.Context, number int, r *result.Result) (err error) {
	all := &round{Command: c}
	defer func() { err = experiment.Removed(ctx, err, all.close()) }()
	if err := all.build(ctx); err != nil {
		return err
	}
	if number == 1 {
		all.describe(r)
	}
	busy, err := experiment.Settle(ctx, experiment.SettleTime)
	if err != nil {
		return err
	}
	if err := all.cycles(ctx, number); err != nil {
		return err
	}
	samples := all.samples(number, busy, r.Started)
	if err := ctx.Err(); err != nil {
		return err
	}
	result.Add(r, samples...)
	return nil
}

// close ends instruments and removes beds.
func (all *round) close() error {
	for _, s := range all.stands {
		for _, slicer := range s.slicers {
			slicer.Close()
		}
	}
	var errs [2]error
	var wait sync.WaitGroup
	wait.Go(func() { errs[0] = all.labs.Close() })
	if all.testbeds != nil {
		errs[1] = all.testbeds.Close()
	}
	wait.Wait()
	return errors.Join(errs[:]...)
}

// build makes the beds of transit beside the others, and then has the instruments stand.
func (all *round) build(ctx context.Context) error {
	for _, name := range all.Targets {
		all.stands = append(all.stands, &stand{
			target: name, slicers: map[string]measure.Sliced{}, failed: map[string]error{}, began: map[string]time.Time{},
		})
	}
	var failed [2]error
	var wait sync.WaitGroup
	wait.Go(func() { failed[0] = all.buildTransits(ctx) })
	failed[1] = all.buildNetworks(ctx)
	wait.Wait()
	if err := errors.Join(failed[:]...); err != nil {
		return err
	}
	for _, s := range all.stands {
		if all.harm != nil {
			if err := all.harm(s); err != nil {
				return err
			}
		}
		if err := all.ready(ctx, s); err != nil {
			return fmt.Errorf("target %s: %w", s.target, err)
		}
	}
	return nil
}

func (all *round) buildNetworks(ctx context.Context) (err error) {
	if slices.Equal(all.Cases, []string{transitCase}) {
		return nil
	}
	for _, s := range all.stands {
		if s.net, err = all.Command.build(ctx, &all.labs, s.target); err != nil {
			return err
		}
	}
	return nil
}

func (all *round) buildTransits(ctx context.Context) (err error) {
	if !slices.Contains(all.Cases, transitCase) {
		return nil
	}
	if all.testbeds, err = transit.Open(); err != nil {
		return err
	}
	for _, s := range all.stands {
		forwarder, as := all.transitOf(s.target)
		if forwarder == nil {
			continue
		}
		o := transit.Options{Experiment: Name, Transit: router.Options{UnderlayFamily: all.Family}, Forwarder: forwarder}
		if s.transit, err = all.testbeds.Build(ctx, s.target, as, o); err != nil {
			return err
		}
	}
	return nil
}

// transitOf is what a target is between uplinks and underlay, and that experiment's name of
// it; nil for the wire, which has no host, and for a tunnel that only tc has.
func (c *Command) transitOf(target string) (router.Forwarder, string) {
	switch c.path(target) {
	case "limit":
		if c.encapsulation(target) != "" {
			return nil, ""
		}
		return router.Limit{}, transit.LimitName
	case "plain":
		return router.Kernel{Plain: true}, transit.RouteName
	case "kernel":
		return router.Kernel{}, transit.KernelName
	case "selvage":
		// The links are veths, on which the edge would choose tc.
		return router.Selvage{Binary: c.programs.Of(target, c.SelvageBinary), Encapsulation: c.encapsulation(target), Mode: "native", FlowCacheSize: transit.CacheSize(c.Flows)}, target
	}
	return nil, ""
}

// ready has an instrument for each case stand at a target's beds.
func (all *round) ready(ctx context.Context, s *stand) error {
	for _, kind := range all.kinds() {
		slicer, err := all.slicer(ctx, s, kind)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		if slicer != nil {
			s.slicers[kind] = slicer
		}
	}
	if slices.Contains(all.Load, s.target) {
		return s.settle(ctx)
	}
	return nil
}

// Ports of instruments that stand side by side.
const portRR1, portRR1024 = 5301, 5311

func (all *round) slicer(ctx context.Context, s *stand, kind string) (measure.Sliced, error) {
	bulk, rr := all.pins()
	if isTransit(kind) {
		if s.transit == nil {
			return nil, nil
		}
		known := 0
		if slices.Contains(all.Load, s.target) {
			known = load.Flows
		}
		return transitSlicerOf(ctx, all.testbeds, s.transit, kind, all.Flows, known, gen.SinkOptions{Turns: s.turns})
	}
	ends := measure.EndsOf(s.net.Net, all.InnerFamily)
	switch kind {
	case "tcp":
		return measure.StandTCP(ctx, ends, measure.BulkOptions{Streams: all.Streams, Pin: &bulk})
	case "udp":
		return measure.StandUDP(ctx, ends, measure.UDPOptions{Pin: &bulk})
	case "rr-1":
		return measure.StandRR(ctx, ends, measure.RROptions{Pin: &rr, Port: portRR1})
	}
	return measure.StandRR(ctx, ends, measure.RROptions{Request: 1024, Response: 1024, Pin: &rr, Port: portRR1024})
}

// cycles takes the slices: in each cycle one case after the other, and of each all targets,
// so those that are compared are neighbours in time. The first cycle warms up.
func (all *round) cycles(ctx context.Context, number int) error {
	orders := stats.Balanced(all.Targets, number*(all.Cycles+1))[(number-1)*(all.Cycles+1):]
	for i, order := range orders {
		if err := all.cycle(ctx, order); err != nil {
			return err
		}
		if i == 0 {
			if err := all.forget(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (all *round) cycle(ctx context.Context, order []string) error {
	order = slices.Clone(order)
	for _, kind := range all.kinds() {
		for range turns(kind) {
			for _, name := range order {
				all.stands[slices.Index(all.Targets, name)].slice(ctx, kind, all.Slice)
				if err := ctx.Err(); err != nil {
					return err
				}
			}
			slices.Reverse(order)
		}
	}
	return nil
}

func (all *round) forget() error {
	for _, s := range all.stands {
		if err := s.forget(); err != nil {
			return err
		}
	}
	return nil
}

// slice takes one, unless one of this case failed before.
func (s *stand) slice(ctx context.Context, kind string, d time.Duration) {
	slicer := s.slicers[kind]
	if slicer == nil || s.failed[kind] != nil {
		return
	}
	if s.began[kind].IsZero() {
		s.began[kind] = time.Now()
	}
	s.failed[kind] = slicer.Slice(ctx, d)
}

// forget begins anew after the warm-up; a case that failed in it stays as it is.
func (s *stand) forget() (err error) {
	for _, slicer := range s.slicers {
		slicer.Forget()
	}
	maps.DeleteFunc(s.began, func(kind string, _ time.Time) bool { return s.failed[kind] == nil })
	if s.net != nil {
		s.before, err = experiment.ReadCounters(s.net.Net)
	}
	return err
}

// samples are those of the round, in the order in which they began.
func (all *round) samples(number int, busy float64, began time.Time) []result.Sample {
	var samples []result.Sample
	for _, s := range all.stands {
		counted, err := s.counted()
		for _, kind := range slices.Sorted(maps.Keys(s.slicers)) {
			sample := s.sample(kind)
			sample.Target, sample.Case, sample.Round = s.target, kind, number
			sample.Start = s.began[kind].Sub(began).Seconds()
			sample.Metrics[experiment.IdleBusy] = busy
			for name, value := range counted {
				if kind == stats.DecisiveCase || name == experiment.CsumErrors && !isTransit(kind) {
					sample.Metrics[name] = value
				}
			}
			if !isTransit(kind) {
				s.failed[kind] = cmp.Or(s.failed[kind], err)
			}
			if s.failed[kind] != nil {
				sample.Error = s.failed[kind].Error()
			}
			samples = append(samples, sample)
		}
	}
	slices.SortStableFunc(samples, func(a, b result.Sample) int { return cmp.Compare(a.Start, b.Start) })
	return samples
}

// sample is a case's, with one figure of all slices for each that they have.
func (s *stand) sample(kind string) result.Sample {
	sample := s.slicers[kind].Sample()
	for name, values := range sample.Series {
		if len(values) == 0 { // it failed at once
			delete(sample.Series, name)
			continue
		}
		values = stats.Rounded(values)
		sample.Series[name], sample.Metrics[name] = values, stats.Midmean(values)
	}
	return sample
}

// counted is what the counters of a stand's hosts say of its slices. Damaged packets fail them.
func (s *stand) counted() (map[string]float64, error) {
	if s.net == nil || s.before == nil {
		return nil, nil
	}
	after, err := experiment.ReadCounters(s.net.Net)
	if err != nil {
		return nil, err
	}
	metrics := map[string]float64{}
	for name, counter := range map[string]string{experiment.DSACKs: experiment.DSACKsReceived, experiment.Disordered: experiment.OutOfOrder} {
		rose, _ := after.Since(s.before, counter)
		metrics[name] = float64(rose)
	}
	if err := after.Damage(s.before, metrics); err != nil {
		return metrics, fmt.Errorf("%w: the figures of this path are void until its checksums are correct", err)
	}
	return metrics, nil
}

// describe writes down what the targets are, with the first round's beds.
func (all *round) describe(r *result.Result) {
	for _, s := range all.stands {
		if s.net == nil {
			target := result.Target{Name: s.target, InnerMTU: transit.MTUPacket}
			if s.transit != nil {
				target.Description = s.transit.Forwarder.Describe()
				r.Topology = transit.Topology(s.transit.Net)
			}
			r.Targets = append(r.Targets, target)
			continue
		}
		r.Targets = append(r.Targets, all.target(s.target, s.net.Path, r.Environment))
		if s.net.Control != nil {
			r.Parameters[controlPlane] = result.Words(evpn).Explained("%s", s.net.Control.Output)
		}
		r.Topology = experiment.Topology(s.net.Net)
	}
}

// outcome is a round in a few words: the main figure of each case, of all targets in their order.
func (c *Command) outcome(r result.Result, number int) string {
	var words []string
	for _, m := range Metrics() {
		if !slices.Contains([]string{stats.Decisive, measure.RRP50, measure.UDPRate, transit.NDR}, m.Name) || m.Case == "rr-1024" {
			continue
		}
		var figures []string
		for _, name := range c.Targets {
			if v, ok := stats.Values(r, name, m.Case, m.Name)[number]; ok {
				figures = append(figures, stats.Figure(v))
			}
		}
		if len(figures) > 0 {
			words = append(words, m.Case+" "+strings.Join(figures, " ")+" "+m.Unit)
		}
	}
	busy := 0.0
	for _, s := range r.Samples {
		if s.Round == number && s.Error != "" {
			return s.Case + " of " + s.Target + " " + experiment.Failure(s)
		}
		if s.Round == number {
			busy = max(busy, s.Metrics[experiment.IdleBusy])
		}
	}
	if busy > experiment.BusyLimit {
		words = append(words, fmt.Sprintf("but other processes kept the machine %.0f %% busy", 100*busy))
	}
	return strings.Join(words, ", ")
}
