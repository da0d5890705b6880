package experiments

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/losses"
	"github.com/selvage/selvage/lab/search"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
)

// instruments is the instruments of one sample around a bed: what sends, what takes in and,
// for frames that come back, what loops.
type instruments struct {
	testbed   *testbed
	watch     *losses.Watch
	stream    gen.Stream
	sender    *gen.Sender
	sink      *gen.Sink
	into      []int // interfaces of the sink
	reflector *gen.Reflector
	drain     time.Duration
	rest      time.Duration
	stop      []func() error
	dropped   losses.Counts // by name, in all trials
}

// instrumentsOptions are a sample's traffic and how its trials end.
type instrumentsOptions struct {
	direction   string
	stream      gen.Stream
	drain, rest time.Duration
}

func (all *testbeds) instruments(b *testbed, o instrumentsOptions) (*instruments, error) {
	r := &instruments{testbed: b, watch: all.watch, stream: o.stream, drain: o.drain, rest: o.rest, dropped: losses.Counts{}}
	if err := r.open(o); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *instruments) open(o instrumentsOptions) error {
	n := r.testbed.net
	s := o.stream
	s.From, s.To = n.Outside, n.Inside
	into, loop := n.Underlays, n.Uplinks
	if o.direction == stats.Decap {
		s.From, s.To = n.Inside, n.Outside
	}
	if o.direction != stats.Encap {
		into, loop = n.Uplinks, n.Underlays
	}
	ports, err := r.testbed.ports(o.direction)
	if err != nil {
		return err
	}
	indexes, err := r.testbed.indexes(into)
	if err != nil {
		return err
	}
	r.into = indexes
	if err := r.look(gen.SinkOptions{}); err != nil {
		return err
	}
	if o.direction == stats.Both {
		if indexes, err = r.testbed.indexes(loop); err != nil {
			return err
		}
		if r.reflector, err = gen.NewReflector(n.Tester.Namespace, indexes, gen.SinkOptions{}); err != nil {
			return err
		}
		accepting, err := n.AcceptBack()
		r.stop = append(r.stop, accepting)
		if err != nil {
			return err
		}
	}
	core, _ := transitCores()
	r.sender, err = gen.NewSender(n.Tester.Namespace, ports, s, core)
	return err
}

// look replaces the sink by one that looks at other things: what it does not have to, costs
// rates nothing.
func (r *instruments) look(o gen.SinkOptions) (err error) {
	if r.sink != nil {
		if err := r.sink.Close(); err != nil {
			return err
		}
	}
	r.sink, err = gen.NewSink(r.testbed.net.Tester.Namespace, r.into, o)
	return err
}

func (r *instruments) close() error {
	var errs []error
	if r.sender != nil {
		errs = append(errs, r.sender.Close())
	}
	if r.sink != nil {
		errs = append(errs, r.sink.Close())
	}
	if r.reflector != nil {
		errs = append(errs, r.reflector.Close())
	}
	for _, stop := range r.stop {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// passage is what became of one load.
type passage struct {
	sent gen.Sent
	got  gen.Report
	lost uint64
	// dropped are the counters that rose meanwhile, by name.
	dropped losses.Counts
	// void says why the passage counts for nothing.
	void string
}

// forwarded is the rate that arrived, in frames/s: of the generator's own time where all is
// inline, so that what others take of the core counts for nothing.
func (p passage) forwarded(inline bool) float64 {
	took := p.sent.Duration
	if inline && p.sent.Busy > 0 {
		took = min(took, p.sent.Busy)
	}
	if took <= 0 {
		return 0
	}
	return float64(p.got.Frames) / took.Seconds()
}

// inline says whether the generator's thread does all the work of device and sink too.
func (b *testbed) inline() bool { return !b.split && b.device.Process == 0 }

// send offers a load and accounts for every frame of it.
func (r *instruments) send(ctx context.Context, load gen.Load) (passage, error) {
	before, err := r.drops(ctx)
	if err != nil {
		return passage{}, err
	}
	if err := r.sink.Reset(r.sender.Next()); err != nil {
		return passage{}, err
	}
	var p passage
	if p.sent, err = r.run(ctx, load); err != nil {
		return p, err
	}
	if err := r.account(ctx, &p, before); err != nil {
		return p, err
	}
	for name, n := range p.dropped {
		r.dropped[name] += n
	}
	p.void = p.unaccounted()
	return p, nil
}

// generatorPriority is the generator's, of a real-time task: its clock cannot wait for
// who else wants the core.
const generatorPriority = 1

// run has the generator send.
func (r *instruments) run(ctx context.Context, load gen.Load) (gen.Sent, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return gen.Sent{}, fmt.Errorf("priority of the generator: %w", err)
	}
	realtime := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: generatorPriority}
	if err := unix.SchedSetAttr(0, &realtime, 0); err != nil {
		return gen.Sent{}, fmt.Errorf("real-time priority of the generator: %w (a control group may forbid it: cpu.rt_runtime_us)", err)
	}
	sent, err := r.sender.Run(ctx, load)
	return sent, errors.Join(err, unix.SchedSetAttr(0, before, 0))
}

// account reads sink and counters until no frame is on its way any more: each has come or
// has been dropped. It gives up after the time that is waited for them.
func (r *instruments) account(ctx context.Context, p *passage, before losses.Counts) (err error) {
	pause := 2 * time.Millisecond
	for began := time.Now(); ; pause = min(2*pause, 100*time.Millisecond) {
		if p.got, err = r.sink.Read(); err != nil {
			return err
		}
		after, err := r.drops(ctx)
		if err != nil {
			return err
		}
		p.dropped, p.lost = after.Since(before), p.got.Lost(p.sent)
		if p.lost <= p.dropped.Sum() || time.Since(began) >= r.drain {
			return nil
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// drops are all counters of lost packets of the bed's hosts: reasons of the kernel, and
// what its driver and the device itself counted besides.
func (r *instruments) drops(ctx context.Context) (losses.Counts, error) {
	all := losses.Counts{}
	for host, inode := range r.testbed.netns {
		counts, err := r.watch.Read(inode)
		if err != nil {
			return nil, err
		}
		for name, n := range counts {
			if !r.excused(host, name) {
				all[host+" "+name] = n
			}
		}
	}
	driver, err := r.testbed.net.DriverDrops()
	if err != nil {
		return nil, err
	}
	if r.testbed.device.Drops != nil {
		own, err := r.testbed.device.Drops(ctx)
		if err != nil {
			return nil, err
		}
		for name, n := range own {
			all["device "+name] = n
		}
	}
	for name, n := range driver {
		if !r.testbed.device.Programs || !strings.HasPrefix(name, topo.DroppedByXDP) {
			all["device "+name] = n
		}
	}
	return all, nil
}

// excused are counters that count no loss, or one that the device counts itself, and what
// the tester's own interface did not take from the generator, which counts that (overrun).
func (r *instruments) excused(host, name string) bool {
	if host == r.testbed.net.Tester.Name {
		return strings.HasPrefix(name, losses.Transmit)
	}
	reason, freed := strings.CutPrefix(name, losses.Freed)
	return freed && slices.Contains(r.testbed.device.Excused, reason)
}

// strangers are the packets that may die during a passage without being of it: address
// resolution, probes.
const strangers = 64

// unaccounted says what does not add up, "" when all does: sent = received + dropped.
func (p passage) unaccounted() string {
	named := p.dropped.Sum()
	switch {
	case p.got.Frames > p.sent.Frames:
		return fmt.Sprintf("%d frames arrived of %d that were sent", p.got.Frames, p.sent.Frames)
	case p.lost > named:
		return fmt.Sprintf("%d of %d lost frames are in no counter (%s; the sink saw other frames: %v)", p.lost-named, p.lost, p.dropped, p.got.Foreign)
	case named > p.lost+strangers:
		return fmt.Sprintf("counters name %d drops (%s), but %d frames are missing", named, p.dropped, p.lost)
	}
	return ""
}

// trial is a passage at a rate as a search wants it.
func (r *instruments) trial(ctx context.Context, pps float64, length time.Duration) (search.Outcome, error) {
	if err := sleep(ctx, r.rest); err != nil {
		return search.Outcome{}, err
	}
	p, err := r.send(ctx, gen.Load{Rate: pps, Duration: length, Untimed: true, Batch: searchBatch(pps)})
	if err != nil {
		return search.Outcome{}, err
	}
	return search.Outcome{Sent: p.sent.Frames, Lost: p.lost, Unsent: p.sent.Unsent + p.sent.Overrun, Void: p.void}, nil
}

// searchBatch is the frames that the kernel hands over at a time in a trial for a rate:
// the highest rates need many.
func searchBatch(pps float64) int {
	if pps > 1e6 {
		return peakBatch
	}
	return 0
}

// peakBatch is what the generator is fastest with.
const peakBatch = 64

// warmTime is how long every flow's first frames take to send: slowly, since each is a
// decision, but within two seconds.
func warmTime(flows int) time.Duration {
	const each = 20 * time.Microsecond
	return min(time.Duration(max(2*flows, 512))*each, 2*time.Second)
}

// slowestWarm is the longest that they are sent for, to a device that is slow.
const slowestWarm = 4 * time.Second

// warm sends every flow's first frames, until all of them arrive.
func (r *instruments) warm(ctx context.Context) error {
	frames := uint64(max(2*r.stream.Flows, 512))
	rate := float64(frames) / warmTime(r.stream.Flows).Seconds()
	var p passage
	for range 8 {
		var err error
		if p, err = r.send(ctx, gen.Load{Frames: frames, Rate: rate}); err != nil {
			return err
		}
		if p.void == "" && p.lost == 0 && p.sent.Frames > 0 {
			return nil
		}
		rate = max(rate/2, float64(frames)/slowestWarm.Seconds())
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	switch {
	case p.sent.Frames == 0:
		return fmt.Errorf("the device's interface accepted none of %d frames", p.sent.Offered)
	case p.got.Frames == 0:
		return fmt.Errorf("none of %d frames came through (dropped: %s; the sink saw %v)", p.sent.Frames, p.dropped, p.got.Foreign)
	case p.void != "":
		return errors.New(p.void)
	case p.lost > p.sent.Frames/2:
		return fmt.Errorf("%d of %d frames at %.0f frames/s were lost (%s)", p.lost, p.sent.Frames, rate, p.dropped)
	}
	return nil // it loses already at this rate, which the search will tell
}

// peak is what goes through when the generator sends as fast as it can.
func (r *instruments) peak(ctx context.Context, length time.Duration) (passage, error) {
	return r.send(ctx, gen.Load{Duration: length, Batch: peakBatch, Untimed: true})
}

// perPacket is the time of one packet at a rate, in ns.
func perPacket(pps float64) float64 {
	if !(pps > 0) {
		return math.NaN()
	}
	return 1e9 / pps
}
