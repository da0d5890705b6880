package search

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestLosses(t *testing.T) {
	points, notes, err := Losses(t.Context(), steady(4.2e6).trial, Curve{Max: 6e6, Length: time.Second})
	if err != nil || len(notes) > 0 {
		t.Fatal(err, notes)
	}
	// 100, 90, 80 % lose; 70 % (4.2 million) and 60 % do not, which ends it.
	if len(points) != 5 || points[0].Share != 1 || math.Abs(points[0].Ratio-0.3) > 1e-6 || points[2].Ratio == 0 || points[3].Ratio != 0 || points[4].Share != 0.6 {
		t.Errorf("%+v", points)
	}
	points, _, err = Losses(t.Context(), everyTenThousandth(4e6).trial, Curve{Max: 4e6, Length: time.Second, Step: 0.05})
	if err != nil || len(points) != 20 || points[19].Share != 0.05 || points[19].Ratio != 1e-4 {
		t.Errorf("never without loss: %v, %d points, %+v", err, len(points), points)
	}
	_, notes, err = Losses(t.Context(), hole(3.5e6, 3.7e6, 3.9e6).trial, Curve{Max: 4e6, Length: time.Second})
	if err != nil || len(notes) != 0 {
		t.Errorf("less at the lower rate: %v, %q", err, notes)
	}
	_, notes, err = Losses(t.Context(), hole(3.5e6, 3.7e6, 5e6).trial, Curve{Max: 4e6, Length: time.Second})
	if err != nil || len(notes) != 1 || !strings.HasPrefix(notes[0], "Not monotonic: 1 % are lost at 90 %") {
		t.Errorf("%v, %q", err, notes)
	}
	points, notes, err = Losses(t.Context(), (&device{loss: over(9e6), most: 3.5e6}).trial, Curve{Max: 4e6, Length: time.Second})
	if err != nil || len(points) != 2 || points[0].Share != 0.8 || len(notes) != 2 || !strings.Contains(notes[0], "fell behind at 100 %") {
		t.Errorf("%v, %+v, %q", err, points, notes)
	}
	for _, c := range []Curve{{}, {Max: 1, Length: time.Second, Step: 0.2}, {Max: 1, Length: time.Second, Step: -1}, {Max: math.NaN(), Length: time.Second}} {
		if _, _, err := Losses(t.Context(), steady(1).trial, c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

// buffer is a device that forwards at a rate and holds size frames in store.
func buffer(size, rate, line float64) Burst {
	return func(_ context.Context, frames uint64) (Outcome, error) {
		held := float64(frames) * (line - rate) / line
		return Outcome{Sent: frames, Lost: uint64(max(0, math.Ceil(held-size)))}, nil
	}
}

func TestBackToBack(t *testing.T) {
	o := Bursts{Least: 2, Most: 1_000_000, Repeat: 5, Retries: 1, MaxRate: 10e6, Throughput: 8e6}
	b, err := BackToBack(t.Context(), buffer(1000, 8e6, 10e6), o)
	if err != nil {
		t.Fatal(err)
	}
	// A burst of n leaves n·0.2 in the buffer: 5,000 frames fill 1,000. The correction gives
	// the time of those 1,000 at the rate of the burst.
	if b.Average != 5000 || b.Spread != 0 || b.Implied != 500*time.Microsecond || b.Corrected != 100*time.Microsecond || b.Limited {
		t.Errorf("%+v", b)
	}
	if b, err := BackToBack(t.Context(), buffer(1e9, 8e6, 10e6), o); err != nil || !b.Limited || b.Least != o.Most {
		t.Errorf("endless buffer: %v, %+v", err, b)
	}
	if b, err := BackToBack(t.Context(), buffer(-1, 8e6, 10e6), o); err != nil || b.Average != 0 {
		t.Errorf("no buffer: %v, %+v", err, b)
	}
	o.Throughput = 10e6
	if _, err := BackToBack(t.Context(), buffer(1000, 8e6, 10e6), o); !errors.Is(err, ErrNoBuffer) {
		t.Error(err)
	}
	o.Throughput = 8e6
	late := func(_ context.Context, frames uint64) (Outcome, error) {
		return Outcome{Sent: frames / 2, Unsent: frames / 2}, nil
	}
	if _, err := BackToBack(t.Context(), late, o); !errors.Is(err, ErrVoid) || !strings.Contains(err.Error(), "50 % of the frames were not sent") {
		t.Error(err)
	}
	if _, err := BackToBack(t.Context(), late, Bursts{}); err == nil {
		t.Error("no bursts")
	}
}

func TestLatencyPlan(t *testing.T) {
	plan, conforms, err := LatencyPlan(4e6, time.Second, 20)
	if err != nil || !conforms || len(plan) != 4 || plan[0].PPS != 4e6 || plan[3].PPS != 4e5 || plan[1].Share != 0.9 {
		t.Errorf("%v %v %v", plan, conforms, err)
	}
	if _, conforms, _ := LatencyPlan(4e6, time.Second, 19); conforms {
		t.Error("19 trials conform")
	}
	if _, _, err := LatencyPlan(0, time.Second, 20); err == nil {
		t.Error("no throughput")
	}
	if Mean([]float64{1, 2, 6}) != 3 || Mean(nil) != 0 {
		t.Error("Mean")
	}
}

func TestRecovery(t *testing.T) {
	n := 0
	overload := func(_ context.Context, high, low float64) (time.Duration, uint64, error) {
		n++
		if math.Abs(high-4.4e6) > 1 || math.Abs(low-2.2e6) > 1 {
			t.Errorf("rates %v, %v", high, low)
		}
		return time.Duration(n) * time.Millisecond, 1000, nil
	}
	r, err := Recovery(t.Context(), overload, 4e6, 10e6, 3)
	if err != nil || r.Mean != 2*time.Millisecond || r.Least != time.Millisecond || r.Most != 3*time.Millisecond {
		t.Errorf("%+v %v", r, err)
	}
	none := func(context.Context, float64, float64) (time.Duration, uint64, error) { return 0, 0, nil }
	if r, err := Recovery(t.Context(), none, 4e6, 4.1e6, 3); !errors.Is(err, ErrNoOverload) || r.High != 4.1e6 {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := Recovery(t.Context(), none, 0, 1, 1); err == nil {
		t.Error("no throughput")
	}
}

func TestReset(t *testing.T) {
	ms := time.Millisecond
	got, err := Reset([]Outage{{Last: 100 * ms, First: 300 * ms, Lost: 20_000, PPS: 100_000}, {Last: 0, First: 100 * ms}})
	if err != nil || got != 150*ms {
		t.Errorf("%v %v", got, err)
	}
	for want, outages := range map[string][]Outage{
		"no outage":       nil,
		"ends 1ms before": {{Last: 2 * ms, First: ms}},
		"was not one gap": {{First: 100 * ms, Lost: 50_000, PPS: 100_000}},
	} {
		if _, err := Reset(outages); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
