package stats

import (
	"math"
	"slices"
	"strconv"

	"github.com/selvage/selvage/lab/result"
)

// PairedConfidence is that of intervals over rounds of slices. One comparison has five rows
// and more, so 95 % would see a difference between equal builds in every fourth run.
const PairedConfidence = 0.99

// LeastPairs is the fewest rounds whose signed ranks can reach PairedConfidence: with eight,
// all of one sign come about by chance once in 128 runs.
const LeastPairs = 8

// Center returns the Hodges–Lehmann estimate of the centre of xs, the median of the means of
// all pairs (each value with itself too), and the interval that Wilcoxon's signed ranks give
// it with PairedConfidence: it assumes that the distribution is symmetric and nothing else
// of it. Fewer than LeastPairs values give the range, with the confidence that it has.
// Values that are not finite are left out; none give the zero Interval.
// (J. L. Hodges and E. L. Lehmann, 1963; M. Hollander and D. A. Wolfe, section 3.3.)
func Center(xs []float64) Interval {
	xs = finite(xs)
	n := len(xs)
	if n == 0 {
		return Interval{}
	}
	means := make([]float64, 0, n*(n+1)/2)
	for i, x := range xs {
		for _, y := range xs[i:] {
			means = append(means, (x+y)/2)
		}
	}
	slices.Sort(means)
	k, confidence := signedRank(n)
	return Interval{Median: middle(means), Lo: means[k-1], Hi: means[len(means)-k], N: n, Confidence: confidence}
}

// signedRank returns the largest k for which the k-th smallest and the k-th largest of the
// means of pairs enclose the centre with PairedConfidence, else 1, and what they reach. The
// sum of the ranks of n values above the centre takes each of its values in as many ways as
// there are subsets of 1 … n with that sum.
func signedRank(n int) (k int, confidence float64) {
	ways := make([]float64, n*(n+1)/2+1)
	ways[0] = 1
	for rank := 1; rank <= n; rank++ {
		for sum := len(ways) - 1; sum >= rank; sum-- {
			ways[sum] += ways[sum-rank]
		}
	}
	all := math.Pow(2, float64(n))
	tail := ways[0] / all
	k, confidence = 1, 1-2*tail
	for sum := 1; sum < len(ways)/2; sum++ {
		tail += ways[sum] / all
		if 1-2*tail < PairedConfidence {
			break
		}
		k, confidence = sum+1, 1-2*tail
	}
	return k, confidence
}

// Midmean is the mean of the middle half of xs (the interquartile mean): of slices on a machine
// that changes between two speeds it follows both, where the median follows the more frequent
// one, and the slices in which the speed changed are outside of it.
// Values that are not finite are left out; none give NaN.
func Midmean(xs []float64) float64 {
	xs = finite(xs)
	n := float64(len(xs))
	if n == 0 {
		return math.NaN()
	}
	slices.Sort(xs)
	lo, hi := n/4, n-n/4
	sum := 0.0
	for i, x := range xs {
		part := min(float64(i+1), hi) - max(float64(i), lo)
		sum += x * max(0, part)
	}
	return sum / (hi - lo)
}

// Rounded are values with six significant digits: more than a slice's figure is good for, and
// a third of what a file of them would take. What is not finite stays so.
func Rounded(values []float64) []float64 {
	rounded := make([]float64, len(values))
	for i, v := range values {
		rounded[i], _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	}
	return rounded
}

// powerFactor makes of half an interval of Center the shift that nine of ten runs like this
// one would tell from none: half the interval to leave out the zero, and the estimate's own
// spread once more for the 90 %.
const powerFactor = 1.45

// SmallestEffect is the smallest shift that a run which gave this interval would find in
// nine of ten repetitions, in the unit of the interval; 0 for fewer than LeastPairs values,
// which find none.
func SmallestEffect(iv Interval) float64 {
	if iv.N < LeastPairs {
		return 0
	}
	return powerFactor * (iv.Hi - iv.Lo) / 2
}

// Sliced says whether r was measured in slices, all targets by turns, in rounds with beds
// of their own (the A/B experiment since 2026). Its rows are then compared by Center.
func Sliced(r result.Result) bool { return r.Parameters.Time(SliceParameter) > 0 }

// Parameters that say how a result has to be read.
const (
	RoundsParameter = "rounds"
	SliceParameter  = "slice" // duration of one
)

// sliceRatios returns, by round, the logarithm of the ratio between two targets' values:
// the midmean of that of neighbouring slices where both have as many, else that of the rounds'
// own figures. divisible is false when any value is not above 0.
func sliceRatios(r result.Result, target, baseline string, m Metric) (logs map[int]float64, divisible bool) {
	of, against := samplesOf(r, target, m.Case, m.Name), samplesOf(r, baseline, m.Case, m.Name)
	logs = map[int]float64{}
	for round, s := range of {
		b, ok := against[round]
		if !ok {
			continue
		}
		xs, ys := s.Series[m.Name], b.Series[m.Name]
		if len(xs) == 0 || len(xs) != len(ys) {
			xs, ys = []float64{s.Metrics[m.Name]}, []float64{b.Metrics[m.Name]}
		}
		pairs := make([]float64, len(xs))
		for i := range xs {
			if !(xs[i] > 0) || !(ys[i] > 0) {
				return nil, false
			}
			pairs[i] = math.Log(xs[i] / ys[i])
		}
		logs[round] = Midmean(pairs)
	}
	return logs, true
}

// compareSliced fills the ratio of row, and the smallest effect that the run can see, from the
// rounds that both sides have. Where a value is 0 it compares the differences.
func compareSliced(row *result.Row, r result.Result, m Metric) {
	logs, divisible := sliceRatios(r, row.Target, row.Baseline, m)
	if !divisible {
		_, differences, _ := Pair(Values(r, row.Target, m.Case, m.Name), Values(r, row.Baseline, m.Case, m.Name))
		iv := Center(differences)
		row.Difference, row.Distinguishable = iv.Median, apartPaired(iv, 0)
		return
	}
	if len(logs) == 0 {
		return
	}
	Ratios(row, ByRound(logs))
}

// Ratios fills the ratio of row, and the smallest effect that so many like these can show, from
// the logarithms of paired ratios. N stays.
func Ratios(row *result.Row, logs []float64) {
	iv := Center(logs)
	row.Ratio, row.RatioLo, row.RatioHi = math.Exp(iv.Median), math.Exp(iv.Lo), math.Exp(iv.Hi)
	row.Distinguishable = apartPaired(iv, 0)
	row.SmallestEffect = math.Expm1(SmallestEffect(iv))
}

// apartPaired says whether an interval of Center excludes a value.
func apartPaired(iv Interval, value float64) bool {
	return iv.N >= LeastPairs && (iv.Lo > value || iv.Hi < value)
}

// Change is what became of a metric against the baseline.
type Change int

// The changes of a row.
const (
	NoDifference Change = iota
	Better
	Worse
)

// String is the change in words.
func (c Change) String() string { return [...]string{"no difference", "better", "worse"}[c] }

// ChangeOf says what a row shows of its metric.
func ChangeOf(row result.Row, higher bool) Change {
	switch up := row.Ratio > 1 || row.Ratio == 0 && row.Difference > 0; {
	case !row.Distinguishable:
		return NoDifference
	case up == higher:
		return Better
	}
	return Worse
}
