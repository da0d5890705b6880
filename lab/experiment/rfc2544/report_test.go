package rfc2544

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
	"github.com/selvage/selvage/test/tier"
)

func TestGolden(t *testing.T) { experimenttest.Golden(t, Experiment(), Name) }

// TestOddTransit draws what interrupted, small and broken runs of rfc2544 leave behind.
func TestOddTransit(t *testing.T) {
	tier.Slow(t)
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"nothing":    {func(r *result.Result) { *r = result.Result{Schema: result.Schema, Experiment: Name} }, "Verdict refused"},
		"no samples": {func(r *result.Result) { r.Samples = nil }, "Verdict refused"},
		"no limit":   {experimenttest.Keeping(func(s result.Sample) bool { return s.Target != stats.Limit }), "limit was not measured"},
		"limit alone": {func(r *result.Result) {
			experimenttest.Keeping(func(s result.Sample) bool { return s.Target == stats.Limit })(r)
			r.Targets = r.Targets[:1]
		}, "nothing but the limit"},
		"one round":    {experimenttest.Keeping(func(s result.Sample) bool { return s.Round == 1 }), "no sample of round 2, 3 of 3"},
		"decap only":   {experimenttest.Keeping(func(s result.Sample) bool { return strings.HasPrefix(s.Case, "decap") }), "out of VXLAN without loss"},
		"sweep only":   {experimenttest.Keeping(func(s result.Sample) bool { return strings.Contains(s.Case, "flows") }), "Rate over flows"},
		"all failed":   {experimenttest.EachSample("", "", experimenttest.Failed), "&lt;b&gt;no route&lt;/b&gt;"},
		"zeros":        {experimenttest.EachSample("", "", experimenttest.Zeroed), "forwards nothing within the tolerance"},
		"kernel fails": {experimenttest.EachSample("kernel", "", experimenttest.Failed), "Do not rely on the figures of"},
		"hostile name": {experimenttest.EachSample("ovs", "", func(s *result.Sample) { s.Target = `"><script>x</script>` }), "k-x0"},
		"odd case":     {experimenttest.EachSample("ovs", "decap", func(s *result.Sample) { s.Case = "decap-<script>x" }), "without loss"},
		"lossy everywhere": {experimenttest.EachSample("selvage", "", func(s *result.Sample) { s.Metrics[transit.NDR] = 0 }),
			"with at most 0.01\u00a0% loss (PDR met), and at no rate without loss (NDR not met)"},
		"smaller is slower": {experimenttest.EachSample("selvage", "encap-64", func(s *result.Sample) { s.Metrics[transit.PDR], s.Metrics[transit.NDR] = 1, 0.99 }), `<span class="alarm">!</span>`},
		"no parameters":     {func(r *result.Result) { r.Parameters = nil }, "the tolerated loss"},
		"both ways, twice":  {experimenttest.EachSample("", "decap", func(s *result.Sample) { s.Case = strings.Replace(s.Case, "decap", "both", 1) + "-x2" }), "64 ×2"},
		"broken series": {experimenttest.EachSample("", "", func(s *result.Sample) {
			if len(s.Series) > 0 {
				s.Series[transit.LossShare] = s.Series[transit.LossShare][:1]
			}
		}), "Latency under load"},
	} {
		t.Run(name, func(t *testing.T) {
			r := experimenttest.Recorded(t, Name)
			c.change(&r)
			experimenttest.DrawOdd(t, Experiment(), r, c.want)
		})
	}
}
