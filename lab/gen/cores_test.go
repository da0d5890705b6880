package gen

import (
	"bytes"
	"context"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"
)

// The parts of a stream have each of its flows once, whatever they are divided by.
func TestParts(t *testing.T) {
	for _, s := range []Stream{{Frame: 64}, {Frame: 64, Flows: 50, Sources: 3, Destinations: 4}, {Frame: 64, Flows: 7, Sources: 5, Destinations: 1}} {
		whole := s.withDefaults()
		type flow struct{ source, destination, port int }
		of := func(s Stream) (all []flow) {
			for f := range s.Flows {
				all = append(all, flow{s.shift + f%s.Sources, f / s.Sources % s.Destinations, f / s.Sources / s.Destinations})
			}
			return all
		}
		for n := 1; n <= 4; n++ {
			var have []flow
			for i := range n {
				part, err := s.part(i, n)
				if i >= whole.Sources || err != nil {
					if n <= whole.Sources {
						t.Fatalf("%+v: part %d of %d: %v", s, i, n, err)
					}
					continue
				}
				if part.firstFlow != len(have) {
					t.Errorf("%+v: part %d of %d begins at flow %d after %d", s, i, n, part.firstFlow, len(have))
				}
				have = append(have, of(part)...)
			}
			if n > whole.Sources {
				continue
			}
			want := of(whole)
			for _, list := range [][]flow{have, want} {
				slices.SortFunc(list, func(a, b flow) int {
					return ((a.source-b.source)*1e3+a.destination-b.destination)*1e3 + a.port - b.port
				})
			}
			if !slices.Equal(have, want) {
				t.Errorf("%+v in %d parts: %v, want %v", s, n, have, want)
			}
		}
	}
	if _, err := (Stream{Frame: 64, Flows: 1, Sources: 1}).part(1, 2); err == nil {
		t.Error("one flow was divided")
	}
}

// What cores share of a load adds up to it.
func TestDivide(t *testing.T) {
	c := &Cores{senders: make([]*Sender, 3), shares: []float64{0.5, 0.25, 0.25}}
	for _, frames := range []uint64{0, 1, 2, 10, 10_001} {
		sum, rate := uint64(0), 0.0
		for _, part := range c.divide(Load{Frames: frames, Rate: 1e6, Duration: time.Second}) {
			sum, rate = sum+part.Frames, rate+part.Rate
			if frames > 0 && part.Frames == 0 && part.Duration != 0 {
				t.Errorf("%d frames: %+v would send without an end", frames, part)
			}
		}
		if sum != frames || math.Abs(rate-1e6) > 1 {
			t.Errorf("%d frames at 1 Mpps: %d at %g", frames, sum, rate)
		}
	}
}

// Two cores send every frame of a count once, in their flows' order, by a count and by a rate.
func TestCores(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("one core alone")
	}
	b := newTestbed(t, 2)
	sender, err := NewCores(b.gen.Namespace, b.out, Stream{Frame: 64, Flows: 50, Sources: 5, Destinations: 10}, []int{0, 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := sender.Close(); err != nil {
			t.Error(err)
		}
	}()
	sink := b.newSink(t, SinkOptions{Flows: 50, Latency: true})
	for _, load := range []Load{{Frames: 1}, {Frames: 10_003}, {Frames: 5_003, Rate: 5e5, CatchUp: time.Minute}} {
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
		if sent.Frames+sent.Overrun+sent.Unsent != load.Frames || sent.Offered != load.Frames || sent.Unsent != 0 || sent.Bytes != 60*sent.Frames || sent.Busy <= 0 {
			t.Errorf("%+v: sent %+v", load, sent)
		}
		// Two cores send into one queue of a veth, which may let the later of two flows' frames pass.
		if got.Frames != sent.Frames || got.Lost(sent) != 0 || got.Gaps > sent.Overrun || got.Duplicated+got.Unknown != 0 || got.Flows != int(min(50, load.Frames)) && sent.Overrun == 0 {
			t.Errorf("%+v: received %+v", load, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sender.Run(ctx, Load{Frames: 100}); err == nil {
		t.Error("it ran on after the end")
	}
	if _, err := NewCores(b.gen.Namespace, b.out, Stream{Frame: 64}, []int{0, 0}); err == nil {
		t.Error("one core was taken twice")
	}
}

// A tagged frame is the untagged one with four bytes more, and the sink finds its mark.
func TestTag(t *testing.T) {
	for name, tunnel := range tunnels() {
		for family, size := range map[int]int{4: 64, 6: 99} {
			if tunnel != nil && len(tunnel.Options) > 0 && tunnel.Remote.Is6() && family == 6 {
				continue // its headers and a tag do not fit
			}
			s := testSender(t, Stream{Frame: size, Family: family, Flows: 5}, tunnel)
			plain := s.untimed(t)
			ports := []Port{{Ifindex: 1, SrcMAC: mac(srcMAC), DstMAC: mac(dstMAC), Tunnel: tunnel, VLAN: 0x123}}
			tagged := &Sender{stream: s.stream, core: Anywhere, next: 1}
			if err := tagged.checkPorts(ports); err != nil {
				t.Fatal(err)
			}
			if err := tagged.load(ports); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { tagged.Close() })
			want := slices.Concat(plain[:12], []byte{0x81, 0, 1, 0x23}, plain[12:])
			if have := tagged.untimed(t); !bytes.Equal(have, want) {
				t.Errorf("%s, IPv%d:\n% x, want\n% x", name, family, have, want)
			}
			sink, err := loadSink(SinkOptions{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { sink.Close() })
			if action, _ := run(t, sink.receiver.program, want); action != actionDrop {
				t.Errorf("%s, IPv%d: the sink did %d with it", name, family, action)
			}
		}
	}
	if err := (&Sender{stream: Stream{Frame: 64}.withDefaults()}).checkPorts([]Port{{SrcMAC: mac(srcMAC), DstMAC: mac(dstMAC), VLAN: 4095}}); err == nil {
		t.Error("VLAN 4095 is none")
	}
}

// untimed is the next frame without its time.
func (s *Sender) untimed(t *testing.T) []byte {
	t.Helper()
	if err := s.objects.Current.Set(Load{Frames: 1 << 40, Untimed: true}.withDefaults().run(1)); err != nil {
		t.Fatal(err)
	}
	_, out := run(t, s.objects.Generate, append([]byte(nil), s.first...))
	return out
}
