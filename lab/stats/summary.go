package stats

import (
	"slices"

	"github.com/selvage/selvage/lab/result"
)

// Baseline is the target that ratios are against in most experiments.
const Baseline = "plain"

// Limit is the target that is a redirect without any work.
const Limit = "limit"

// Kernel is the target of the kernel's own data path, with nftables where there are rules.
const Kernel = "kernel"

// Decisive is the metric, and DecisiveCase its case, that a verdict stands on.
const (
	Decisive     = result.TCPThroughput
	DecisiveCase = "tcp"
)

// minPairs is the number of same-round pairs from which a difference may be
// called one: with three, equal paths look different in one of four experiments
// (2·½³), with five in one of sixteen, with two in every other one.
const minPairs = 3

// Metric describes one figure of the summary.
type Metric struct {
	Case   string
	Name   string
	Unit   string
	Title  string // for people, without the unit
	Higher bool   // higher is better
}

// Names returns the targets of r in its own order, then those that only
// samples name.
func Names(r result.Result) []string {
	var names []string
	for _, c := range r.Targets {
		names = append(names, c.Name)
	}
	for _, s := range r.Samples {
		if !slices.Contains(names, s.Target) {
			names = append(names, s.Target)
		}
	}
	return names
}

// Cases are those of the samples of r in the order of their first samples.
func Cases(r result.Result) []string {
	var cases []string
	for _, s := range r.Samples {
		if !slices.Contains(cases, s.Case) {
			cases = append(cases, s.Case)
		}
	}
	return cases
}

// Rounds is how many rounds r was meant to have: its parameter, or the
// last round that was sampled, whichever is larger.
func Rounds(r result.Result) int {
	rounds := r.Parameters.Int(RoundsParameter)
	for _, s := range r.Samples {
		rounds = max(rounds, s.Round)
	}
	return rounds
}

// Values returns one metric of one target by round. Samples with an error,
// without the metric or with a value that is not finite are left out; of two
// samples of one round the later counts.
func Values(r result.Result, target, caseName, metric string) map[int]float64 {
	values := map[int]float64{}
	for round, s := range samplesOf(r, target, caseName, metric) {
		values[round] = s.Metrics[metric]
	}
	return values
}

// samplesOf are the samples that Values takes its values from, by round.
func samplesOf(r result.Result, target, caseName, metric string) map[int]result.Sample {
	samples := map[int]result.Sample{}
	for _, s := range r.Samples {
		v, ok := s.Metrics[metric]
		if s.Target != target || s.Case != caseName || s.Error != "" || !ok || len(finite([]float64{v})) == 0 {
			continue
		}
		samples[s.Round] = s
	}
	return samples
}

// Summarise computes the summary of r from its samples, by metric in the order of
// metrics and then by target. There is no row where there is no value.
//
// Ratios to the baseline are medians over same-round pairs; of slices see compareSliced. A
// row has none (0, 0, 0) when the baseline was not measured or was 0 in any paired round: a
// median over the remaining rounds would leave out exactly those in which the baseline
// did best. Distinguishable then rests on the paired differences. It is never true for
// fewer than three pairs, of slices for fewer than LeastPairs.
func Summarise(r result.Result, baseline string, metrics []Metric) []result.Row {
	var rows []result.Row
	for _, m := range metrics {
		base := Values(r, baseline, m.Case, m.Name)
		for _, name := range Names(r) {
			values := Values(r, name, m.Case, m.Name)
			if len(values) == 0 {
				continue
			}
			iv := Median(ByRound(values))
			row := result.Row{
				Target: name, Case: m.Case, Metric: m.Name, Unit: m.Unit,
				Median: iv.Median, Lo: iv.Lo, Hi: iv.Hi, N: iv.N,
			}
			switch {
			case name == baseline:
				row.Ratio, row.RatioLo, row.RatioHi = 1, 1, 1
			case len(base) > 0:
				row.Baseline = baseline
				compareRow(&row, r, m)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// compareRow fills what row shows against its baseline, in the way that r was measured.
func compareRow(row *result.Row, r result.Result, m Metric) {
	if Sliced(r) {
		compareSliced(row, r, m)
		return
	}
	Compare(row, Values(r, row.Target, m.Case, m.Name), Values(r, row.Baseline, m.Case, m.Name))
}

// Compare fills the ratio of row from the rounds that both sides have.
func Compare(row *result.Row, values, base map[int]float64) {
	ratios, differences, divisible := Pair(values, base)
	if len(differences) == 0 {
		return
	}
	if !divisible {
		row.Distinguishable = Excludes(Median(differences), 0)
		return
	}
	iv := Median(ratios)
	row.Ratio, row.RatioLo, row.RatioHi = iv.Median, iv.Lo, iv.Hi
	row.Distinguishable = Excludes(iv, 1)
}

// Excludes says whether an interval of pairs excludes a value.
func Excludes(iv Interval, value float64) bool {
	return iv.N >= minPairs && (iv.Lo > value || iv.Hi < value)
}

// Pair returns value/base and value-base of each common round; divisible is
// false when one of the bases is 0.
func Pair(values, base map[int]float64) (ratios, differences []float64, divisible bool) {
	divisible = true
	for _, round := range SortedRounds(values) {
		b, ok := base[round]
		if !ok {
			continue
		}
		differences = append(differences, values[round]-b)
		if b == 0 {
			divisible = false
			continue
		}
		ratios = append(ratios, values[round]/b)
	}
	return ratios, differences, divisible
}

// Against is how many times b's figure a target a has in a case: the median of
// same-round ratios. N is 0 when there is no pair, or b has a 0.
func Against(r result.Result, a, b, caseName, metric string) Interval {
	ratios, _, divisible := Pair(Values(r, a, caseName, metric), Values(r, b, caseName, metric))
	if !divisible {
		return Interval{}
	}
	return Median(ratios)
}

// Find returns the row of one target's metric.
func Find(rows []result.Row, target, caseName, metric string) (result.Row, bool) {
	i := slices.IndexFunc(rows, func(row result.Row) bool {
		return row.Target == target && row.Case == caseName && row.Metric == metric
	})
	if i < 0 {
		return result.Row{}, false
	}
	return rows[i], true
}

// SortedRounds are the rounds of values, ascending.
func SortedRounds(values map[int]float64) []int {
	rounds := make([]int, 0, len(values))
	for round := range values {
		rounds = append(rounds, round)
	}
	slices.Sort(rounds)
	return rounds
}

// ByRound are values in the order of their rounds.
func ByRound(values map[int]float64) []float64 {
	xs := make([]float64, 0, len(values))
	for _, round := range SortedRounds(values) {
		xs = append(xs, values[round])
	}
	return xs
}
