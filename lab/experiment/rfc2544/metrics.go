package rfc2544

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
)

// Name is the name of the experiment on transit at the limit of a machine.
const Name = "rfc2544"

// Traffic is what a case of the RFC 2544 experiment sends.
type Traffic struct {
	Direction string // Encap, Decap or Both
	Size      int    // bytes of a frame with FCS; 0 for an IMIX
	Flows     int    // of the flow sweep; 0 outside it
	Pairs     int    // of uplinks and downlinks, from 1
}

// Transit reads a case of the RFC 2544 experiment: a direction and a size, "imix" or bytes
// with FCS, then "-flows-N" in the flow sweep, then "-x2" with two uplinks and two
// downlinks.
func Transit(caseName string) (Traffic, bool) {
	t := Traffic{Pairs: 1}
	if rest, ok := strings.CutSuffix(caseName, "-x2"); ok {
		caseName, t.Pairs = rest, 2
	}
	parts := strings.Split(caseName, "-")
	if len(parts) != 2 && (len(parts) != 4 || parts[2] != "flows") {
		return t, false
	}
	t.Direction = parts[0]
	if !slices.Contains([]string{transit.Encap, transit.Decap, transit.Both}, t.Direction) {
		return t, false
	}
	if parts[1] != "imix" {
		size, err := strconv.Atoi(parts[1])
		if err != nil || size < 1 {
			return t, false
		}
		t.Size = size
	}
	if len(parts) == 4 {
		flows, err := strconv.Atoi(parts[3])
		if err != nil || flows < 1 {
			return t, false
		}
		t.Flows = flows
	}
	return t, true
}

// Case is the name of t's samples.
func (t Traffic) Case() string {
	name := t.Direction + "-imix"
	if t.Size > 0 {
		name = t.Direction + "-" + strconv.Itoa(t.Size)
	}
	if t.Flows > 0 {
		name += "-flows-" + strconv.Itoa(t.Flows)
	}
	if t.Pairs > 1 {
		name += "-x2"
	}
	return name
}

// Transits are the cases of r: into the tunnel, out of it, both; each by pairs, then by
// size with the IMIX last; the flow sweep after them.
func Transits(r result.Result) []Traffic {
	var all []Traffic
	for _, caseName := range stats.Cases(r) {
		if t, ok := Transit(caseName); ok {
			all = append(all, t)
		}
	}
	order := []string{transit.Encap, transit.Decap, transit.Both}
	size := func(t Traffic) int {
		if t.Size == 0 {
			return 1 << 30
		}
		return t.Size
	}
	slices.SortStableFunc(all, func(a, b Traffic) int {
		return cmp.Or(
			cmp.Compare(min(a.Flows, 1), min(b.Flows, 1)),
			cmp.Compare(slices.Index(order, a.Direction), slices.Index(order, b.Direction)),
			cmp.Compare(a.Pairs, b.Pairs), cmp.Compare(size(a), size(b)), cmp.Compare(a.Flows, b.Flows))
	})
	return all
}

// Metrics beside those of all experiments on transit; units are in transitMetrics.
const (
	latencyP99At90 = "latency_p99_90"
	offeredRate    = "offered"
	forwardedRate  = "forwarded"
	frameOut       = "frame_out"
	egressRate     = "egress"
	lineShare      = "line_share"
	cpuShare       = "cpu"
	backToBack     = "back_to_back"
	recoveryMS     = "recovery_ms"
	resetMS        = "reset_ms"
	limitedBy      = "limited" // 1 where the generator was the limit, in samples alone
)

// transitMetrics are the figures of every case, those first that a verdict is about.
func transitMetrics(r result.Result) []stats.Metric {
	var metrics []stats.Metric
	for _, m := range figures() {
		for _, t := range Transits(r) {
			m.Case = t.Case()
			metrics = append(metrics, m)
		}
	}
	return metrics
}

// figures are those of a case, without its name.
func figures() []stats.Metric {
	return []stats.Metric{
		{Case: "", Name: transit.NDR, Unit: "Mpps", Title: "No-drop rate", Higher: true},
		{Case: "", Name: transit.PDR, Unit: "Mpps", Title: "Partial-drop rate", Higher: true},
		{Case: "", Name: transit.LatencyP50, Unit: "µs", Title: "Latency p50 at the no-drop rate", Higher: false},
		{Case: "", Name: transit.LatencyP99, Unit: "µs", Title: "Latency p99 at the no-drop rate", Higher: false},
		{Case: "", Name: transit.NSPerPacket, Unit: "ns", Title: "Time of a core per packet", Higher: false},
		{Case: "", Name: transit.DeviceNS, Unit: "ns", Title: "The device's time per packet", Higher: false},
		{Case: "", Name: transit.MppsPerCore, Unit: "Mpps", Title: "Rate per core", Higher: true},
		{Case: "", Name: transit.LatencyMin, Unit: "µs", Title: "Least latency at the no-drop rate", Higher: false},
		{Case: "", Name: transit.LatencyMean, Unit: "µs", Title: "Mean latency at the no-drop rate", Higher: false},
		{Case: "", Name: transit.LatencyP999, Unit: "µs", Title: "Latency p99.9 at the no-drop rate", Higher: false},
		{Case: "", Name: transit.Jitter, Unit: "µs", Title: "Jitter at the no-drop rate", Higher: false},
		{Case: "", Name: "latency_p50_10", Unit: "µs", Title: "Latency p50 at 10 % of the no-drop rate", Higher: false},
		{Case: "", Name: "latency_p99_10", Unit: "µs", Title: "Latency p99 at 10 % of the no-drop rate", Higher: false},
		{Case: "", Name: "latency_p50_50", Unit: "µs", Title: "Latency p50 at 50 % of the no-drop rate", Higher: false},
		{Case: "", Name: "latency_p99_50", Unit: "µs", Title: "Latency p99 at 50 % of the no-drop rate", Higher: false},
		{Case: "", Name: "latency_p50_90", Unit: "µs", Title: "Latency p50 at 90 % of the no-drop rate", Higher: false},
		{Case: "", Name: latencyP99At90, Unit: "µs", Title: "Latency p99 at 90 % of the no-drop rate", Higher: false},
		{Case: "", Name: offeredRate, Unit: "Mpps", Title: "Offered at the partial-drop rate", Higher: true},
		{Case: "", Name: forwardedRate, Unit: "Mpps", Title: "Forwarded at the partial-drop rate", Higher: true},
		{Case: "", Name: frameOut, Unit: "bytes", Title: "Frame in the tunnel", Higher: false},
		{Case: "", Name: egressRate, Unit: "Gbit/s", Title: "Rate on the wire of the underlay", Higher: true},
		{Case: "", Name: lineShare, Unit: "share", Title: "Share of the line rate", Higher: true},
		{Case: "", Name: cpuShare, Unit: "share", Title: "Share of the cores", Higher: false},
		{Case: "", Name: transit.GeneratorCeiling, Unit: "Mpps", Title: "The generator's own ceiling", Higher: true},
		{Case: "", Name: backToBack, Unit: "frames", Title: "Longest burst without loss", Higher: true},
		{Case: "", Name: recoveryMS, Unit: "ms", Title: "Recovery from overload", Higher: false},
		{Case: "", Name: resetMS, Unit: "ms", Title: "Recovery from a reset", Higher: false},
	}
}

// Tolerance is the loss that the PDR of r tolerates, for people: "0.01 %"; "the tolerated" where it
// is not recorded.
func Tolerance(r result.Result) string {
	p, ok := r.Parameters[tolerance]
	if !ok {
		return "the tolerated"
	}
	return p.String()
}

// Parameters that findings and reports stand on.
const (
	tolerance      = "tolerance" // of loss, in percent
	sharedCore     = "shared_core"
	coresParameter = "cores" // what ran where, in words
)

// SharedCore says whether generator, device and sink of r took turns on one core. There
// the search always ends at the generator's highest rate, and that holds the device's
// time.
func SharedCore(r result.Result) bool {
	return r.Parameters.Bool(sharedCore)
}

// summarise are the summary of r.
func summarise(r result.Result) []result.Row {
	return stats.Summarise(r, stats.Limit, transitMetrics(r))
}
