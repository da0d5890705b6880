package latency

import (
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/breakdown"
	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/test/tier"
)

func TestGolden(t *testing.T) { experimenttest.Golden(t, Experiment(), Name) }

// TestOddLatency draws what interrupted, small and broken runs leave behind.
func TestOddLatency(t *testing.T) {
	tier.Slow(t)
	isBroken := func(s result.Sample) bool { _, ok := BrokenDown(s.Case); return ok }
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"nothing":       {func(r *result.Result) { *r = result.Result{Schema: result.Schema, Experiment: Name} }, "Verdict refused"},
		"no samples":    {func(r *result.Result) { r.Samples = nil }, "Verdict refused"},
		"no kernel":     {experimenttest.Keeping(func(s result.Sample) bool { return s.Target != "kernel" }), "By number of rules"},
		"kernel alone":  {experimenttest.Keeping(func(s result.Sample) bool { return s.Target == "kernel" }), "By number of rules"},
		"one round":     {experimenttest.Keeping(func(s result.Sample) bool { return s.Round == 1 }), "Verdict refused"},
		"one host":      {experimenttest.Keeping(func(s result.Sample) bool { return strings.HasPrefix(s.Case, SameHost) }), "On one host"},
		"never off":     {experimenttest.Keeping(func(s result.Sample) bool { return s.Case != rulesCase(0) }), "Between two hosts"},
		"always off":    {experimenttest.Keeping(func(s result.Sample) bool { return s.Case == rulesCase(0) }), "Verdict refused"},
		"breakdown":     {experimenttest.Keeping(isBroken), "Where the time goes"},
		"no breakdown":  {experimenttest.Keeping(func(s result.Sample) bool { return !isBroken(s) }), "By number of rules"},
		"app alone":     {experimenttest.Keeping(func(s result.Sample) bool { _, ok := s.Metrics["app_p50"]; return ok }), "An application"},
		"all failed":    {experimenttest.EachSample("", "", experimenttest.Failed), "&lt;b&gt;no route&lt;/b&gt;"},
		"zeros":         {experimenttest.EachSample("", "", experimenttest.Zeroed), "round trip"},
		"hostile name":  {experimenttest.EachSample("kernel", "", func(s *result.Sample) { s.Target = `"><script>x</script>` }), "k-x0"},
		"hostile steps": {experimenttest.EachSample("selvage", "breakdown", func(s *result.Sample) { s.Metrics[StepMetric(99, "<script>x", "</svg>")] = 1 }), "By number of rules"},
		"faster with": {experimenttest.EachSample("selvage", rulesCase(100), func(s *result.Sample) {
			if _, ok := s.Metrics[RRP50]; ok {
				s.Metrics[RRP50] -= 5
			}
		}), `card good`},
	} {
		t.Run(name, func(t *testing.T) {
			r := experimenttest.Recorded(t, Name)
			c.change(&r)
			experimenttest.DrawOdd(t, Experiment(), r, c.want)
		})
	}
}

// What the page says of a breakdown adds up to what was measured.
func TestBreakdownAddsUp(t *testing.T) {
	all := viewOf(Experiment().Complete(experimenttest.Recorded(t, Name))).breakdowns
	if len(all) == 0 {
		t.Fatal("the recorded result has no breakdown")
	}
	for _, b := range all {
		sum := 0.0
		for _, s := range shares(b) {
			sum += s.US
		}
		if d := sum - b.RTT.Median; d > 1e-9 || d < -1e-9 {
			t.Errorf("%s: parts make %g µs of %g", b.Case(), sum, b.RTT.Median)
		}
		firewall := slices.ContainsFunc(shares(b), func(s share) bool { return s.Part == breakdown.FirewallPart })
		if firewall != (b.Kind == ConnectKind && b.Rules > 0) {
			t.Errorf("%s: a firewall's step: %t", b.Case(), firewall)
		}
	}
}
