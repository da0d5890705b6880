package mtu

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
)

func TestGolden(t *testing.T) { experimenttest.Golden(t, Experiment(), Name) }

// TestOddMTU draws what interrupted, small and broken runs of the MTU experiment leave
// behind.
func TestOddMTU(t *testing.T) {
	keep := func(ok func(result.Sample) bool) func(*result.Result) {
		return func(r *result.Result) {
			r.Samples = slices.DeleteFunc(r.Samples, func(s result.Sample) bool { return !ok(s) })
		}
	}
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"nothing":     {func(r *result.Result) { *r = result.Result{Schema: result.Schema, Experiment: Name} }, "Verdict refused"},
		"no samples":  {func(r *result.Result) { r.Samples = nil }, "Verdict refused"},
		"hole only":   {keep(func(s result.Sample) bool { return IsHole(s.Case) }), "has an MTU black hole"},
		"sizes only":  {keep(func(s result.Sample) bool { return IsSize(s.Case) }), "no transfer was made that could fall"},
		"sweep only":  {keep(func(s result.Sample) bool { _, _, ok := Swept(s.Case); return ok }), "What limits the rate"},
		"one size":    {keep(func(s result.Sample) bool { size, _, ok := Swept(s.Case); return ok && size == 536 }), "no conclusion: the MSS in use did not change"},
		"no plain":    {keep(func(s result.Sample) bool { return s.Target != "plain" }), "black hole"},
		"no fixes":    {keep(func(s result.Sample) bool { return IsHole(s.Case) || IsSize(s.Case) }), "not measured"},
		"one round":   {keep(func(s result.Sample) bool { return s.Round == 1 }), "1 round cannot tell"},
		"other names": {func(r *result.Result) { r.Samples[0].Target = `"><script>x</script>` }, "k-x0"},
		"jumbo unused": {func(r *result.Result) {
			for _, s := range r.Samples {
				if _, ok := s.Metrics["mss"]; ok {
					s.Metrics["mss"] = 1448
				}
			}
		}, "no conclusion: the MSS in use was 1,448 bytes where 8,898 were requested"},
		"all failed": {func(r *result.Result) {
			for i := range r.Samples {
				r.Samples[i] = result.Sample{Target: r.Samples[i].Target, Case: r.Samples[i].Case, Round: 1, Error: "<b>no route</b>"}
			}
		}, "&lt;b&gt;no route&lt;/b&gt;"},
		"zeros": {func(r *result.Result) {
			for _, s := range r.Samples {
				for k := range s.Metrics {
					s.Metrics[k] = 0
				}
				for _, values := range s.Series {
					clear(values)
				}
			}
		}, "even the plain path stalls"},
	} {
		t.Run(name, func(t *testing.T) {
			r := experimenttest.Recorded(t, "mtu")
			c.change(&r)
			html := experimenttest.Draw(t, Experiment(), r)
			if !strings.Contains(html, c.want) {
				t.Errorf("no %q in the page", c.want)
			}
			if bad := regexp.MustCompile(`NaN|\+Inf|-Inf|<script>x|%!`).FindString(html); bad != "" {
				t.Errorf("the page holds %q", bad)
			}
			if bad := regexp.MustCompile(`NaN|\+Inf|-Inf|%!`).FindString(experimenttest.Table(t, Experiment(), r)); bad != "" {
				t.Errorf("the table holds %q", bad)
			}
		})
	}
}
