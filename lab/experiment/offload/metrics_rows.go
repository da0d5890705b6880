package offload

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// summarise is the summary of the offload experiment: the figures of every case with
// their ratio to the kernel in the same state, the gains against all off, and what each
// offload adds. Each also as the mean over all sizes, from rounds that have them all.
func summarise(r result.Result) []result.Row {
	o := offloads{r, Sizes(r)}
	cases := append(Streams(r), Means(r)...)
	var rows []result.Row
	for _, m := range figures() {
		for _, s := range cases {
			rows = append(rows, o.figures(s, m)...)
		}
	}
	for _, g := range []struct{ metric, of string }{{ThroughputGain, Throughput}, {ProcessorChange, Processor}, {EfficiencyGain, Efficiency}} {
		for _, s := range cases {
			if s.State != AllOff {
				rows = append(rows, o.gains(s, s.State, AllOff, g.metric, g.of)...)
			}
		}
	}
	for _, a := range Attributions() {
		for _, s := range cases {
			if s.State == a.With {
				s.State = a.Kind
				rows = append(rows, o.gains(s, a.With, a.Without, a.Metric, Throughput)...)
			}
		}
	}
	return rows
}

// figures are those of a case, without its name.
func figures() []stats.Metric {
	return []stats.Metric{
		{Case: "", Name: Throughput, Unit: "Gbit/s", Title: "Throughput", Higher: true},
		{Case: "", Name: Processor, Unit: "%", Title: "Processor time", Higher: false},
		{Case: "", Name: Efficiency, Unit: "Mbit/s per %", Title: "Efficiency", Higher: true},
		{Case: "", Name: measure.Retransmits, Unit: "count", Title: "TCP retransmits", Higher: false},
	}
}

// offloads is a result of the experiment and the sizes of its writes.
type offloads struct {
	result.Result
	sizes []int
}

// figures are a metric's rows of all targets in a case.
func (o offloads) figures(s Stream, m stats.Metric) []result.Row {
	var rows []result.Row
	for _, name := range stats.Names(o.Result) {
		iv := stats.Median(stats.ByRound(o.values(name, s, m.Name)))
		if iv.N == 0 {
			continue
		}
		row := result.Row{
			Target: name, Case: s.Case(), Metric: m.Name, Unit: m.Unit,
			Median: iv.Median, Lo: iv.Lo, Hi: iv.Hi, N: iv.N,
		}
		if name == baseline {
			row.Ratio, row.RatioLo, row.RatioHi = 1, 1, 1
		} else if ratio := stats.Median(stats.ByRound(o.ratios(name, s, baseline, s, m.Name))); ratio.N > 0 {
			row.Baseline, row.Ratio, row.RatioLo, row.RatioHi = baseline, ratio.Median, ratio.Lo, ratio.Hi
			row.Distinguishable = stats.Excludes(ratio, 1)
		}
		rows = append(rows, row)
	}
	return rows
}

// gains are the rows that compare two states of each target in a metric.
func (o offloads) gains(s Stream, with, without, metric, of string) []result.Row {
	var rows []result.Row
	after, before := s, s
	after.State, before.State = with, without
	for _, name := range stats.Names(o.Result) {
		iv := stats.Median(stats.ByRound(o.ratios(name, after, name, before, of)))
		if iv.N == 0 {
			continue
		}
		rows = append(rows, result.Row{
			Target: name, Case: s.Case(), Metric: metric, Unit: "×", Median: iv.Median, Lo: iv.Lo, Hi: iv.Hi, N: iv.N,
			Baseline: name + ":" + before.Case(), Ratio: iv.Median, RatioLo: iv.Lo, RatioHi: iv.Hi, Distinguishable: stats.Excludes(iv, 1),
		})
	}
	return rows
}

// values are a metric's by round, of the mean over all sizes where s has none.
func (o offloads) values(name string, s Stream, metric string) map[int]float64 {
	if s.Size > 0 {
		return stats.Values(o.Result, name, s.Case(), metric)
	}
	return o.mean(func(size int) map[int]float64 {
		s.Size = size
		return stats.Values(o.Result, name, s.Case(), metric)
	})
}

// ratios are a's values to b's by round; of sizes that are not one the mean of their ratios.
func (o offloads) ratios(a string, as Stream, b string, bs Stream, metric string) map[int]float64 {
	if as.Size == 0 {
		return o.mean(func(size int) map[int]float64 {
			as.Size, bs.Size = size, size
			return o.ratios(a, as, b, bs, metric)
		})
	}
	values, base := stats.Values(o.Result, a, as.Case(), metric), stats.Values(o.Result, b, bs.Case(), metric)
	ratios := map[int]float64{}
	for round, value := range values {
		switch under, measured := base[round]; {
		case measured && under == 0:
			return nil // a median of the others would leave out where the base did worst
		case measured:
			ratios[round] = value / under
		}
	}
	return ratios
}

// mean is that over all sizes of the rounds that have them all.
func (o offloads) mean(of func(size int) map[int]float64) map[int]float64 {
	sums, count := map[int]float64{}, map[int]int{}
	for _, size := range o.sizes {
		for round, value := range of(size) {
			sums[round] += value
			count[round]++
		}
	}
	for round := range sums {
		if count[round] < len(o.sizes) {
			delete(sums, round)
			continue
		}
		sums[round] /= float64(len(o.sizes))
	}
	return sums
}

// pairs is how many rounds have throughput of both a target and the baseline in a
// case, or in all sizes of a mean: what a ratio of the summary stands on.
func pairs(r result.Result, target string, s Stream) int {
	return len(offloads{r, Sizes(r)}.ratios(target, s, baseline, s, Throughput))
}

// IdentityLimit is by how much, as a share, the gains of a row may miss the QLogic study's identity:
// rounding and noise of medians, which need not be of the same round.
const IdentityLimit = 0.05

// Identity is the QLogic study's check of a row: the gain of efficiency is that of throughput over the
// change of the processor's time.
type Identity struct {
	Target     string
	Stream     Stream
	Efficiency float64 // the gain as measured
	Expected   float64 // throughput's gain over the processor's change
}

// Off is by how much the row misses, as a share.
func (i Identity) Off() float64 { return i.Efficiency/i.Expected - 1 }

// Holds says whether that is within IdentityLimit.
func (i Identity) Holds() bool { return math.Abs(i.Off()) <= IdentityLimit }

// Identities checks all rows of a summary that have a gain of efficiency and are of one size:
// of a mean of ratios the identity does not hold.
func Identities(rows []result.Row) []Identity {
	var all []Identity
	for _, row := range rows {
		s, ok := Streamed(row.Case)
		if !ok || s.Size == 0 || row.Metric != EfficiencyGain {
			continue
		}
		rate, okRate := stats.Find(rows, row.Target, row.Case, ThroughputGain)
		cpu, okCPU := stats.Find(rows, row.Target, row.Case, ProcessorChange)
		if okRate && okCPU && cpu.Median > 0 {
			all = append(all, Identity{row.Target, s, row.Median, rate.Median / cpu.Median})
		}
	}
	return all
}

// refuse says, without a final stop, why the ratio of a target's throughput to the
// baseline's in a case, or in the mean over all sizes, carries no conclusion, or "" when it
// does: errors, missing or few rounds, noise. Noise that both share cancels.
func refuse(r result.Result, target string, s Stream) string {
	o := offloads{r, Sizes(r)}
	rounds := stats.Rounds(r)
	for _, name := range []string{baseline, target} {
		if why := failedIn(r, name, s); why != "" {
			return why
		}
		switch n := len(o.values(name, s, Throughput)); {
		case n == 0:
			return fmt.Sprintf("%s was not measured in %s", name, s.Case())
		case n < rounds:
			return fmt.Sprintf("%s has %d complete rounds of %d in %s", name, n, rounds, s.Case())
		case n < stats.MinRounds:
			return fmt.Sprintf("%s has %d of the at least %d rounds that a comparison needs", name, n, stats.MinRounds)
		}
	}
	ratios := stats.ByRound(o.ratios(target, s, baseline, s, Throughput))
	if spread := stats.Spread(ratios); spread > stats.SpreadLimit {
		return fmt.Sprintf("the ratio of %s to %s in %s spreads by ±%.0f %% (1.48 × median absolute deviation, n = %d), and the limit is ±%.0f %%",
			target, baseline, s.Case(), 100*spread, len(ratios), 100*stats.SpreadLimit)
	}
	return ""
}

// failedIn says which sample of a target in a case, of whatever size, failed.
func failedIn(r result.Result, target string, s Stream) string {
	for _, sample := range r.Samples {
		if sample.Target != target || sample.Error == "" {
			continue
		}
		one, ok := Streamed(sample.Case)
		if s.Size == 0 {
			one.Size = 0
		}
		if ok && one == s {
			return fmt.Sprintf("round %d of %s has an error in %s (%s)", sample.Round, target, sample.Case, strings.TrimSpace(sample.Error))
		}
	}
	return ""
}

// WorstStates are the means of a target by their ratio to the baseline, the least first.
// Those without a ratio are left out.
func WorstStates(rows []result.Row, target string) []result.Row {
	var all []result.Row
	for _, row := range rows {
		s, ok := Streamed(row.Case)
		if ok && s.Size == 0 && row.Target == target && row.Metric == Throughput && row.Ratio > 0 && row.Baseline != "" {
			all = append(all, row)
		}
	}
	slices.SortStableFunc(all, func(a, b result.Row) int { return cmp.Compare(a.Ratio, b.Ratio) })
	return all
}
