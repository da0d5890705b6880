package converge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Name is the name of the experiment on how fast a fabric that is fed by EVPN finds its
// way again. A sample is an event; its case is what happened.
const Name = "converge"

// Cases of that experiment.
const (
	Move      = "move"       // a host moves from one edge to another
	EdgeLoss  = "edge-loss"  // an edge vanishes, of two that lead to an address
	LinkLoss  = "link-loss"  // one of an edge's two links of the underlay is cut
	RRRestart = "rr-restart" // the route reflector is killed and started again
	RRLoss    = "rr-loss"    // the route reflector is killed and stays away
	baseline  = "kernel"     // the target that ratios are against
)

// Cases are all of them, in the order in which they are shown.
func Cases() []string { return []string{Move, EdgeLoss, LinkLoss, RRRestart, RRLoss} }

// Metrics of an event, beside those of a kill.
const (
	Flows = "flows"

	stepAdvertised = "step_told"
	stepPassed     = "step_passed"
	// Open are the flows that had not gone on when the event was undone.
	Open = "open"
	// Followed is from the fault to the first packet of the last flow that went on, in ms.
	Followed = "followed"
)

// WaySeries is the series of an event with the outages of one way's flows, of those in
// OutageSeries: "from A".
func WaySeries(way string) string { return inject.OutageSeries + " " + way }

// WayOf is the way of a series, "" of another series.
func WayOf(series string) string {
	way, ok := strings.CutPrefix(series, inject.OutageSeries+" ")
	if !ok {
		return ""
	}
	return way
}

// Ways are those of a case, sorted.
func Ways(r result.Result, caseName string) []string {
	var ways []string
	for _, s := range r.Samples {
		for series := range s.Series {
			if way := WayOf(series); s.Case == caseName && way != "" && !slices.Contains(ways, way) {
				ways = append(ways, way)
			}
		}
	}
	slices.Sort(ways)
	return ways
}

// Steps are the parts of the time from a fault until the last flow resumed, in order.
func Steps() []inject.Step {
	return []inject.Step{
		{Metric: inject.StepNoticed, Title: "until BFD detected it"},
		{Metric: stepAdvertised, Title: "until an edge advertised it"},
		{Metric: stepPassed, Title: "until the reflector advertised it"},
		{Metric: inject.StepWritten, Title: "until an edge used the new path"},
		{Metric: "step_followed", Title: "until the last flow resumed"},
	}
}

// Affected are the events that hit flows, or all where none did. One that hits none because all
// flows take the other way says nothing of how long it takes.
func Affected(events []result.Sample) []result.Sample {
	var hit []result.Sample
	for _, s := range events {
		if s.Metrics[inject.AffectedFlows] > 0 {
			hit = append(hit, s)
		}
	}
	if len(hit) == 0 {
		return events
	}
	return hit
}

// byRound is a metric of the events that hit flows.
func byRound(r result.Result, target, caseName, metric string) map[int]float64 {
	return stats.Values(result.Result{Samples: Affected(stats.Good(r, target, caseName))}, target, caseName, metric)
}

// figures are those of a sample, which way is better.
func figures() []stats.Metric {
	metrics := []stats.Metric{
		{Name: inject.OutageP50, Unit: "ms", Title: "Outage of flows, p50"},
		{Name: inject.OutageP99, Unit: "ms", Title: "Outage of flows, p99"},
		{Name: inject.OutageMax, Unit: "ms", Title: "Outage of flows, longest"},
		{Name: inject.Lost, Unit: "count", Title: "Packets lost"},
		{Name: inject.AffectedFlows, Unit: "count", Title: "Flows affected"},
		{Name: Followed, Unit: "ms", Title: "Until the last flow resumed"},
	}
	for _, step := range Steps() {
		metrics = append(metrics, stats.Metric{Name: step.Metric, Unit: "ms", Title: "Time " + step.Title})
	}
	return metrics
}

// summarise summarise the events by case. Quantiles are over the flows of all events,
// their n is the number of these flows, and lo and hi are the least and the largest of an
// event. Losses, hit flows and steps are medians over events with their interval, and n is the
// number of events. Ratios are of same-round events to those of BaselineBGP.
func summarise(r result.Result) []result.Row {
	var rows []result.Row
	for _, caseName := range Cases() {
		for _, name := range stats.Names(r) {
			events := stats.Good(r, name, caseName)
			if len(events) == 0 {
				continue
			}
			for _, row := range eventRows(events) {
				row.Target, row.Case = name, caseName
				against(&row, r)
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// against gives a row its ratio.
func against(row *result.Row, r result.Result) {
	if row.Target == baseline {
		row.Ratio, row.RatioLo, row.RatioHi = 1, 1, 1
		return
	}
	if base := byRound(r, baseline, row.Case, row.Metric); len(base) > 0 {
		row.Baseline = baseline
		stats.Compare(row, byRound(r, row.Target, row.Case, row.Metric), base)
	}
}

func eventRows(events []result.Sample) []result.Row {
	hit := Affected(events)
	outages := stats.Pooled(hit, inject.OutageSeries)
	var rows []result.Row
	for _, q := range []struct {
		metric string
		share  float64
	}{{inject.OutageP50, 0.5}, {inject.OutageP99, 0.99}, {inject.OutageMax, 1}} {
		row := stats.Extremes(hit, q.metric, "ms", stats.Quantile(outages, q.share))
		row.N = len(outages)
		rows = append(rows, row)
	}
	for _, m := range []struct{ name, unit string }{{inject.Lost, "count"}, {inject.AffectedFlows, "count"}, {Followed, "ms"}} {
		rows = append(rows, stats.OverSamples(events, m.name, m.unit))
	}
	for _, step := range Steps() {
		rows = append(rows, stats.OverSamples(events, step.Metric, "ms"))
	}
	return slices.DeleteFunc(rows, func(row result.Row) bool { return row.N == 0 })
}

// LostInAll is how many packets all events of a case lost.
func LostInAll(r result.Result, target, caseName string) float64 {
	sum := 0.0
	for _, lost := range stats.MetricOf(stats.Good(r, target, caseName), inject.Lost) {
		sum += lost
	}
	return sum
}

// refuse says, without a final stop, why nothing may be concluded from the events of
// a target in a case, or "" when something may.
func refuse(r result.Result, target, caseName string) string {
	for _, s := range r.Samples {
		if s.Target == target && s.Case == caseName && s.Error != "" {
			return fmt.Sprintf("%s of %s in round %d has an error (%s)", caseName, target, s.Round, strings.TrimSpace(s.Error))
		}
	}
	events := stats.Good(r, target, caseName)
	if len(events) < stats.MinRounds {
		return fmt.Sprintf("%d of the at least %d events of %s that a verdict on %s needs were measured", len(events), stats.MinRounds, caseName, target)
	}
	noise := stats.Median(stats.MetricOf(events, inject.Noise)).Median
	if outage := stats.Quantile(stats.Pooled(Affected(events), inject.OutageSeries), 0.5); noise > max(inject.NoisyFloor, outage/2) {
		return fmt.Sprintf("%s's flows were silent for %s ms already in the second before %s (median), so their outages of %s ms say little of it", target, stats.Figure(noise), caseName, stats.Figure(outage))
	}
	return ""
}
