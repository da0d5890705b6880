package cache

import (
	"testing"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/transit"
)

func TestGolden(t *testing.T) { experimenttest.Golden(t, Experiment(), Name) }

// TestOddCache does so for the cache experiment.
func TestOddCache(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"nothing":    {func(r *result.Result) { *r = result.Result{Schema: result.Schema, Experiment: Name} }, "Verdict refused"},
		"no off":     {experimenttest.Keeping(func(s result.Sample) bool { return s.Target == CacheOn }), "no case was measured both"},
		"one load":   {experimenttest.Keeping(func(s result.Sample) bool { return s.Case == "flows-1280" }), "The flow cache saves"},
		"one round":  {experimenttest.Keeping(func(s result.Sample) bool { return s.Round == 1 }), "no sample of round 2"},
		"all failed": {experimenttest.EachSample("", "", experimenttest.Failed), "&lt;b&gt;no route&lt;/b&gt;"},
		"zeros":      {experimenttest.EachSample("", "", experimenttest.Zeroed), "Verdict refused"},
		"thrashing":  {experimenttest.EachSample(CacheOn, "flows-1000000", func(s *result.Sample) { s.Metrics[HitRate] = 0.4 }), "are replaced before their flow’s next packet"},
		"costs more": {experimenttest.EachSample(CacheOn, "", func(s *result.Sample) { s.Metrics[transit.DeviceNS] = 800 }), "The flow cache costs"},
		"whole time": {experimenttest.EachSample("", "", func(s *result.Sample) { delete(s.Metrics, transit.DeviceNS) }), "generator and sink included, lower is better"},
	} {
		t.Run(name, func(t *testing.T) {
			r := experimenttest.Recorded(t, Name)
			c.change(&r)
			experimenttest.DrawOdd(t, Experiment(), r, c.want)
		})
	}
}
