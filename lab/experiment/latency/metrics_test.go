package latency

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// measuredFirewalls makes one sample per value of a metric, rounds from 1.
func measuredFirewalls(target, caseName, metric string, values ...float64) []result.Sample {
	samples := experimenttest.TCP(target, metric, values...)
	for i := range samples {
		samples[i].Case = caseName
	}
	return samples
}

func latencyResult(groups ...[]result.Sample) result.Result {
	r := experimenttest.Of(groups...)
	r.Experiment, r.Parameters = Name, result.Parameters{"scenarios": result.Of(result.Texts{"same-host", "two-hosts"})}
	return r
}

func TestPoliced(t *testing.T) {
	for caseName, want := range map[string]Setting{
		"rules-0":             {TwoHosts, 0, 1},
		"rules-100000":        {TwoHosts, 100000, 1},
		"same-host-off":       {SameHost, 0, 1},
		"same-host-on":        {SameHost, 100, 1},
		"same-host-on-x4":     {SameHost, 100, 4},
		"two-hosts-off-x2":    {TwoHosts, 0, 2},
		"two-hosts-rules-7-x": {},
		"two-hosts-rules-7":   {TwoHosts, 7, 1},
		"rules-":              {},
		"rules--1":            {},
		"rules-5-x1":          {},
		"breakdown-rules-5":   {},
		"on-x4":               {},
		"tcp":                 {},
	} {
		got, ok := Policed(caseName)
		if ok != (want != Setting{}) || ok && got != want {
			t.Errorf("%s: %+v, %t, want %+v", caseName, got, ok, want)
		}
	}
	for _, s := range []Setting{{TwoHosts, 0, 1}, {TwoHosts, 100, 1}, {TwoHosts, 100, 4}, {SameHost, 0, 1}, {SameHost, 100, 1}, {SameHost, 100, 4}, {SameHost, 9, 1}} {
		if got, ok := Policed(s.Case()); !ok || got != s {
			t.Errorf("%+v is %s, which is %+v", s, s.Case(), got)
		}
	}
}

func TestSummariseLatency(t *testing.T) {
	rows := summarise(latencyResult(
		measuredFirewalls("kernel", "rules-0", RRP50, 20, 30, 20), measuredFirewalls("kernel", "rules-100", RRP50, 22, 31, 24),
		measuredFirewalls("kernel", "rules-0", ConnRate, 10, 10, 10), measuredFirewalls("kernel", "rules-100", ConnRate, 5, 5, 5),
		measuredFirewalls("selvage", "rules-0", RRP50, 10, 20, 10), measuredFirewalls("selvage", "rules-100", RRP50, 10.5, 19, 10.5),
		measuredFirewalls("selvage", "rules-0", ConnRate, 11, 11, 11), measuredFirewalls("selvage", "rules-100", ConnRate, 10, 10, 10),
		measuredFirewalls("selvage", "rules-0", RRP1, 8, 8, 9), measuredFirewalls("selvage", "rules-100", RRP1, 8.5, 8.25, 9.5),
		measuredFirewalls("selvage", "same-host-off", RRP50, 8), measuredFirewalls("selvage", "same-host-on", RRP50, 9),
	))
	for _, want := range []result.Row{
		// The rounds differ by more than the rules: pairs show that.
		{Target: "kernel", Case: "rules-100", Metric: RRAdded, Unit: "µs", Median: 2, Lo: 1, Hi: 4, N: 3, Baseline: "kernel:rules-0", Distinguishable: true},
		{Target: "kernel", Case: "two-hosts-on", Metric: RRAdded, Unit: "µs", Median: 2, Lo: 1, Hi: 4, N: 3, Baseline: "kernel:two-hosts-off", Distinguishable: true},
		{Target: "selvage", Case: "rules-100", Metric: RRAdded, Unit: "µs", Median: 0.5, Lo: -1, Hi: 0.5, N: 3, Baseline: "selvage:rules-0"},
		{Target: "selvage", Case: "rules-100", Metric: RRP1Added, Unit: "µs", Median: 0.5, Lo: 0.25, Hi: 0.5, N: 3, Baseline: "selvage:rules-0", Distinguishable: true},
		{Target: "selvage", Case: "same-host-on", Metric: RRAdded, Unit: "µs", Median: 1, Lo: 1, Hi: 1, N: 1, Baseline: "selvage:same-host-off"},
		{Target: "selvage", Case: "rules-100", Metric: ConnRate, Unit: "1/s", Median: 10, Lo: 10, Hi: 10, N: 3, Baseline: "selvage:rules-0",
			Ratio: 10.0 / 11, RatioLo: 10.0 / 11, RatioHi: 10.0 / 11, Distinguishable: true},
		{Target: "selvage", Case: "rules-0", Metric: ConnRate, Unit: "1/s", Median: 11, Lo: 11, Hi: 11, N: 3, Ratio: 1, RatioLo: 1, RatioHi: 1},
		{Target: "selvage", Case: "rules-100", Metric: "conn_vs_kernel", Unit: "×", Median: 2, Lo: 2, Hi: 2, N: 3, Baseline: "kernel:rules-100",
			Ratio: 2, RatioLo: 2, RatioHi: 2, Distinguishable: true},
		{Target: "selvage", Case: "two-hosts-off", Metric: RRP50, Unit: "µs", Median: 10, Lo: 10, Hi: 20, N: 3, Ratio: 1, RatioLo: 1, RatioHi: 1},
	} {
		got, ok := stats.Find(rows, want.Target, want.Case, want.Metric)
		if diff := cmp.Diff(want, got, cmp.Comparer(experimenttest.Near)); !ok || diff != "" {
			t.Errorf("%s of %s in %s: %t %s", want.Metric, want.Target, want.Case, ok, diff)
		}
	}
	for i, row := range rows {
		if slices.ContainsFunc(rows[:i], func(r result.Row) bool {
			return r.Target == row.Target && r.Case == row.Case && r.Metric == row.Metric
		}) {
			t.Errorf("two rows %s %s %s", row.Target, row.Case, row.Metric)
		}
	}
	if _, ok := stats.Find(rows, "kernel", "rules-100", "conn_vs_kernel"); ok {
		t.Error("the kernel is its own rival")
	}
}

// Without its scenario two-hosts has no rows of that name.
func TestSweepOnly(t *testing.T) {
	r := latencyResult(measuredFirewalls("selvage", "rules-0", RRP50, 10), measuredFirewalls("selvage", "rules-100", RRP50, 11))
	r.Parameters["scenarios"] = result.Of(result.Texts{"same-host"})
	for _, row := range summarise(r) {
		if !strings.HasPrefix(row.Case, "rules-") {
			t.Errorf("row of %s", row.Case)
		}
	}
}

func TestPerRule(t *testing.T) {
	r := latencyResult(
		measuredFirewalls("kernel", "rules-0", ConnRate, 20000, 20000, 20000), measuredFirewalls("kernel", "rules-1100", ConnRate, 5000, 5000, 4000),
		measuredFirewalls("kernel", "rules-100", ConnRate, 10000, 10000, 10000), measuredFirewalls("kernel", "rules-200", ConnRate, 1, 1, 1),
		measuredFirewalls("kernel", "rules-100", RRP50, 20, 21, 22), measuredFirewalls("kernel", "rules-1100", RRP50, 21, 22, 24),
		measuredFirewalls("selvage", "rules-0", RRP50, 20), measuredFirewalls("selvage", "rules-100", RRP50, 21))
	// 100 µs a connection with a hundred, 200 and 250 µs with a thousand more.
	if iv, most := PerRule(r, "kernel", ConnRate); most != 1100 || !experimenttest.Near(iv.Median, 0.1) || !experimenttest.Near(iv.Hi, 0.15) || iv.N != 3 {
		t.Errorf("connections: %+v by %d rules", iv, most)
	}
	if iv, _ := PerRule(r, "kernel", RRP50); !experimenttest.Near(iv.Median, 0.001) || !experimenttest.Near(iv.Hi, 0.002) {
		t.Errorf("round trips: %+v", iv)
	}
	if iv, most := PerRule(r, "selvage", RRP50); iv.N != 0 || most != 0 {
		t.Errorf("of one case: %+v by %d rules", iv, most)
	}
}

func TestRefuseLatency(t *testing.T) {
	quiet := func() result.Result {
		return latencyResult(measuredFirewalls("selvage", "rules-0", RRP50, 10, 10, 10), measuredFirewalls("selvage", "rules-100", RRP50, 10, 10, 11))
	}
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"quiet": {func(*result.Result) {}, ""},
		"noise": {func(r *result.Result) { r.Samples[4].Metrics[RRP50], r.Samples[5].Metrics[RRP50] = 14, 18 }, "spreads"},
		"error": {func(r *result.Result) { r.Samples[1].Error = "the firewall is off" }, "the firewall is off"},
		"fewer": {func(r *result.Result) { r.Samples = append(r.Samples[:2:2], r.Samples[3:]...) }, "no sample of round 3"},
	} {
		r := quiet()
		c.change(&r)
		if got := refuseAdded(r, "selvage", "two-hosts-on"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
