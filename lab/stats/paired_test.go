package stats

import (
	"math"
	"slices"
	"testing"
)

// The critical values are those of the tables in Hollander and Wolfe (n = 8: 1; n = 12: 8).
func TestCenter(t *testing.T) {
	for _, c := range []struct {
		n, k       int
		confidence float64
	}{{1, 1, 0}, {2, 1, 0.5}, {5, 1, 0.9375}, {7, 1, 0.984375}, {8, 1, 0.9921875}, {9, 2, 0.9921875}, {12, 8, 0.990722656}} {
		k, confidence := signedRank(c.n)
		if k != c.k || math.Abs(confidence-c.confidence) > 1e-9 {
			t.Errorf("n = %d: %d with %v, want %d with %v", c.n, k, confidence, c.k, c.confidence)
		}
	}
	iv := Center([]float64{1, 2, 4, math.NaN()}) // means of pairs: 1 1.5 2 2.5 3 4
	if iv != (Interval{Median: 2.25, Lo: 1, Hi: 4, N: 3, Confidence: 0.75}) {
		t.Errorf("%+v", iv)
	}
	if iv := Center(nil); iv != (Interval{}) {
		t.Errorf("of nothing: %+v", iv)
	}
}

func TestRounded(t *testing.T) {
	got := Rounded([]float64{12.345678912, 0, -1e-7 / 3, math.Inf(1), 7})
	if want := []float64{12.3457, 0, -3.33333e-08, math.Inf(1), 7}; !slices.Equal(got, want) {
		t.Errorf("rounded to %v, want %v", got, want)
	}
}

func TestMidmean(t *testing.T) {
	for _, c := range []struct {
		xs   []float64
		want float64
	}{
		{[]float64{3}, 3}, {[]float64{1, 2}, 1.5}, {[]float64{9, 1, 2, 3}, 2.5},
		{[]float64{1, 2, 3, 4, 100}, (0.75*2 + 3 + 0.75*4) / 2.5},
		{[]float64{0, 0, 17, 17, 21, 21, 99, 99}, 19},
	} {
		if got := Midmean(c.xs); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: %v, want %v", c.xs, got, c.want)
		}
	}
	if got := Midmean(nil); !math.IsNaN(got) {
		t.Errorf("of nothing: %v", got)
	}
}
