package datapath

import (
	"fmt"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
)

// The attack: a port sends packets of ever new flows.
func TestFlowsOfAPortStayInItsShare(t *testing.T) {
	t.Parallel()
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
