package failover

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/result"
)

func TestGolden(t *testing.T) { experimenttest.Golden(t, Experiment(), Name) }

// TestOddFailover draws what interrupted, small and broken runs leave behind.
func TestOddFailover(t *testing.T) {
	of := func(caseName string) func(result.Sample) bool {
		return func(s result.Sample) bool { return s.Case == caseName }
	}
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"nothing":     {func(r *result.Result) { *r = result.Result{Schema: result.Schema, Experiment: Name} }, "Verdict refused"},
		"no samples":  {func(r *result.Result) { r.Samples = nil }, "Verdict refused"},
		"one kill":    {experimenttest.Keeping(func(s result.Sample) bool { return s.Round == 1 }), "at least 3 kills"},
		"one way":     {experimenttest.Keeping(of("gateway/link-down")), "From fault to forwarding"},
		"no flow hit": {experimenttest.Keeping(of("gateway/kill")), "no flow lost a packet"},
		"all failed":  {experimenttest.EachSample("", "", experimenttest.Failed), "&lt;b&gt;no route&lt;/b&gt;"},
		"zeros":       {experimenttest.EachSample("", "", experimenttest.Zeroed), "All kills"},
		"no steps": {experimenttest.EachSample("", "", func(s *result.Sample) {
			for _, step := range Steps() {
				delete(s.Metrics, step.Metric)
			}
		}), "Distribution of the outages"},
		"no series":    {experimenttest.EachSample("", "", func(s *result.Sample) { s.Series = nil }), "What the flows lost"},
		"hostile case": {experimenttest.EachSample("", "gateway/kill", func(s *result.Sample) { s.Case = `gateway/"><script>x</script>` }), "All kills"},
		"lost connections": {experimenttest.EachSample("", "gateway/blackhole", func(s *result.Sample) {
			s.Metrics[inject.WentOn], s.Metrics[inject.Survived] = 40, 0.4
		}), `card bad`},
	} {
		t.Run(name, func(t *testing.T) {
			r := experimenttest.Recorded(t, Name)
			c.change(&r)
			experimenttest.DrawOdd(t, Experiment(), r, c.want)
		})
	}
}

// What stays below all is not written as all.
func TestSurviving(t *testing.T) {
	for share, want := range map[float64]string{0: "0 %", 1: "100 %", 0.97: "97.00 %", 0.99999: "99.94 %"} {
		if got := strings.ReplaceAll(surviving(share), "\u00a0", " "); got != want {
			t.Errorf("%g: %s, want %s", share, got, want)
		}
	}
}
