package search

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// device simulates what a trial measures. loss is the share that is lost at a rate, in
// whole frames; most is what the generator can send, 0 for anything.
type device struct {
	loss  func(pps float64, frames uint64) uint64
	most  float64
	void  func(n int) string // of the n-th trial, from 1
	calls int
}

func (d *device) trial(_ context.Context, pps float64, length time.Duration) (Outcome, error) {
	d.calls++
	due := uint64(math.Round(pps * length.Seconds()))
	sent := due
	if d.most > 0 && pps > d.most {
		sent = uint64(math.Round(d.most * length.Seconds()))
	}
	o := Outcome{Sent: sent, Unsent: due - sent, Lost: d.loss(float64(sent)/length.Seconds(), sent)}
	if d.void != nil {
		o.Void = d.void(d.calls)
	}
	return o, nil
}

// over loses what exceeds a capacity.
func over(capacity float64) func(float64, uint64) uint64 {
	return func(pps float64, frames uint64) uint64 {
		if pps <= capacity {
			return 0
		}
		return uint64(math.Ceil(float64(frames) * (1 - capacity/pps)))
	}
}

// steady loses only above its capacity.
func steady(capacity float64) *device { return &device{loss: over(capacity)} }

// knee loses share of all frames from a rate on, and what exceeds its capacity.
func knee(from, share, capacity float64) *device {
	lost := over(capacity)
	return &device{loss: func(pps float64, frames uint64) uint64 {
		n := lost(pps, frames)
		if pps > from {
			n = max(n, uint64(math.Ceil(share*float64(frames))))
		}
		return n
	}}
}

// everyTenThousandth loses exactly one frame in 10,000 at any rate.
func everyTenThousandth(capacity float64) *device {
	lost := over(capacity)
	return &device{loss: func(pps float64, frames uint64) uint64 { return max(lost(pps, frames), frames/10_000) }}
}

// noisy loses a few frames in one of chance trials, whatever the rate.
func noisy(capacity, chance float64, seed uint64) *device {
	lost, rnd := over(capacity), rand.New(rand.NewPCG(seed, 1))
	return &device{loss: func(pps float64, frames uint64) uint64 {
		n := lost(pps, frames)
		if rnd.Float64() < chance {
			n = max(n, min(frames, 1+rnd.Uint64N(50)))
		}
		return n
	}}
}

// hole loses between two rates, and above its capacity.
func hole(from, to, capacity float64) *device {
	lost := over(capacity)
	return &device{loss: func(pps float64, frames uint64) uint64 {
		if pps >= from && pps <= to {
			return frames / 100
		}
		return lost(pps, frames)
	}}
}
