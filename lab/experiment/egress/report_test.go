package egress

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/test/tier"
)

func TestGolden(t *testing.T) { experimenttest.Golden(t, Experiment(), Name) }

// TestOddEgress draws what interrupted, small and broken runs leave behind.
func TestOddEgress(t *testing.T) {
	tier.Slow(t)
	onCase := func(ok func(string) bool) func(*result.Result) {
		return experimenttest.Keeping(func(s result.Sample) bool { return ok(s.Case) })
	}
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"nothing":      {func(r *result.Result) { *r = result.Result{Schema: result.Schema, Experiment: Name} }, "Verdict refused"},
		"no samples":   {func(r *result.Result) { r.Samples = nil }, "Verdict refused"},
		"kernel alone": {experimenttest.Keeping(func(s result.Sample) bool { return s.Target == "kernel" }), "Verdict refused"},
		"plain alone": {func(r *result.Result) {
			experimenttest.Keeping(func(s result.Sample) bool { return s.Target == "plain" })(r)
			r.Targets = r.Targets[:1]
		}, "no tunnel was measured"},
		"one round":    {experimenttest.Keeping(func(s result.Sample) bool { return s.Round == 1 }), "no sample of round 2, 3 of 3"},
		"no rate":      {onCase(func(caseName string) bool { return strings.Contains(caseName, FreeWire) }), "Without a rate limit"},
		"rate alone":   {onCase(func(caseName string) bool { return !strings.Contains(caseName, FreeWire) }), "The stages"},
		"node alone":   {onCase(func(caseName string) bool { return caseName == StageNode }), "was not measured"},
		"no node":      {onCase(func(caseName string) bool { return caseName != StageNode }), "Verdict refused"},
		"both ways":    {func(r *result.Result) { r.Samples = append(r.Samples, reversed(r.Samples)...) }, "The reverse direction"},
		"all failed":   {experimenttest.EachSample("", "", experimenttest.Failed), "&lt;b&gt;no route&lt;/b&gt;"},
		"zeros":        {experimenttest.EachSample("", "", experimenttest.Zeroed), "moved nothing"},
		"hostile name": {experimenttest.EachSample("kernel", "", func(s *result.Sample) { s.Target = `"><script>x</script>` }), "k-x0"},
		"wild ratios": {experimenttest.EachSample("selvage", StageEgress, func(s *result.Sample) {
			s.Metrics[stats.Decisive] *= 1000
		}), "The stages"},
	} {
		t.Run(name, func(t *testing.T) {
			r := experimenttest.Recorded(t, Name)
			c.change(&r)
			experimenttest.DrawOdd(t, Experiment(), r, c.want)
		})
	}
}

// reversed are the transfers once more, as those of the other way.
func reversed(samples []result.Sample) []result.Sample {
	var back []result.Sample
	for _, s := range samples {
		if s.Metrics[stats.Decisive] > 0 {
			s.Case += "-reverse"
			back = append(back, s)
		}
	}
	return back
}

// The study's ladders are those that it published.
func TestStudyLadders(t *testing.T) {
	studies := viewOf(Experiment().Complete(experimenttest.Recorded(t, Name))).Studies()
	for i, want := range [][]string{{"–", "−3.4 %", "−4.6 %"}, {"–", "−42.8 %", "−59.2 %"}} {
		for k, line := range studies[i].Lines {
			if line.Loss != want[k] {
				t.Errorf("%s, %s: %s, want %s", studies[i].Title, line.Stage, line.Loss, want[k])
			}
		}
	}
}

// Bars end within their panel, whatever was measured.
func TestStagesPanelBounds(t *testing.T) {
	panel := string(stagesPanel([]stageBar{{stage: StageNode, ratio: 1, lo: 1, hi: 1}, {stage: StageEgress, ratio: 900, lo: 0.1, hi: 1e6}}, "k-none", "x"))
	if !strings.Contains(panel, "900.000 × node to node") || strings.Contains(panel, "e+") {
		t.Error(panel)
	}
	for _, width := range strings.Split(panel, `width="`)[1:] {
		if number, _, _ := strings.Cut(width, `"`); len(number) > 5 {
			t.Errorf("a bar is %s wide", number)
		}
	}
}
