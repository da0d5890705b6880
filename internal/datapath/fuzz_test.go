package datapath

import (
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/tier"
)

// The corpus in testdata/fuzz is what past runs found worth keeping; these seeds
// are good packets of every kind, for mutation to start from.

// FuzzPort gives any bytes to the program of ports.
func FuzzPort(f *testing.F) {
	w := fuzzWorld(f)
	for _, words := range innerFrames {
		f.Add(pkttest.Frame(alice, bob, words))
	}
	for _, words := range append(routedWords(), talks...) {
		f.Add(pkttest.Frame(alice, gatewayMAC, words))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		w.fuzz(t, "p0", b)
	})
}

// FuzzTagged gives any bytes behind one or two tags to a trunk.
func FuzzTagged(f *testing.F) {
	w := fuzzWorld(f)
	for _, words := range append(slices.Clone(innerFrames), routedWords()...) {
		for _, tags := range tagWords {
			f.Add(pkttest.Frame(alice, bob, tags+words)[12:], byte(len(tags)))
			f.Add(pkttest.Frame(alice, gatewayMAC, tags+words)[12:], byte(0))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, how byte) {
		dst := macOf([...]string{gatewayMAC, bob, carol, all}[how%4])
		src := macOf(alice)
		w.fuzz(t, "s0", slices.Concat(dst[:], src[:], []byte{0x81, 0, 0, 10 + how/64}, b))
	})
}

// FuzzUnderlay gives any bytes to the program of the underlay. The first ones are made the address of its device, so that the fuzzer need not guess it.
func FuzzUnderlay(f *testing.F) {
	w := fuzzWorld(f)
	for _, words := range innerFrames {
		f.Add(w.fromRemote(pkttest.Frame(bob, alice, words)))
	}
	f.Add(w.fromRemote(w.fromRemote(pkttest.Frame(bob, alice, udp4))))
	for _, segment := range []string{"blue", "geneve", "nvgre"} {
		o := w.outerIn(segment, w.family.remotes[0])
		f.Add(o.Wrap(pkttest.Frame(bob, gatewayMAC, "udp 10.0.1.11:1 > 10.0.2.13:2 30")))
		o.Src, o.Dst = o.Dst, o.Src
		f.Add(w.message(underlayError{mtu: 1400, kind: 3, code: 4, quote: o.Wrap(pkttest.Frame(bob, alice, udp4))[etherLen:], length: 60}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		w.fuzz(t, "u0", append(append([]byte(nil), w.dev["u0"].HardwareAddr...), b[min(6, len(b)):]...))
	})
}

// FuzzVXLAN, FuzzGeneve and FuzzNVGRE give any bytes as the tunnel header and what it carries: the lengths around them are right.
func FuzzVXLAN(f *testing.F) { fuzzTunnel(f, "blue") }

func FuzzGeneve(f *testing.F) { fuzzTunnel(f, "geneve") }

func FuzzNVGRE(f *testing.F) { fuzzTunnel(f, "nvgre") }

func fuzzTunnel(f *testing.F, segment string) {
	w := fuzzWorld(f)
	o := w.outerIn(segment, w.family.remotes[0])
	for _, words := range append(slices.Clone(innerFrames), routedWords()...) {
		f.Add(o.Wrap(pkttest.Frame(bob, alice, words))[o.HeaderAt():])
	}
	if segment == "geneve" {
		for _, c := range optionCases {
			o.GeneveOptions = c.options
			f.Add(o.Wrap(pkttest.Frame(bob, gatewayMAC, "udp 10.0.1.11:1 > 10.0.2.13:2 30"))[o.HeaderAt():])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 2 || len(b) > 2000 {
			return
		}
		whole := slices.Concat(make([]byte, o.HeaderAt()), b)
		w.fuzz(t, "u0", shortened(o, whole, len(b)))
	})
}

func routedWords() (list []string) {
	for _, c := range routeCases() {
		list = append(list, c.words)
	}
	for _, c := range vports {
		list = append(list, c.words, sixOf(c.words))
	}
	return list
}

// fuzzWorld has all encapsulations, a router, a trunk at s0 and an MTU that small
// packets exceed.
func fuzzWorld(f *testing.F) *world {
	tier.Root(f)
	w := ownWorld(f, underIPv4, func(_ *Config, tables *fib.Tables) {
		routed(ways()[0], tables)
		for name, t := range map[string]overlay.Tunnel{"geneve": geneve(criticalOptions), "nvgre": {Encapsulation: overlay.NVGRE}} {
			s := tables.Segments[0]
			s.Name, s.Tunnel, s.Gateway, s.Neighbours = name, t, nil, nil
			s.Static = []overlay.StaticMAC{{MAC: macOf(bob), Remote: underIPv4.remotes[0]}, {MAC: macOf(alice), Port: "p1"}}
			tables.Segments = append(tables.Segments, s)
		}
		tables.Segments[0].KeepTags, tables.Segments[0].Suppress, tables.Segments[0].ClampMSS = true, true, true
		tables.Ports[0].MTU = 1000
	})
	for i, segment := range []string{"blue", "green", "geneve"} {
		p := w.port("s0", segment)
		p.Name, p.VLAN = "s0."+segment, uint16(10+i)
		w.tables.Ports = append(w.tables.Ports, p)
	}
	w.apply(f)
	return w
}

// fuzz never lets a packet that is cut short pass, nor loses one without a reason.
func (w *world) fuzz(t *testing.T, from string, b []byte) {
	if len(b) < etherLen || len(b) > 3000 {
		return // TEST_RUN takes from an Ethernet header to about a page
	}
	var r result
	drops, events := w.counted(t, func() {
		var err error
		if r, err = w.tryOffer(t, from, b); err != nil {
			t.Fatal(err)
		}
	})
	if r.verdict == 0 {
		return
	}
	copies := events["flooded"] - events["neigh-requested"]
	through := r.verdict == forwarded || copies > 0
	tunnels := map[string]int{"u0": 1}[from]
	if through && pkttest.DissectTunnels(b, tunnels).Has(pkttest.Cut) && events["reorder-held"] == 0 {
		pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: b}, {Name: "out", Bytes: r.out}}, "%v, though cut short", r.verdict)
	}
	ways := copies + events["not-tunnel"] + events["local-delivered"] + sum(drops) - events["icmp-sent"]
	if r.verdict == forwarded {
		ways++
	}
	onHost := r.verdict == next && ways == 0 // not for this station: not counted
	if ways != 1 && !onHost && copies == 0 { // each copy of a flooded frame has its own reason
		pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: b}, {Name: "out", Bytes: r.out}},
			"%v, drops %v, events %v: not accounted for once", r.verdict, drops, events)
	}
	if events["icmp-sent"] > 0 { // all of it is the edge's own
		if d := pkttest.Dissect(r.out); len(d.Faults) > 0 {
			pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: b}, {Name: "out", Bytes: r.out}}, "the edge says %v", d.Faults)
		}
	}
}
