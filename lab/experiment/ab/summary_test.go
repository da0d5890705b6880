package ab

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

func TestSummarise(t *testing.T) {
	r := experimenttest.Of(
		experimenttest.TCP("plain", "tcp_throughput", 10, 20, 10, 20, 10),
		experimenttest.TCP("selvage", "tcp_throughput", 11, 22, 11, 22, 11),
		experimenttest.TCP("kernel", "tcp_throughput", 9, 21, 8, 16, 10))
	r.Targets = []result.Target{{Name: "plain"}, {Name: "selvage"}}
	want := []result.Row{
		{Target: "plain", Case: "tcp", Metric: "tcp_throughput", Unit: "Gbit/s", Median: 10, Lo: 10, Hi: 20, N: 5, Ratio: 1, RatioLo: 1, RatioHi: 1},
		// Pairing removes what both sides share: the ratio is exact although the medians jump.
		{Target: "selvage", Case: "tcp", Metric: "tcp_throughput", Unit: "Gbit/s", Median: 11, Lo: 11, Hi: 22, N: 5, Baseline: "plain",
			Ratio: 1.1, RatioLo: 1.1, RatioHi: 1.1, Distinguishable: true},
		{Target: "kernel", Case: "tcp", Metric: "tcp_throughput", Unit: "Gbit/s", Median: 10, Lo: 8, Hi: 21, N: 5, Baseline: "plain",
			Ratio: 0.9, RatioLo: 0.8, RatioHi: 1.05},
	}
	if diff := cmp.Diff(want, summarise(r), cmp.Comparer(experimenttest.Near)); diff != "" {
		t.Error(diff)
	}
}

func TestSummariseZeroBaseline(t *testing.T) {
	r := experimenttest.Of(experimenttest.TCP("plain", "retransmits", 0, 3, 0), experimenttest.TCP("bad", "retransmits", 90, 80, 70), experimenttest.TCP("good", "retransmits", 0, 2, 0))
	rows := summarise(r)
	for _, c := range []struct {
		name string
		want bool
	}{{"bad", true}, {"good", false}} {
		row, ok := stats.Find(rows, c.name, "tcp", "retransmits")
		if !ok || row.Ratio != 0 || row.RatioLo != 0 || row.RatioHi != 0 || row.Distinguishable != c.want || row.Baseline != "plain" {
			t.Errorf("%s: %+v", c.name, row)
		}
	}
}

func TestSummariseOutages(t *testing.T) {
	r := experimenttest.Of(experimenttest.TCP("plain", "tcp_throughput", 10, 10, 10), experimenttest.TCP("selvage", "tcp_throughput", 12, 12, 12))
	r.Samples[1].Error = "iperf3: interrupted"
	r.Samples[4].Metrics["tcp_throughput"] = math.NaN()
	row, _ := stats.Find(summarise(r), "selvage", "tcp", "tcp_throughput")
	if row.N != 2 || row.Ratio != 1.2 || row.Distinguishable {
		t.Errorf("two pairs are left, too few to tell a difference: %+v", row)
	}
	alone, _ := stats.Find(summarise(experimenttest.Of(experimenttest.TCP("selvage", "tcp_throughput", 12))), "selvage", "tcp", "tcp_throughput")
	if alone.Ratio != 0 || alone.Baseline != "" || alone.Lo != 12 {
		t.Errorf("no baseline: %+v", alone)
	}
	if rows := summarise(result.Result{}); rows != nil {
		t.Errorf("nothing: %+v", rows)
	}
}

func TestRefuse(t *testing.T) {
	steady := experimenttest.TCP("plain", "tcp_throughput", 10, 10.1, 9.9, 10, 10)
	good := experimenttest.TCP("selvage", "tcp_throughput", 11, 11.1, 10.9, 11, 11)
	failed := experimenttest.TCP("selvage", "tcp_throughput", 11, 11, 11)
	failed[1].Error = "no route to host\n"
	planned := experimenttest.Of(steady, good)
	planned.Parameters = result.Parameters{"rounds": result.Count(7)}
	for _, c := range []struct {
		name string
		r    result.Result
		want string // "" for no refusal
	}{
		{"steady", experimenttest.Of(steady, good), ""},
		{"one bad round of five is borne", experimenttest.Of(steady, experimenttest.TCP("selvage", "tcp_throughput", 11, 11, 11, 11, 6)), "lies anywhere in [0.60, 1.11]"},
		{"a clear loss is clear at any width", experimenttest.Of(steady, experimenttest.TCP("selvage", "tcp_throughput", 5, 5, 5, 5, 8)), ""},
		{"noisy baseline", experimenttest.Of(experimenttest.TCP("plain", "tcp_throughput", 8, 10, 12, 7, 13), good), "throughput of plain spreads by ±30 %"},
		{"noisy subject", experimenttest.Of(steady, experimenttest.TCP("selvage", "tcp_throughput", 8, 10, 12, 7, 13)), "throughput of selvage spreads"},
		{"error", experimenttest.Of(steady[:3], failed), "round 2 of selvage has an error (no route to host)"},
		{"missing", experimenttest.Of(steady, good[:4]), "selvage has no sample of round 5 of 5"},
		{"interrupted", planned, "plain has no sample of round 6, 7 of 7"},
		{"two rounds", experimenttest.Of(steady[:2], good[:2]), "2 of the at least 3 rounds"},
		{"no baseline", experimenttest.Of(good), "plain was not measured"},
		{"dead baseline", experimenttest.Of(experimenttest.TCP("plain", "tcp_throughput", 10, 10, 0), good[:3]), "plain moved nothing"},
		{"empty", result.Result{}, "no samples"},
	} {
		got := stats.Refuse(c.r, "selvage")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	s := experimenttest.TCP("plain", "tcp_throughput", 1)
	s[0].Error = "x\n"
	if diff := cmp.Diff([]string{"tcp of plain in round 1: x"}, stats.Errors(experimenttest.Of(s))); diff != "" {
		t.Error(diff)
	}
}
