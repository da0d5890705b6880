package datapath

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// twoEdges are two edges whose underlays face each other: what the first one
// encapsulates for bob, the second one takes.
func twoEdges(t *testing.T, f family) (a, b *world) {
	t.Helper()
	back := f
	back.tep, back.remotes[0] = f.remotes[0], f.tep
	b = newWorld(t, back, staticAt(back, bob, alice))
	a = newWorld(t, f, staticAt(f, alice, bob), func(_ *Config, tables *Tables) {
		tables.TEPs[0].NextMAC = macOf(b.dev["u0"].HardwareAddr.String())
	})
	return a, b
}

// decap(encap(x)) == x, but for the padding that Ethernet has anyway.
func TestDecapReversesEncap(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			a, b := twoEdges(t, f)
			for _, words := range append(innerFrames, "raw 0x88b5 0", "raw 0x88b5 1", "udp 10.0.0.1:1 > 10.0.0.2:2 1300") {
				x := pkttest.Frame(alice, bob, words)
				tunnel := a.fromPort(t, "p0", x)
				tunnel.want(t, x, forwarded)
				out := b.fromUnderlay(t, tunnel.out)
				out.want(t, tunnel.out, forwarded)
				if !check.Equal(t, words, padded(x), out.out) {
					return
				}
			}
		})
	}
}

// exchanged swaps source and destination MAC.
func exchanged(frame []byte) []byte {
	return slices.Concat(frame[6:12], frame[:6], frame[12:])
}

// A cached decision and a fresh one give the same bytes, verdicts and copies.
func TestCacheChangesNothing(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			on, off := newWorld(t, f), newWorld(t, f, func(c *Config, _ *Tables) { c.FlowCache.Enabled = false })
			tapsOn, tapsOff := on.taps(t), off.taps(t)
			r := newRandom(t)
			var events map[string]uint64
			var drops [2]map[string]uint64
			for i := range 2000 {
				from, in := r.offered(on)
				var got, want result
				dropsOn, seen := on.counted(t, func() { got = on.offer(t, from, in) })
				dropsOff, _ := off.counted(t, func() { want = off.offer(t, from, in) })
				events, drops[0], drops[1] = add(events, seen), add(drops[0], dropsOn), add(drops[1], dropsOff)
				if got.verdict != want.verdict || !bytes.Equal(got.out, want.out) {
					pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: in}, {Name: "cache on", Bytes: got.out}, {Name: "cache off", Bytes: want.out}},
						"packet %d from %s: %v with the cache, %v without", i, from, got.verdict, want.verdict)
					return
				}
				if seen["flooded"] == 0 {
					continue
				}
				for dev := range tapsOn {
					sameCopies(t, dev, tapsOn[dev].drain(t), tapsOff[dev].drain(t))
				}
			}
			if events["hit"] < 100 {
				t.Errorf("events %v: too few hits to say anything", events)
			}
			if !maps.Equal(drops[0], drops[1]) {
				t.Errorf("drops %v with the cache, %v without", drops[0], drops[1])
			}
		})
	}
}

func sameCopies(t *testing.T, dev string, got, want []tapped) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d copies with the cache, %d without", dev, len(got), len(want))
	}
	for i := range got {
		check.Equal(t, "copy at "+dev, want[i].bytes, got[i].bytes)
	}
}

func add(sums, more map[string]uint64) map[string]uint64 {
	if sums == nil {
		sums = map[string]uint64{}
	}
	for k, n := range more {
		sums[k] += n
	}
	return sums
}

// drain takes what has come.
func (p *tap) drain(t testing.TB) []tapped {
	t.Helper()
	marker := pkttest.Frame(nobody, nobody, "raw 0x9999 46")
	p.sendWith(t, p.far, virtioHeader{}, marker)
	var got []tapped
	for {
		f, err := p.read()
		if err != nil {
			t.Fatalf("wait for the marker: %v", err)
		}
		if bytes.Equal(f.bytes, marker) {
			return got
		}
		got = append(got, f)
	}
}

// random makes packets. The seed is logged, and a failing test prints it.
type random struct{ *rand.Rand }

func newRandom(t testing.TB) random {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return random{rand.New(rand.NewPCG(seed, 0))}
}

// homes are where the stations talk from: ports, and remotes by number.
var homes = []struct {
	mac, from string
	remote    int
}{{alice, "p0", 0}, {bob, "u0", 0}, {carol, "p1", 0}, {"02:00:00:00:00:0d", "u0", 1}, {"02:00:00:00:00:0e", "p2", 0}}

// offered is a packet and where it comes in: mostly good, some from a station
// that moved, some tunnelled wrongly, some cut, some with a changed byte.
func (r random) offered(w *world) (from string, b []byte) {
	home := homes[r.IntN(len(homes))]
	src, dst := home.mac, homes[r.IntN(len(homes))].mac
	switch r.IntN(40) {
	case 0:
		src = homes[r.IntN(len(homes))].mac
	case 1:
		dst = nobody
	case 2:
		dst = all
	}
	frame := pkttest.Frame(src, dst, innerFrames[r.IntN(len(innerFrames))])
	from = home.from
	if from == "u0" {
		o := w.outer(w.family.remotes[home.remote])
		switch r.IntN(30) {
		case 0:
			o.Src = w.family.unknown
		case 1:
			o.VNI = 5
		case 2:
			o.VNI, o.DstPort = greenVNI, 4790
		case 3:
			o.Flags = 1
		case 4:
			o.DstPort = 53
		}
		frame = o.Wrap(padded(frame))
	}
	switch r.IntN(20) {
	case 0:
		frame = frame[:14+r.IntN(len(frame)-13)]
	case 1:
		at := 12 + r.IntN(len(frame)-12) // not the MACs: FDB and devices would grow
		frame[at] ^= byte(1 << r.IntN(8))
	}
	return from, frame
}

func (w *world) offer(t testing.TB, from string, b []byte) result {
	t.Helper()
	r, err := w.tryOffer(t, from, b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tryOffer returns the error of frames that TEST_RUN itself does not take: an IP
// ethertype and less than that header behind it. For those, verdict 0.
func (w *world) tryOffer(t testing.TB, from string, b []byte) (r result, err error) {
	t.Helper()
	prog := w.dp.objs.FromPort
	if from == "u0" {
		prog = w.dp.objs.FromUnderlay
	}
	w.do(t, func() { r, err = runProgram(prog, w.dev[from].Index, packet{bytes: b}) })
	if errors.Is(err, unix.EINVAL) && len(b) < etherLen+ipv6Len {
		return result{}, nil
	}
	return r, err
}

// Nothing is lost without a reason: what was offered is forwarded, flooded, left
// to the host or counted as a drop, once.
func TestReasonsAddUp(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			w := newWorld(t, f)
			r := newRandom(t)
			var verdicts = map[verdict]uint64{}
			offered := uint64(0)
			drops, events := w.counted(t, func() {
				for range 2000 {
					from, b := r.offered(w)
					got := w.offer(t, from, b)
					if got.verdict != 0 {
						offered++
						verdicts[got.verdict]++
					}
				}
			})
			if sum := verdicts[forwarded] + events["flooded"] + events["not-tunnel"] + sum(drops); sum != offered {
				t.Errorf("%d offered, %d accounted for: verdicts %v, drops %v, events %v", offered, sum, verdicts, drops, events)
			}
			if verdicts[next] != events["not-tunnel"] || verdicts[dropped] != events["flooded"]+sum(drops) {
				t.Errorf("verdicts %v do not fit drops %v and events %v", verdicts, drops, events)
			}
			if len(drops) < 5 {
				t.Errorf("drops %v: too few reasons met to say anything", drops)
			}
		})
	}
}

// A packet cut at any length is neither forwarded nor flooded, cut on its way to
// the port, on the underlay, or by the sender before the tunnel. A cached flow
// does not change that.
func TestCutPacketsAreNotForwarded(t *testing.T) {
	telling := []string{ // how long they are
		tcp4, tcp6, udp4, udp6, icmp4, icmp6, arp, "ip 10.0.0.1 > 10.0.0.2 132 20",
		"fragment 10.0.0.1 > 10.0.0.2 1480 64", "fragment 2001:db8:1::1 > 2001:db8:1::2 1448 64",
	}
	extension := pkttest.Packet(pkttest.Ether(alice, bob), pkttest.IPv6("2001:db8:1::1", "2001:db8:1::2"),
		&pkttest.Extension{Kind: pkttest.ProtoHopByHop, Size: 16}, pkttest.TCP(1, 2, "ack"), pkttest.Payload(9))
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			w := newWorld(t, f, static(f))
			frames := [][]byte{extension}
			for _, words := range telling {
				frames = append(frames, pkttest.Frame(alice, bob, words))
			}
			for _, frame := range frames {
				w.cut(t, "p0", frame, len(frame), func(n int) []byte { return frame[:n] })
				inner := exchanged(frame)
				tunnel := w.fromRemote(inner)
				w.cut(t, "u0", tunnel, len(tunnel), func(n int) []byte { return tunnel[:n] })
				w.cut(t, "u0", tunnel, len(inner), func(n int) []byte { return w.fromRemote(inner[:n]) })
			}
			// A frame that does not say its length still cannot lose its tunnel.
			tunnel := w.fromRemote(pkttest.Frame(bob, alice, "raw 0x88b5 46"))
			w.cut(t, "u0", tunnel, len(tunnel), func(n int) []byte { return tunnel[:n] })
		})
	}
}

// cut offers the whole packet, which must be forwarded, then all that is shorter.
func (w *world) cut(t *testing.T, from string, whole []byte, length int, shorter func(n int) []byte) {
	t.Helper()
	w.offer(t, from, whole).want(t, whole, forwarded)
	for n := length - 1; n >= 0; n-- {
		b := shorter(n)
		if len(b) < etherLen {
			return // TEST_RUN takes no less
		}
		var r result
		_, events := w.counted(t, func() { r = w.offer(t, from, b) })
		if r.verdict == forwarded || events["flooded"] > 0 {
			pkttest.Errorf(t, []pkttest.Named{{Name: "whole", Bytes: whole}, {Name: "cut", Bytes: b}},
				"cut to %d of %d bytes: %v, events %v", n, length, r.verdict, events)
			return
		}
	}
}
