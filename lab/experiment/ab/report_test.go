package ab

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
)

// ab.json is of samples of seconds, as the A/B
// experiment once had them; slices.json is as it has them now:
// lab ab --targets wire,limit,plain,kernel,selvage --cases tcp,rr,udp,transit --rounds 8 --cycles 4.
func TestGolden(t *testing.T) { experimenttest.Golden(t, Experiment(), "ab", "slices") }

// TestOddResults draws what interrupted, small and broken runs leave behind.
func TestOddResults(t *testing.T) {
	keep := func(r *result.Result, ok func(result.Sample) bool) {
		r.Samples = slices.DeleteFunc(r.Samples, func(s result.Sample) bool { return !ok(s) })
	}
	without := func(name string) func(*result.Result) {
		return func(r *result.Result) {
			keep(r, func(s result.Sample) bool { return s.Target != name })
			r.Targets = slices.DeleteFunc(r.Targets, func(c result.Target) bool { return c.Name == name })
		}
	}
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"nothing":    {func(r *result.Result) { *r = result.Result{Schema: result.Schema} }, "Verdict refused"},
		"no samples": {func(r *result.Result) { r.Samples = nil }, "Verdict refused"},
		"no plain":   {without("plain"), "plain was not measured"},
		"no selvage": {without("selvage"), "The kernel"},
		"no wire":    {without("wire"), "bare wire was not measured"},
		"one round": {func(r *result.Result) {
			keep(r, func(s result.Sample) bool { return s.Round == 1 })
			r.Parameters["rounds"] = result.Count(1)
		}, "at least 3 rounds"},
		"interrupted": {func(r *result.Result) { keep(r, func(s result.Sample) bool { return s.Round < 4 }) }, "no sample of round 4, 5 of 5"},
		"only udp":    {func(r *result.Result) { keep(r, func(s result.Sample) bool { return s.Case == "udp" }) }, "was not measured"},
		"all failed": {func(r *result.Result) {
			for i := range r.Samples {
				r.Samples[i] = result.Sample{Target: r.Samples[i].Target, Case: r.Samples[i].Case, Round: r.Samples[i].Round, Error: "<b>no route</b>"}
			}
		}, "&lt;b&gt;no route&lt;/b&gt;"},
		"hostile names": {func(r *result.Result) {
			r.Targets = append(r.Targets, result.Target{Name: `"><script>x</script>`})
			r.Samples = append(r.Samples, result.Sample{Target: `"><script>x</script>`, Case: "tcp", Round: 1, Metrics: map[string]float64{"tcp_throughput": 1}})
			r.Topology.Nodes[0].Name = `</svg><script>x</script>`
		}, "k-x0"},
		"zeros": {func(r *result.Result) {
			for _, s := range r.Samples {
				for k := range s.Metrics {
					s.Metrics[k] = 0
				}
				for _, values := range s.Series {
					clear(values)
				}
			}
		}, "moved nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			r := experimenttest.Recorded(t, "ab")
			c.change(&r)
			r.Summary, r.Verdict = nil, result.Verdict{}
			html := experimenttest.Draw(t, Experiment(), r)
			if !strings.Contains(html, c.want) {
				t.Errorf("no %q in the page", c.want)
			}
			if bad := regexp.MustCompile(`NaN|\+Inf|-Inf|<script>x|%!`).FindString(html); bad != "" {
				t.Errorf("the page holds %q", bad)
			}
			text := experimenttest.Table(t, Experiment(), r)
			if strings.Contains(text, "NaN") || strings.Contains(text, "No verdict") != verdict(r).Refused {
				t.Error(text)
			}
		})
	}
}
