package cache

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/transit"
)

// cacheRun is five rounds with and without the cache.
func cacheRun(change func(*result.Result)) result.Result {
	r := result.Result{Schema: result.Schema, Experiment: Name, Parameters: result.Parameters{"rounds": result.Count(5)}}
	for round := 1; round <= 5; round++ {
		for _, l := range []Load{{Flows: 1280}, {Flows: 10_000}, {Flows: 1280, Routes: 1000}, {Flows: 1_000_000, Routes: 1000}} {
			for name, device := range map[string]float64{CacheOn: 100, CacheOff: 300 + 0.1*float64(l.Routes)} {
				if l.Flows == 1_000_000 {
					device += 100
				}
				device *= 1 + 0.001*float64(round)
				r.Samples = append(r.Samples, result.Sample{Target: name, Case: l.Case(), Round: round,
					Metrics: map[string]float64{transit.DeviceNS: device, transit.NSPerPacket: device + 100, HitRate: 0.99}})
			}
		}
	}
	if change != nil {
		change(&r)
	}
	return r
}

func TestCacheVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*result.Result)
		refused bool
		want    string
		finding string
		not     string
	}{
		"saves": {nil, false, "The flow cache saves 75.0 % of the device's time per packet [0.75, 0.75] with 1,280 flows and 1,000 routes: 100 ns with it, 401 without. With 1,000,000 flows it saves 60.0 %. The NSX edge study claims up to 75 %.",
			"Routes: 1,000 of them add 100 ns to a packet without the cache and 0 with it (1,280 flows).", "Hits:"},
		"half the rate": {nil, false, "", "Flows: with 1,000,000 flows the path keeps 66.6 % of the rate that it has with 1,280 flows (301 against 200 ns per packet", "Cliff:"},
		"cliff":         {experimenttest.Figures(CacheOn, "flows-10000", map[string]float64{transit.NSPerPacket: 500}), false, "saves 75.0 %", "Cliff: from 1,280 flows to 10,000 flows the time per packet rises from 200 to 500 ns.", ""},
		"thrashing":     {experimenttest.Figures(CacheOn, "flows-1000000", map[string]float64{HitRate: 0.3}), false, "saves", "Hits: the hit rate is only 30.0 % with 1,000,000 flows and 1,000 routes", ""},
		"costs":         {experimenttest.Figures(CacheOn, "", map[string]float64{transit.DeviceNS: 900}), false, "The flow cache costs", "Cost: the cache costs more than it saves with 1,280 flows; 10,000 flows", ""},
		"no difference": {experimenttest.EachSample(CacheOn, "", func(s *result.Sample) { s.Metrics[transit.DeviceNS] = 390 + 5*float64(s.Round) }), false, "Whether the flow cache saves time cannot be told with 1,280 flows and 1,000 routes", "", ""},
		"off alone":     {experimenttest.Without(CacheOn), true, "No verdict: no case was measured both", "", ""},
		"noise":         {experimenttest.EachSample(CacheOff, "", func(s *result.Sample) { s.Metrics[transit.NSPerPacket] = 100 * float64(s.Round) }), true, "the time per packet of cache-off spreads", "", ""},
	} {
		v := verdict(cacheRun(c.change))
		findings := experimenttest.Lines(v)
		if v.Refused != c.refused || !strings.Contains(v.String(), c.want) || !strings.Contains(findings, c.finding) {
			t.Errorf("%s: refused %v, %q, want %q; findings\n%s\nwant %q", name, v.Refused, v.String(), c.want, findings, c.finding)
		}
		if c.not != "" && strings.Contains(findings, c.not) {
			t.Errorf("%s: %q in\n%s", name, c.not, findings)
		}
	}
}
