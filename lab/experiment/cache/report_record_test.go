package cache

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/transit"
)

// TestSynthesizeCache writes a result from a model that follows DESIGN.md's figures of a
// prototype. It stands in until a run has been recorded.
func TestSynthesizeCache(t *testing.T) {
	if !*experimenttest.Synthesize {
		t.Skip("testdata/cache.json.gz is there; -synthesize writes it anew")
	}
	experimenttest.Record(t, Experiment(), syntheticCache())
}

func syntheticCache() result.Result {
	rnd := rand.New(rand.NewPCG(3, 9))
	r := result.Result{
		Schema: result.Schema, Experiment: Name, Started: time.Date(2026, 9, 21, 15, 40, 2, 0, time.UTC),
		Command:     []string{"selvage", "lab", "cache"},
		Parameters:  result.Parameters{"rounds": result.Count(5), "cores": result.Words("generator, device and sink share core 1, one after the other")},
		Environment: experimenttest.Environment(),
		Targets: []result.Target{
			{Name: CacheOn, Description: "the Selvage edge with its flow cache", InnerMTU: 1500},
			{Name: CacheOff, Description: "the same edge, every packet decided anew", InnerMTU: 1500}},
	}
	clock := 1.0
	for n := 1; n <= 5; n++ {
		for _, routes := range []int{0, 1000} {
			for i, flows := range []int{1, 1280, 10_000, 100_000, 1_000_000} {
				for _, name := range []string{CacheOn, CacheOff} {
					device, hits := 112+[]float64{0, 8, 30, 96, 170}[i], 0.9995
					if name == CacheOff {
						device, hits = 330+[]float64{0, 2, 4, 9, 16}[i]+0.04*float64(routes), 0
					}
					if flows == 1_000_000 && name == CacheOn {
						hits = 0.97
					}
					device *= 1 + 0.01*rnd.NormFloat64()
					s := result.Sample{Target: name, Case: Load{Flows: flows, Routes: routes}.Case(), Round: n, Start: experimenttest.Round(clock, 2), Duration: 0.6,
						Metrics: map[string]float64{transit.DeviceNS: experimenttest.Round(device, 1), transit.NSPerPacket: experimenttest.Round(device+generatorNS, 1), HitRate: hits}}
					r.Samples = append(r.Samples, s)
					clock += 0.8
				}
			}
		}
	}
	r.Duration = experimenttest.Round(clock, 2)
	return r
}

// generatorNS is the time of generator and sink alone.
const generatorNS = 127
