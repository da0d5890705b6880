package ab

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// noise is a machine as ours: rounds with beds of their own that differ by bed, slices that
// are of either of two speeds.
type noise struct {
	*rand.Rand
	testbed float64 // relative spread from bed to bed
}

// run is a result of so many rounds in which target b takes so much longer than a.
func (n noise) run(rounds int, effect float64) result.Result {
	r := result.Result{Experiment: Name, Parameters: result.Parameters{"slice": result.Time(10 * time.Millisecond), "rounds": result.Count(rounds)}}
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
			s.Metrics, s.Series = map[string]float64{"rr_p50": stats.Midmean(values)}, map[string][]float64{"rr_p50": values}
			r.Samples = append(r.Samples, s)
		}
	}
	return r
}

// share is in how many of many runs the second target's row says that it differs.
func (n noise) share(runs, rounds int, effect float64) (found, worse float64) {
	for range runs {
		row, _ := stats.Find(summarise(n.run(rounds, effect)), "b", "rr-1", "rr_p50")
		if row.Distinguishable {
			found += 1 / float64(runs)
		}
		if stats.ChangeOf(row, false) == stats.Worse {
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
	if found, _ := n.share(50, stats.LeastPairs-1, 0.5); found != 0 {
		t.Errorf("%d rounds told a difference", stats.LeastPairs-1)
	}
}

// A run of the length that said so finds what it said it would, in about nine of ten.
func TestSmallestEffect(t *testing.T) {
	n := noise{rand.New(rand.NewPCG(3, 4)), 0.02}
	for _, rounds := range []int{8, 12, 24} {
		var claimed []float64
		for range 200 {
			row, _ := stats.Find(summarise(n.run(rounds, 0)), "b", "rr-1", "rr_p50")
			claimed = append(claimed, row.SmallestEffect)
		}
		effect := stats.Median(claimed).Median
		found, _ := n.share(400, rounds, effect)
		t.Logf("%d rounds: %.3f found in %.3f", rounds, effect, found)
		if found < 0.83 || found > 0.97 {
			t.Errorf("%d rounds claim to see %.1f %%, and see it in %.2f of the runs", rounds, 100*effect, found)
		}
	}
	if stats.SmallestEffect(stats.Center([]float64{1, 2, 3})) != 0 {
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
	if row, ok := stats.Find(summarise(lossy(50)), "b", "udp", "udp_loss_ppm"); !ok || row.Ratio != 0 || row.Difference < 50 || stats.ChangeOf(row, false) != stats.Worse {
		t.Errorf("%+v", row)
	}
	if row, _ := stats.Find(summarise(lossy(0)), "b", "udp", "udp_loss_ppm"); row.Distinguishable || stats.ChangeOf(row, false) != stats.NoDifference {
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
		row, _ := stats.Find(w.Summary, "b", "rr-1", "rr_p50")
		if len(rounds) != 12 || rounds[1] != 2 || rounds[12] != 2 || row.N != 12 || stats.ChangeOf(row, false) != stats.Worse || stats.Rounds(w) != 12 {
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
	if got := baselineOf(r); got != "a" {
		t.Errorf("of two builds: %q", got)
	}
	r.Targets = append(r.Targets, result.Target{Name: stats.Baseline})
	if got := baselineOf(r); got != stats.Baseline {
		t.Errorf("with plain: %q", got)
	}
}
