package gen

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Cores are Senders that are one: each makes a part of the stream on a core of its own, and
// they begin at one time and take turns by one clock. Frames of a flow are made by one core.
type Cores struct {
	senders []*Sender
	shares  []float64 // of the stream's flows
}

// NewCores makes one Sender for each core, as NewSender does. Each needs sources of its own.
func NewCores(namespace string, ports []Port, stream Stream, cores []int) (*Cores, error) {
	if err := stream.Check(); err != nil {
		return nil, err
	}
	c := &Cores{}
	for i, core := range cores {
		if slices.Contains(cores[:i], core) {
			return nil, errors.Join(fmt.Errorf("core %d is named twice for the generator", core), c.Close())
		}
		part, err := stream.part(i, len(cores))
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		sender, err := newSender(namespace, ports, &Sender{stream: part, part: len(cores) > 1, core: core, next: 1})
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.senders = append(c.senders, sender)
		c.shares = append(c.shares, float64(part.Flows)/float64(stream.withDefaults().Flows))
	}
	if len(c.senders) == 0 {
		return nil, errors.New("a generator without a core")
	}
	return c, nil
}

// Next is the number of the next Run, for Sink.Reset.
func (c *Cores) Next() uint16 { return c.senders[0].Next() }

// Close frees the programs.
func (c *Cores) Close() error {
	var errs []error
	for _, s := range c.senders {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// startUp is the time until all threads wait for the first frame's.
const startUp = 5 * time.Millisecond

// Run is Sender.Run of all. Threads get the scheduling of the caller's, which has to be locked to
// its thread if that is not the usual one.
func (c *Cores) Run(ctx context.Context, load Load) (Sent, error) {
	if len(c.senders) == 1 {
		return c.senders[0].Run(ctx, load)
	}
	load = load.withDefaults()
	if err := load.check(); err != nil {
		return Sent{}, err
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return Sent{}, fmt.Errorf("clock of the generator: %w", err)
	}
	scheduling, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return Sent{}, fmt.Errorf("scheduling of the generator: %w", err)
	}
	refused, err := c.senders[0].refused()
	if err != nil {
		return Sent{}, err
	}
	load.start = uint64(now.Nano()) + uint64(startUp)
	sents, errs := make([]Sent, len(c.senders)), make([]error, len(c.senders))
	id := c.Next()
	var wait sync.WaitGroup
	for i, part := range c.divide(load) {
		if part.Frames == 0 && part.Duration == 0 {
			c.senders[i].skip()
			continue
		}
		wait.Go(func() {
			sents[i], errs[i] = scheduled(scheduling, func() (Sent, error) { return c.senders[i].Run(ctx, part) })
		})
	}
	wait.Wait()
	after, err := c.senders[0].refused()
	return together(load, id, sents, after-refused), errors.Join(append(errs, err)...)
}

// scheduled is run on a thread of that scheduling, which ends with it.
func scheduled(scheduling *unix.SchedAttr, run func() (Sent, error)) (Sent, error) {
	runtime.LockOSThread() // no unlock: nobody else gets the thread
	if err := unix.SchedSetAttr(0, scheduling, 0); err != nil {
		return Sent{}, fmt.Errorf("scheduling of a generator's thread: %w", err)
	}
	return run()
}

// divide is what each core does of a load; one that has neither frames nor a duration does nothing.
func (c *Cores) divide(load Load) []Load {
	parts := make([]Load, len(c.senders))
	given, share := uint64(0), 0.0
	for i := range parts {
		parts[i] = load
		parts[i].Rate, parts[i].lead = load.Rate*c.shares[i], float64(i)/float64(len(parts))
		if load.Frames == 0 {
			continue
		}
		share += c.shares[i]
		upTo := uint64(share*float64(load.Frames) + 0.5)
		if i == len(parts)-1 {
			upTo = load.Frames
		}
		parts[i].Frames, given = upTo-given, upTo
		if parts[i].Frames == 0 {
			parts[i].Duration = 0
		}
	}
	return parts
}

// together is the outcome of all cores. What an interface refused is of all, not of one.
func together(load Load, id uint16, sents []Sent, refused uint64) Sent {
	all := Sent{Run: id}
	for _, s := range sents {
		all.Offered, all.Unsent, all.Overrun = all.Offered+s.Offered, all.Unsent+s.Unsent, all.Overrun+s.Overrun
		all.Frames, all.Bytes, all.Busy = all.Frames+s.Frames, all.Bytes+s.Bytes, all.Busy+s.Busy
		all.Duration = max(all.Duration, s.Duration)
		for i, n := range s.PortFrames {
			if i == len(all.PortFrames) {
				all.PortFrames = append(all.PortFrames, 0)
			}
			all.PortFrames[i] += n
		}
	}
	if n := min(refused, all.Frames); n > 0 { // of refused frames only the number is known
		all.Bytes -= uint64(float64(all.Bytes) / float64(all.Frames) * float64(n))
		all.Frames -= n
	}
	all.Overrun += refused
	if load.Rate > 0 && all.Duration > 0 {
		all.RateError = all.Rate()/load.Rate - 1
	}
	return all
}
