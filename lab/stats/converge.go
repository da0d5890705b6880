package stats

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/result"
)

// Converge is the name of the experiment on how fast a fabric that is fed by EVPN finds its
// way again. A sample is an event; its case is what happened.
const Converge = "converge"

// Cases of that experiment.
const (
	Move        = "move"       // a host moves from one edge to another
	EdgeLoss    = "edge-loss"  // an edge vanishes, of two that lead to an address
	LinkLoss    = "link-loss"  // one of an edge's two links of the underlay is cut
	RRRestart   = "rr-restart" // the route reflector is killed and started again
	RRLoss      = "rr-loss"    // the route reflector is killed and stays away
	BaselineBGP = "kernel"     // the target that ratios are against
)

// ConvergeCases are all of them, in the order in which they are shown.
func ConvergeCases() []string { return []string{Move, EdgeLoss, LinkLoss, RRRestart, RRLoss} }

// Metrics of an event, beside those of a kill.
const (
	Flows = "flows"
	// Open are the flows that had not gone on when the event was undone.
	Open = "open"
	// Followed is from the fault to the first packet of the last flow that went on, in ms.
	Followed = "followed"
)

// WaySeries is the series of an event with the outages of one way's flows, of those in
// OutageSeries: "from A".
func WaySeries(way string) string { return OutageSeries + " " + way }

// WayOf is the way of a series, "" of another series.
func WayOf(series string) string {
	way, ok := strings.CutPrefix(series, OutageSeries+" ")
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

// ConvergeSteps are the parts of the time from a fault until the last flow resumed, in order.
func ConvergeSteps() []FailoverStep {
	return []FailoverStep{
		{"step_noticed", "until BFD detected it"},
		{"step_told", "until an edge advertised it"},
		{"step_passed", "until the reflector advertised it"},
		{"step_written", "until an edge used the new path"},
		{"step_followed", "until the last flow resumed"},
	}
}

// Events are the good samples of a target in a case.
func Events(r result.Result, target, caseName string) []result.Sample {
	return slices.DeleteFunc(slices.Clone(r.Samples), func(s result.Sample) bool {
		return s.Target != target || s.Case != caseName || s.Error != ""
	})
}

// Affected are the events that hit flows, or all where none did. One that hits none because all
// flows take the other way says nothing of how long it takes.
func Affected(events []result.Sample) []result.Sample {
	var hit []result.Sample
	for _, s := range events {
		if s.Metrics[AffectedFlows] > 0 {
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
	return Values(result.Result{Samples: Affected(Events(r, target, caseName))}, target, caseName, metric)
}

// ConvergeRows summarise the events by case. Quantiles are over the flows of all events,
// their n is the number of these flows, and lo and hi are the least and the largest of an
// event. Losses, hit flows and steps are medians over events with their interval, and n is the
// number of events. Ratios are of same-round events to those of BaselineBGP.
func ConvergeRows(r result.Result) []result.Row {
	var rows []result.Row
	for _, caseName := range ConvergeCases() {
		for _, name := range Names(r) {
			events := Events(r, name, caseName)
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
	if row.Target == BaselineBGP {
		row.Ratio, row.RatioLo, row.RatioHi = 1, 1, 1
		return
	}
	if base := byRound(r, BaselineBGP, row.Case, row.Metric); len(base) > 0 {
		row.Baseline = BaselineBGP
		compare(row, byRound(r, row.Target, row.Case, row.Metric), base)
	}
}

func eventRows(events []result.Sample) []result.Row {
	hit := Affected(events)
	outages := Pooled(hit, OutageSeries)
	var rows []result.Row
	for _, q := range []struct {
		metric string
		share  float64
	}{{OutageP50, 0.5}, {OutageP99, 0.99}, {OutageMax, 1}} {
		row := extremes(hit, q.metric, "ms", Quantile(outages, q.share))
		row.N = len(outages)
		rows = append(rows, row)
	}
	for _, m := range []struct{ name, unit string }{{Lost, "count"}, {AffectedFlows, "count"}, {Followed, "ms"}} {
		rows = append(rows, overKills(events, m.name, m.unit))
	}
	for _, step := range ConvergeSteps() {
		rows = append(rows, overKills(events, step.Metric, "ms"))
	}
	return slices.DeleteFunc(rows, func(row result.Row) bool { return row.N == 0 })
}

// LostInAll is how many packets all events of a case lost.
func LostInAll(r result.Result, target, caseName string) float64 {
	sum := 0.0
	for _, lost := range OfKills(Events(r, target, caseName), Lost) {
		sum += lost
	}
	return sum
}

// RefuseConverge says, without a final stop, why nothing may be concluded from the events of
// a target in a case, or "" when something may.
func RefuseConverge(r result.Result, target, caseName string) string {
	for _, s := range r.Samples {
		if s.Target == target && s.Case == caseName && s.Error != "" {
			return fmt.Sprintf("%s of %s in round %d has an error (%s)", caseName, target, s.Round, strings.TrimSpace(s.Error))
		}
	}
	events := Events(r, target, caseName)
	if len(events) < MinRounds {
		return fmt.Sprintf("%d of the at least %d events of %s that a verdict on %s needs were measured", len(events), MinRounds, caseName, target)
	}
	noise := Median(OfKills(events, Noise)).Median
	if outage := Quantile(Pooled(Affected(events), OutageSeries), 0.5); noise > max(noisyFloor, outage/2) {
		return fmt.Sprintf("%s's flows were silent for %s ms already in the second before %s (median), so their outages of %s ms say little of it", target, Figure(noise), caseName, Figure(outage))
	}
	return ""
}
