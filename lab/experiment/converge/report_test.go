package converge

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/result"
)

func TestGolden(t *testing.T) { experimenttest.Golden(t, Experiment(), Name) }

// TestOddConverge draws what interrupted, small and broken runs leave behind.
func TestOddConverge(t *testing.T) {
	of := func(ok func(result.Sample) bool) func(*result.Result) { return experimenttest.Keeping(ok) }
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"nothing":      {func(r *result.Result) { *r = result.Result{Schema: result.Schema, Experiment: Name} }, "Verdict refused"},
		"no samples":   {func(r *result.Result) { r.Samples = nil }, "Verdict refused"},
		"one round":    {of(func(s result.Sample) bool { return s.Round == 1 }), "at least 3 events"},
		"one case":     {of(func(s result.Sample) bool { return s.Case == RRLoss }), "By case"},
		"kernel alone": {of(func(s result.Sample) bool { return s.Target == "kernel" }), "By case"},
		"no kernel": {func(r *result.Result) {
			of(func(s result.Sample) bool { return s.Target == "selvage" })(r)
			r.Targets = r.Targets[1:]
		}, "By case"},
		"all failed": {experimenttest.EachSample("", "", experimenttest.Failed), "&lt;b&gt;no route&lt;/b&gt;"},
		"zeros":      {experimenttest.EachSample("", "", experimenttest.Zeroed), "All events"},
		"no steps": {experimenttest.EachSample("", "", func(s *result.Sample) {
			for _, step := range Steps() {
				delete(s.Metrics, step.Metric)
			}
		}), "How long flows were silent"},
		"no series":    {experimenttest.EachSample("", "", func(s *result.Sample) { s.Series = nil }), "All events"},
		"hostile case": {experimenttest.EachSample("", Move, func(s *result.Sample) { s.Case = `"><script>x</script>` }), "All events"},
		"selvage slower": {experimenttest.EachSample("selvage", Move, func(s *result.Sample) {
			s.Metrics[inject.OutageP99] = 5000
			for i := range s.Series[inject.OutageSeries] {
				s.Series[inject.OutageSeries][i] = 5000
			}
		}), `card bad`},
	} {
		t.Run(name, func(t *testing.T) {
			r := experimenttest.Recorded(t, Name)
			c.change(&r)
			experimenttest.DrawOdd(t, Experiment(), r, c.want)
		})
	}
}

// Every case of the recorded run is in the table, the chart of outages and, where the wire told
// of them, the steps.
func TestConvergeParts(t *testing.T) {
	v := viewOf(Experiment().Complete(experimenttest.Recorded(t, Name)))
	if blocks := v.Blocks(); len(blocks) != len(Cases()) {
		t.Errorf("%d cases", len(blocks))
	}
	for _, caseName := range Cases() {
		if !strings.Contains(string(v.Spread().Wide), ">"+caseName+"<") || !strings.Contains(string(v.Spread().Narrow), ">"+caseName+"<") {
			t.Errorf("no outages of %s", caseName)
		}
	}
	if heads := strings.Join(v.StepHeads(), "; "); heads != "move, kernel; move, selvage; edge-loss, kernel; edge-loss, selvage" {
		t.Errorf("steps of %s", heads)
	}
	if f := v.Timeline(); !strings.Contains(string(f.Wide), "until the reflector advertised it") || f.Narrow == "" {
		t.Error("no steps in the timeline")
	}
	if lines := v.EventLines(); len(lines) != len(v.Samples) {
		t.Errorf("%d lines of %d events", len(lines), len(v.Samples))
	}
}
