package turns

import (
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
)

// CPUPerGB behind a role is a metric: seconds of a core there for each GB that arrived.
const CPUPerGB = "_cpu_per_gb"

// CostPerGB is the processor's time at the places of roles for each GB that a transfer brought, with
// its warm-up, by metric; nothing where nothing arrived.
func CostPerGB(s result.Sample, roles ...string) map[string]float64 {
	rates, sum := s.Series[measure.TCPSeries], 0.0
	for _, gbits := range rates {
		sum += gbits
	}
	costs := map[string]float64{}
	if sum == 0 {
		return costs
	}
	gbytes := sum / float64(len(rates)) / 8 // a second
	for _, role := range roles {
		if cores, ok := s.Metrics[CPUMetric("", role)]; ok {
			costs[role+CPUPerGB] = cores / gbytes
		}
	}
	return costs
}
