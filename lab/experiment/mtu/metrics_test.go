package mtu

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

func TestStalled(t *testing.T) {
	for name, c := range map[string]struct {
		series  []float64
		at      float64
		stalled bool
	}{
		"burst, then zero":    {[]float64{9, 1, 0, 0, 0, 0, 0, 0, 0, 0}, 0.4, true},
		"nothing at all":      {make([]float64, 10), 0, true},
		"steady":              {[]float64{3, 3, 3, 3, 3, 3, 3, 3, 3, 3}, 2, false},
		"slow start":          {[]float64{0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 2, false},
		"a pause":             {[]float64{3, 0, 0, 0, 0, 0, 0, 0, 3, 3}, 2, false},
		"just half silent":    {[]float64{3, 3, 3, 3, 3, 0, 0, 0, 0, 0}, 1, true},
		"less than half":      {[]float64{3, 3, 3, 3, 3, 3, 0, 0, 0, 0}, 1.2, false},
		"trickles to the end": {[]float64{9, 0, 0, 0, 0, 0.001, 0, 0, 0, 0.001}, 2, false},
		"no series":           {nil, 0, false},
	} {
		at, stalled := stats.Stalled(result.Sample{Duration: 2, Series: map[string][]float64{"tcp_gbps": c.series}})
		if stalled != c.stalled || at < c.at-1e-9 || at > c.at+1e-9 {
			t.Errorf("%s: silent from %v: %v, want %v: %v", name, at, stalled, c.at, c.stalled)
		}
	}
}

func TestSwept(t *testing.T) {
	for caseName, want := range map[string][2]int{"sweep-536x4": {536, 4}, "sweep-8898x1": {8898, 1}, "sweep-x1": {}, "hole": {}, "sweep-536": {}, "536x4": {}} {
		size, flows, ok := Swept(caseName)
		if ok != (want[0] > 0) || ok && [2]int{size, flows} != want {
			t.Errorf("%s: %d, %d, %v, want %v", caseName, size, flows, ok, want)
		}
	}
}

// A target has a black hole when one of the deciding transfers stalled; offload
// and failed samples do not decide.
func TestBlackHole(t *testing.T) {
	stall, flow := []float64{1, 0, 0, 0}, []float64{1, 1, 1, 1}
	sample := func(target, caseName string, series []float64) result.Sample {
		return result.Sample{Target: target, Case: caseName, Round: 1, Duration: 1, Metrics: map[string]float64{"tcp_throughput": 1, "mss": 1448}, Series: map[string][]float64{"tcp_gbps": series}}
	}
	failed := sample("dead", "hole", stall)
	failed.Error = "no route"
	r := result.Result{Experiment: Name, Samples: []result.Sample{
		sample("plain", "hole", flow), sample("plain", "hole-reverse", flow),
		sample("kernel", "hole", stall), sample("kernel", "hole-v6-reverse", stall),
		sample("oneway", "hole", flow), sample("oneway", "hole-v6", stall),
		sample("offload", "hole", flow), sample("offload", "hole-offload", stall),
		sample("fixed", "hole", flow), sample("fixed", "clamp", stall),
		failed,
	}}
	got := map[string][4]float64{}
	for _, row := range summarise(r) {
		if row.Metric == BlackHole {
			got[row.Target] = [4]float64{row.Median, row.Lo, row.Hi, float64(row.N)}
		}
	}
	want := map[string][4]float64{"plain": {0, 0, 0, 2}, "kernel": {1, 1, 1, 2}, "oneway": {1, 0, 1, 2}, "offload": {0, 0, 0, 1}, "fixed": {0, 0, 0, 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if row, ok := stats.Find(summarise(r), "kernel", "hole", "mss"); !ok || row.Median != 1448 || row.Unit != "bytes" {
		t.Errorf("MSS: %+v", row)
	}
	if _, ok := stats.Find(summarise(r), "fixed", "clamp", "tcp_throughput"); !ok {
		t.Error("no throughput of a fix")
	}
}
