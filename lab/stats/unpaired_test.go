package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/selvage/selvage/lab/result"
)

// Tables of Mann and Whitney's U, and of R's wilcox.test.
func TestRankSum(t *testing.T) {
	for _, c := range []struct {
		n, m, k    int
		confidence float64
	}{
		{1, 1, 1, 0},
		{3, 3, 1, 1 - 2.0/20},
		{4, 5, 1, 1 - 2.0/126},
		{5, 5, 1, 1 - 2.0/252},
		{8, 8, 8, 0.9900}, // the critical value of U at 1 % is 7
		{10, 10, 17, 0.99},
		{20, 20, 106, 0.99},
	} {
		k, confidence := rankSum(c.n, c.m)
		if k != c.k || math.Abs(confidence-c.confidence) > 0.006 {
			t.Errorf("%d and %d values: k = %d with %.4f, want %d with %.4f", c.n, c.m, k, confidence, c.k, c.confidence)
		}
	}
	exact, _ := rankSum(50, 50)
	normal, _ := rankSum(51, 50)
	if normal < exact || normal > exact+35 {
		t.Errorf("the normal distribution gives %d where the computed one gives %d", normal, exact)
	}
}

func TestShift(t *testing.T) {
	iv := Shift([]float64{11, 12, 13, 14, 15, math.NaN()}, []float64{1, 2, 3, 4, 5})
	if iv.Median != 10 || iv.Lo != 6 || iv.Hi != 14 || iv.N != 5 || !ShiftExcludes(iv) || SmallestShift(iv) <= 0 {
		t.Errorf("%+v", iv)
	}
	iv = Shift([]float64{11, 12, 13, 14}, []float64{1, 2, 3, 4})
	if ShiftExcludes(iv) || SmallestShift(iv) != 0 {
		t.Errorf("four and four are too few: %+v", iv)
	}
	if iv := Shift(nil, []float64{1}); iv != (Interval{}) {
		t.Errorf("%+v", iv)
	}
	many := make([]float64, 3*MostUnpaired)
	if iv := Shift(many, many); iv.N != MostUnpaired {
		t.Errorf("%d values were compared", iv.N)
	}
}

// Of equal groups one in a hundred is taken for different ones, and of groups that differ by the
// smallest effect nine of ten are found, fewer where values are skewed.
func TestShiftIsHonest(t *testing.T) {
	for _, c := range []struct {
		name  string
		draw  func(*rand.Rand) float64
		found int // of a hundred
	}{
		{"normal", (*rand.Rand).NormFloat64, 86},
		{"exponential", (*rand.Rand).ExpFloat64, 76},
	} {
		random := rand.New(rand.NewPCG(1, 2))
		group := func(by float64) []float64 {
			xs := make([]float64, 10)
			for i := range xs {
				xs[i] = by + c.draw(random)
			}
			return xs
		}
		const runs = 1000
		wrong, found, sees := 0, 0, 0.0
		for range runs {
			iv := Shift(group(0), group(0))
			sees += SmallestShift(iv) / runs
			if ShiftExcludes(iv) {
				wrong++
			}
		}
		for range runs {
			if ShiftExcludes(Shift(group(sees), group(0))) {
				found++
			}
		}
		if wrong > runs*2/100 {
			t.Errorf("%s: %d of %d equal groups were taken for different ones", c.name, wrong, runs)
		}
		if found < runs*c.found/100 {
			t.Errorf("%s: a shift of %.2f was found in %d of %d", c.name, sees, found, runs)
		}
	}
}

func TestRoundRatios(t *testing.T) {
	r := result.Result{}
	for round := range 3 {
		for target, v := range map[string]float64{"plain": 10, "selvage": 9} {
			for caseName, factor := range map[string]float64{"off": 1, "on": 2} {
				r.Samples = append(r.Samples, result.Sample{Target: target, Case: caseName, Round: round + 1, Metrics: map[string]float64{"m": v * factor}})
			}
		}
	}
	logs, ok := RoundRatios(r, Metric{Case: "on", Name: "m"}, "selvage", "plain", "on")
	if !ok || len(logs) != 3 || math.Abs(math.Exp(logs[2])-0.9) > 1e-9 {
		t.Errorf("%v, %t", logs, ok)
	}
	if logs, ok = RoundRatios(r, Metric{Case: "on", Name: "m"}, "selvage", "selvage", "off"); !ok || math.Abs(math.Exp(logs[1])-2) > 1e-9 {
		t.Errorf("%v, %t", logs, ok)
	}
	r.Samples[0].Metrics["m"] = 0
	caseName := r.Samples[0].Case
	if _, ok = RoundRatios(r, Metric{Case: caseName, Name: "m"}, "selvage", "plain", caseName); ok {
		t.Error("a figure of 0 has a ratio")
	}
}
