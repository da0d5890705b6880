package experiments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
)

const (
	// quietBefore a kill the flows run undisturbed: what is silent then is noise.
	quietBefore = time.Second
	// quietAfter is for how long all must go on before the kill is undone, and after that.
	quietAfter = 500 * time.Millisecond
	// survival is how soon a connection goes on that has survived.
	survival = 10 * time.Second
	// affectedSilence is the silence that a flow without losses shows which was hit: it is longer
	// than what the scheduler of a busy machine does.
	affectedSilence = 100 * time.Millisecond
	// injectSlack is for how long after a fault's call its effect may begin.
	injectSlack = 20 * time.Millisecond
)

// killing is a kill and when its parts were, by the flows' clock.
type killing struct {
	quiet, begin, injected, mend, end time.Duration
	wall                              time.Time // at begin
	steps                             topo.FailoverSteps
}

// kill kills once, and waits until all is as before.
func (c *Failover) kill(ctx context.Context, testbed *failoverTestbed, s killStep) (result.Sample, error) {
	fault := testbed.Faults[slices.IndexFunc(testbed.Faults, func(f topo.Fault) bool { return f.Name == s.fault })]
	run, err := measure.StartOutage(ctx, measure.Ends{Client: testbed.Source, Server: testbed.Target, Addr: testbed.Addr}, measure.OutageOptions{
		Flows: c.Flows, Interval: c.Interval, Connections: c.Connections, LineInterval: c.LineInterval,
	})
	if err != nil {
		return result.Sample{}, err
	}
	defer run.Kill()
	ordeal := ordeal{fault: fault, flows: run, watch: c.Watch, patience: survival, ready: testbed.Ready, asked: func(ctx context.Context, k *killing) (err error) {
		k.steps, err = testbed.Steps(ctx, k.wall)
		return err
	}}
	k, err := ordeal.perform(ctx)
	if err != nil {
		return result.Sample{}, err
	}
	outage, err := run.Stop(ctx)
	if err != nil {
		return result.Sample{}, err
	}
	if c.What == "edge" { // its coming back is part of the question
		k.mend = k.end
	}
	return k.sample(outage), nil
}

// steadier are flows that can be waited for until all of them have gone on for a while.
type steadier interface {
	Steady(ctx context.Context, while time.Duration) error
}

// ordeal is a fault that flows go through.
type ordeal struct {
	fault topo.Fault
	flows steadier
	watch time.Duration // between the fault and its undoing
	// patience is for how much longer the flows may take to go on.
	patience time.Duration
	ready    func(context.Context) error
	asked    func(context.Context, *killing) error // after the flows went on
}

// perform injects the fault, watches what the flows do, and mends it, also when watching
// failed: the next one finds the network whole.
func (o ordeal) perform(ctx context.Context) (k killing, err error) {
	if err := steadily(ctx, o.flows, quietBefore, survival); err != nil {
		return k, fmt.Errorf("before the fault: %w", err)
	}
	if k.begin, err = measure.Monotonic(); err != nil {
		return k, err
	}
	k.quiet, k.wall = k.begin-quietBefore, time.Now().Round(0) // its wall clock alone: the edges' times have no other
	err = o.fault.Inject(ctx)
	if err == nil {
		err = o.observe(ctx, &k)
	}
	var clock error
	k.mend, clock = measure.Monotonic()
	if err := errors.Join(err, clock, o.fault.Mend(ctx)); err != nil {
		return k, err
	}
	if err := o.ready(ctx); err != nil {
		return k, err
	}
	if err := steadily(ctx, o.flows, 2*quietAfter, survival); err != nil {
		return k, fmt.Errorf("after the fault was undone: %w", err)
	}
	k.end, err = measure.Monotonic()
	return k, err
}

// observe waits until the flows go on, and asks the edges what they did. Flows that stay
// silent are a finding and no error.
func (o ordeal) observe(ctx context.Context, k *killing) (err error) {
	if k.injected, err = measure.Monotonic(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(o.watch):
	}
	if err := steadily(ctx, o.flows, quietAfter, o.patience); err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return o.asked(ctx, k)
}

// steadily waits until all flows have gone on for a while, and only so long.
func steadily(ctx context.Context, flows steadier, while, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience+while)
	defer cancel()
	return flows.Steady(ctx, while)
}

func inMS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// sample is what the flows say of the kill.
func (k killing) sample(outage *measure.Outage) result.Sample {
	o := outage.Options
	s := result.Sample{Duration: (k.end - k.quiet).Seconds(), Metrics: map[string]float64{}, Series: map[string][]float64{}}
	var hit []measure.OutageWindow
	for _, f := range outage.Flows {
		w := f.Within(k.begin, k.mend, o.Interval)
		s.Metrics[stats.Lost] += float64(w.Lost)
		s.Metrics[stats.Noise] = max(s.Metrics[stats.Noise], inMS(f.Within(k.quiet, k.begin-o.Interval, o.Interval).Silence))
		if w.Lost > 0 || w.Silence >= affectedSilence {
			hit = append(hit, w)
			s.Series[stats.OutageSeries] = append(s.Series[stats.OutageSeries], inMS(w.Silence))
		}
		back := f.After(k.mend).Within(k.mend, k.end, o.Interval)
		s.Metrics[stats.ReturnLost] += float64(back.Lost)
		s.Series[stats.ReturnSeries] = append(s.Series[stats.ReturnSeries], inMS(back.Silence))
	}
	s.Metrics[stats.AffectedFlows] = float64(len(hit))
	outages := slices.Sorted(slices.Values(s.Series[stats.OutageSeries]))
	s.Metrics[stats.OutageP50], s.Metrics[stats.OutageP99], s.Metrics[stats.OutageMax] = stats.Quantile(outages, 0.5), stats.Quantile(outages, 0.99), stats.Quantile(outages, 1)
	s.Metrics[stats.ReturnMax] = slices.Max(s.Series[stats.ReturnSeries])
	s.Metrics[stats.Late] = inMS(outage.Late)
	k.connections(&s, outage)
	k.timeline(&s, hit)
	return s
}

// connections adds how the TCP connections did.
func (k killing) connections(s *result.Sample, outage *measure.Outage) {
	on, still := 0, 0
	for _, f := range outage.Connections {
		w := f.Within(k.begin, k.mend, outage.Options.LineInterval)
		s.Series[stats.StallSeries] = append(s.Series[stats.StallSeries], inMS(w.Silence))
		if f.Error != "" && f.Ended < k.mend || w.Open || w.Resumed > k.begin+survival {
			continue
		}
		on++
		back := f.After(k.mend).Within(k.mend, k.end, outage.Options.LineInterval)
		if f.Error == "" && !back.Open {
			still++
		}
	}
	stalls := slices.Sorted(slices.Values(s.Series[stats.StallSeries]))
	all := float64(len(outage.Connections))
	s.Metrics[stats.Connections], s.Metrics[stats.WentOn] = all, float64(on)
	s.Metrics[stats.Survived], s.Metrics[stats.ReturnSurvived] = float64(on)/all, float64(still)/all
	s.Metrics[stats.StallP50], s.Metrics[stats.StallP99] = stats.Quantile(stalls, 0.5), stats.Quantile(stalls, 0.99)
}

// timeline adds the steps from the fault to its end, in ms. What an edge says it did after
// the first packet came through cannot have been needed for that, so no step lasts longer.
func (k killing) timeline(s *result.Sample, hit []measure.OutageWindow) {
	if len(hit) == 0 {
		return
	}
	fault, first, last := k.injected+injectSlack, time.Duration(0), time.Duration(0)
	for _, w := range hit {
		if w.Lost == 0 {
			continue // held up, but the path was there
		}
		fault = min(fault, max(w.Broken, k.begin))
		if w.Resumed != 0 && (first == 0 || w.Resumed < first) {
			first = w.Resumed
		}
		last = max(last, w.Resumed)
	}
	if first == 0 {
		return // no flow went on
	}
	if fault >= k.injected+injectSlack {
		fault = k.begin
	}
	s.Metrics[stats.Repair] = inMS(first - fault)
	at := fault
	for i, step := range stats.FailoverSteps() {
		next := []time.Duration{k.at(k.steps.Noticed), k.at(k.steps.Written), k.at(k.steps.Announced), first, last}[i]
		if next == 0 {
			continue
		}
		next = max(at, next)
		if i < 3 {
			next = min(next, max(at, first))
		}
		s.Metrics[step.Metric] = inMS(next - at)
		at = next
	}
}

// at is a time of the edges by the flows' clock, 0 for none.
func (k killing) at(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return k.begin + t.Sub(k.wall)
}
