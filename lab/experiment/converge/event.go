package converge

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/selvage/selvage/lab/experiment/converge/fabric"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// convergePort is that of the first way's flows; each way has a port of its own, as some have
// one target.
const convergePort = 5310

// convergePatience is for how much longer than the watch flows may take to go on.
const convergePatience = 3 * time.Second

// wayRuns are the flows of an event, by its ways.
type wayRuns []*measure.OutageRun

// Steady waits until the flows of all ways have gone on for a while at the same time.
func (all wayRuns) Steady(ctx context.Context, while time.Duration) error {
	errs := make(chan error, len(all))
	for _, run := range all {
		go func() { errs <- run.Steady(ctx, while) }()
	}
	var err error
	for range all {
		err = errors.Join(err, <-errs)
	}
	return err
}

func (all wayRuns) kill() {
	for _, run := range all {
		run.Kill()
	}
}

// flowsOf is how many flows each way of a case has: twice as many where only those are hit
// that take one of two ways.
func (c *Command) flowsOf(caseName string) int {
	if caseName == EdgeLoss || caseName == LinkLoss {
		return 2 * c.Flows
	}
	return c.Flows
}

// start starts the flows of a case. Those to the service have one port: any of its hosts
// answers any of them.
func (c *Command) start(ctx context.Context, caseName string, ways []fabric.Way) (wayRuns, error) {
	var all wayRuns
	for i, w := range ways {
		port := convergePort + i
		if i > 0 && w.Addr == ways[0].Addr && w.Server != ways[0].Server {
			port = convergePort
		}
		run, err := measure.StartOutage(ctx, measure.Ends{Client: w.Client, Server: w.Server, Addr: w.Addr}, measure.OutageOptions{
			Flows: c.flowsOf(caseName), Interval: c.Interval, Connections: -1, Port: port,
		})
		if err != nil {
			all.kill()
			return nil, err
		}
		all = append(all, run)
	}
	return all, nil
}

// event has something happen once, and waits until all is as before.
func (c *Command) event(ctx context.Context, n *fabric.Fabric, caseName string) (s result.Sample, err error) {
	if err := n.Ready(ctx); err != nil {
		return s, err
	}
	ways := n.Ways(caseName)
	runs, err := c.start(ctx, caseName, ways)
	if err != nil {
		return s, err
	}
	defer runs.kill()
	wire, err := n.Listen(ctx)
	if err != nil {
		return s, err
	}
	var steps fabric.WireSteps
	var noticed time.Time
	ordeal := inject.Trial{Fault: n.Fault(caseName), Flows: runs, Watch: c.Watch, Patience: convergePatience, Ready: n.Ready, Asked: func(ctx context.Context, k *inject.Times) error {
		var received, reported error
		if err := wire.Stop(); err != nil {
			return err
		}
		steps, received = wire.Steps(k.Wall)
		noticed, reported = n.Noticed(ctx, caseName, k.Wall)
		return errors.Join(received, reported)
	}}
	k, err := ordeal.Perform(ctx)
	if err = errors.Join(err, wire.Stop()); err != nil {
		return s, err
	}
	var outages []*measure.Outage
	for _, run := range runs {
		outage, err := run.Stop(ctx)
		if err != nil {
			return s, err
		}
		outages = append(outages, outage)
	}
	var at []time.Time
	if caseName == Move || caseName == EdgeLoss { // what is told in other cases mends nothing
		at = []time.Time{noticed, steps.Advertised, steps.Passed, steps.Written}
	}
	return converged(k, caseName, ways, outages, at), nil
}

// converged is what the flows say of an event. at are the times of all steps but the last.
func converged(k inject.Times, caseName string, ways []fabric.Way, outages []*measure.Outage, at []time.Time) result.Sample {
	s := result.Sample{Duration: (k.End - k.Quiet).Seconds(), Metrics: map[string]float64{}, Series: map[string][]float64{}}
	until := k.Mend - inject.QuietAfter/2            // what breaks later, breaks by the mending
	if caseName == RRRestart || caseName == RRLoss { // coming back is part of the question
		until = k.End
	}
	var all, hit []wayFlow
	for i, outage := range outages {
		s.Metrics[inject.Late] = max(s.Metrics[inject.Late], inject.InMS(outage.Late))
		for _, f := range outage.Flows {
			w := wayFlow{f.Within(k.Begin, until, outage.Options.Interval), lossOf(f).Within(k.Begin, until, outage.Options.Interval), ways[i].Name}
			s.Metrics[inject.Noise] = max(s.Metrics[inject.Noise], inject.InMS(f.Within(k.Quiet, k.Begin-outage.Options.Interval, outage.Options.Interval).Silence))
			s.Metrics[inject.Lost] += float64(w.Lost)
			all = append(all, w)
			if w.Lost > 0 || w.Silence >= inject.AffectedSilence {
				hit = append(hit, w)
			}
		}
	}
	s.Metrics[Flows], s.Metrics[inject.AffectedFlows] = float64(len(all)), float64(len(hit))
	silences(k, &s, caseName, all, hit)
	steppedThrough(k, &s, hit, at)
	return s
}

// wayFlow is what happened to a flow of a way.
type wayFlow struct {
	measure.OutageWindow
	loss measure.OutageWindow // by those breaks alone in which packets are missing
	way  string
}

// silences adds how long flows were silent: those that count in a case.
func silences(k inject.Times, s *result.Sample, caseName string, all, hit []wayFlow) {
	counted := hit
	if len(hit) == 0 || caseName == Move {
		counted = all
	}
	s.Metrics[Open] = 0
	for _, w := range counted {
		s.Series[inject.OutageSeries] = append(s.Series[inject.OutageSeries], inject.InMS(w.Silence))
		if len(hit) > 0 {
			s.Series[WaySeries(w.way)] = append(s.Series[WaySeries(w.way)], inject.InMS(w.Silence))
		}
		if w.Lost > 0 && (w.Open || w.Broken < k.Mend && w.Resumed > k.Mend) {
			s.Metrics[Open]++
		}
	}
	sorted := slices.Sorted(slices.Values(s.Series[inject.OutageSeries]))
	s.Metrics[inject.OutageP50], s.Metrics[inject.OutageP99], s.Metrics[inject.OutageMax] = stats.Quantile(sorted, 0.5), stats.Quantile(sorted, 0.99), stats.Quantile(sorted, 1)
}

// lossOf is f with those of its breaks alone in which packets are missing.
func lossOf(f measure.OutageFlow) measure.OutageFlow {
	f.Breaks = slices.DeleteFunc(slices.Clone(f.Breaks), func(b measure.OutageBreak) bool { return b.Lost == 0 })
	return f
}

// steppedThrough adds the steps from the fault until the last flow resumed, in ms. What
// happened after that cannot have been needed for it, and is no step.
func steppedThrough(k inject.Times, s *result.Sample, hit []wayFlow, at []time.Time) {
	fault, last := time.Duration(0), time.Duration(0)
	for _, w := range hit {
		if w.Lost == 0 {
			continue // held up, but the path was there
		}
		if broken := max(w.loss.Broken, k.Begin); fault == 0 || broken < fault {
			fault = broken
		}
		if w.loss.Resumed == 0 {
			return // it did not end
		}
		last = max(last, w.loss.Resumed)
	}
	if last == 0 {
		return
	}
	s.Metrics[Followed] = inject.InMS(last - fault)
	steps := Steps()
	now := fault
	for i, t := range at {
		next := k.At(t)
		if next == 0 || next > last {
			continue
		}
		next = max(now, next)
		s.Metrics[steps[i].Metric] = inject.InMS(next - now)
		now = next
	}
	s.Metrics[steps[len(steps)-1].Metric] = inject.InMS(last - now)
}
