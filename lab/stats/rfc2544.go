package stats

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/result"
)

// RFC2544 is the name of the experiment on transit at the limit of a machine.
const RFC2544 = "rfc2544"

// Metrics of the RFC 2544 experiment that others speak of by name.
const (
	NDR         = "ndr" // Mpps forwarded without loss, RFC 2544's throughput
	PDR         = "pdr" // Mpps forwarded within the tolerance
	LatencyP50  = "latency_p50"
	LatencyP99  = "latency_p99"
	NSPerPacket = "ns_per_packet" // of one core, generator and sink included
	DeviceNS    = "device_ns"     // of these, the device's
	MppsPerCore = "mpps_per_core"
	Ceiling     = "ceiling"    // Mpps of the generator without a device
	LossLoad    = "loss_load"  // series: shares of the highest rate offered
	LossShare   = "loss_share" // series: what was lost there
)

// Directions of transit: into the tunnel, out of it, and both by frames that come back.
const (
	Encap = "encap"
	Decap = "decap"
	Both  = "both"
)

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
	if !slices.Contains([]string{Encap, Decap, Both}, t.Direction) {
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
	for _, caseName := range Cases(r) {
		if t, ok := Transit(caseName); ok {
			all = append(all, t)
		}
	}
	order := []string{Encap, Decap, Both}
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

// transitMetrics are the figures of every case, those first that a verdict is about.
func transitMetrics(r result.Result) []Metric {
	var metrics []Metric
	for _, m := range []Metric{
		{"", NDR, "Mpps", "No-drop rate", true},
		{"", PDR, "Mpps", "Partial-drop rate", true},
		{"", LatencyP50, "µs", "Latency p50 at the no-drop rate", false},
		{"", LatencyP99, "µs", "Latency p99 at the no-drop rate", false},
		{"", NSPerPacket, "ns", "Time of a core per packet", false},
		{"", DeviceNS, "ns", "The device's time per packet", false},
		{"", MppsPerCore, "Mpps", "Rate per core", true},
		{"", "latency_min", "µs", "Least latency at the no-drop rate", false},
		{"", "latency_mean", "µs", "Mean latency at the no-drop rate", false},
		{"", "latency_p999", "µs", "Latency p99.9 at the no-drop rate", false},
		{"", "jitter", "µs", "Jitter at the no-drop rate", false},
		{"", "latency_p50_10", "µs", "Latency p50 at 10 % of the no-drop rate", false},
		{"", "latency_p99_10", "µs", "Latency p99 at 10 % of the no-drop rate", false},
		{"", "latency_p50_50", "µs", "Latency p50 at 50 % of the no-drop rate", false},
		{"", "latency_p99_50", "µs", "Latency p99 at 50 % of the no-drop rate", false},
		{"", "latency_p50_90", "µs", "Latency p50 at 90 % of the no-drop rate", false},
		{"", "latency_p99_90", "µs", "Latency p99 at 90 % of the no-drop rate", false},
		{"", "offered", "Mpps", "Offered at the partial-drop rate", true},
		{"", "forwarded", "Mpps", "Forwarded at the partial-drop rate", true},
		{"", "frame_out", "bytes", "Frame in the tunnel", false},
		{"", "egress", "Gbit/s", "Rate on the wire of the underlay", true},
		{"", "line_share", "share", "Share of the line rate", true},
		{"", "cpu", "share", "Share of the cores", false},
		{"", Ceiling, "Mpps", "The generator's own ceiling", true},
		{"", "back_to_back", "frames", "Longest burst without loss", true},
		{"", "recovery_ms", "ms", "Recovery from overload", false},
		{"", "reset_ms", "ms", "Recovery from a reset", false},
	} {
		for _, t := range Transits(r) {
			m.Case = t.Case()
			metrics = append(metrics, m)
		}
	}
	return metrics
}

// transitReason is SpreadLimit's for the reader of a report.
const transitReason = "A flow cache that misses or a policy on the way costs about a tenth, and noise above that could hide or mimic it"

// RefuseRate says, without a final stop, why a rate metric (NDR, PDR, NSPerPacket) of
// targets in a case carries no conclusion, or "" when it does: errors, missing or few
// rounds, noise.
func RefuseRate(r result.Result, caseName, metric string, targets ...string) string {
	words := map[string]string{NDR: "no-drop rate", PDR: "partial-drop rate", NSPerPacket: "time per packet"}[metric]
	for _, name := range targets {
		if why := unreliable(r, name, decisive{caseName, metric, words, transitReason}); why != "" {
			return why
		}
	}
	return ""
}

// Tolerance is the loss that the PDR of r tolerates, for people: "0.01 %". Its parameter is a
// percentage with its sign or a share; without one it is "the tolerated".
func Tolerance(r result.Result) string {
	text := strings.TrimSpace(r.Parameters["tolerance"])
	scale := 100.0
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		text, scale = strings.TrimSpace(percent), 1
	}
	share, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return "the tolerated"
	}
	return strconv.FormatFloat(scale*share, 'g', 3, 64) + " %"
}

// SharedCore says whether generator, device and sink of r took turns on one core. There
// the search always ends at the generator's highest rate, and that holds the device's
// time.
func SharedCore(r result.Result) bool {
	return strings.HasPrefix(r.Parameters["cores"], "inline") || strings.Contains(r.Parameters["cores"], "share core")
}

// RFC2544Rows are the summary of r.
func RFC2544Rows(r result.Result) []result.Row { return Summarise(r, Limit, transitMetrics(r)) }
