// Package stats turns raw samples into medians with intervals, paired ratios
// and the decision whether they carry a conclusion.
//
// Its invariant: pure and distribution-free. Nothing here reads a clock, a file
// or a random source, and no figure assumes that noise is normal: intervals are
// order statistics, of values (Median) or of the means of pairs of them (Center). Do
// not use it for tail quantiles of one run (that is the instrument's histogram) nor to
// compare results of different machines.
package stats

import (
	"math"
	"slices"
)

// WantConfidence is the confidence that intervals aim at. Fewer than six
// samples cannot reach it; Interval.Confidence says what they do reach.
const WantConfidence = 0.95

// Interval is a median and the order statistics that enclose it.
type Interval struct {
	Median, Lo, Hi float64
	N              int
	// Confidence is the probability (0 … 1) that Lo … Hi holds the median of
	// the distribution that the samples come from, whatever its shape.
	Confidence float64
}

// Median returns the median of xs and the narrowest symmetric pair of order
// statistics x(k), x(n+1-k) that encloses it with WantConfidence, or min … max
// when no pair does: n = 5 gives min … max with 0.9375, n = 1 a point with 0.
// Values that are not finite are left out. No values give the zero Interval.
func Median(xs []float64) Interval {
	xs = finite(xs)
	n := len(xs)
	if n == 0 {
		return Interval{}
	}
	slices.Sort(xs)
	k, conf := rank(n)
	return Interval{Median: middle(xs), Lo: xs[k-1], Hi: xs[n-k], N: n, Confidence: conf}
}

// Confidence returns what Median's interval of n samples reaches.
func Confidence(n int) float64 {
	if n < 1 {
		return 0
	}
	_, conf := rank(n)
	return conf
}

// Spread is the robust relative standard deviation: 1.4826 × the median
// absolute deviation, over the median. A single bad round of five does not move
// it much. It is 0 for fewer than two values or a median of 0.
func Spread(xs []float64) float64 {
	xs = finite(xs)
	if len(xs) < 2 {
		return 0
	}
	slices.Sort(xs)
	m := middle(xs)
	if m == 0 {
		return 0
	}
	dev := make([]float64, len(xs))
	for i, x := range xs {
		dev[i] = math.Abs(x - m)
	}
	slices.Sort(dev)
	// 1.4826 = 1/Φ⁻¹(3/4): makes the MAD of a normal distribution its σ.
	return 1.4826 * middle(dev) / math.Abs(m)
}

// rank returns the largest k whose pair x(k), x(n+1-k) encloses the median with
// at least WantConfidence, else 1. The number of samples below the median is
// binomial(n, 1/2), so the pair misses with probability 2·P(B ≤ k-1).
func rank(n int) (k int, confidence float64) {
	p := math.Pow(0.5, float64(n)) // P(B = 0)
	tail := p
	k, confidence = 1, 1-2*tail
	for next := 2; next <= n/2; next++ {
		p *= float64(n-next+2) / float64(next-1)
		tail += p
		if 1-2*tail < WantConfidence {
			break
		}
		k, confidence = next, 1-2*tail
	}
	return k, confidence
}

// middle is the median of sorted values.
func middle(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

func finite(xs []float64) []float64 {
	out := make([]float64, 0, len(xs))
	for _, x := range xs {
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			out = append(out, x)
		}
	}
	return out
}
