package transit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/losses"
	"github.com/selvage/selvage/lab/search"
)

// Instruments is the instruments of one sample around a site: what sends, what takes in and,
// for frames that come back, what loops.
type Instruments struct {
	Testbed *Testbed // that they are around, nil around another site
	site    Site
	stream  gen.Stream
	Sender  Sender
	Sink    Sink
	ends    Ends
	drain   time.Duration
	rest    time.Duration
	catchUp time.Duration
	stop    []func() error
	Dropped losses.Counts // by name, in all trials
}

// InstrumentOptions are a sample's traffic and how its trials end.
type InstrumentOptions struct {
	Direction   string
	Stream      gen.Stream
	Drain, Rest time.Duration
	// CatchUp is that of trials at a rate (gen.Load); 0 is its default.
	CatchUp time.Duration
}

// Instruments stands generator and sink around a testbed.
func (all *Testbeds) Instruments(b *Testbed, o InstrumentOptions) (*Instruments, error) {
	r, err := Around(b, o)
	if err == nil {
		r.Testbed = b
	}
	return r, err
}

// Around stands generator and sink around a site.
func Around(site Site, o InstrumentOptions) (*Instruments, error) {
	r := &Instruments{site: site, stream: o.Stream, drain: o.Drain, rest: o.Rest, catchUp: o.CatchUp, Dropped: losses.Counts{}}
	if err := r.open(o); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Instruments) open(o InstrumentOptions) (err error) {
	if r.ends, err = r.site.Ends(o.Direction); err != nil {
		return err
	}
	s := o.Stream
	s.From, s.To = r.ends.From, r.ends.To
	if err := r.Look(gen.SinkOptions{}); err != nil {
		return err
	}
	for _, stand := range r.ends.Stand {
		stop, err := stand()
		if err != nil {
			return err
		}
		r.stop = append(r.stop, stop)
	}
	r.Sender, err = r.ends.Send(s)
	return err
}

// Look replaces the sink by one that looks at other things: what it does not have to, costs
// rates nothing.
func (r *Instruments) Look(o gen.SinkOptions) error {
	if sink := r.Sink; sink != nil {
		r.Sink = nil
		if err := sink.Close(); err != nil {
			return err
		}
	}
	sink, err := r.ends.Sink(o)
	if err == nil {
		r.Sink = sink
	}
	return err
}

// Close frees their programs.
func (r *Instruments) Close() error {
	var errs []error
	if r.Sender != nil {
		errs = append(errs, r.Sender.Close())
	}
	if r.Sink != nil {
		errs = append(errs, r.Sink.Close())
	}
	for _, stop := range slices.Backward(r.stop) {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// Passage is what became of one load.
type Passage struct {
	Sent gen.Sent
	Got  gen.Report
	Lost uint64
	// dropped are the counters that rose meanwhile, by name.
	Dropped losses.Counts
	// void says why the passage counts for nothing.
	Void string
}

// Forwarded is the rate that arrived, in frames/s: of the generator's own time where all is
// inline, so that what others take of the core counts for nothing.
func (p Passage) Forwarded(inline bool) float64 {
	took := p.Sent.Duration
	if inline && p.Sent.Busy > 0 {
		took = min(took, p.Sent.Busy)
	}
	if took <= 0 {
		return 0
	}
	return float64(p.Got.Frames) / took.Seconds()
}

// Inline says whether the generator's thread does all the work of device and sink too.
func (b *Testbed) Inline() bool { return !b.split && b.Device.Process == 0 }

// Send offers a load and accounts for every frame of it.
func (r *Instruments) Send(ctx context.Context, load gen.Load) (Passage, error) {
	before, err := r.site.Drops(ctx)
	if err != nil {
		return Passage{}, err
	}
	if err := r.Sink.Reset(r.Sender.Next()); err != nil {
		return Passage{}, err
	}
	var p Passage
	if p.Sent, err = r.Sender.Run(ctx, load); err != nil {
		return p, err
	}
	if err := r.account(ctx, &p, before); err != nil {
		return p, err
	}
	for name, n := range p.Dropped {
		r.Dropped[name] += n
	}
	p.Void = p.why(r.site.Accounts())
	return p, nil
}

// account reads sink and counters until no frame is on its way any more: each has come or
// has been dropped. It gives up after the time that is waited for them.
func (r *Instruments) account(ctx context.Context, p *Passage, before losses.Counts) (err error) {
	pause := 2 * time.Millisecond
	for began := time.Now(); ; pause = min(2*pause, 100*time.Millisecond) {
		if p.Got, err = r.Sink.Read(); err != nil {
			return err
		}
		after, err := r.site.Drops(ctx)
		if err != nil {
			return err
		}
		p.Dropped, p.Lost = after.Since(before), p.Got.Lost(p.Sent)
		if p.Lost <= p.Dropped.Sum() || time.Since(began) >= r.drain {
			return nil
		}
		if err := experiment.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// Strangers are the packets that may die during a passage without being of it: address
// resolution, probes.
const Strangers = 64

// why says why a passage counts for nothing, "" when it counts: sent = received + dropped where
// each lost frame has to be in a counter; else no frame that the tester itself has dropped.
func (p Passage) why(accounts bool) string {
	named := p.Dropped.Sum()
	switch {
	case p.Got.Frames > p.Sent.Frames:
		return fmt.Sprintf("%d frames arrived of %d that were sent", p.Got.Frames, p.Sent.Frames)
	case !accounts && named > 0:
		return fmt.Sprintf("the tester itself dropped %d frames (%s)", named, p.Dropped)
	case !accounts:
		return ""
	case p.Lost > named:
		return fmt.Sprintf("%d of %d lost frames are in no counter (%s; the sink saw other frames: %v)", p.Lost-named, p.Lost, p.Dropped, p.Got.Foreign)
	case named > p.Lost+Strangers:
		return fmt.Sprintf("counters name %d drops (%s), but %d frames are missing", named, p.Dropped, p.Lost)
	}
	return ""
}

// Trial is a passage at a rate as a search wants it.
func (r *Instruments) Trial(ctx context.Context, pps float64, length time.Duration) (search.Outcome, error) {
	if err := experiment.Sleep(ctx, r.rest); err != nil {
		return search.Outcome{}, err
	}
	p, err := r.Send(ctx, gen.Load{Rate: pps, Duration: length, Untimed: true, Batch: SearchBatch(pps), CatchUp: r.catchUp})
	if err != nil {
		return search.Outcome{}, err
	}
	return outcome(p), nil
}

// SearchBatch is the frames that the kernel hands over at a time in a trial for a rate:
// the highest rates need many.
func SearchBatch(pps float64) int {
	if pps > 1e6 {
		return PeakBatch
	}
	return 0
}

// PeakBatch is what the generator is fastest with.
const PeakBatch = 64

// WarmTime is how long every flow's first frames take to send: slowly, since each is a
// decision, but within two seconds.
func WarmTime(flows int) time.Duration {
	const each = 20 * time.Microsecond
	return min(time.Duration(max(2*flows, 512))*each, 2*time.Second)
}

// slowestWarm is the longest that they are sent for, to a device that is slow.
const slowestWarm = 4 * time.Second

// Warm sends every flow's first frames, until all of them arrive.
func (r *Instruments) Warm(ctx context.Context) error {
	frames := uint64(max(2*r.stream.Flows, 512))
	rate := float64(frames) / WarmTime(r.stream.Flows).Seconds()
	var p Passage
	for range 8 {
		var err error
		if p, err = r.Send(ctx, gen.Load{Frames: frames, Rate: rate}); err != nil {
			return err
		}
		if p.Void == "" && p.Lost == 0 && p.Sent.Frames > 0 {
			return nil
		}
		rate = max(rate/2, float64(frames)/slowestWarm.Seconds())
		if err := experiment.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	switch {
	case p.Sent.Frames == 0:
		return fmt.Errorf("the device's interface accepted none of %d frames", p.Sent.Offered)
	case p.Got.Frames == 0:
		return fmt.Errorf("none of %d frames came through (dropped: %s; the sink saw %v)", p.Sent.Frames, p.Dropped, p.Got.Foreign)
	case p.Void != "":
		return errors.New(p.Void)
	case p.Lost > p.Sent.Frames/2:
		return fmt.Errorf("%d of %d frames at %.0f frames/s were lost (%s)", p.Lost, p.Sent.Frames, rate, p.Dropped)
	}
	return nil // it loses already at this rate, which the search will tell
}

// Peak is what goes through when the generator sends as fast as it can.
func (r *Instruments) Peak(ctx context.Context, length time.Duration) (Passage, error) {
	return r.Send(ctx, gen.Load{Duration: length, Batch: PeakBatch, Untimed: true})
}

// PerPacket is the time of one packet at a rate, in ns.
func PerPacket(pps float64) float64 {
	if !(pps > 0) {
		return math.NaN()
	}
	return 1e9 / pps
}

// Unchecked is a passage without accounts, whose end may be in the next one.
func (r *Instruments) Unchecked(ctx context.Context, load gen.Load, drain time.Duration) (p Passage, err error) {
	if err := r.Sink.Reset(r.Sender.Next()); err != nil {
		return p, err
	}
	if p.Sent, err = r.Sender.Run(ctx, load); err != nil {
		return p, err
	}
	for began := time.Now(); ; {
		if p.Got, err = r.Sink.Read(); err != nil {
			return p, err
		}
		if p.Lost = p.Got.Lost(p.Sent); p.Lost == 0 || time.Since(began) >= drain {
			return p, nil
		}
		if err := experiment.Sleep(ctx, time.Millisecond); err != nil {
			return p, err
		}
	}
}
