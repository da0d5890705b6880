package latency

import (
	"math"
	"testing"

	"github.com/selvage/selvage/lab/breakdown"
	"github.com/selvage/selvage/lab/result"
)

func TestBrokenDownCase(t *testing.T) {
	for _, b := range []Broken{
		{TwoHosts, RequestKind, 0, false}, {TwoHosts, ConnectKind, 100, true}, {SameHost, RequestKind, 100000, true},
	} {
		if got, ok := BrokenDown(b.Case()); !ok || got != b {
			t.Errorf("%s: %+v", b.Case(), got)
		}
	}
	for _, caseName := range []string{"", "rules-100", "breakdown-", "breakdown-two-hosts-rr-1", "breakdown-two-hosts-rr-1-rules-x", "breakdown-rr-1-rules-1", "breakdown-x-ping-rules-1"} {
		if got, ok := BrokenDown(caseName); ok {
			t.Errorf("%q: %+v", caseName, got)
		}
	}
}

// brokenResult is a sample pair of a round: bare and with stamps.
func brokenResult(round int, rtt, perStamp float64) []result.Sample {
	b := Broken{TwoHosts, RequestKind, 100, false}
	bare := result.Sample{Target: "selvage", Case: b.Case(), Round: round, Metrics: map[string]float64{BrokenRTT: rtt, BrokenFloor: rtt - 1}}
	b.Timed = true
	timed := result.Sample{Target: "selvage", Case: b.Case(), Round: round, Metrics: map[string]float64{
		BrokenRTT: rtt + 4*perStamp, BrokenFloor: rtt - 1 + 4*perStamp, LeftOut: 0.01,
		StepMetric(0, breakdown.StackPart, breakdown.ClientPlace): rtt / 2, StepMetric(1, breakdown.ParsePart, "host A"): 0.1 + perStamp,
		StepMetric(2, breakdown.UnderlayPart, breakdown.UnderlayPlace): 0.2 + 3*perStamp,
	}, Series: map[string][]float64{StampsSeries: {0, 1, 3}}}
	return []result.Sample{timed, bare}
}

func TestBreakdowns(t *testing.T) {
	var r result.Result
	for round, rtt := range []float64{16, 17, 30} {
		r.Samples = append(r.Samples, brokenResult(round+1, rtt, 0.05)...)
	}
	all := Breakdowns(r, "selvage")
	if len(all) != 1 || len(Breakdowns(r, "kernel")) != 0 {
		t.Fatalf("%+v", all)
	}
	b := all[0]
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %g, want %g", what, got, want)
		}
	}
	near("round trip", b.RTT.Median, 17)
	near("a stamp", b.PerStamp.Median, 0.05)
	near("stack", b.Of(breakdown.StackPart), 8.5)
	near("parse without its stamp", b.Of(breakdown.ParsePart), 0.1)
	near("underlay without its three", b.Of(breakdown.UnderlayPart), 0.2)
	near("sum", b.Sum(), 8.8)
	near("not explained", b.Unexplained(), 8.2)
	near("left out", b.LeftOut, 0.01)
	if b.Stamps != 4 || b.Steps[1].Place != "host A" || b.Steps[2].Part != breakdown.UnderlayPart {
		t.Errorf("%+v", b)
	}
}

// Rounds that went different ways, or only with stamps, give no breakdown.
func TestBreakdownRefused(t *testing.T) {
	other := brokenResult(2, 17, 0.05)
	other[0].Metrics[StepMetric(1, breakdown.CachePart, "host A")] = 1
	delete(other[0].Metrics, StepMetric(1, breakdown.ParsePart, "host A"))
	for name, samples := range map[string][]result.Sample{
		"other way": append(brokenResult(1, 16, 0.05), other...),
		"no bare":   brokenResult(1, 16, 0.05)[:1],
		"no timed":  brokenResult(1, 16, 0.05)[1:],
	} {
		if all := Breakdowns(result.Result{Samples: samples}, "selvage"); len(all) != 0 {
			t.Errorf("%s: %+v", name, all)
		}
	}
}
