package mtu

import (
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Name is the name of the experiment on packets that do not fit.
const Name = "mtu"

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

// Parameters that are MTUs, in bytes.
const (
	underlayMTU = "underlay_mtu"
	guestMTU    = "guest_mtu" // that guests assume
)

// pathMTUParameter is the name of the parameter that is a target's MTU.
func pathMTUParameter(target string) string { return "path_mtu_" + target }

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

// figures are those of a case, without its name.
func figures() []stats.Metric {
	return []stats.Metric{
		{Case: "", Name: stats.Decisive, Unit: "Gbit/s", Title: "TCP throughput", Higher: true},
		{Case: "", Name: measure.MSS, Unit: "bytes", Title: "TCP segment size", Higher: true},
		{Case: "", Name: measure.LargestSize, Unit: "bytes", Title: "Largest packet that arrives", Higher: true},
	}
}

// mtuMetrics are the throughput and the segment size of every transfer, and what
// every search found.
func mtuMetrics(r result.Result) []stats.Metric {
	var metrics []stats.Metric
	for _, m := range figures() {
		title := m.Title
		for _, caseName := range stats.Cases(r) {
			if IsSize(caseName) == (m.Name == measure.LargestSize) {
				m.Case, m.Title = caseName, title+", "+caseName
				metrics = append(metrics, m)
			}
		}
	}
	return metrics
}

// holeRows say which targets have a black hole. n is the number of transfers.
func holeRows(r result.Result) []result.Row {
	var rows []result.Row
	for _, name := range stats.Names(r) {
		row := result.Row{Target: name, Case: HoleCase, Metric: BlackHole, Unit: "1 or 0", Lo: 1}
		for _, s := range r.Samples {
			if s.Target != name || !IsHole(s.Case) || s.Error != "" {
				continue
			}
			row.N++
			if _, stalled := stats.Stalled(s); stalled {
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

// summarise are the summary of r: BlackHole of each target first.
func summarise(r result.Result) []result.Row {
	return append(holeRows(r), stats.Summarise(r, stats.Baseline, mtuMetrics(r))...)
}
