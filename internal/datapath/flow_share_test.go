package datapath

import (
	"fmt"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
)

// The attack: a port sends packets of ever new flows. It has its share of the flow cache, of
// its newest flows, and those of other ports stay. In observe mode it is only counted.
func TestFlowsOfAPortStayInItsShare(t *testing.T) {
	for _, observe := range []bool{false, true} {
		w := firewallWorld(t, openFirewall(true), func(_ *Config, tables *fib.Tables) {
			for i := range tables.Ports {
				tables.Ports[i].Limits = overlay.Limits{Flows: 16, Observe: observe}
			}
		})
		for i := range 8 {
			w.passes(t, fmt.Sprintf("carol > bob udp 53 from %d", 3000+i))
		}
		for i := range 400 { // at the limit a flow comes in with its second packet
			w.passes(t, fmt.Sprintf("alice > bob udp 53 from %d", 2000+i/2))
		}
		want, cached := map[string]int{"p0": 16, "p1": 8}, map[string]int{}
		if observe {
			want["p0"] = 200
		}
		each(t, w.dp.Flows.maps.Flows, func(_ uint64, f bpfFlow) { cached[w.dp.numbers.names.ports[uint32(f.Decision.In)]]++ })
		for port, n := range want {
			if cached[port] != n {
				t.Errorf("observe %t: %d flows of %s are cached, want %d", observe, cached[port], port, n)
			}
		}
		p0 := w.dp.numbers.names.portIDs["p0"]
		var u bpfLimitUsage
		must(t, w.dp.Limits.maps.OwnerUsages.Lookup(ownerIndex(p0), &u))
		if n := w.at(t, p0, bpfLimitedCountCOUNT_FLOWS); n != want["p0"] || u.Exceeded[bpfLimitedCountCOUNT_FLOWS] < 184 {
			t.Errorf("observe %t: %d flows, %d over the limit; want %d and 184 at least", observe, n, u.Exceeded[bpfLimitedCountCOUNT_FLOWS], want["p0"])
		}
		_, events := w.counted(t, func() {
			for i := range 50 {
				w.passes(t, fmt.Sprintf("alice > bob udp 53 from %d", 5000+i))
			}
			w.passes(t, "alice > bob udp 53 from 2199")
		})
		if refused := events["flow-not-admitted"] == 50; events["hit"] != 1 || refused == observe {
			t.Errorf("observe %t: events %v, want 50 flows of one packet not kept at the limit, and the newest to hit", observe, events)
		}
		changeEach[uint64](t, w.dp.Flows.maps.Flows, func(f *bpfFlow) { f.SeenNs -= uint64(flowIdle + time.Second) })
		w.passes(t, "alice > bob udp 53 from 2199")
		if _, err := w.dp.Age(0); err != nil {
			t.Fatal(err)
		}
		if n := w.at(t, p0, bpfLimitedCountCOUNT_FLOWS); n != 1 {
			t.Errorf("observe %t: %d flows after all but one were idle, want 1", observe, n)
		}
		each(t, w.dp.Limits.maps.LimitEntries, func(at bpfLimitSlot, _ bpfLimitEntry) {
			if at.Owner == p0 && at.Count == bpfLimitedCountCOUNT_FLOWS {
				t.Errorf("observe %t: slot %d still has the key of a flow", observe, at.Slot)
			}
		})
	}
}

// Decisions are not walked where there were none twice, and nothing missed since.
func TestQuiet(t *testing.T) {
	var q quiet
	for i, step := range []struct {
		misses uint64
		empty  bool
		found  int // of the walk where it is not known to be empty
	}{
		{0, false, 0}, {0, false, 0}, {0, true, 0}, // as a data path that was just loaded
		{7, false, 2}, {7, false, 2}, {7, false, 0}, {7, false, 0}, {7, true, 0}, {7, true, 0},
		{8, false, 0}, {9, false, 0}, {9, false, 1}, {9, false, 0}, {9, false, 0}, {9, true, 0},
	} {
		if got := q.isEmpty(step.misses); got != step.empty {
			t.Fatalf("step %d, %d misses: empty %v", i, step.misses, got)
		} else if !got {
			q.walked(step.found)
		}
	}
}
