package experiments

import (
	"context"
	"fmt"
	"time"

	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// transitSlicer is the generator and its sink around a bed: frames of 64 bytes as fast as they
// go. Generator, device and sink share a core, so a rate that is too high cannot be offered,
// and the highest is the one without loss (RFC 2544's throughput) when none was lost.
type transitSlicer struct {
	instruments *instruments
	rates       []float64 // Mpps
	took        time.Duration
}

// transitFrame is in bytes with FCS: what a data path costs a frame shows best with the smallest.
const transitFrame = 64

// slicer has the instruments of a direction stand, with all flows known.
func (all *testbeds) slicer(ctx context.Context, b *testbed, kind string, o gen.SinkOptions) (measure.Sliced, error) {
	direction := stats.Encap
	if kind == stats.TransitDecap {
		direction = stats.Decap
	}
	r, err := all.instruments(b, instrumentsOptions{
		direction: direction, stream: gen.Stream{Frame: transitFrame, Flows: gen.DefaultFlows}, drain: 500 * time.Millisecond, rest: time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	t := &transitSlicer{instruments: r}
	if err := r.warm(ctx); err != nil {
		t.Close()
		return nil, err
	}
	if o.Turns > 0 {
		err = r.look(o)
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Slice offers frames for that long. One that lost any is tried again, once: a stranger's
// packet or a neighbour that is asked for may have been in the way.
func (t *transitSlicer) Slice(ctx context.Context, d time.Duration) error {
	var p passage
	for range 2 {
		var err error
		if p, err = t.instruments.peak(ctx, d); err != nil {
			return err
		}
		if p.void == "" && p.lost == 0 && p.sent.Frames > 0 {
			t.rates = append(t.rates, p.forwarded(t.instruments.testbed.inline())/1e6)
			t.took += p.sent.Duration
			return nil
		}
	}
	if p.void != "" {
		return fmt.Errorf("a slice is void: %s", p.void)
	}
	return fmt.Errorf("%d of %d frames were lost at the highest rate (%s): the rate without loss has to be searched for, with lab rfc2544", p.lost, p.sent.Frames, p.dropped)
}

// Forget begins anew.
func (t *transitSlicer) Forget() { t.rates, t.took = nil, 0 }

// Sample is all slices.
func (t *transitSlicer) Sample() result.Sample {
	return result.Sample{Duration: t.took.Seconds(), Metrics: map[string]float64{}, Series: map[string][]float64{stats.NDR: t.rates}}
}

// Close frees the programs.
func (t *transitSlicer) Close() { _ = t.instruments.close() } // what is left ends with the process
