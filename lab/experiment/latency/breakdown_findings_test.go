package latency

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/breakdown"
	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
)

// brokenPair is a round of a breakdown, whose steps make what is measured less the rest.
func brokenPair(b Broken, rest float64, parts ...string) []result.Sample {
	bare := result.Sample{Target: diagnose.Selvage, Case: b.Case(), Round: 1, Metrics: map[string]float64{}}
	b.Timed = true
	timed := result.Sample{Target: diagnose.Selvage, Case: b.Case(), Round: 1, Metrics: map[string]float64{}, Series: map[string][]float64{}}
	for i, part := range parts {
		timed.Metrics[StepMetric(i, part, "host A")] = 2.05
		timed.Series[StampsSeries] = append(timed.Series[StampsSeries], 1)
	}
	n := float64(len(parts))
	bare.Metrics[BrokenRTT], bare.Metrics[BrokenFloor] = 2*n+rest, 2*n
	timed.Metrics[BrokenRTT], timed.Metrics[BrokenFloor] = 2.05*n+rest, 2.05*n
	return []result.Sample{bare, timed}
}

func TestBrokenDown(t *testing.T) {
	request := Broken{Scenario: TwoHosts, Kind: RequestKind, Rules: 100}
	connect := Broken{Scenario: SameHost, Kind: ConnectKind, Rules: 100}
	for name, c := range map[string]struct {
		samples []result.Sample
		want    []string
	}{
		"none":           {nil, nil},
		"request":        {brokenPair(request, 0, breakdown.StackPart, breakdown.WakePart, breakdown.CachePart, breakdown.UnderlayPart), []string{"of the 8.00 µs", "50 % are the guests'", "25 % wake-ups", "25 % the edges' programs (2.00 µs)", "No rule is evaluated"}},
		"opening":        {brokenPair(connect, 0.1, breakdown.StackPart, breakdown.DecidePart, breakdown.FirewallPart, breakdown.KeepPart), []string{"opening a connection on one host with 100 rules takes 8.10 µs", "storing that takes 4.00 and the firewall 2.00 (25 %)"}},
		"not explained":  {brokenPair(request, 5, breakdown.StackPart, breakdown.CachePart), []string{"add up to 4.00 µs of 9.00, so their shares are noise"}},
		"more than that": {brokenPair(request, -2, breakdown.StackPart, breakdown.CachePart, breakdown.WakePart), []string{"add up to 6.00 µs of 4.00"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := evidence{Evidence: diagnose.Evidence{Result: result.Result{Experiment: Name, Samples: c.samples}}}.brokenDown()
			all := experimenttest.Lines(result.Verdict{Findings: got})
			for _, want := range c.want {
				if !strings.Contains(all, want) {
					t.Errorf("no %q in %q", want, all)
				}
			}
			if len(got) > 1 || (len(got) == 0) != (len(c.want) == 0) {
				t.Errorf("%d findings", len(got))
			}
		})
	}
}
