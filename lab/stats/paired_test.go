package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/selvage/selvage/lab/result"
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

// noise is a machine as ours: rounds with beds of their own that differ by bed, slices that
// are of either of two speeds.
type noise struct {
	*rand.Rand
	testbed float64 // relative spread from bed to bed
}

// run is a result of so many rounds in which target b takes so much longer than a.
func (n noise) run(rounds int, effect float64) result.Result {
	r := result.Result{Experiment: AB, Parameters: map[string]string{"slice": "10ms", "rounds": strconv.Itoa(rounds)}}
	for _, name := range []string{"a", "b"} {
		r.Targets = append(r.Targets, result.Target{Name: name})
	}
	const cycles = 40
	for round := 1; round <= rounds; round++ {
		speeds := [cycles]float64{}
		at := 17.0
		for i := range speeds {
			if n.IntN(4) == 0 {
				at = 17 + 21 - at
			}
			speeds[i] = at
		}
		for _, name := range []string{"a", "b"} {
			testbed := 1 + n.testbed*n.NormFloat64()
			if name == "b" {
				testbed *= 1 + effect
			}
			s := result.Sample{Target: name, Case: "rr-1", Round: round}
			var values []float64
			for _, speed := range speeds {
				if n.IntN(20) == 0 {
					speed = 17 + 21 - speed
				}
				values = append(values, speed*testbed*(1+0.01*n.NormFloat64()))
			}
			s.Metrics, s.Series = map[string]float64{"rr_p50": Midmean(values)}, map[string][]float64{"rr_p50": values}
			r.Samples = append(r.Samples, s)
		}
	}
	return r
}

// share is in how many of many runs the second target's row says that it differs.
func (n noise) share(runs, rounds int, effect float64) (found, worse float64) {
	for range runs {
		row, _ := Find(ABRows(n.run(rounds, effect)), "b", "rr-1", "rr_p50")
		if row.Distinguishable {
			found += 1 / float64(runs)
		}
		if ChangeOf(row, false) == Worse {
			worse += 1 / float64(runs)
		}
	}
	return found, worse
}

// Equal builds are told apart in about one run of a hundred, and 3 % are found in nine of ten,
// on a machine with two speeds and beds that differ.
func TestSlicedComparisonIsHonest(t *testing.T) {
	n := noise{rand.New(rand.NewPCG(1, 2)), 0.012}
	if found, _ := n.share(1000, 12, 0); found > 0.02 {
		t.Errorf("equal builds differ in %.3f of the runs", found)
	}
	if _, worse := n.share(400, 12, 0.03); worse < 0.9 {
		t.Errorf("3 %% are found in %.3f of the runs", worse)
	}
	if found, _ := n.share(50, LeastPairs-1, 0.5); found != 0 {
		t.Errorf("%d rounds told a difference", LeastPairs-1)
	}
}

// A run of the length that said so finds what it said it would, in about nine of ten.
func TestSmallestEffect(t *testing.T) {
	n := noise{rand.New(rand.NewPCG(3, 4)), 0.02}
	for _, rounds := range []int{8, 12, 24} {
		var claimed []float64
		for range 200 {
			row, _ := Find(ABRows(n.run(rounds, 0)), "b", "rr-1", "rr_p50")
			claimed = append(claimed, row.SmallestEffect)
		}
		effect := Median(claimed).Median
		found, _ := n.share(400, rounds, effect)
		t.Logf("%d rounds: %.3f found in %.3f", rounds, effect, found)
		if found < 0.83 || found > 0.97 {
			t.Errorf("%d rounds claim to see %.1f %%, and see it in %.2f of the runs", rounds, 100*effect, found)
		}
	}
	if SmallestEffect(Center([]float64{1, 2, 3})) != 0 {
		t.Error("three rounds claim to see something")
	}
}

// Loss is 0 in most rounds, so its differences are compared.
func TestSlicedDifferences(t *testing.T) {
	lossy := func(lost float64) result.Result {
		r := noise{rand.New(rand.NewPCG(5, 6)), 0}.run(12, 0)
		for i := range r.Samples {
			s := &r.Samples[i]
			s.Case, s.Metrics, s.Series = "udp", map[string]float64{"udp_loss_ppm": 0}, nil
			if s.Target == "b" {
				s.Metrics["udp_loss_ppm"] = lost * float64(1+s.Round%3)
			}
		}
		return r
	}
	if row, ok := Find(ABRows(lossy(50)), "b", "udp", "udp_loss_ppm"); !ok || row.Ratio != 0 || row.Difference < 50 || ChangeOf(row, false) != Worse {
		t.Errorf("%+v", row)
	}
	if row, _ := Find(ABRows(lossy(0)), "b", "udp", "udp_loss_ppm"); row.Distinguishable || ChangeOf(row, false) != NoDifference {
		t.Errorf("none lost: %+v", row)
	}
}

func TestWindows(t *testing.T) {
	r := noise{rand.New(rand.NewPCG(7, 8)), 0.01}.run(26, 0.5)
	windows := Windows(r, 12)
	if len(windows) != 2 {
		t.Fatalf("%d windows", len(windows))
	}
	for _, w := range windows {
		rounds := map[int]int{}
		for _, s := range w.Samples {
			rounds[s.Round]++
		}
		row, _ := Find(w.Summary, "b", "rr-1", "rr_p50")
		if len(rounds) != 12 || rounds[1] != 2 || rounds[12] != 2 || row.N != 12 || ChangeOf(row, false) != Worse || Rounds(w) != 12 {
			t.Errorf("rounds %v, %+v", rounds, row)
		}
	}
	if slices.Equal(windows[0].Samples[0].Series["rr_p50"], windows[1].Samples[0].Series["rr_p50"]) {
		t.Error("both windows have the same rounds")
	}
}

// Without plain the first target is what the others are compared with.
func TestBaselineOfBuilds(t *testing.T) {
	r := noise{rand.New(rand.NewPCG(9, 10)), 0.01}.run(8, 0)
	if got := ABBaseline(r); got != "a" {
		t.Errorf("of two builds: %q", got)
	}
	r.Targets = append(r.Targets, result.Target{Name: Baseline})
	if got := ABBaseline(r); got != Baseline {
		t.Errorf("with plain: %q", got)
	}
}
