package gen

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
)

// Loop is a generator without a device: sender and sink at the ends of one veth
// pair. Its Stream is plain frames, or those of Tunnel.
type Loop struct {
	Stream Stream
	Tunnel *Tunnel
	Sink   SinkOptions
	// Core is what sender and sink share, or Anywhere.
	Core int
	Load Load
	// Runs is how often Load is sent, after a short one to warm up; 5 by default.
	Runs int
}

// Self is what Ceiling found, in frames/s.
type Self struct {
	Rates  []float64 `json:"rates"` // of each run
	Median float64   `json:"median"`
	Least  float64   `json:"least"`
	Most   float64   `json:"most"`
	// Busy is the nanoseconds of its core that a frame took in each run (Sent.Busy).
	Busy []float64 `json:"busy_ns"`
	// Last is the last run.
	Last     Sent   `json:"last"`
	Received Report `json:"received"`
	// Lost is of all runs.
	Lost uint64 `json:"lost"`
}

// loopDuration is that of a run whose Load has no end.
const loopDuration = 200 * time.Millisecond

// Ceiling measures how fast the generator is by itself: what no device under test
// can exceed. Without a rate in its Load that is as fast as it goes.
func Ceiling(ctx context.Context, l Loop) (self Self, err error) {
	if l.Load.Frames == 0 {
		setDefault(&l.Load.Duration, loopDuration)
	}
	setDefault(&l.Runs, 5)
	lab, err := topo.New(ctx, "gen")
	if err != nil {
		return Self{}, err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	sender, sink, err := l.open(ctx, lab)
	if err != nil {
		return Self{}, err
	}
	defer func() { err = errors.Join(err, sender.Close(), sink.Close()) }()
	if err := l.once(ctx, l.warmUp(), sender, sink, &Self{}); err != nil {
		return Self{}, err
	}
	for range l.Runs {
		if err := l.once(ctx, l.Load, sender, sink, &self); err != nil {
			return Self{}, err
		}
	}
	sorted := slices.Sorted(slices.Values(self.Rates))
	n := len(sorted)
	self.Median = (sorted[(n-1)/2] + sorted[n/2]) / 2
	self.Least, self.Most = sorted[0], sorted[n-1]
	return self, nil
}

// open makes the pair and what is at its ends.
func (l Loop) open(ctx context.Context, lab *topo.Lab) (*Sender, *Sink, error) {
	from, err := lab.Host("gen")
	if err != nil {
		return nil, nil, err
	}
	to, err := lab.Host("sink")
	if err != nil {
		return nil, nil, err
	}
	const device = "loop"
	mtu := max(1500, l.Stream.wireLen(l.Stream.largest(), l.Tunnel)-14)
	if err := lab.Link(ctx, topo.LinkEnd{Host: from, Name: device}, topo.LinkEnd{Host: to, Name: device}, mtu); err != nil {
		return nil, nil, err
	}
	out, err := from.Index(device)
	if err != nil {
		return nil, nil, err
	}
	in, err := to.Index(device)
	if err != nil {
		return nil, nil, err
	}
	port := Port{Ifindex: out, Tunnel: l.Tunnel}
	if port.SrcMAC, err = from.MAC(device); err != nil {
		return nil, nil, err
	}
	if port.DstMAC, err = to.MAC(device); err != nil {
		return nil, nil, err
	}
	sink, err := NewSink(to.Namespace, []int{in}, l.Sink)
	if err != nil {
		return nil, nil, err
	}
	sender, err := NewSender(from.Namespace, []Port{port}, l.Stream, l.Core)
	if err != nil {
		return nil, nil, errors.Join(err, sink.Close())
	}
	return sender, sink, nil
}

// warmUp is a load of a few frames of each flow, or as many as there is time for.
func (l Loop) warmUp() Load {
	load := l.Load
	load.Frames, load.Duration = uint64(4*l.Stream.withDefaults().Flows), loopDuration
	return load
}

// once is one run.
func (l Loop) once(ctx context.Context, load Load, sender *Sender, sink *Sink, self *Self) error {
	if err := sink.Reset(sender.Next()); err != nil {
		return err
	}
	sent, err := sender.Run(ctx, load)
	if err != nil {
		return err
	}
	got, err := settled(ctx, sink, sent)
	if err != nil {
		return err
	}
	if sent.Frames == 0 {
		return fmt.Errorf("generator: none of %d frames was handed over", sent.Offered)
	}
	self.Last, self.Received = sent, got
	self.Lost += got.Lost(sent)
	self.Rates = append(self.Rates, sent.Rate())
	self.Busy = append(self.Busy, float64(sent.Busy)/float64(sent.Frames))
	return nil
}

// settled reads a sink when all frames are there, or none came for a while.
func settled(ctx context.Context, sink *Sink, sent Sent) (Report, error) {
	const pause, pauses = 2 * time.Millisecond, 50
	got, err := sink.Read()
	for quiet := 0; err == nil && got.Frames < sent.Frames && quiet < pauses; quiet++ {
		select {
		case <-ctx.Done():
			return got, ctx.Err()
		case <-time.After(pause):
		}
		before := got.Frames
		if got, err = sink.Read(); got.Frames > before {
			quiet = 0
		}
	}
	return got, err
}

// LoopTunnel is a tunnel for a Loop, whose addresses mean nothing.
func LoopTunnel(e overlay.Encapsulation, family int) *Tunnel {
	t := &Tunnel{
		Encapsulation: e, VNI: 100,
		Local: netip.MustParseAddr("192.0.2.1"), Remote: netip.MustParseAddr("192.0.2.2"),
		SrcMAC: []byte{2, 0, 0, 0, 0, 1}, DstMAC: []byte{2, 0, 0, 0, 0, 2},
	}
	if family == 6 {
		t.Local, t.Remote = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	}
	return t
}
