package stats

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/result"
)

// Failover is the name of the experiment on what kills cost. A sample is a kill; its case is
// what was killed and how, as "gateway/link-down".
const Failover = "failover"

// Metrics of that experiment: of the summary, and of a kill where they are in both. Times
// are milliseconds.
const (
	OutageP50     = "outage_p50" // of the flows that were hit
	OutageP99     = "outage_p99" //
	OutageMax     = "outage_max" //
	Survived      = "survived"   // share of the connections that went on, 0 … 1
	StallP50      = "stall_p50"  // of the connections
	StallP99      = "stall_p99"
	Lost          = "lost"     // packets of all flows, there and back
	AffectedFlows = "affected" // flows that lost packets or were silent
	ReturnMax     = "return_gap_max"
	ReturnLost    = "return_lost"
	// ReturnSurvived is the share of the connections that outlived the return too.
	ReturnSurvived = "return_survived"

	Connections = "connections" // of a kill
	WentOn      = "went_on"     // how many of them did
	// Noise is the longest silence in the second before a kill.
	Noise = "noise_max"
	// Late is the longest that the sender of the flows was held up.
	Late = "sender_late"
	// Repair is from the fault to the first packet that was forwarded again.
	Repair = "repair"
)

// Series of a kill: one value a flow or connection, in ms. Outages are those of the flows that
// were hit.
const (
	OutageSeries = "outage_ms"
	StallSeries  = "stall_ms"
	ReturnSeries = "return_gap_ms"
)

// FailoverStep is a part of the time from a fault to its end.
type FailoverStep struct{ Metric, Title string }

// FailoverSteps are those parts, in order.
func FailoverSteps() []FailoverStep {
	return []FailoverStep{
		{"step_noticed", "until it was detected"},
		{"step_written", "until tables were written"},
		{"step_announced", "until addresses were announced"},
		{"step_forwarded", "until the first packet was forwarded"},
		{"step_followed", "until the last flow resumed"},
	}
}

// Killed splits a case: "gateway" and "link-down" of "gateway/link-down".
func Killed(caseName string) (what, how string) {
	what, how, _ = strings.Cut(caseName, "/")
	return what, how
}

// FailoverCases are the cases of the summary: what was killed, in all ways, then each way.
func FailoverCases(r result.Result) []string {
	var cases []string
	for _, caseName := range Cases(r) {
		if what, _ := Killed(caseName); !slices.Contains(cases, what) {
			cases = append(cases, what)
		}
	}
	return append(cases, Cases(r)...)
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

// Pooled are the values of a series of all kills, ascending.
func Pooled(kills []result.Sample, series string) []float64 {
	var all []float64
	for _, k := range kills {
		all = append(all, k.Series[series]...)
	}
	slices.Sort(all)
	return all
}

// Quantile is the least of sorted values that the share q of them does not exceed, 0 of
// none: no interpolation between an outage and a larger one.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, max(0, int(math.Ceil(q*float64(len(sorted))))-1))]
}

// OfKills is one metric of each kill that has it.
func OfKills(kills []result.Sample, metric string) []float64 {
	var values []float64
	for _, k := range kills {
		if v, ok := k.Metrics[metric]; ok {
			values = append(values, v)
		}
	}
	return values
}

// FailoverRows summarise the kills. n is their number. Quantiles are over the flows of all
// kills, and lo and hi the least and the largest of a kill; steps, losses and the returns'
// outages are medians over kills with their interval.
func FailoverRows(r result.Result) []result.Row {
	var rows []result.Row
	for _, caseName := range FailoverCases(r) {
		for _, name := range Names(r) {
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
	outages, stalls := Pooled(kills, OutageSeries), Pooled(kills, StallSeries)
	rows := []result.Row{
		extremes(kills, OutageP50, "ms", Quantile(outages, 0.5)), extremes(kills, OutageP99, "ms", Quantile(outages, 0.99)),
		extremes(kills, OutageMax, "ms", Quantile(outages, 1)), extremes(kills, Survived, "share", share(kills)),
		extremes(kills, StallP50, "ms", Quantile(stalls, 0.5)), extremes(kills, StallP99, "ms", Quantile(stalls, 0.99)),
		extremes(kills, ReturnMax, "ms", Quantile(Pooled(kills, ReturnSeries), 1)),
		extremes(kills, ReturnSurvived, "share", least(OfKills(kills, ReturnSurvived))),
	}
	for _, m := range []struct{ name, unit string }{{Lost, "count"}, {AffectedFlows, "count"}, {ReturnLost, "count"}, {Repair, "ms"}} {
		rows = append(rows, overKills(kills, m.name, m.unit))
	}
	for _, step := range FailoverSteps() {
		rows = append(rows, overKills(kills, step.Metric, "ms"))
	}
	return slices.DeleteFunc(rows, func(row result.Row) bool { return row.N == 0 })
}

// share is the part of all connections that went on.
func share(kills []result.Sample) float64 {
	all, on := 0.0, 0.0
	for _, k := range kills {
		all, on = all+k.Metrics[Connections], on+k.Metrics[WentOn]
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

// extremes is a row of a value over all kills, between the least and the largest of one.
func extremes(kills []result.Sample, metric, unit string, value float64) result.Row {
	each := OfKills(kills, metric)
	if len(each) == 0 {
		return result.Row{}
	}
	return result.Row{Metric: metric, Unit: unit, Median: value, Lo: slices.Min(each), Hi: slices.Max(each), N: len(each)}
}

// overKills is a row of the median over kills.
func overKills(kills []result.Sample, metric, unit string) result.Row {
	iv := Median(OfKills(kills, metric))
	return result.Row{Metric: metric, Unit: unit, Median: iv.Median, Lo: iv.Lo, Hi: iv.Hi, N: iv.N}
}

// noisyFloor is the silence (ms) before a kill that is noise of the machine in any case.
const noisyFloor = 20

// RefuseFailover says, without a final stop, why nothing may be concluded from the kills of
// a target, or "" when something may.
func RefuseFailover(r result.Result, target string) string {
	for _, s := range r.Samples {
		if s.Target == target && s.Error != "" {
			return fmt.Sprintf("kill %d (%s) has an error (%s)", s.Round, s.Case, strings.TrimSpace(s.Error))
		}
	}
	cases := FailoverCases(r)
	if len(cases) == 0 {
		return "the result holds no kills"
	}
	kills := Kills(r, target, cases[0])
	if len(kills) < MinRounds {
		return fmt.Sprintf("%d of the at least %d kills that a verdict needs were made", len(kills), MinRounds)
	}
	noise := Median(OfKills(kills, Noise)).Median
	if outage := Quantile(Pooled(kills, OutageSeries), 0.5); noise > max(noisyFloor, outage/2) {
		return fmt.Sprintf("flows were silent for %s ms already in the second before the kills (median), so their outages of %s ms say little of the kills", Figure(noise), Figure(outage))
	}
	return ""
}
