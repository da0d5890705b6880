package failover

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/result"
)

// failoverRun is six kills of gateways; change bends each of them.
func failoverRun(what string, change func(*result.Sample)) result.Result {
	r := result.Result{
		Schema: result.Schema, Experiment: Name,
		Parameters: result.Parameters{"what": result.Words(what), "liveness": result.Time(50 * time.Millisecond), "multiplier": result.Count(3)},
	}
	for round := 1; round <= 6; round++ {
		s := result.Sample{
			Target: "selvage", Case: what + "/" + []string{"link-down", "blackhole"}[round%2], Round: round,
			Metrics: map[string]float64{
				inject.Connections: 100, inject.WentOn: 100, inject.Survived: 1, inject.ReturnSurvived: 1, inject.ReturnMax: 3, inject.ReturnLost: 0, inject.Noise: 1, inject.Late: 2,
				inject.AffectedFlows: 2, inject.Lost: 400, inject.StallP50: 150, inject.StallP99: 400, inject.Repair: 170,
				inject.OutageP50: 180, inject.OutageP99: 200, inject.OutageMax: 200,
				"step_noticed": 150, "step_written": 5, "step_announced": 2, "step_forwarded": 13, "step_followed": 10,
			},
			Series: map[string][]float64{inject.OutageSeries: {180, 200}, inject.StallSeries: {150, 400}, inject.ReturnSeries: {3, 0}},
		}
		if change != nil {
			change(&s)
		}
		r.Samples = append(r.Samples, s)
	}
	return r
}

// spared has a kill hit no flow.
func spared(s *result.Sample) {
	for _, m := range append([]string{inject.Repair, "step_noticed", "step_written", "step_announced", "step_forwarded", "step_followed"}, inject.OutageSeries) {
		delete(s.Metrics, m)
	}
	s.Metrics[inject.AffectedFlows], s.Metrics[inject.Lost], s.Metrics[inject.OutageP50], s.Metrics[inject.OutageP99], s.Metrics[inject.OutageMax] = 0, 0, 0, 0, 0
	delete(s.Series, inject.OutageSeries)
}

func TestFailoverVerdict(t *testing.T) {
	longer := func(metric string, ms float64) func(*result.Sample) {
		return func(s *result.Sample) { s.Metrics[metric] = ms }
	}
	for name, c := range map[string]struct {
		what    string
		change  func(*result.Sample)
		refused bool
		want    []string
		not     string
	}{
		"quick": {"gateway", nil, false, []string{
			"The active gateway was killed 6 times; affected flows were silent for 180 ms (p50), 200 ms (p99), at most 200 ms, and all 600 TCP connections survived.",
			"The slowest step was the time until it was detected: 150 ms of the 170 ms until the first packet",
			"Lower spec.underlay.bfd.interval", "p50 of at most 300 ms: reached", "No comparison: the kernel's vxlan and nftables",
			"By fault: blackhole 180 ms (p50), 200 ms at most; link-down 180 ms",
		}, "Lost connections"},
		"nothing lost":   {"edge", spared, false, []string{"killed and restarted 6 times; no flow was affected, no packet was lost, and all 600 TCP connections survived.", "blackhole affected no flow"}, "Tune"},
		"slow to notice": {"gateway", longer("step_noticed", 900), false, []string{"BFD should detect the failure within 150 ms (BFD every 50ms × 3) and took 900"}, ""},
		"slow to write":  {"gateway", longer("step_written", 400), false, []string{"Tune: the edges take long to write their tables"}, ""},
		"slow announce":  {"gateway", longer("step_announced", 400), false, []string{"smaller pools take less"}, ""},
		"slow outside":   {"gateway", longer("step_forwarded", 400), false, []string{"gratuitous ARP"}, ""},
		"too slow":       {"gateway", func(s *result.Sample) { s.Series[inject.OutageSeries] = []float64{1500} }, false, []string{"1,500 ms (p99)", "p99 below 1000 ms: missed"}, ""},
		"not so fast":    {"gateway", func(s *result.Sample) { s.Series[inject.OutageSeries] = []float64{500} }, false, []string{"p50 of at most 300 ms: missed"}, ""},
		"lost some": {"gateway", func(s *result.Sample) {
			if s.Round == 2 {
				s.Metrics[inject.WentOn], s.Metrics[inject.Survived], s.Metrics[inject.ReturnSurvived] = 97, 0.97, 0.95
			}
		}, false, []string{"597 of 600 TCP connections survived", "Lost connections: 3.00 in kill 2 (gateway/link-down)", "as few as 95.0 % of a kill's connections survived"}, ""},
		"busy machine": {"tep", longer(inject.Late, 80), false, []string{"stalled for up to 80.0 ms", "one local endpoint"}, "Goal"},
		"noisy":        {"tep", longer(inject.Noise, 150), true, []string{"No verdict: flows were silent for 150 ms"}, ""},
	} {
		v := verdict(failoverRun(c.what, c.change))
		text := v.String() + "\n" + experimenttest.Lines(v)
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
		if v.Refused != c.refused || c.not != "" && strings.Contains(text, c.not) {
			t.Errorf("%s: refused %t, or %q in\n%s", name, v.Refused, c.not, text)
		}
	}
	if v := verdict(result.Result{Experiment: Name}); !v.Refused || len(v.Findings) > 0 {
		t.Errorf("of nothing: %+v", v)
	}
	many := failoverRun("gateway", func(s *result.Sample) { s.Metrics[inject.WentOn] = 99 })
	many.Samples = slices.Concat(many.Samples, many.Samples)
	if text := experimenttest.Lines(verdict(many)); !strings.Contains(text, "and in 7 more") {
		t.Errorf("all kills are listed:\n%s", text)
	}
}
