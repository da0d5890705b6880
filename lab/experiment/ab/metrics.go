package ab

import (
	"maps"
	"slices"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
)

// Name is the name of the A/B experiment.
const Name = "ab"

// Cases of the A/B experiment that are transit: frames of 64 bytes between an uplink and the
// underlay.
const (
	TransitEncap = "transit-encap"
	TransitDecap = "transit-decap"
)

// baselineOf is the target that ratios of r are against: plain, or the first where that was
// not measured.
func baselineOf(r result.Result) string {
	if names := stats.Names(r); stats.Sliced(r) && len(names) > 0 && !slices.Contains(names, stats.Baseline) {
		return names[0]
	}
	return stats.Baseline
}

// Metrics lists what Summarise computes for the A/B experiment, in the order of its
// rows.
func Metrics() []stats.Metric {
	metrics := []stats.Metric{
		{Case: stats.DecisiveCase, Name: stats.Decisive, Unit: "Gbit/s", Title: "TCP throughput", Higher: true},
		{Case: "tcp", Name: measure.CPUPerGB, Unit: "CPU s/GB", Title: "CPU per gigabyte", Higher: false},
		{Case: "tcp", Name: measure.Retransmits, Unit: "count", Title: "TCP retransmits", Higher: false},
	}
	for _, c := range []struct{ name, size string }{{"rr-1", "1 B"}, {"rr-1024", "1024 B"}} {
		metrics = append(metrics,
			stats.Metric{Case: c.name, Name: measure.RRP50, Unit: "µs", Title: "Request/response p50, " + c.size, Higher: false},
			stats.Metric{Case: c.name, Name: measure.RRP99, Unit: "µs", Title: "Request/response p99, " + c.size, Higher: false},
			stats.Metric{Case: c.name, Name: measure.RRRate, Unit: "1/s", Title: "Request/response rate, " + c.size, Higher: true})
	}
	return append(metrics,
		stats.Metric{Case: "udp", Name: measure.UDPRate, Unit: "kpps", Title: "UDP packets received", Higher: true},
		stats.Metric{Case: "udp", Name: measure.UDPLossPPM, Unit: "ppm", Title: "UDP packets lost, of a million", Higher: false},
		stats.Metric{Case: TransitEncap, Name: transit.NDR, Unit: "Mpps", Title: "Transit into a tunnel without loss (NDR)", Higher: true},
		stats.Metric{Case: TransitDecap, Name: transit.NDR, Unit: "Mpps", Title: "Transit out of a tunnel without loss (NDR)", Higher: true})
}

// summarise are the summary of r.
func summarise(r result.Result) []result.Row { return stats.Summarise(r, baselineOf(r), Metrics()) }

// Windows cuts r into results of so many neighbouring rounds each; what is left at the end
// is in none. Their rounds count from 1 again, and their summaries are made anew.
func Windows(r result.Result, rounds int) []result.Result {
	byRound := map[int][]result.Sample{}
	for _, s := range r.Samples {
		byRound[s.Round] = append(byRound[s.Round], s)
	}
	var order []int
	for round := range byRound {
		order = append(order, round)
	}
	slices.Sort(order)
	var windows []result.Result
	for ; len(order) >= rounds && rounds > 0; order = order[rounds:] {
		w := r
		w.Samples, w.Parameters = nil, maps.Clone(r.Parameters)
		delete(w.Parameters, stats.RoundsParameter)
		for i, round := range order[:rounds] {
			for _, s := range byRound[round] {
				s.Round = i + 1
				w.Samples = append(w.Samples, s)
			}
		}
		w.Summary = summarise(w)
		windows = append(windows, w)
	}
	return windows
}
