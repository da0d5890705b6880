package stats

import (
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/result"
)

// MTU is the name of the experiment on packets that do not fit.
const MTU = "mtu"

// Cases of that experiment. Transfers into the possible black hole are HoleCase
// and its variants "-reverse", "-v6" and "-v6-reverse"; OffloadCase is the same with
// the guests' segmentation offload on, and does not decide. SizeCase and its
// variants, "-jumbo" too, look for the largest size. A case of the sweep is SweepPrefix, the
// payload that was asked for, "x" and the number of flows: "sweep-536x4".
const (
	HoleCase    = "hole"
	OffloadCase = "hole-offload"
	SizeCase    = "size"
	SweepPrefix = "sweep-"
	Reverse     = "-reverse"
)

// BlackHole is the summary's metric that says whether a target has one: 1 when any
// transfer of HoleCase stalled, else 0.
const BlackHole = "black_hole"

// silence is the share of a transfer at whose end nothing at all arrives when it has
// stalled. TCP tries again after 0.2, 0.4, 0.8 … s: half of three seconds is no
// pause that it makes on a path that works.
const silence = 0.5

// Stalled says whether a transfer went silent for good though its sender had more to
// send, and when: seconds since its start after which nothing arrived.
func Stalled(s result.Sample) (at float64, stalled bool) {
	received := s.Series["tcp_gbps"]
	if len(received) == 0 || s.Duration <= 0 {
		return 0, false
	}
	last := len(received)
	for last > 0 && received[last-1] == 0 {
		last--
	}
	step := s.Duration / float64(len(received))
	return float64(last) * step, float64(len(received)-last) >= silence*float64(len(received))
}

// IsHole says whether a case decides about the black hole.
func IsHole(caseName string) bool {
	return caseName == HoleCase || caseName != OffloadCase && strings.HasPrefix(caseName, HoleCase+"-")
}

// IsSize says whether a case looks for the largest size.
func IsSize(caseName string) bool {
	return caseName == SizeCase || strings.HasPrefix(caseName, SizeCase+"-")
}

// Swept reads the case of a sweep: payload in bytes and flows.
func Swept(caseName string) (size, flows int, ok bool) {
	rest, ok := strings.CutPrefix(caseName, SweepPrefix)
	a, b, found := strings.Cut(rest, "x")
	size, errSize := strconv.Atoi(a)
	flows, errFlows := strconv.Atoi(b)
	return size, flows, ok && found && errSize == nil && errFlows == nil
}

// mtuMetrics are the throughput and the segment size of every transfer, and what
// every search found.
func mtuMetrics(r result.Result) []Metric {
	var throughput, segments, sizes []Metric
	for _, caseName := range Cases(r) {
		if IsSize(caseName) {
			sizes = append(sizes, Metric{caseName, "largest_size", "bytes", "Largest packet that arrives, " + caseName, true})
			continue
		}
		throughput = append(throughput, Metric{caseName, Decisive, "Gbit/s", "TCP throughput, " + caseName, true})
		segments = append(segments, Metric{caseName, "mss", "bytes", "TCP segment size, " + caseName, true})
	}
	return slices.Concat(throughput, segments, sizes)
}

// holeRows say which targets have a black hole. n is the number of transfers.
func holeRows(r result.Result) []result.Row {
	var rows []result.Row
	for _, name := range Names(r) {
		row := result.Row{Target: name, Case: HoleCase, Metric: BlackHole, Unit: "1 or 0", Lo: 1}
		for _, s := range r.Samples {
			if s.Target != name || !IsHole(s.Case) || s.Error != "" {
				continue
			}
			row.N++
			if _, stalled := Stalled(s); stalled {
				row.Median, row.Hi = 1, 1
			} else {
				row.Lo = 0
			}
		}
		if row.N > 0 {
			rows = append(rows, row)
		}
	}
	return rows
}

// MTURows are the summary of r: BlackHole of each target first.
func MTURows(r result.Result) []result.Row {
	return append(holeRows(r), Summarise(r, Baseline, mtuMetrics(r))...)
}
