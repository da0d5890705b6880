package datapath

import (
	"testing"

	"github.com/selvage/selvage/test/pkttest"
)

// BenchmarkMonitor has what a monitor costs: a packet that is dropped and one that is forwarded, while nobody watches, while
// somebody watches drops beyond the rate, and while all are captured. Programs alone are measured.
//
//	make bench T=./internal/datapath B=BenchmarkMonitor
func BenchmarkMonitor(b *testing.B) {
	for _, c := range []struct {
		name  string
		watch *MonitorOptions
	}{
		{"off", nil},
		{"drops beyond the rate", &MonitorOptions{Drops: true, Rate: 1, Snaplen: 128}},
		{"drops of another port", &MonitorOptions{Drops: true, Rate: 1, Snaplen: 128, Filter: MonitorFilter{Port: "p1"}}},
		{"one of a million forwarded", &MonitorOptions{Drops: true, Forwarded: true, Originals: true, Sample: 1_000_000, Rate: 1, Snaplen: 128}},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := newBench(b, underIPv4, static(underIPv4))
			if c.watch != nil {
				w.watch(b, *c.watch)
			}
			const words = "udp 10.0.0.1:1000 > 10.0.0.2:53 22"
			ns := w.measure(b,
				scenario{name: "dropped", from: "p0", frame: pkttest.Frame(alice, alice, words), verdict: dropped},
				scenario{name: "forwarded", from: "p0", frame: pkttest.Frame(alice, bob, words), verdict: forwarded},
			)
			b.ReportMetric(ns[0], "ns/dropped")
			b.ReportMetric(ns[1], "ns/forwarded")
		})
	}
}
