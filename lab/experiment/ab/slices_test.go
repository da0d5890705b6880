package ab

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/transit"
)

// brokenSlicer fails at once.
type brokenSlicer struct{}

func (brokenSlicer) Slice(context.Context, time.Duration) error {
	return errors.New("no frame arrived")
}
func (brokenSlicer) Forget() {}
func (brokenSlicer) Close()  {}

func (brokenSlicer) Sample() result.Sample {
	return result.Sample{Metrics: map[string]float64{}, Series: map[string][]float64{transit.NDR: nil}}
}

// A case that fails while it warms up is a sample with an error, of when it began, which a file
// can hold.
func TestFailedWarmUp(t *testing.T) {
	s := &stand{
		target: "selvage", failed: map[string]error{}, began: map[string]time.Time{},
		slicers: map[string]measure.Sliced{TransitEncap: brokenSlicer{}},
	}
	run := time.Now()
	s.slice(t.Context(), TransitEncap, time.Millisecond)
	if err := s.forget(); err != nil {
		t.Fatal(err)
	}
	samples := (&round{Command: &Command{}, stands: []*stand{s}}).samples(1, 0, run)
	if len(samples) != 1 || samples[0].Error == "" || samples[0].Start < 0 || samples[0].Start > time.Since(run).Seconds() {
		t.Fatalf("samples %+v", samples)
	}
	var file bytes.Buffer
	if err := result.Write(&file, result.Result{Schema: result.Schema, Experiment: Name, Started: run, Samples: samples}); err != nil {
		t.Error(err)
	}
}
