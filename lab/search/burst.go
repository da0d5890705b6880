package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Burst sends frames back to back at the highest rate that the medium allows and says
// what became of them.
type Burst func(ctx context.Context, frames uint64) (Outcome, error)

// Bursts are the options of the back-to-back test (RFC 2544 section 26.4 as RFC 9004
// amends it).
type Bursts struct {
	// Least and Most bound the length of a burst in frames. Most is what two seconds
	// carry, by RFC 2544, or the generator's longest.
	Least, Most uint64
	Repeat      int     // searches whose lengths are averaged; RFC 2544 asks for 50
	Retries     int     // of a void burst
	Unsent      float64 // share of unsent frames up to which a burst counts; 0 is 0.001
	// MaxRate is the rate within a burst, Throughput the one without loss at the same
	// frame size, both frames a second: together they correct the buffer's time.
	MaxRate, Throughput float64
}

// Buffered is what bursts say of a device's buffer.
type Buffered struct {
	Lengths []uint64 // longest burst without loss of each repetition
	Average float64  // frames: the benchmark
	Least   uint64
	Most    uint64
	Spread  float64 // standard deviation of Lengths, frames
	// Implied is Average at MaxRate. Corrected leaves out what the device forwarded
	// meanwhile (RFC 9004 section 6.4).
	Implied, Corrected time.Duration
	// Limited says that at least one repetition lost nothing at Most, so the figures are
	// lower bounds.
	Limited bool
}

// ErrNoBuffer says that the device forwards at the rate of the bursts, so they do not
// fill any buffer (RFC 9004 section 6.1 leaves such sizes out).
var ErrNoBuffer = errors.New("throughput is the rate of the bursts, so bursts say nothing of a buffer")

// BackToBack looks Repeat times for the longest burst without loss.
func BackToBack(ctx context.Context, burst Burst, o Bursts) (Buffered, error) {
	if o.Least < 1 || o.Most < o.Least || o.Repeat < 1 || !(o.MaxRate > 0) {
		return Buffered{}, fmt.Errorf("back to back: bursts of %d … %d frames, %d times at %g frames a second: all have to be above 0", o.Least, o.Most, o.Repeat, o.MaxRate)
	}
	if o.Throughput >= o.MaxRate {
		return Buffered{}, ErrNoBuffer
	}
	if o.Unsent == 0 {
		o.Unsent = 0.001
	}
	var b Buffered
	for range o.Repeat {
		length, limited, err := o.longest(ctx, burst)
		if err != nil {
			return b, err
		}
		b.Lengths = append(b.Lengths, length)
		b.Limited = b.Limited || limited
	}
	b.reckon(o)
	return b, nil
}

// reckon fills in what follows from Lengths.
func (b *Buffered) reckon(o Bursts) {
	b.Least, b.Most = b.Lengths[0], b.Lengths[0]
	for _, n := range b.Lengths {
		b.Average += float64(n) / float64(len(b.Lengths))
		b.Least, b.Most = min(b.Least, n), max(b.Most, n)
	}
	squares := 0.0
	for _, n := range b.Lengths {
		squares += (float64(n) - b.Average) * (float64(n) - b.Average)
	}
	if len(b.Lengths) > 1 {
		b.Spread = math.Sqrt(squares / float64(len(b.Lengths)-1))
	}
	implied := b.Average / o.MaxRate
	b.Implied = seconds(implied)
	b.Corrected = seconds(implied * (o.MaxRate - o.Throughput) / o.MaxRate)
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// longest bisects for the longest burst without loss. 0 frames is an answer: not
// even the shortest passes.
func (o Bursts) longest(ctx context.Context, burst Burst) (length uint64, limited bool, err error) {
	passes := func(frames uint64) (bool, error) {
		out, err := o.attempt(ctx, burst, frames)
		return out.Lost == 0, err
	}
	if ok, err := passes(o.Most); ok || err != nil {
		return o.Most, ok, err
	}
	if ok, err := passes(o.Least); !ok || err != nil {
		return 0, false, err
	}
	lower, upper := o.Least, o.Most
	for upper-lower > 1 {
		middle := lower + (upper-lower)/2
		ok, err := passes(middle)
		if err != nil {
			return 0, false, err
		}
		if ok {
			lower = middle
		} else {
			upper = middle
		}
	}
	return lower, false, nil
}

func (o Bursts) attempt(ctx context.Context, burst Burst, frames uint64) (Outcome, error) {
	why := ""
	for range o.Retries + 1 {
		if err := ctx.Err(); err != nil {
			return Outcome{}, err
		}
		out, err := burst(ctx, frames)
		if err != nil {
			return out, fmt.Errorf("burst of %d frames: %w", frames, err)
		}
		switch {
		case out.Void != "":
			why = out.Void
		case out.Sent == 0:
			why = "nothing was sent"
		case out.UnsentRatio() > o.Unsent:
			why = fmt.Sprintf("%.2g %% of the frames were not sent", 100*out.UnsentRatio())
		default:
			return out, nil
		}
	}
	return Outcome{}, fmt.Errorf("burst of %d frames, %d times: %w: %s", frames, o.Retries+1, ErrVoid, why)
}
