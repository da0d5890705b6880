package stats

import (
	"slices"

	"github.com/selvage/selvage/lab/result"
)

// AB is the name of the A/B experiment.
const AB = "ab"

// Cases of the A/B experiment that are transit: frames of 64 bytes between an uplink and the
// underlay.
const (
	TransitEncap = "transit-encap"
	TransitDecap = "transit-decap"
)

// ABBaseline is the target that ratios of r are against: plain, or the first where that was
// not measured.
func ABBaseline(r result.Result) string {
	if names := Names(r); Sliced(r) && len(names) > 0 && !slices.Contains(names, Baseline) {
		return names[0]
	}
	return Baseline
}

// Metrics lists what Summarise computes for the A/B experiment, in the order of its
// rows.
func Metrics() []Metric {
	metrics := []Metric{
		{DecisiveCase, Decisive, "Gbit/s", "TCP throughput", true},
		{"tcp", "cpu_per_gb", "CPU s/GB", "CPU per gigabyte", false},
		{"tcp", "retransmits", "count", "TCP retransmits", false},
	}
	for _, c := range []struct{ name, size string }{{"rr-1", "1 B"}, {"rr-1024", "1024 B"}} {
		metrics = append(metrics,
			Metric{c.name, "rr_p50", "µs", "Request/response p50, " + c.size, false},
			Metric{c.name, "rr_p99", "µs", "Request/response p99, " + c.size, false},
			Metric{c.name, "rr_rate", "1/s", "Request/response rate, " + c.size, true})
	}
	return append(metrics,
		Metric{"udp", "udp_pps", "kpps", "UDP packets received", true},
		Metric{"udp", "udp_loss_ppm", "ppm", "UDP packets lost, of a million", false},
		Metric{TransitEncap, NDR, "Mpps", "Transit into a tunnel without loss (NDR)", true},
		Metric{TransitDecap, NDR, "Mpps", "Transit out of a tunnel without loss (NDR)", true})
}

// ABRows are the summary of r.
func ABRows(r result.Result) []result.Row { return Summarise(r, ABBaseline(r), Metrics()) }

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
		w.Samples, w.Parameters = nil, map[string]string{}
		for name, value := range r.Parameters {
			w.Parameters[name] = value
		}
		delete(w.Parameters, "rounds")
		for i, round := range order[:rounds] {
			for _, s := range byRound[round] {
				s.Round = i + 1
				w.Samples = append(w.Samples, s)
			}
		}
		w.Summary = ABRows(w)
		windows = append(windows, w)
	}
	return windows
}
