package datapath

import (
	"os"
	"testing"

	"github.com/selvage/selvage/test/pkttest"
)

// The corpus in testdata/fuzz is what past runs found worth keeping; these seeds
// are good packets of every kind, for mutation to start from.

// FuzzPort gives any bytes to the program of ports.
func FuzzPort(f *testing.F) {
	w := fuzzWorld(f)
	for _, words := range innerFrames {
		f.Add(pkttest.Frame(alice, bob, words))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		w.fuzz(t, "p0", b)
	})
}

// FuzzUnderlay gives any bytes to the program of the underlay. The first ones
// are made the address of its device, so that the fuzzer need not guess it.
func FuzzUnderlay(f *testing.F) {
	w := fuzzWorld(f)
	for _, words := range innerFrames {
		f.Add(w.fromRemote(pkttest.Frame(bob, alice, words)))
	}
	f.Add(w.fromRemote(w.fromRemote(pkttest.Frame(bob, alice, udp4))))
	f.Fuzz(func(t *testing.T, b []byte) {
		w.fuzz(t, "u0", append(append([]byte(nil), w.dev["u0"].HardwareAddr...), b[min(6, len(b)):]...))
	})
}

func fuzzWorld(f *testing.F) *world {
	if os.Geteuid() != 0 && os.Getenv("CI") != "true" {
		f.Skip("needs root: BPF")
	}
	return ownWorld(f, underIPv4, static(underIPv4))
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
	through := r.verdict == forwarded || events["flooded"] > 0
	tunnels := map[string]int{"p0": 0, "u0": 1}[from]
	if through && pkttest.DissectTunnels(b, tunnels).Has(pkttest.Cut) && events["held"] == 0 {
		pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: b}, {Name: "out", Bytes: r.out}}, "%v, though cut short", r.verdict)
	}
	ways := events["flooded"] + events["not-tunnel"] + sum(drops)
	if r.verdict == forwarded {
		ways++
	}
	onHost := r.verdict == next && ways == 0 // not for this station: not counted
	if ways != 1 && !onHost {
		pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: b}, {Name: "out", Bytes: r.out}},
			"%v, drops %v, events %v: not accounted for once", r.verdict, drops, events)
	}
}
