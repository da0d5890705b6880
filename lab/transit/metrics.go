package transit

import (
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Metrics of the RFC 2544 experiment that others speak of by name.
const (
	NDR              = "ndr" // Mpps forwarded without loss, RFC 2544's throughput
	PDR              = "pdr" // Mpps forwarded within the tolerance
	LatencyP50       = "latency_p50"
	LatencyP99       = "latency_p99"
	LatencyP999      = "latency_p999"
	LatencyMin       = "latency_min"
	LatencyMean      = "latency_mean"
	Jitter           = "jitter"
	NSPerPacket      = "ns_per_packet" // of one core, generator and sink included
	DeviceNS         = "device_ns"     // of these, the device's
	MppsPerCore      = "mpps_per_core"
	GeneratorCeiling = "ceiling"    // Mpps of the generator without a device
	LossLoad         = "loss_load"  // series: shares of the highest rate offered
	LossShare        = "loss_share" // series: what was lost there
)

// Directions of transit: into the tunnel, out of it, and both by frames that come back.
const (
	Encap = "encap"
	Decap = "decap"
	Both  = "both"
)

// Noisy is what is wrong with noise, to follow diagnose.Quieter.
const Noisy = "a flow cache that misses or a policy on the way costs about a tenth, and noise above that could hide or mimic it."

// RefuseRate says, without a final stop, why a rate metric (NDR, PDR, NSPerPacket) of
// targets in a case carries no conclusion, or "" when it does: errors, missing or few
// rounds, noise.
func RefuseRate(r result.Result, caseName, metric string, targets ...string) string {
	words := map[string]string{NDR: "no-drop rate", PDR: "partial-drop rate", NSPerPacket: "time per packet"}[metric]
	for _, name := range targets {
		if why := stats.UnreliableFor(r, name, stats.Basis{CaseName: caseName, Metric: metric, Words: words}); why != "" {
			return why
		}
	}
	return ""
}
