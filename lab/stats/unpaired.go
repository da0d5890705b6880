package stats

import (
	"fmt"
	"math"
	"slices"

	"github.com/selvage/selvage/lab/result"
)

// LeastUnpaired is the fewest values of each of two groups whose ranks can reach
// PairedConfidence: with five and five, all of one group above all of the other come about by
// chance once in 126 pairs of runs.
const LeastUnpaired = 5

// MostUnpaired is the most values of a group that Shift compares: its time and memory are those
// of all pairs.
const MostUnpaired = 1000

// exactRanks is the number of values of both groups up to which the distribution of their ranks
// is computed; above it is the normal one.
const exactRanks = 100

// Shift returns by how much xs are above ys, of two groups whose values have nothing to do with
// each other, such as the rounds of two runs: the median of all differences x-y (Hodges and
// Lehmann), and the interval that Wilcoxon's rank sums give it with PairedConfidence. N is the
// size of the smaller group. Too few values give the range of the differences, with the
// confidence that it has. Values that are not finite are left out, and so is what is above
// MostUnpaired; an empty group gives the zero Interval.
// (J. L. Hodges and E. L. Lehmann, 1963; M. Hollander and D. A. Wolfe, section 4.3.)
func Shift(xs, ys []float64) Interval {
	xs, ys = finite(xs), finite(ys)
	xs, ys = xs[:min(len(xs), MostUnpaired)], ys[:min(len(ys), MostUnpaired)]
	if len(xs) == 0 || len(ys) == 0 {
		return Interval{}
	}
	differences := make([]float64, 0, len(xs)*len(ys))
	for _, x := range xs {
		for _, y := range ys {
			differences = append(differences, x-y)
		}
	}
	slices.Sort(differences)
	k, confidence := rankSum(len(xs), len(ys))
	return Interval{
		Median: middle(differences), Lo: differences[k-1], Hi: differences[len(differences)-k],
		N: min(len(xs), len(ys)), Confidence: confidence,
	}
}

// rankSum returns the largest k for which the k-th smallest and the k-th largest of the
// differences of two groups enclose the shift with PairedConfidence, else 1, and what they reach:
// fewer than k of n·m differences are negative by chance as often as Mann and Whitney's U says.
func rankSum(n, m int) (k int, confidence float64) {
	if n+m > exactRanks {
		mean, deviation := float64(n*m)/2, math.Sqrt(float64(n*m*(n+m+1))/12)
		z := math.Sqrt2 * math.Erfinv(PairedConfidence)
		return max(1, int(mean-z*deviation)), PairedConfidence
	}
	ways := uWays(n, m)
	all := 0.0
	for _, w := range ways {
		all += w
	}
	tail := ways[0] / all
	k, confidence = 1, 1-2*tail
	for u := 1; u < len(ways)/2; u++ {
		tail += ways[u] / all
		if 1-2*tail < PairedConfidence {
			break
		}
		k, confidence = u+1, 1-2*tail
	}
	return k, confidence
}

// uWays returns in how many of the orders of n and m values u pairs are out of order, by u: as
// many as there are ways to choose n of the ranks 0 … n+m-1 whose sum is u above the least.
func uWays(n, m int) []float64 {
	chosen := make([][]float64, n+1) // by how many were chosen, and their sum above the least
	for i := range chosen {
		chosen[i] = make([]float64, n*m+1)
	}
	chosen[0][0] = 1
	for rank := range n + m {
		for i := min(rank+1, n); i >= 1; i-- {
			above := rank - (i - 1) // the i-th chosen is at least i-1
			for u := n * m; u >= above; u-- {
				chosen[i][u] += chosen[i-1][u-above]
			}
		}
	}
	return chosen[n]
}

// ShiftExcludes says whether an interval of Shift excludes 0, with PairedConfidence.
func ShiftExcludes(iv Interval) bool {
	return iv.Confidence >= PairedConfidence && (iv.Lo > 0 || iv.Hi < 0)
}

// shiftPower is powerFactor for an interval of Shift: half of one is 2.58 standard errors, and
// nine of ten estimates are no more than 1.28 below the shift.
const shiftPower = 1.5

// SmallestShift is SmallestEffect for an interval of Shift.
func SmallestShift(iv Interval) float64 {
	if iv.Confidence < PairedConfidence {
		return 0
	}
	return shiftPower * (iv.Hi - iv.Lo) / 2
}

// RoundRatios returns the logarithms of a target's ratios to a baseline by round, as Summarise pairs
// them; baseCase is that of the baseline. divisible is false when any value is not above 0.
func RoundRatios(r result.Result, m Metric, target, baseline, baseCase string) (logs map[int]float64, divisible bool) {
	if Sliced(r) && baseCase == m.Case {
		return sliceRatios(r, target, baseline, m)
	}
	values, base := Values(r, target, m.Case, m.Name), Values(r, baseline, baseCase, m.Name)
	logs = map[int]float64{}
	for round, v := range values {
		b, ok := base[round]
		if !ok {
			continue
		}
		if !(v > 0) || !(b > 0) {
			return nil, false
		}
		logs[round] = math.Log(v / b)
	}
	return logs, true
}

// RatioTo is a row's ratio to any other target, as Summarise has it to the baseline; 0 where there
// is none.
func RatioTo(r result.Result, m Metric, target, baseline, baseCase string) result.Row {
	row := result.Row{Target: target, Case: m.Case, Metric: m.Name, Baseline: baseline}
	if baseCase == m.Case {
		compareRow(&row, r, m)
	} else {
		Compare(&row, Values(r, target, m.Case, m.Name), Values(r, baseline, baseCase, m.Name))
	}
	return row
}

// FewRounds says why n rounds are too few for a median of r to carry a conclusion, "" where they
// are enough.
func FewRounds(r result.Result, n int) string {
	if least := leastRounds(r); n < least {
		return fmt.Sprintf("%d of the at least %d rounds that it needs", n, least)
	}
	return ""
}
