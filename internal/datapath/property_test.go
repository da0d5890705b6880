package datapath

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
	"github.com/selvage/selvage/test/tier"
)

// twoEdges are two edges whose underlays face each other: what the first one
// encapsulates for bob, the second one takes.
func twoEdges(t *testing.T, to way, change ...func(*Config, *fib.Tables)) (a, b *world) {
	t.Helper()
	back := to.family
	back.tep, back.remotes[0] = to.family.remotes[0], to.family.tep
	change = append(change, tunnelled(to.tunnel))
	b = newWorld(t, back, append(change, staticAt(back, bob, alice))...)
	a = newWorld(t, to.family, append(change, staticAt(to.family, alice, bob), func(_ *Config, tables *fib.Tables) {
		tables.TEPs[0].NextMAC = macOf(b.dev["u0"].HardwareAddr.String())
	})...)
	return a, b
}

// decap(encap(x)) == x, but for the padding that Ethernet has anyway.
func TestDecapReversesEncap(t *testing.T) {
	t.Parallel()
	frames := append(slices.Clone(innerFrames), "raw 0x88b5 0", "raw 0x88b5 1", "udp 10.0.0.1:1 > 10.0.0.2:2 1300",
		"tos 0x2e ttl 3 df "+udp4, "tos 0x2e ttl 3 "+tcp6, "na 2001:db8:1::1 ! ff02::1")
	eachWay(t, func(t *testing.T, to way) {
		a, b := twoEdges(t, to)
		for _, words := range frames {
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

// exchanged swaps source and destination MAC.
func exchanged(frame []byte) []byte {
	return slices.Concat(frame[6:12], frame[:6], frame[12:])
}

// A cached decision and a fresh one give the same bytes, verdicts and copies, bridged and routed.
func TestCacheChangesNothing(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, to way) {
		on, off := routedWorld(t, to), routedWorld(t, to, func(c *Config, _ *fib.Tables) { c.FlowCache.Enabled = false })
		tapsOn, tapsOff := on.taps(t), off.taps(t)
		r := newRandom(t)
		var drops [2]map[string]uint64
		var events map[string]uint64
		drops[0], events = on.counted(t, func() {
			drops[1], _ = off.counted(t, func() { sameResults(t, r, on, off, tapsOn, tapsOff) })
		})
		if events["hit"] < 50 {
			t.Errorf("events %v: too few hits to say anything", events)
		}
		if !maps.Equal(drops[0], drops[1]) {
			t.Errorf("drops %v with the cache, %v without", drops[0], drops[1])
		}
	})
}

func sameResults(t *testing.T, r random, on, off *world, tapsOn, tapsOff map[string]*tap) {
	t.Helper()
	for i := range often(500) {
		from, in := r.offered(on)
		on.refill(t)
		off.refill(t)
		got, want := on.offer(t, from, in), off.offer(t, from, in)
		if got.verdict != want.verdict || !bytes.Equal(got.out, want.out) {
			pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: in}, {Name: "cache on", Bytes: got.out}, {Name: "cache off", Bytes: want.out}},
				"packet %d from %s: %v with the cache, %v without", i, from, got.verdict, want.verdict)
			return
		}
		if got.verdict != dropped { // a flooded frame is dropped itself
			continue
		}
		for dev := range tapsOn {
			sameCopies(t, dev, tapsOn[dev].drain(t), tapsOff[dev].drain(t))
		}
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

var (
	randomSeed = flag.Uint64("random-seed", 0, "have the packets at random of a test that failed again, by its seed")
	randomTime = flag.Duration("random-time", time.Minute, "how long packets at random go on in make test-long, of each kind")
)

// random makes packets: in make test always the same, in make test-long others each time.
// The seed is logged, and a failing test prints it.
type random struct{ *rand.Rand }

func newRandom(t testing.TB) random {
	seed := uint64(1)
	switch {
	case *randomSeed != 0:
		seed = *randomSeed
	case tier.IsLong():
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	return random{rand.New(rand.NewPCG(seed, 0))}
}

// repeat calls try, which has its number, so many times in make test, and for a while in
// make test-long.
func repeat(times int, try func(n int)) {
	begun := time.Now()
	for n := 0; n < times || tier.IsLong() && time.Since(begun) < *randomTime; n++ {
		try(n)
	}
}

// often is how many packets at random a test offers: so many in make test, and ten times
// as many in make test-long.
func often(packets int) int {
	if tier.IsLong() {
		return 10 * packets
	}
	return packets
}

// homes are where the stations talk from: ports, and remotes by number.
var homes = []struct {
	mac, from string
	remote    int
}{{alice, "p0", 0}, {bob, "u0", 0}, {carol, "p1", 0}, {"02:00:00:00:00:0d", "u0", 1}, {"02:00:00:00:00:0e", "p2", 0}}

// offered is a packet and where it comes in: mostly good, some from a station
// that moved, some tunnelled wrongly, some cut, some with a changed byte.
func (r random) offered(w *world) (from string, b []byte) {
	if len(w.tables.Routers) > 0 && r.IntN(2) == 0 {
		return r.routed(w)
	}
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
			o.VNI = greenVNI
		case 3:
			o.Flags = 1
		case 4:
			o.DstPort = 53
		}
		frame = o.Wrap(padded(frame))
	}
	return from, r.damaged(frame)
}

// routed is a packet for a gateway, or ARP or ND.
func (r random) routed(w *world) (from string, b []byte) {
	list := routeCases()
	c := list[r.IntN(len(list))]
	words := c.words
	switch r.IntN(6) {
	case 0:
		words = fmt.Sprintf("ttl %d %s", r.IntN(3), words)
	case 1:
		words = vports[r.IntN(len(vports))].words
	case 2:
		words = talks[r.IntN(len(talks))]
	case 3:
		words = fmt.Sprintf("tos %d %s", r.IntN(256), words)
	case 4:
		words = "vlan 7 " + words
	}
	frame := pkttest.Frame(c.src, c.dst, words)
	if c.from != "first" && c.from != "second" {
		return c.from, r.damaged(frame)
	}
	o := w.outerIn(c.segment, w.family.remotes[map[string]int{"first": 0, "second": 1}[c.from]])
	o.TOS = uint8(r.IntN(4))
	return "u0", r.damaged(o.Wrap(padded(frame)))
}

// talks are ARP, ND and pings, for the gateway and others.
var talks = []string{
	"arp 10.0.1.10 ? 10.0.1.1", "arp 10.0.1.10 ? 10.0.1.11", "arp 10.0.1.77 ! 10.0.1.1", "arp 10.0.1.1 ! 10.0.1.1",
	"ns 2001:db8:1::a ? 2001:db8:1::fe", "ns :: ? 2001:db8:1::fe", "na 2001:db8:1::77 ! ff02::1", "ns fe80::1 ? 2001:db8:1::b",
	"icmp 10.0.1.10 > 10.0.1.1 56", "icmp 2001:db8:1::a > 2001:db8:2::fe 56", "udp 10.0.1.10:1 > 10.0.1.1:2 40",
	"udp 10.0.1.10:1 > 10.0.2.88:2 40", "udp [2001:db8:1::a]:1 > [2001:db8:2::88]:2 40", "tcp 10.0.1.10:1 > 10.0.2.14:2 syn mss 9000",
}

// damaged is the frame as it is mostly, some cut, some with a changed byte.
func (r random) damaged(frame []byte) []byte {
	switch r.IntN(20) {
	case 0:
		frame = frame[:14+r.IntN(len(frame)-13)]
	case 1:
		at := 12 + r.IntN(len(frame)-12) // not the MACs: FDB and devices would grow
		frame[at] ^= byte(1 << r.IntN(8))
	}
	return frame
}

func (w *world) offer(t testing.TB, from string, b []byte) result {
	t.Helper()
	r, err := w.tryOffer(t, from, b)
	must(t, err)
	return r
}

// tryOffer returns the error of frames that TEST_RUN itself does not take: an IP
// ethertype and less than that header behind it. For those, verdict 0.
func (w *world) tryOffer(t testing.TB, from string, b []byte) (r result, err error) {
	t.Helper()
	prog := w.dp.prog.objs.FromPort
	if from == "u0" {
		prog = w.dp.prog.objs.FromUnderlay
	}
	w.do(t, func() { r, err = runProgram(prog, w.dev[from].Index, packet{bytes: b}) })
	if errors.Is(err, unix.EINVAL) && len(b) < etherLen+ipv6Len {
		return result{}, nil
	}
	return r, err
}

// Nothing is lost without a reason: what was offered is forwarded, flooded, left to the host, read by the edge or counted as a drop, once.
func TestReasonsAddUp(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, to way) {
		w := routedWorld(t, to)
		r := newRandom(t)
		verdicts := map[verdict]uint64{}
		drops, events := w.counted(t, func() {
			for range often(1000) {
				from, b := r.offered(w)
				if got := w.offer(t, from, b); got.verdict != 0 {
					verdicts[got.verdict]++
				}
			}
		})
		lost := sum(drops) - events["icmp-sent"]
		if verdicts[dropped] != lost+events["flooded"]-events["neigh-requested"]+events["local-delivered"] || verdicts[next] < events["not-tunnel"] {
			t.Errorf("verdicts %v do not fit drops %v and events %v", verdicts, drops, events)
		}
		for v := range verdicts {
			if v != dropped && v != next && v != forwarded {
				t.Errorf("%v", v)
			}
		}
		if len(drops) < 10 || events["icmp-sent"] == 0 || events["neigh-requested"] == 0 || events["proxy-replied"] == 0 {
			t.Errorf("drops %v, events %v: too little met to say anything", drops, events)
		}
	})
}

// A packet cut at any length is neither forwarded nor flooded, cut on its way to the port, on the underlay, or by the sender before the tunnel.
func TestCutPacketsAreNotForwarded(t *testing.T) {
	t.Parallel()
	telling := []string{ // how long they are
		tcp4, tcp6, udp4, udp6, icmp4, icmp6, arp, "ip 10.0.0.1 > 10.0.0.2 132 20",
		"fragment 10.0.0.1 > 10.0.0.2 1480 64", "fragment 2001:db8:1::1 > 2001:db8:1::2 1448 64",
	}
	extension := pkttest.Packet(pkttest.Ether(alice, bob), pkttest.IPv6("2001:db8:1::1", "2001:db8:1::2"),
		&pkttest.Extension{Kind: pkttest.ProtoHopByHop, Size: 16}, pkttest.TCP(1, 2, "ack"), pkttest.Payload(9))
	frames := [][]byte{extension}
	for _, words := range telling {
		frames = append(frames, pkttest.Frame(alice, bob, words))
	}
	eachWay(t, func(t *testing.T, to way) {
		w := to.world(t)
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

// Cut packets of a router's are not forwarded, told of, or answered.
func TestCutRoutedPackets(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, to way) {
		w := routedWorld(t, to)
		for _, words := range []string{
			"tcp 10.0.1.10:1000 > 10.0.2.13:80 100", "tcp [2001:db8:1::a]:1 > [2001:db8:2::d]:2 40", "icmp 10.0.1.10 > 10.0.1.1 56",
			"ttl 1 udp 10.0.1.10:1 > 10.0.2.13:2 40", "arp 10.0.1.10 ? 10.0.1.1", "ns 2001:db8:1::a ? 2001:db8:1::fe",
			"icmp 2001:db8:1::a > 2001:db8:2::fe 56", "tcp 10.0.1.10:1000 > 10.0.2.14:80 syn nop nop mss 9000",
		} {
			frame := pkttest.Frame(alice, gatewayMAC, words)
			w.cut(t, "p0", frame, len(frame), func(n int) []byte { return frame[:n] })
			inner := pkttest.Frame(bob, gatewayMAC, words)
			w.cut(t, "u0", w.fromRemote(inner), len(inner), func(n int) []byte { return w.fromRemote(inner[:n]) })
		}
	})
}

// cut offers the whole packet, which must be forwarded, then all that is shorter,
// of which nothing passes and each is the host's or has a reason.
func (w *world) cut(t *testing.T, from string, whole []byte, length int, shorter func(n int) []byte) {
	t.Helper()
	w.refill(t)
	w.offer(t, from, whole).want(t, whole, forwarded)
	verdicts := map[verdict]uint64{}
	drops, events := w.counted(t, func() {
		for n := length - 1; n >= 0 && len(shorter(n)) >= etherLen; n-- { // TEST_RUN takes no less
			b := shorter(n)
			r := w.offer(t, from, b)
			verdicts[r.verdict]++
			if r.verdict == forwarded {
				pkttest.Errorf(t, []pkttest.Named{{Name: "whole", Bytes: whole}, {Name: "cut", Bytes: b}}, "cut to %d of %d bytes: forwarded", n, length)
				return
			}
		}
	})
	if events["flooded"] > 0 || verdicts[dropped] != sum(drops) || verdicts[next] != events["not-tunnel"] {
		pkttest.Errorf(t, []pkttest.Named{{Name: "whole", Bytes: whole}}, "cut anywhere: verdicts %v, drops %v, events %v", verdicts, drops, events)
	}
}
