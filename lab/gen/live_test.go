package gen

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

/*
bed is a generator's host and another, joined by links:

	gen a0 ----- b0 sink
	gen a1 ----- b1 sink
*/
type testbed struct {
	gen, sink *topo.Host
	out       []Port
	in        []int
}

// newTestbed makes it, for a test that runs beside others; the far ends take frames only once
// an XDP program is there.
func newTestbed(t *testing.T, links int) *testbed {
	t.Helper()
	tier.Root(t)
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	lab, err := topo.New(ctx, "gen-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	b := &testbed{}
	b.gen, err = lab.Host("gen")
	must(err)
	b.sink, err = lab.Host("sink")
	must(err)
	for i := range links {
		near, far := "a"+string(rune('0'+i)), "b"+string(rune('0'+i))
		must(lab.Link(ctx, topo.LinkEnd{Host: b.gen, Name: near}, topo.LinkEnd{Host: b.sink, Name: far}, 1500))
		out, err := b.gen.Index(near)
		must(err)
		in, err := b.sink.Index(far)
		must(err)
		b.out = append(b.out, Port{Ifindex: out, SrcMAC: mac(srcMAC), DstMAC: mac(dstMAC)})
		b.in = append(b.in, in)
	}
	return b
}

func (b *testbed) sender(t *testing.T, s Stream) *Sender {
	t.Helper()
	sender, err := NewSender(b.gen.Namespace, b.out, s, Anywhere)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sender.Close(); err != nil {
			t.Error(err)
		}
	})
	return sender
}

func (b *testbed) newSink(t *testing.T, o SinkOptions) *Sink {
	t.Helper()
	sink, err := NewSink(b.sink.Namespace, b.in, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sink.Close() })
	return sink
}

// All frames of a count arrive, over two links in turns of flows, in every batch, but for
// those that a busy machine's interfaces refuse.
func TestCount(t *testing.T) {
	b := newTestbed(t, 2)
	sender := b.sender(t, Stream{Frame: 64, Flows: 10})
	sink := b.newSink(t, SinkOptions{Flows: 10, Latency: true})
	for _, load := range []Load{
		{Frames: 1}, {Frames: 10_003}, {Frames: 10_003, Batch: 1}, {Frames: 10_003, Batch: 256, Untimed: true},
		{Frames: 10_003, Rate: 1e6, CatchUp: time.Minute}, {Frames: 10_003, Rate: 1e6, Burst: 7, CatchUp: time.Minute},
	} {
		if err := sink.Reset(sender.Next()); err != nil {
			t.Fatal(err)
		}
		sent, err := sender.Run(t.Context(), load)
		if err != nil {
			t.Fatal(err)
		}
		got, err := settled(t.Context(), sink, sent)
		if err != nil {
			t.Fatal(err)
		}
		if sent.Frames+sent.Overrun != load.Frames || sent.Offered != load.Frames || sent.Unsent != 0 || sent.Bytes != 60*sent.Frames || sent.Duration <= 0 {
			t.Errorf("%+v: sent %+v", load, sent)
		}
		if sent.Busy <= 0 {
			t.Errorf("%+v: busy for %s", load, sent.Busy)
		}
		if got.Frames != sent.Frames || got.Lost(sent) != 0 || got.Gaps > sent.Overrun || got.Reordered+got.Duplicated+got.Unknown != 0 || got.Flows != int(min(10, sent.Frames)) {
			t.Errorf("%+v: received %+v", load, got)
		}
		if timed := got.Latency.Count == got.Frames; timed == load.Untimed {
			t.Errorf("%+v: %d frames timed", load, got.Latency.Count)
		}
		if p := sent.PortFrames; load.Frames > 1 && (len(p) != 2 || p[0] != 5002 || p[1] != 5001) {
			t.Errorf("%+v: frames by port %v", load, p)
		}
	}
}

// whole sends until no frame was refused, which a busy machine's interface does now and then.
func whole(t *testing.T, sender *Sender, sink *Sink, load Load) (sent Sent, got Report) {
	t.Helper()
	err := await.That(t.Context(), "a run of which all is taken", func() (err error) {
		if err = sink.Reset(sender.Next()); err != nil {
			return err
		}
		if sent, err = sender.Run(t.Context(), load); err == nil && sent.Overrun > 0 {
			err = fmt.Errorf("%d frames were refused", sent.Overrun)
		}
		return err
	})
	if err == nil {
		got, err = settled(t.Context(), sink, sent)
	}
	if err != nil {
		t.Fatal(err)
	}
	return sent, got
}

// Both ends agree on the bytes of a mix, which comes in its own sizes.
func TestMix(t *testing.T) {
	b := newTestbed(t, 1)
	sender := b.sender(t, Stream{IMIX: []Share{{64, 7}, {594, 4}, {1500, 1}}, Flows: 10})
	sink := b.newSink(t, SinkOptions{Flows: 10})
	sent, got := whole(t, sender, sink, Load{Frames: 1200})
	if sent.Bytes != 700*60+400*590+100*1496 || got.Bytes != sent.Bytes || got.Shortest != 60 || got.Longest != 1496 || got.Gaps != 0 {
		t.Errorf("%+v of %+v", got, sent)
	}
}

// A rate and a duration make so many frames, sent or not; the time that it took is
// that of the clock that it went by.
func TestPace(t *testing.T) {
	b := newTestbed(t, 1)
	sender := b.sender(t, Stream{Frame: 64})
	b.newSink(t, SinkOptions{})
	for _, load := range []Load{
		{Rate: 1000, Duration: 100 * time.Millisecond}, {Rate: 123_456, Duration: 50 * time.Millisecond},
		{Rate: 100_000, Duration: 50 * time.Millisecond, Burst: 10}, {Rate: 20_000, Duration: time.Second, Frames: 1000},
	} {
		sent, err := sender.Run(t.Context(), load)
		if err != nil {
			t.Fatal(err)
		}
		offered := uint64(math.Round(load.Rate * load.Duration.Seconds()))
		if load.Frames > 0 {
			offered = load.Frames
		}
		if sent.Offered != offered || sent.Frames+sent.Unsent+sent.Overrun != offered {
			t.Errorf("%+v: %+v, want %d offered", load, sent, offered)
		}
		// Due times are of the rate exactly; only the last frame may be late.
		least := time.Duration(float64(offered) / load.Rate * 1e9)
		if sent.Duration < least-time.Microsecond {
			t.Errorf("%+v: took %s, less than %s", load, sent.Duration, least)
		}
		if want := sent.Rate()/load.Rate - 1; sent.RateError != want || want > 1e-4 {
			t.Errorf("%+v: rate error %v, want %v", load, sent.RateError, want)
		}
	}
}

// What a slow clock misses is unsent, not lost: here the clock is the generator's
// own, which cannot keep up with a rate that no machine has.
func TestUnsent(t *testing.T) {
	b := newTestbed(t, 1)
	sender := b.sender(t, Stream{Frame: 64})
	sink := b.newSink(t, SinkOptions{Flows: DefaultFlows})
	sent, err := sender.Run(t.Context(), Load{Rate: 1e9, Duration: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	got, err := settled(t.Context(), sink, sent)
	if err != nil {
		t.Fatal(err)
	}
	if sent.Offered != 20_000_000 || sent.Unsent < sent.Offered/2 || sent.RateError > -0.5 {
		t.Errorf("%+v", sent)
	}
	if got.Lost(sent) != 0 || got.Gaps > sent.Overrun || got.Frames == 0 {
		t.Errorf("%+v: lost of %+v", got, sent)
	}
}

// A far end that does not poll takes nothing: all is overrun, nothing lost.
func TestOverrun(t *testing.T) {
	b := newTestbed(t, 1)
	sender := b.sender(t, Stream{Frame: 64})
	sent, err := sender.Run(t.Context(), Load{Frames: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if sent.Overrun != 1000 || sent.Frames != 0 || sent.Bytes != 0 || sent.Offered != 1000 {
		t.Errorf("a veth without NAPI: %+v", sent)
	}
	sink := b.newSink(t, SinkOptions{})
	if sent, err = sender.Run(t.Context(), Load{Frames: 1000}); err != nil || sent.Frames == 0 || sent.Frames+sent.Overrun != 1000 {
		t.Errorf("with a sink: %+v, %v", sent, err)
	}
	if err := b.gen.Down("a0"); err != nil {
		t.Fatal(err)
	}
	if sent, err = sender.Run(t.Context(), Load{Frames: 1000}); err != nil || sent.Overrun != 1000 || sent.Frames != 0 {
		t.Errorf("an interface that is down: %+v, %v", sent, err)
	}
	if got, err := sink.Read(); err != nil || got.Frames != 0 { // of another run
		t.Errorf("%+v, %v", got, err)
	}
}

// A generator stops soon when it is told to, and can be used again.
func TestInterrupt(t *testing.T) {
	b := newTestbed(t, 1)
	sender := b.sender(t, Stream{Frame: 64})
	sink := b.newSink(t, SinkOptions{Flows: DefaultFlows})
	for _, load := range []Load{{Duration: time.Minute}, {Rate: 1000, Duration: time.Minute}, {Frames: 1 << 40}} {
		if err := sink.Reset(sender.Next()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		wait.Go(func() {
			defer cancel()
			err := await.That(ctx, "a frame", func() error {
				if got, err := sink.Read(); err != nil || got.Frames == 0 {
					return errors.Join(err, errors.New("there is none"))
				}
				return nil
			})
			if err != nil {
				t.Errorf("%+v: %v", load, err)
			}
		})
		sent, err := sender.Run(ctx, load)
		wait.Wait()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%+v: %v", load, err)
		}
		got, err := settled(t.Context(), sink, sent)
		if err != nil || sent.Frames == 0 || got.Frames != sent.Frames {
			t.Errorf("%+v: %+v of %+v, %v", load, got, sent, err)
		}
	}
	if sent, _ := whole(t, sender, sink, Load{Frames: 10}); sent.Frames != 10 {
		t.Errorf("once more: %+v", sent)
	}
}

// Nothing is left at the interfaces, and a second program is told why it cannot be there.
func TestClose(t *testing.T) {
	b := newTestbed(t, 1)
	attached := func() (yes bool) {
		err := b.sink.Do(func() error {
			dev, err := netlink.LinkByName("b0")
			yes = err == nil && dev.Attrs().Xdp != nil && dev.Attrs().Xdp.Attached
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return yes
	}
	sink := b.newSink(t, SinkOptions{})
	if !attached() {
		t.Error("no program at the sink")
	}
	if _, err := NewReflector(b.sink.Namespace, b.in, ReflectorOptions{}); err == nil || !strings.Contains(err.Error(), "attach native XDP to b0") {
		t.Errorf("a second program: %v", err)
	}
	if err := sink.Close(); err != nil {
		t.Error(err)
	}
	if attached() {
		t.Error("a program is left at the sink")
	}
	r, err := NewReflector(b.sink.Namespace, b.in, ReflectorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil || attached() {
		t.Errorf("the reflector is left, %v", err)
	}
}

// Frames go through a tunnel's far end and back to where they came from.
func TestThereAndBack(t *testing.T) {
	b := newTestbed(t, 1)
	b.out[0].Tunnel = LoopTunnel("geneve", 6)
	sender := b.sender(t, Stream{Frame: 128})
	reflector, err := NewReflector(b.sink.Namespace, b.in, ReflectorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer reflector.Close()
	sink, err := NewSink(b.gen.Namespace, []int{b.out[0].Ifindex}, SinkOptions{Flows: DefaultFlows, Latency: true})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	var sent Sent
	err = await.That(t.Context(), "all frames there and back", func() error { // which a busy machine may drop on the way back
		if err := errors.Join(reflector.Reset(), sink.Reset(sender.Next())); err != nil {
			return err
		}
		if sent, err = sender.Run(t.Context(), Load{Rate: 50_000, Frames: 500, CatchUp: time.Minute}); err != nil {
			return err
		}
		got, err := settled(t.Context(), sink, sent)
		if err != nil {
			return err
		}
		if sent.Frames != 500 || got.Frames != sent.Frames || got.Gaps != 0 || got.Around["geneve"] != sent.Frames || got.Latency.Count != sent.Frames {
			return fmt.Errorf("%+v of %+v", got, sent)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if back, err := reflector.Read(); err != nil || back.Frames != sent.Frames {
		t.Errorf("reflected %+v, %v", back, err)
	}
}

func TestErrors(t *testing.T) {
	b := newTestbed(t, 1)
	stream := Stream{Frame: 64}
	port := b.out[0]
	for want, f := range map[string]func() error{
		"network namespace sv-nobody": func() error { _, err := NewSender("sv-nobody", b.out, stream, Anywhere); return err },
		"0 ports of a generator":      func() error { _, err := NewSender("", nil, stream, Anywhere); return err },
		"frames of 62 bytes":          func() error { _, err := NewSender("", b.out, Stream{Frame: 62}, Anywhere); return err },
		"interface 9999": func() error {
			_, err := NewSender(b.gen.Namespace, []Port{{Ifindex: 9999, SrcMAC: port.SrcMAC, DstMAC: port.DstMAC}}, stream, Anywhere)
			return err
		},
		"frames of 1996 bytes without FCS do not leave by a0, whose MTU is 1500: it needs 1982": func() error {
			_, err := NewSender(b.gen.Namespace, b.out, Stream{Frame: 2000}, Anywhere)
			return err
		},
		"both are needed": func() error {
			_, err := NewSender(b.gen.Namespace, []Port{{Ifindex: port.Ifindex}}, stream, Anywhere)
			return err
		},
		"use a generator for each": func() error {
			other := port
			other.Tunnel = LoopTunnel("vxlan", 4)
			_, err := NewSender(b.gen.Namespace, []Port{port, other}, stream, Anywhere)
			return err
		},
		"no interface to take frames in": func() error { _, err := NewSink("", nil, SinkOptions{}); return err },
		"-1 flows to check":              func() error { _, err := NewSink("", b.in, SinkOptions{Flows: -1}); return err },
		"interface 9998":                 func() error { _, err := NewSink(b.sink.Namespace, []int{9998}, SinkOptions{}); return err },
		"interface nobody":               func() error { _, err := Interface(b.gen.Namespace, "nobody"); return err },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	if err := b.gen.Down("a0"); err != nil {
		t.Fatal(err)
	}
	if _, err := NewSender(b.gen.Namespace, b.out, stream, Anywhere); err == nil || !strings.Contains(err.Error(), "interface a0 is down") {
		t.Errorf("a port that is down: %v", err)
	}
	if _, err := Ceiling(t.Context(), Loop{Stream: stream, Core: runtime.NumCPU() + 1000}); err == nil || !strings.Contains(err.Error(), "pin the generator to core") {
		t.Errorf("a core that is not there: %v", err)
	}
}

func TestLoadErrors(t *testing.T) {
	for want, load := range map[string]Load{
		"rate of -1":                 {Rate: -1, Frames: 1},
		"rate of NaN":                {Rate: math.NaN(), Frames: 1},
		"rate of 2e+09":              {Rate: 2e9, Frames: 1},
		"a load without an end":      {Rate: 1},
		"bursts of -1 frames":        {Frames: 1, Burst: -1},
		"batches of 257 frames":      {Frames: 1, Batch: 257},
		"times are 0 or more":        {Duration: -time.Second},
		"a load of 1s that catches ": {Duration: time.Second, CatchUp: -1},
	} {
		if err := load.withDefaults().check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error with %q", load, err, want)
		}
	}
}

// The generator by itself: what is sent arrives, in every run.
func TestCeiling(t *testing.T) {
	tier.Root(t)
	t.Parallel()
	for _, tunnel := range []*Tunnel{nil, LoopTunnel("nvgre", 4)} {
		self, err := Ceiling(t.Context(), Loop{Stream: Stream{Frame: 64}, Tunnel: tunnel, Core: 0, Load: Load{Frames: 20_000}, Sink: SinkOptions{Flows: DefaultFlows}, Runs: 2})
		if err != nil {
			t.Fatal(err)
		}
		if len(self.Rates) != 2 || len(self.Busy) != 2 || self.Busy[0] <= 0 || self.Least <= 0 || self.Median < self.Least || self.Most < self.Median || self.Lost != 0 || self.Received.Frames != self.Last.Frames || self.Last.Frames+self.Last.Overrun != 20_000 || self.Received.Gaps > self.Last.Overrun {
			t.Errorf("%+v", self)
		}
	}
}

// Frames that are larger than a page come in their sizes, over two links in turns of flows, timed and counted as all others,
// by several cores too; a rate is kept, and what a link refuses is no loss.
func TestLarge(t *testing.T) {
	const frame = 9018
	b := newTestbed(t, 2)
	for i := range b.in {
		for _, end := range []struct {
			host *topo.Host
			name string
		}{{b.gen, "a"}, {b.sink, "b"}} {
			if _, err := end.host.Output(t.Context(), "ip", "link", "set", fmt.Sprintf("%s%d", end.name, i), "mtu", "9100"); err != nil {
				t.Fatal(err)
			}
		}
	}
	sink := b.newSink(t, SinkOptions{Flows: 10, Latency: true})
	for name, stream := range map[string]Stream{
		"one size": {Frame: frame, Flows: 10}, "IPv6": {Frame: frame, Flows: 10, Family: 6},
		"a mix": {IMIX: []Share{{64, 1}, {frame, 1}}, Flows: 10},
	} {
		t.Run(name, func(t *testing.T) {
			sender := b.sender(t, stream)
			for _, load := range []Load{{Frames: 1001}, {Frames: 1000, Rate: 20_000, CatchUp: time.Minute}} {
				sent, got := whole(t, sender, sink, load)
				if sent.Offered != load.Frames || sent.Frames != load.Frames || sent.Unsent != 0 || sent.Duration <= 0 || sent.Busy <= 0 {
					t.Errorf("%+v: sent %+v", load, sent)
				}
				if got.Frames != sent.Frames || got.Bytes != sent.Bytes || got.Longest != frame-FCS || got.Gaps+got.Reordered+got.Duplicated+got.Unknown != 0 {
					t.Errorf("%+v: received %+v of %+v", load, got, sent)
				}
				if got.Latency.Count != got.Frames || len(sent.PortFrames) != 2 || sent.PortFrames[0]+sent.PortFrames[1] != load.Frames || sent.PortFrames[1] < 500 {
					t.Errorf("%+v: %d frames timed, by port %v", load, got.Latency.Count, sent.PortFrames)
				}
				if load.Rate > 0 && (sent.RateError > 1e-3 || sent.Duration < 49*time.Millisecond) {
					t.Errorf("%+v: took %s, rate error %g", load, sent.Duration, sent.RateError)
				}
			}
		})
	}
	t.Run("cores", func(t *testing.T) {
		cores, err := NewCores(b.gen.Namespace, b.out, Stream{Frame: frame, Flows: 10, Sources: 10, Destinations: 1}, []int{0, runtime.NumCPU() - 1})
		if err != nil {
			t.Fatal(err)
		}
		defer cores.Close()
		if err := sink.Reset(cores.Next()); err != nil {
			t.Fatal(err)
		}
		sent, err := cores.Run(t.Context(), Load{Frames: 2000})
		if err != nil {
			t.Fatal(err)
		}
		got, err := settled(t.Context(), sink, sent)
		if err != nil || sent.Frames+sent.Overrun != 2000 || got.Lost(sent) != 0 || got.Gaps > sent.Overrun {
			t.Errorf("received %+v of %+v, %v", got, sent, err)
		}
	})
	t.Run("MTU", func(t *testing.T) {
		if _, err := NewSender(b.gen.Namespace, b.out, Stream{Frame: frame + 200}, Anywhere); err == nil || !strings.Contains(err.Error(), "whose MTU is 9100: it needs 9200") {
			t.Error(err)
		}
	})
}
