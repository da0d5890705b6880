package failover

import (
	"context"
	"slices"
	"time"

	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// kill kills once, and waits until all is as before.
func (c *Command) kill(ctx context.Context, testbed *testbed, s killStep) (result.Sample, error) {
	fault := testbed.Faults[slices.IndexFunc(testbed.Faults, func(f inject.Fault) bool { return f.Name == s.fault })]
	run, err := measure.StartOutage(ctx, measure.Ends{Client: testbed.Source, Server: testbed.Target, Addr: testbed.Addr}, measure.OutageOptions{
		Flows: c.Flows, Interval: c.Interval, Connections: c.Connections, LineInterval: c.LineInterval,
	})
	if err != nil {
		return result.Sample{}, err
	}
	defer run.Kill()
	ordeal := inject.Trial{Fault: fault, Flows: run, Watch: c.Watch, Patience: inject.Survival, Ready: testbed.Ready, Asked: func(ctx context.Context, k *inject.Times) (err error) {
		k.Steps, err = testbed.Steps(ctx, k.Wall)
		return err
	}}
	k, err := ordeal.Perform(ctx)
	if err != nil {
		return result.Sample{}, err
	}
	outage, err := run.Stop(ctx)
	if err != nil {
		return result.Sample{}, err
	}
	if c.What == "edge" { // its coming back is part of the question
		k.Mend = k.End
	}
	return sampleOfKill(k, outage), nil
}

// sampleOfKill is what the flows say of the kill.
func sampleOfKill(k inject.Times, outage *measure.Outage) result.Sample {
	o := outage.Options
	s := result.Sample{Duration: (k.End - k.Quiet).Seconds(), Metrics: map[string]float64{}, Series: map[string][]float64{}}
	var hit []measure.OutageWindow
	for _, f := range outage.Flows {
		w := f.Within(k.Begin, k.Mend, o.Interval)
		s.Metrics[inject.Lost] += float64(w.Lost)
		s.Metrics[inject.Noise] = max(s.Metrics[inject.Noise], inject.InMS(f.Within(k.Quiet, k.Begin-o.Interval, o.Interval).Silence))
		if w.Lost > 0 || w.Silence >= inject.AffectedSilence {
			hit = append(hit, w)
			s.Series[inject.OutageSeries] = append(s.Series[inject.OutageSeries], inject.InMS(w.Silence))
		}
		back := f.After(k.Mend).Within(k.Mend, k.End, o.Interval)
		s.Metrics[inject.ReturnLost] += float64(back.Lost)
		s.Series[inject.ReturnSeries] = append(s.Series[inject.ReturnSeries], inject.InMS(back.Silence))
	}
	s.Metrics[inject.AffectedFlows] = float64(len(hit))
	outages := slices.Sorted(slices.Values(s.Series[inject.OutageSeries]))
	s.Metrics[inject.OutageP50], s.Metrics[inject.OutageP99], s.Metrics[inject.OutageMax] = stats.Quantile(outages, 0.5), stats.Quantile(outages, 0.99), stats.Quantile(outages, 1)
	s.Metrics[inject.ReturnMax] = slices.Max(s.Series[inject.ReturnSeries])
	s.Metrics[inject.Late] = inject.InMS(outage.Late)
	connections(k, &s, outage)
	timeline(k, &s, hit)
	return s
}

// connections adds how the TCP connections did.
func connections(k inject.Times, s *result.Sample, outage *measure.Outage) {
	on, still := 0, 0
	for _, f := range outage.Connections {
		w := f.Within(k.Begin, k.Mend, outage.Options.LineInterval)
		s.Series[inject.StallSeries] = append(s.Series[inject.StallSeries], inject.InMS(w.Silence))
		if f.Error != "" && f.Ended < k.Mend || w.Open || w.Resumed > k.Begin+inject.Survival {
			continue
		}
		on++
		back := f.After(k.Mend).Within(k.Mend, k.End, outage.Options.LineInterval)
		if f.Error == "" && !back.Open {
			still++
		}
	}
	stalls := slices.Sorted(slices.Values(s.Series[inject.StallSeries]))
	all := float64(len(outage.Connections))
	s.Metrics[inject.Connections], s.Metrics[inject.WentOn] = all, float64(on)
	s.Metrics[inject.Survived], s.Metrics[inject.ReturnSurvived] = float64(on)/all, float64(still)/all
	s.Metrics[inject.StallP50], s.Metrics[inject.StallP99] = stats.Quantile(stalls, 0.5), stats.Quantile(stalls, 0.99)
}

// timeline adds the steps from the fault to its end, in ms. What an edge says it did after
// the first packet came through cannot have been needed for that, so no step lasts longer.
func timeline(k inject.Times, s *result.Sample, hit []measure.OutageWindow) {
	if len(hit) == 0 {
		return
	}
	fault, first, last := k.Injected+inject.InjectSlack, time.Duration(0), time.Duration(0)
	for _, w := range hit {
		if w.Lost == 0 {
			continue // held up, but the path was there
		}
		fault = min(fault, max(w.Broken, k.Begin))
		if w.Resumed != 0 && (first == 0 || w.Resumed < first) {
			first = w.Resumed
		}
		last = max(last, w.Resumed)
	}
	if first == 0 {
		return // no flow went on
	}
	if fault >= k.Injected+inject.InjectSlack {
		fault = k.Begin
	}
	s.Metrics[inject.Repair] = inject.InMS(first - fault)
	at := fault
	for i, step := range Steps() {
		next := []time.Duration{k.At(k.Steps.Noticed), k.At(k.Steps.Written), k.At(k.Steps.Announced), first, last}[i]
		if next == 0 {
			continue
		}
		next = max(at, next)
		if i < 3 {
			next = min(next, max(at, first))
		}
		s.Metrics[step.Metric] = inject.InMS(next - at)
		at = next
	}
}
