package ab

import (
	"context"
	"fmt"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/transit"
)

// transitSlicer is the generator and its sink around a bed: frames of 64 bytes as fast as they
// go. Generator, device and sink share a core, so a rate that is too high cannot be offered,
// and the highest is the one without loss (RFC 2544's throughput) when none was lost.
type transitSlicer struct {
	instruments *transit.Instruments
	rates       []float64 // Mpps
	took        time.Duration
}

// transitFrame is in bytes with FCS: what a data path costs a frame shows best with the smallest.
const transitFrame = 64

// transitSlicerOf has the instruments of a direction stand, with all flows known. The device has seen
// as many as known then, if these are more.
func transitSlicerOf(ctx context.Context, all *transit.Testbeds, b *transit.Testbed, kind string, flows, known int, o gen.SinkOptions) (measure.Sliced, error) {
	warm := func(flows int) (*transitSlicer, error) {
		direction := transit.Encap
		if kind == TransitDecap {
			direction = transit.Decap
		}
		r, err := all.Instruments(b, transit.InstrumentOptions{
			Direction: direction, Stream: gen.Stream{Frame: transitFrame, Flows: flows}, Drain: 500 * time.Millisecond, Rest: time.Millisecond,
		})
		if err != nil {
			return nil, err
		}
		t := &transitSlicer{instruments: r}
		if err := r.Warm(ctx); err != nil {
			t.Close()
			return nil, err
		}
		return t, nil
	}
	if known > flows {
		t, err := warm(known)
		if err != nil {
			return nil, fmt.Errorf("%d flows: %w", known, err)
		}
		t.Close()
	}
	t, err := warm(flows)
	if err != nil {
		return nil, err
	}
	if o.Turns > 0 {
		if err := t.instruments.Look(o); err != nil {
			t.Close()
			return nil, err
		}
	}
	return t, nil
}

// settleTime is more than twice the time in which an edge decides anew about each flow.
const settleTime = 25 * time.Second

// settle has flows be all that have packets until the others of a load are idle, as most flows of an edge are.
func (s *stand) settle(ctx context.Context) error {
	began := time.Now()
	for time.Since(began) < settleTime {
		active := false
		for kind, slicer := range s.slicers {
			if t, is := slicer.(*transitSlicer); is {
				active = true
				if err := t.instruments.Warm(ctx); err != nil {
					return fmt.Errorf("%s: %w", kind, err)
				}
			}
		}
		if !active {
			return nil
		}
		if err := experiment.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// Slice offers frames for that long. One that lost any is tried again, once: a stranger's
// packet or a neighbour that is asked for may have been in the way.
func (t *transitSlicer) Slice(ctx context.Context, d time.Duration) error {
	var p transit.Passage
	for range 2 {
		var err error
		if p, err = t.instruments.Peak(ctx, d); err != nil {
			return err
		}
		if p.Void == "" && p.Lost == 0 && p.Sent.Frames > 0 {
			t.rates = append(t.rates, p.Forwarded(t.instruments.Testbed.Inline())/1e6)
			t.took += p.Sent.Duration
			return nil
		}
	}
	if p.Void != "" {
		return fmt.Errorf("a slice is void: %s", p.Void)
	}
	return fmt.Errorf("%d of %d frames were lost at the highest rate (%s): the rate without loss has to be searched for, with lab rfc2544", p.Lost, p.Sent.Frames, p.Dropped)
}

// Forget begins anew.
func (t *transitSlicer) Forget() { t.rates, t.took = nil, 0 }

// Sample is all slices.
func (t *transitSlicer) Sample() result.Sample {
	return result.Sample{Duration: t.took.Seconds(), Metrics: map[string]float64{}, Series: map[string][]float64{transit.NDR: t.rates}}
}

// Close frees the programs.
func (t *transitSlicer) Close() { _ = t.instruments.Close() } // what is left ends with the process
