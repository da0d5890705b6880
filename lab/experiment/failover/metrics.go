package failover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Name is the name of the experiment on what kills cost. A sample is a kill; its case is
// what was killed and how, as "gateway/link-down".
const Name = "failover"

// Steps are those parts, in order.
func Steps() []inject.Step {
	return []inject.Step{
		{Metric: inject.StepNoticed, Title: "until it was detected"},
		{Metric: inject.StepWritten, Title: "until tables were written"},
		{Metric: stepAnnounced, Title: "until addresses were announced"},
		{Metric: "step_forwarded", Title: "until the first packet was forwarded"},
		{Metric: "step_followed", Title: "until the last flow resumed"},
	}
}

// stepAnnounced is the metric of a step, in ms.
const stepAnnounced = "step_announced"

// faultParameter is the name of the parameter that says what a fault is.
func faultParameter(how string) string { return "fault_" + how }

// Killed splits a case: "gateway" and "link-down" of "gateway/link-down".
func Killed(caseName string) (what, how string) {
	what, how, _ = strings.Cut(caseName, "/")
	return what, how
}

// cases are the cases of the summary: what was killed, in all ways, then each way.
func cases(r result.Result) []string {
	var cases []string
	for _, caseName := range stats.Cases(r) {
		if what, _ := Killed(caseName); !slices.Contains(cases, what) {
			cases = append(cases, what)
		}
	}
	return append(cases, stats.Cases(r)...)
}

// Kills are the good samples of a case of the summary.
func Kills(r result.Result, target, caseName string) []result.Sample {
	var kills []result.Sample
	for _, s := range r.Samples {
		what, how := Killed(s.Case)
		if s.Target == target && s.Error == "" && (caseName == s.Case || caseName == what && how != "") {
			kills = append(kills, s)
		}
	}
	return kills
}

// figures are those of a sample, which way is better.
func figures() []stats.Metric {
	metrics := []stats.Metric{
		{Name: inject.OutageP50, Unit: "ms", Title: "Outage of flows, p50"},
		{Name: inject.OutageP99, Unit: "ms", Title: "Outage of flows, p99"},
		{Name: inject.OutageMax, Unit: "ms", Title: "Outage of flows, longest"},
		{Name: inject.Survived, Unit: "share", Title: "Connections that went on", Higher: true},
		{Name: inject.StallP50, Unit: "ms", Title: "Stall of connections, p50"},
		{Name: inject.StallP99, Unit: "ms", Title: "Stall of connections, p99"},
		{Name: inject.ReturnMax, Unit: "ms", Title: "Outage when it comes back, longest"},
		{Name: inject.ReturnSurvived, Unit: "share", Title: "Connections that went on when it came back", Higher: true},
		{Name: inject.Lost, Unit: "count", Title: "Packets lost"},
		{Name: inject.AffectedFlows, Unit: "count", Title: "Flows affected"},
		{Name: inject.ReturnLost, Unit: "count", Title: "Packets lost when it came back"},
		{Name: inject.Repair, Unit: "ms", Title: "Repair"},
	}
	for _, step := range Steps() {
		metrics = append(metrics, stats.Metric{Name: step.Metric, Unit: "ms", Title: "Time " + step.Title})
	}
	return metrics
}

// summarise summarise the kills. n is their number. Quantiles are over the flows of all
// kills, and lo and hi the least and the largest of a kill; steps, losses and the returns'
// outages are medians over kills with their interval.
func summarise(r result.Result) []result.Row {
	var rows []result.Row
	for _, caseName := range cases(r) {
		for _, name := range stats.Names(r) {
			if kills := Kills(r, name, caseName); len(kills) > 0 {
				for _, row := range killRows(kills) {
					row.Target, row.Case = name, caseName
					rows = append(rows, row)
				}
			}
		}
	}
	return rows
}

func killRows(kills []result.Sample) []result.Row {
	outages, stalls := stats.Pooled(kills, inject.OutageSeries), stats.Pooled(kills, inject.StallSeries)
	rows := []result.Row{
		stats.Extremes(kills, inject.OutageP50, "ms", stats.Quantile(outages, 0.5)), stats.Extremes(kills, inject.OutageP99, "ms", stats.Quantile(outages, 0.99)),
		stats.Extremes(kills, inject.OutageMax, "ms", stats.Quantile(outages, 1)), stats.Extremes(kills, inject.Survived, "share", share(kills)),
		stats.Extremes(kills, inject.StallP50, "ms", stats.Quantile(stalls, 0.5)), stats.Extremes(kills, inject.StallP99, "ms", stats.Quantile(stalls, 0.99)),
		stats.Extremes(kills, inject.ReturnMax, "ms", stats.Quantile(stats.Pooled(kills, inject.ReturnSeries), 1)),
		stats.Extremes(kills, inject.ReturnSurvived, "share", least(stats.MetricOf(kills, inject.ReturnSurvived))),
	}
	for _, m := range []struct{ name, unit string }{{inject.Lost, "count"}, {inject.AffectedFlows, "count"}, {inject.ReturnLost, "count"}, {inject.Repair, "ms"}} {
		rows = append(rows, stats.OverSamples(kills, m.name, m.unit))
	}
	for _, step := range Steps() {
		rows = append(rows, stats.OverSamples(kills, step.Metric, "ms"))
	}
	return slices.DeleteFunc(rows, func(row result.Row) bool { return row.N == 0 })
}

// share is the part of all connections that went on.
func share(kills []result.Sample) float64 {
	all, on := 0.0, 0.0
	for _, k := range kills {
		all, on = all+k.Metrics[inject.Connections], on+k.Metrics[inject.WentOn]
	}
	if all == 0 {
		return 0
	}
	return on / all
}

func least(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return slices.Min(values)
}

// refuse says, without a final stop, why nothing may be concluded from the kills of
// a target, or "" when something may.
func refuse(r result.Result, target string) string {
	for _, s := range r.Samples {
		if s.Target == target && s.Error != "" {
			return fmt.Sprintf("kill %d (%s) has an error (%s)", s.Round, s.Case, strings.TrimSpace(s.Error))
		}
	}
	cases := cases(r)
	if len(cases) == 0 {
		return "the result holds no kills"
	}
	kills := Kills(r, target, cases[0])
	if len(kills) < stats.MinRounds {
		return fmt.Sprintf("%d of the at least %d kills that a verdict needs were made", len(kills), stats.MinRounds)
	}
	noise := stats.Median(stats.MetricOf(kills, inject.Noise)).Median
	if outage := stats.Quantile(stats.Pooled(kills, inject.OutageSeries), 0.5); noise > max(inject.NoisyFloor, outage/2) {
		return fmt.Sprintf("flows were silent for %s ms already in the second before the kills (median), so their outages of %s ms say little of the kills", stats.Figure(noise), stats.Figure(outage))
	}
	return ""
}
