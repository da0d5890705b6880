package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Point is one rate of a latency test.
type Point struct {
	Share  float64 // of the throughput: 1, 0.9, 0.5 or 0.1
	PPS    float64
	Length time.Duration
	Repeat int // trials whose figures are averaged
}

// leastLatencyTrials is RFC 2544's own (section 26.2).
const leastLatencyTrials = 20

// LatencyPlan is the latency test of RFC 2544 section 26.2 at the throughput ndr, and at
// 90, 50 and 10 % of it, where queues are short. Repeat is 20 or more; fewer are
// for a quick look and have to be said so, which conforms reports.
func LatencyPlan(ndr float64, length time.Duration, repeat int) (plan []Point, conforms bool, err error) {
	if !(ndr > 0) || length <= 0 || repeat < 1 {
		return nil, false, fmt.Errorf("latency: throughput %g, trials of %s, %d times: all have to be above 0", ndr, length, repeat)
	}
	for _, share := range []float64{1, 0.9, 0.5, 0.1} {
		plan = append(plan, Point{Share: share, PPS: share * ndr, Length: length, Repeat: repeat})
	}
	return plan, repeat >= leastLatencyTrials, nil
}

// Mean is the arithmetic mean, which RFC 2544 has reported; 0 of nothing.
func Mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	if len(xs) == 0 {
		return 0
	}
	return sum / float64(len(xs))
}

// Overload offers high for a while, falls to low at once, and returns the time from then
// to the last lost frame, 0 when none was lost after it. lost is how many were lost in
// all: without loss there was no overload.
type Overload func(ctx context.Context, high, low float64) (after time.Duration, lost uint64, err error)

// Recovered is the result of a recovery test.
type Recovered struct {
	Times     []time.Duration
	Mean      time.Duration
	Least     time.Duration
	Most      time.Duration
	High, Low float64 // rates offered
}

// ErrNoOverload says that the device could not be overloaded with the rates there are.
var ErrNoOverload = errors.New("no frame was lost, so the device was not overloaded")

// Recovery is the test of RFC 2544 section 26.5: overload at 110 % of the throughput, or
// at highest when that is less, then half of that rate; the mean of repeat trials.
func Recovery(ctx context.Context, overload Overload, throughput, highest float64, repeat int) (Recovered, error) {
	if !(throughput > 0) || !(highest > 0) || repeat < 1 {
		return Recovered{}, fmt.Errorf("recovery: throughput %g, highest rate %g, %d times: all have to be above 0", throughput, highest, repeat)
	}
	r := Recovered{High: min(1.1*throughput, highest)}
	r.Low = r.High / 2
	for range repeat {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		after, lost, err := overload(ctx, r.High, r.Low)
		if err != nil {
			return r, fmt.Errorf("overload at %.0f frames a second: %w", r.High, err)
		}
		if lost == 0 {
			return r, fmt.Errorf("overload at %.0f frames a second: %w", r.High, ErrNoOverload)
		}
		r.Times = append(r.Times, after)
	}
	r.Least, r.Most, r.Mean = spread(r.Times)
	return r, nil
}

// Outage is how a stream at a steady rate saw a reset: when the last frame before
// and the first one after it arrived, on one clock.
type Outage struct {
	Last, First time.Duration
	// Lost frames at PPS are a second measure of the same gap; 0 when not counted.
	Lost uint64
	PPS  float64
}

// Reset is the test of RFC 2544 section 26.6 on observed outages: the mean of the times
// without a frame. It errors where the clock and the lost frames disagree by more than a
// tenth and ten frames: then the loss was not one gap.
func Reset(outages []Outage) (mean time.Duration, err error) {
	if len(outages) == 0 {
		return 0, errors.New("reset: no outage was observed")
	}
	var times []time.Duration
	for i, o := range outages {
		gap := o.First - o.Last
		if gap < 0 {
			return 0, fmt.Errorf("reset: outage %d ends %s before it begins", i+1, -gap)
		}
		if o.Lost > 0 && o.PPS > 0 {
			due := gap.Seconds() * o.PPS
			if math.Abs(due-float64(o.Lost)) > 0.1*due+10 {
				return 0, fmt.Errorf("reset: outage %d lasted %s, in which %.0f frames were due, but %d were lost: it was not one gap", i+1, gap, due, o.Lost)
			}
		}
		times = append(times, gap)
	}
	_, _, mean = spread(times)
	return mean, nil
}

func spread(times []time.Duration) (least, most, mean time.Duration) {
	var sum time.Duration
	for _, t := range times {
		sum += t
	}
	return slices.Min(times), slices.Max(times), sum / time.Duration(len(times))
}
