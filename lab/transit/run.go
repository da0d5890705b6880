package transit

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Run is a run of an experiment on transit and how far it is.
type Run struct {
	Result   result.Result
	Testbeds *Testbeds
	steps    []Step
	pace     *experiment.Pace
	Progress *experiment.Progress
	Ceilings map[CeilingKey]Ceiling
	// build makes all beds, and take a sample on one of them.
	Build func(context.Context) error
	Take  func(context.Context, Step) result.Sample
	// outcome is a sample in a few words.
	Outcome func(result.Sample) string
}

// transitExtra is about what a sample takes besides its trials: programs to load,
// frames that warm up.
const transitExtra = 1500 * time.Millisecond

// NewRun is a run that has taken no sample yet.
func NewRun(r result.Result, steps []Step, console *experiment.Console) (*Run, error) {
	testbeds, err := Open()
	if err != nil {
		return nil, err
	}
	return &Run{
		Result: r, Testbeds: testbeds, steps: steps, pace: &experiment.Pace{First: transitExtra}, Progress: experiment.NewProgress(console.Err, len(steps)), Ceilings: map[CeilingKey]Ceiling{},
	}, nil
}

// Measure builds the beds, takes all samples and removes the beds again. With an error
// the result holds what was measured until then.
func (r *Run) Measure(ctx context.Context, began time.Time) (result.Result, error) {
	defer r.Progress.Close()
	left := r.pace.Left(experiment.Steps(r.steps))
	r.Progress.Note("%s, about %s", result.Counted(len(r.steps), "sample"), experiment.About(left))
	r.Progress.Begin("testing the generator", left)
	err := r.selfTest(ctx)
	if err == nil {
		r.Progress.Begin("building networks", left)
		err = r.Build(ctx)
	}
	if err == nil {
		err = r.takeAll(ctx)
	}
	r.Result.Duration = time.Since(began).Seconds()
	return r.Result, experiment.RemoveAll(ctx, err, r.Testbeds.Close, r.Progress)
}

func (r *Run) takeAll(ctx context.Context) error {
	taking := experiment.Taking[Step]{
		Pace: r.pace, Outcome: r.Outcome,
		Take: func(ctx context.Context, s Step) (result.Sample, error) { return r.Take(ctx, s), nil },
	}
	return taking.All(ctx, r.steps, &r.Result, r.Progress)
}

// CeilingKey is what the generator's speed depends on.
type CeilingKey struct {
	frame, flows, family int
	wrapped              bool
}

// String is the name of the parameter that is a ceiling.
func (k CeilingKey) String() string {
	size := "imix"
	if k.frame > 0 {
		size = strconv.Itoa(k.frame)
	}
	name := fmt.Sprintf("ceiling_%s_%d_flows", size, k.flows)
	if k.wrapped {
		name += "_tunnel"
	}
	return name
}

// Ceiling is what the generator does without a device.
type Ceiling struct {
	Rate float64 // frames/s
	NS   float64 // of a core for a frame
}

func perSecond(ns float64) float64 { return 1e9 / ns }

// Ceiling is what the generator's speed with these frames is known by.
func (s Step) Ceiling() CeilingKey {
	return CeilingKey{s.Stream.Frame, s.Stream.Flows, s.Stream.Family, s.Direction == Decap}
}

// selfTest loops the generator without a device, for every kind of frames that the
// steps send.
func (r *Run) selfTest(ctx context.Context) error {
	core, _ := pins()
	for _, s := range r.steps {
		key := s.Ceiling()
		if _, done := r.Ceilings[key]; done {
			continue
		}
		l := gen.Loop{Stream: s.Stream, Core: core, Runs: 3, Load: gen.Load{Duration: 150 * time.Millisecond, Batch: PeakBatch, Untimed: true}}
		if key.wrapped {
			l.Tunnel = loopTunnel()
		}
		self, err := gen.Ceiling(ctx, l)
		if err != nil {
			return fmt.Errorf("self-test of the generator: %w", err)
		}
		if len(self.Busy) == 0 {
			return fmt.Errorf("self-test of the generator: no run of %s was timed", s.CaseName)
		}
		if self.Lost > 0 {
			return fmt.Errorf("self-test of the generator: %d frames of %s were lost without any device: nothing can be measured with it", self.Lost, s.CaseName)
		}
		ns := stats.Median(self.Busy).Median
		r.Ceilings[key] = Ceiling{perSecond(ns), ns}
		r.Result.Parameters[key.String()] = result.Of(result.Number(stats.Rounded([]float64{perSecond(ns) / 1e6})[0])).In("Mpps").Explained(
			"of CPU time (%s ns a frame, n = %d); by the clock %s", stats.Figure(ns), len(self.Busy), stats.Figure(self.Median/1e6))
	}
	return nil
}

// CoresInWords says what ran where.
func CoresInWords(split bool) string {
	generator, device := pins()
	if split {
		return fmt.Sprintf("generator on core %d; device, and the sink after it, on core %d; a device in user space there too", generator, device)
	}
	return fmt.Sprintf("generator, device and sink share core %d, one after the other; a device in user space has core %d, the sink after it too", generator, device)
}

// loopTunnel is VXLAN as a loop without a device has it.
func loopTunnel() *gen.Tunnel {
	return &gen.Tunnel{
		Encapsulation: overlay.VXLAN, VNI: 100, Local: netip.MustParseAddr("192.0.2.2"), Remote: netip.MustParseAddr("192.0.2.1"),
		SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0x0f, 2}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0x0f, 1},
	}
}
