package turns

import (
	"math"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Row is the row of a target's metric over the rounds; ok is false without any value.
func Row(r result.Result, target string, m stats.Metric) (row result.Row, ok bool) {
	values := stats.Values(r, target, m.Case, m.Name)
	if len(values) == 0 {
		return row, false
	}
	iv := stats.Median(stats.ByRound(values))
	return result.Row{
		Target: target, Case: m.Case, Metric: m.Name, Unit: m.Unit, Median: iv.Median, Lo: iv.Lo, Hi: iv.Hi, N: iv.N, Ratio: 1, RatioLo: 1, RatioHi: 1,
	}, true
}

// Against fills a row's ratio to the same rounds of a baseline, or where a value is not above 0 the
// difference, by Hodges and Lehmann's estimate with an interval of signed ranks.
func Against(row *result.Row, baseline string, values, base map[int]float64) {
	row.Baseline, row.Ratio, row.RatioLo, row.RatioHi = baseline, 0, 0, 0
	var logs, differences []float64
	divisible := true
	for _, round := range stats.SortedRounds(values) {
		v, b := values[round], base[round]
		if _, both := base[round]; !both {
			continue
		}
		divisible = divisible && v > 0 && b > 0
		logs, differences = append(logs, math.Log(v/b)), append(differences, v-b)
	}
	switch {
	case len(differences) == 0:
	case divisible:
		stats.Ratios(row, logs)
	default:
		iv := stats.Center(differences)
		row.Difference = iv.Median
		row.Distinguishable = iv.N >= stats.LeastPairs && (iv.Lo > 0 || iv.Hi < 0)
	}
}

// Difference is by how much values exceed those of a baseline in the same rounds.
func Difference(values, base map[int]float64) stats.Interval {
	_, differences, _ := stats.Pair(values, base)
	return stats.Center(differences)
}

// Apart says whether an interval of differences is of enough rounds, and excludes 0.
func Apart(iv stats.Interval) bool { return iv.N >= stats.LeastPairs && (iv.Lo > 0 || iv.Hi < 0) }
