package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// options are those of a quick search between 10,000 and 10 million frames a second.
func options() Options {
	return Options{Goals: Strict(60*time.Millisecond, time.Second, 1e-4), Min: 10_000, Max: 10e6, Retries: 3}
}

// strategies are both, by name.
func strategies() map[string]func(context.Context, Trial, Options) (Result, error) {
	return map[string]func(context.Context, Trial, Options) (Result, error){
		"MLRsearch": MLR,
		"binary":    func(ctx context.Context, t Trial, o Options) (Result, error) { return Binary(ctx, t, o, 0) },
	}
}

func TestDevices(t *testing.T) {
	for name, c := range map[string]struct {
		device   *device
		change   func(*Options)
		ndr, pdr float64 // capacity for the goal, 0 for none
		stop     Stop    // of the NDR
		stopPDR  Stop
		note     string
	}{
		"steady":              {device: steady(4.2e6), ndr: 4.2e6, pdr: 4.2e6, stop: Width, stopPDR: Width},
		"slow":                {device: steady(31_000), ndr: 31_000, pdr: 31_000, stop: Width, stopPDR: Width},
		"lossy above a knee":  {device: knee(3e6, 5e-5, 5e6), ndr: 3e6, pdr: 5e6, stop: Width, stopPDR: Width},
		"loses 1 in 10,000":   {device: everyTenThousandth(4e6), ndr: 0, pdr: 4e6, stop: Minimum, stopPDR: Width},
		"dead":                {device: &device{loss: func(_ float64, n uint64) uint64 { return n }}, stop: Minimum, stopPDR: Minimum},
		"faster than allowed": {device: steady(20e6), ndr: 10e6, pdr: 10e6, stop: Maximum, stopPDR: Maximum},
		"generator's ceiling": {device: steady(20e6), change: func(o *Options) { o.MaxIsGenerator = true }, ndr: 10e6, pdr: 10e6, stop: Generator, stopPDR: Generator},
		"generator falls behind": {device: &device{loss: over(20e6), most: 6e6}, ndr: 6e6, pdr: 6e6, stop: Generator, stopPDR: Generator,
			note: "The generator fell behind above"},
		"some trials are void": {device: &device{loss: over(4e6), void: func(n int) string {
			if n%4 == 0 {
				return "the counters do not add up"
			}
			return ""
		}}, ndr: 4e6, pdr: 4e6, stop: Width, stopPDR: Width, note: "void and repeated; the last because the counters do not add up"},
	} {
		for strategy, search := range strategies() {
			t.Run(name+" by "+strategy, func(t *testing.T) {
				o, d := options(), *c.device
				// A device that loses frames by count has to see enough of them in a short trial.
				o.Min = 200_000
				if name == "slow" {
					o.Min = 10_000
				}
				if c.change != nil {
					c.change(&o)
				}
				r, err := search(t.Context(), d.trial, o)
				if err != nil {
					t.Fatal(err)
				}
				check(t, r, NDR, c.ndr, c.stop)
				check(t, r, PDR, c.pdr, c.stopPDR)
				if c.note != "" && !strings.Contains(strings.Join(r.Notes, "\n"), c.note) {
					t.Errorf("notes %q, want %q", r.Notes, c.note)
				}
				if c.note == "" && len(r.Notes) > 0 {
					t.Errorf("unexpected notes %q", r.Notes)
				}
				if len(r.Trials) > 80 {
					t.Errorf("%d trials", len(r.Trials))
				}
			})
		}
	}
}

// check compares a goal's result with the capacity of a device.
func check(t *testing.T, r Result, goal string, capacity float64, stop Stop) {
	t.Helper()
	f, ok := r.Find(goal)
	if !ok {
		t.Fatalf("no result for %s", goal)
	}
	if f.Stop != stop {
		t.Errorf("%s ended because %q, want %q: %+v", goal, f.Stop, stop, f)
	}
	if capacity == 0 {
		if f.Throughput != 0 || f.Lower != 0 || f.Upper == 0 {
			t.Errorf("%s: %+v, want none", goal, f)
		}
		return
	}
	if off := f.Throughput/capacity - 1; off > 1e-3 || off < -2*f.Goal.Width {
		t.Errorf("%s: %.0f, want %.0f: %+v", goal, f.Throughput, capacity, f)
	}
	if f.Throughput > f.Lower || f.LossRatio > f.Goal.LossRatio || f.Limited() != (stop == Maximum || stop == Generator) {
		t.Errorf("%s: %+v", goal, f)
	}
}

// TestExactlyOneInTenThousand is the acceptance case: PDR met, NDR not, at a tolerance of
// exactly the loss.
func TestExactlyOneInTenThousand(t *testing.T) {
	for strategy, search := range strategies() {
		o := options()
		o.Min = 200_000
		r, err := search(t.Context(), everyTenThousandth(4e6).trial, o)
		ndr, _ := r.Find(NDR)
		pdr, _ := r.Find(PDR)
		if err != nil || ndr.Throughput != 0 || ndr.Stop != Minimum {
			t.Errorf("%s: %v, NDR %+v", strategy, err, ndr)
		}
		if pdr.LossRatio == 0 || pdr.LossRatio > 1e-4 || pdr.Throughput < 3.97e6 || pdr.Throughput >= pdr.Lower {
			t.Errorf("%s: PDR %+v", strategy, pdr)
		}
	}
}

// TestNotMonotonic has a device that is well at a high rate and loses at a lower one.
func TestNotMonotonic(t *testing.T) {
	for strategy, search := range strategies() {
		r, err := search(t.Context(), hole(1.8e6, 2.2e6, 4e6).trial, options())
		if err != nil {
			t.Fatal(err)
		}
		ndr, _ := r.Find(NDR)
		if math.Abs(ndr.Throughput/1.8e6-1) > 0.01 || len(ndr.Above) == 0 || !strings.HasPrefix(strings.Join(r.Notes, "\n"), "Not monotonic: ") {
			t.Errorf("%s: %+v, notes %q", strategy, ndr, r.Notes)
		}
	}
	o := options()
	o.Probes = []float64{}
	r, err := MLR(t.Context(), hole(1.8e6, 2.2e6, 4e6).trial, o)
	if ndr, _ := r.Find(NDR); err != nil || ndr.Throughput < 3.9e6 {
		t.Errorf("without probes the hole is not met: %v, %+v", err, ndr)
	}
}

// TestNoise compares goals that know repeated trials with those that do not, on a device
// that loses some frames in one of ten trials at any rate.
func TestNoise(t *testing.T) {
	strict, repeated := 0.0, 0.0
	for seed := range uint64(20) {
		for _, c := range []struct {
			goals []Goal
			sum   *float64
		}{{Strict(60*time.Millisecond, time.Second, 1e-4), &strict}, {Repeated(60*time.Millisecond, time.Second, 1e-4), &repeated}} {
			o := options()
			o.Goals = c.goals
			r, err := MLR(t.Context(), noisy(4e6, 0.1, seed).trial, o)
			if err != nil {
				t.Fatal(err)
			}
			ndr, _ := r.Find(NDR)
			*c.sum += ndr.Throughput / 20
		}
	}
	if repeated < 3.8e6 || repeated > 4e6 {
		t.Errorf("repeated trials give %.0f on average, want close below 4 million", repeated)
	}
	if strict > repeated {
		t.Errorf("strict trials give %.0f, more than the %.0f of repeated ones", strict, repeated)
	}
}

// TestBounds runs both strategies on random devices: what holds for every result.
func TestBounds(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	for range 300 {
		capacity := math.Exp(rnd.Float64()*math.Log(2000)) * 6_000
		d := noisy(capacity, []float64{0, 0, 0.02, 0.3}[rnd.IntN(4)], rnd.Uint64())
		if rnd.IntN(3) == 0 {
			d.most = capacity * (0.5 + rnd.Float64())
		}
		o := options()
		if rnd.IntN(2) == 0 {
			o.Goals = Repeated(o.Goals[0].Initial, o.Goals[0].Final, 1e-4)
		}
		name, search := "MLRsearch", MLR
		if rnd.IntN(2) == 0 {
			repeats := rnd.IntN(3)
			name, search = "binary", func(ctx context.Context, t Trial, o Options) (Result, error) { return Binary(ctx, t, o, repeats) }
		}
		r, err := search(t.Context(), d.trial, o)
		if err != nil {
			if d.most > 0 && d.most < 2*o.Min && strings.Contains(err.Error(), "less than the lowest rate") {
				continue
			}
			t.Fatalf("%s, capacity %.0f: %v", name, capacity, err)
		}
		for _, f := range r.Goals {
			if why := broken(r, f, o); why != "" {
				t.Errorf("%s, capacity %.0f, generator %.0f, %s: %s: %+v", name, capacity, d.most, f.Goal.Name, why, f)
			}
		}
		if ndr, pdr := r.Goals[0], r.Goals[1]; ndr.Upper > 0 && pdr.Upper > 0 && ndr.Lower > pdr.Upper {
			t.Errorf("%s: the NDR's bounds %v lie above the PDR's %v", name, ndr, pdr)
		}
	}
}

// broken says what is wrong with a result, "" when nothing is.
func broken(r Result, f Found, o Options) string {
	switch {
	case f.Stop == Spent:
		return "did not end"
	case f.Upper > 0 && f.Lower >= f.Upper:
		return "bounds cross"
	case f.Stop == Width && f.Upper-f.Lower > f.Goal.Width*f.Upper*1.001+1:
		return "bounds are too far apart"
	case f.Lower > o.Max || f.Upper > o.Max || f.Lower > 0 && f.Lower < o.Min:
		return "outside the range"
	case f.Limited() && f.Lower < r.Max:
		return "limited below the maximum"
	case f.Throughput > f.Lower || f.Lower > 0 && f.Throughput < f.Lower*(1-f.LossRatio)-1:
		return "conditional throughput"
	case f.Lower > 0 && !slices.ContainsFunc(r.Trials, func(t Record) bool { return t.PPS == f.Lower && t.Length >= f.Goal.Final }):
		return "no final trial at the lower bound"
	}
	return ""
}

// TestSharedTrials: several goals cost less than one search each.
func TestSharedTrials(t *testing.T) {
	for strategy, search := range strategies() {
		both, ndr, pdr := options(), options(), options()
		ndr.Goals, pdr.Goals = ndr.Goals[:1], pdr.Goals[1:]
		var n []int
		for _, o := range []Options{both, ndr, pdr} {
			r, err := search(t.Context(), knee(3e6, 5e-5, 5e6).trial, o)
			if err != nil {
				t.Fatal(err)
			}
			n = append(n, len(r.Trials))
		}
		if n[0] >= n[1]+n[2] {
			t.Errorf("%s: %d trials for both goals, %d and %d alone", strategy, n[0], n[1], n[2])
		}
	}
	fast, err := MLR(t.Context(), steady(4.2e6).trial, options())
	if err != nil {
		t.Fatal(err)
	}
	classic, err := Binary(t.Context(), steady(4.2e6).trial, options(), 0)
	if err != nil || fast.Time() >= classic.Time() {
		t.Errorf("MLRsearch takes %s, the binary search %s, %v", fast.Time(), classic.Time(), err)
	}
}

func TestRepeats(t *testing.T) {
	n := map[float64]int{}
	flaky := func(_ context.Context, pps float64, length time.Duration) (Outcome, error) {
		n[pps]++
		o := Outcome{Sent: uint64(pps * length.Seconds())}
		if pps > 4e6 || n[pps] < 3 {
			o.Lost = o.Sent / 100
		}
		return o, nil
	}
	for repeats, want := range map[int]float64{3: 4e6, 1: 0} {
		clear(n)
		o := options()
		o.Probes = []float64{}
		r, err := Binary(t.Context(), flaky, o, repeats)
		ndr, _ := r.Find(NDR)
		if err != nil || math.Abs(ndr.Throughput-want) > 0.01*want || !strings.Contains(strings.Join(r.Notes, " "), "best of these") {
			t.Errorf("%d repeats: %v, %+v, %q", repeats, err, ndr, r.Notes)
		}
	}
}

func TestTrialErrors(t *testing.T) {
	gone := errors.New("no such device")
	void := &device{loss: over(4e6), void: func(int) string { return "sent is not received plus drops" }}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for strategy, search := range strategies() {
		if _, err := search(t.Context(), func(context.Context, float64, time.Duration) (Outcome, error) { return Outcome{}, gone }, options()); !errors.Is(err, gone) {
			t.Errorf("%s: %v", strategy, err)
		}
		r, err := search(t.Context(), void.trial, options())
		if !errors.Is(err, ErrVoid) || !strings.Contains(err.Error(), "4 times: trial is void: sent is not received plus drops") || len(r.Trials) != 0 {
			t.Errorf("%s: %v, %+v", strategy, err, r)
		}
		if _, err := search(ended, steady(4e6).trial, options()); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", strategy, err)
		}
		o := options()
		o.Most = 3
		if r, err := search(t.Context(), steady(4e6).trial, o); err != nil || r.Goals[0].Stop != Spent {
			t.Errorf("%s with 3 trials: %v, %+v", strategy, err, r)
		}
		more := func(_ context.Context, _ float64, _ time.Duration) (Outcome, error) {
			return Outcome{Sent: 10, Lost: 11}, nil
		}
		if _, err := search(t.Context(), more, options()); !errors.Is(err, ErrVoid) {
			t.Errorf("%s: more lost than sent: %v", strategy, err)
		}
		weak := &device{loss: over(1e9), most: 5_000}
		if _, err := search(t.Context(), weak.trial, options()); err == nil || !strings.Contains(err.Error(), "less than the lowest rate") {
			t.Errorf("%s: weak generator: %v", strategy, err)
		}
	}
}

func TestOptions(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"no goal":               func(o *Options) { o.Goals = nil },
		"not a range":           func(o *Options) { o.Min = 0 },
		"rates 5 … 4":           func(o *Options) { o.Min, o.Max = 5, 4 },
		"not a range above 0":   func(o *Options) { o.Max = math.NaN() },
		"retries and trials":    func(o *Options) { o.Retries = -1 },
		"probe 1":               func(o *Options) { o.Probes = []float64{1} },
		"two goals are named":   func(o *Options) { o.Goals[1].Name = NDR },
		"loss ratio 1":          func(o *Options) { o.Goals[0].LossRatio = 1 },
		"exceed ratio -0.1":     func(o *Options) { o.Goals[0].ExceedRatio = -0.1 },
		"width 0":               func(o *Options) { o.Goals[0].Width = 0 },
		"trials of 2s to 1s":    func(o *Options) { o.Goals[0].Initial = 2 * time.Second },
		"less than one final":   func(o *Options) { o.Goals[0].Sum = time.Millisecond },
		"trials of 60ms to -1s": func(o *Options) { o.Goals[0].Final = -time.Second },
	} {
		o := options()
		change(&o)
		if _, err := MLR(t.Context(), steady(1e6).trial, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", want, err)
		}
	}
	if _, err := Binary(t.Context(), steady(1e6).trial, options(), -1); err == nil {
		t.Error("repeats below 0")
	}
}

// TestClassify follows the worked example of RFC 9971: four goals, and trials at one load
// that are added point by point.
func TestClassify(t *testing.T) {
	goals := []Goal{
		{Name: "RFC2544", Final: time.Minute, Sum: time.Minute},
		{Name: "TST009", Final: time.Minute, Sum: 2 * time.Minute, ExceedRatio: 0.5},
		{Name: "1s final", Final: time.Second, Sum: 2 * time.Minute, LossRatio: 0.005, ExceedRatio: 0.5},
		{Name: "20% exceed", Final: time.Minute, Sum: time.Minute, LossRatio: 0.005, ExceedRatio: 0.2},
	}
	var trials []Record
	for i, point := range []struct {
		n       int
		length  time.Duration
		lost    uint64 // of 100,000
		classes [4]class
		worst   [4]float64 // pessimistic exceed ratios, %
	}{
		{59, time.Second, 0, [4]class{}, [4]float64{100, 100, 50.833, 100}},
		{1, time.Second, 1000, [4]class{upperBound, undecided, undecided, undecided}, [4]float64{100, 100, 50.833, 100}},
		{59, time.Second, 1000, [4]class{upperBound, undecided, undecided, upperBound}, [4]float64{100, 100, 50.833, 100}},
		{1, time.Second, 0, [4]class{upperBound, undecided, lowerBound, upperBound}, [4]float64{100, 100, 50, 100}},
		{1, time.Minute, 100, [4]class{upperBound, undecided, lowerBound, lowerBound}, [4]float64{100, 100, 33.333, 42.857}},
	} {
		for range point.n {
			trials = append(trials, Record{PPS: 1e6, Length: point.length, Outcome: Outcome{Sent: 100_000, Lost: point.lost}})
		}
		for k, g := range goals {
			_, pessimistic := g.exceeds(trials)
			want := point.classes[k]
			if i == 4 && k == 3 {
				// 42.857 % exceeds this goal's 20 %, so by the RFC's code it is an upper bound; the table of its
				// example says otherwise.
				want = upperBound
			}
			if got := g.classify(trials); got != want || math.Abs(100*pessimistic-point.worst[k]) > 0.001 {
				t.Errorf("point %d, %s: class %d, pessimistic %.3f %%, want %d, %.3f %%", i+1, g.Name, got, 100*pessimistic, want, point.worst[k])
			}
		}
	}
	if (Goal{}).classify(nil) != undecided {
		t.Error("no trial")
	}
}

func TestQuantileLoss(t *testing.T) {
	trials := func(lost ...uint64) []Record {
		var out []Record
		for _, n := range lost {
			out = append(out, Record{Length: time.Second, Outcome: Outcome{Sent: 100, Lost: n}})
		}
		return append(out, Record{Length: time.Millisecond, Outcome: Outcome{Sent: 100, Lost: 99}})
	}
	strict := Goal{Final: time.Second, Sum: time.Second}
	half := Goal{Final: time.Second, Sum: 3 * time.Second, ExceedRatio: 0.5}
	for name, c := range map[string]struct {
		got, want float64
	}{
		"one trial":           {strict.quantileLoss(trials(2)), 0.02},
		"the worst of strict": {strict.quantileLoss(trials(2, 5)), 0.05},
		"the middle of three": {half.quantileLoss(trials(9, 0, 2)), 0.02},
		"two good are enough": {half.quantileLoss(trials(0, 1)), 0.01},
		"too few":             {half.quantileLoss(trials(0)), 1},
		"none":                {strict.quantileLoss(trials()), 1},
	} {
		if math.Abs(c.got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
}

func ExampleMLR() {
	r, _ := MLR(context.Background(), steady(4.2e6).trial, Options{
		Goals: Strict(100*time.Millisecond, time.Second, 0.0001), Min: 10_000, Max: 10e6,
	})
	ndr, _ := r.Find(NDR)
	fmt.Println(ndr.Stop, ndr.Upper-ndr.Lower < 0.005*ndr.Upper)
	// Output: the bounds are as close as requested true
}
