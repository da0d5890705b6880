package datapath

import (
	"testing"
)

// BenchmarkTotals is what a scrape reads of the maps, with 100,000 decisions in the flow cache and 10,000 hosts in the FDB,
// and what a status does, which counts them.
func BenchmarkTotals(b *testing.B) {
	w := newBench(b, underIPv4, benchWorld(underIPv4))
	w.fillFDB(b, 10_000)
	flows := make(map[uint64]bpfFlow, 100_000)
	for digest := range uint64(100_000) {
		flows[digest] = bpfFlow{Digest: digest}
	}
	must(b, putBatch(w.dp.Flows.maps.Flows, flows, 0))
	if _, err := w.dp.Flows.Stats(); err != nil {
		b.Fatal(err)
	}
	b.Run("scrape", func(b *testing.B) {
		for b.Loop() {
			stats, err := w.dp.Flows.Totals()
			must(b, err)
			if stats.FDBUsed < 10_000 || stats.FlowsUsed < 90_000 {
				b.Fatalf("%+v", stats)
			}
			_, err = w.dp.Flows.Tables()
			must(b, err)
			_, err = w.dp.Traffic.Drops()
			must(b, err)
			_, err = w.dp.Traffic.Ports()
			must(b, err)
			_, err = w.dp.Traffic.TEPs()
			must(b, err)
			_, err = w.dp.Traffic.Paths()
			must(b, err)
		}
	})
	b.Run("status", func(b *testing.B) {
		for b.Loop() {
			_, err := w.dp.Flows.Stats()
			must(b, err)
		}
	})
}
