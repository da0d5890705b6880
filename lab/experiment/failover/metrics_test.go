package failover

import (
	"fmt"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// killsOf makes a kill with the outages of the flows that it hit, of whose hundred connections
// so many went on.
func killsOf(round int, caseName string, on float64, outages ...float64) result.Sample {
	s := result.Sample{
		Target: "selvage", Case: caseName, Round: round, Series: map[string][]float64{inject.OutageSeries: outages, inject.StallSeries: {50, 100}, inject.ReturnSeries: {float64(round), 0}},
		Metrics: map[string]float64{
			inject.Connections: 100, inject.WentOn: on, inject.Survived: on / 100, inject.AffectedFlows: float64(len(outages)), inject.Noise: 1, inject.ReturnMax: float64(round), inject.ReturnSurvived: on / 100,
			inject.OutageP50: stats.Quantile(outages, 0.5), inject.OutageP99: stats.Quantile(outages, 0.99), inject.OutageMax: stats.Quantile(outages, 1), inject.StallP50: 50, inject.StallP99: 100, inject.Lost: 10,
		},
	}
	if len(outages) > 0 {
		s.Metrics["step_noticed"], s.Metrics[inject.Repair] = 150+float64(round), 160
	}
	return s
}

func failoverOf(samples ...result.Sample) result.Result {
	return result.Result{Schema: result.Schema, Experiment: Name, Parameters: result.Parameters{}, Samples: samples}
}

func TestQuantile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	for _, c := range []struct {
		sorted  []float64
		q, want float64
	}{
		{nil, 0.5, 0}, {[]float64{7}, 0.99, 7}, {[]float64{1, 2}, 0.5, 1}, {[]float64{1, 2, 3}, 0.5, 2},
		{hundred, 0.5, 50}, {hundred, 0.99, 99}, {hundred, 1, 100}, {hundred, 0, 1}, {hundred[:50], 0.99, 50},
	} {
		if got := stats.Quantile(c.sorted, c.q); got != c.want {
			t.Errorf("%g of %d values: %g, want %g", c.q, len(c.sorted), got, c.want)
		}
	}
}

// Outages are pooled over all kills of a thing, and over those of each way.
func TestFailoverRows(t *testing.T) {
	r := failoverOf(
		killsOf(1, "gateway/link-down", 100, 100, 200), killsOf(2, "gateway/blackhole", 90, 300, 400),
		killsOf(3, "gateway/link-down", 100, 150), killsOf(4, "gateway/kill", 100))
	broken := killsOf(5, "gateway/kill", 0, 9999)
	broken.Error = "no route"
	r.Samples = append(r.Samples, broken)
	rows := summarise(r)
	for _, c := range []struct {
		caseName, metric string
		median, lo, hi   float64
		n                int
	}{
		{"gateway", inject.OutageP50, 200, 0, 300, 4},
		{"gateway", inject.OutageMax, 400, 0, 400, 4},
		{"gateway", inject.Survived, 0.975, 0.9, 1, 4},
		{"gateway", inject.ReturnMax, 4, 1, 4, 4},
		{"gateway", inject.ReturnSurvived, 0.9, 0.9, 1, 4},
		{"gateway", inject.AffectedFlows, 1.5, 0, 2, 4},
		{"gateway", "step_noticed", 152, 151, 153, 3},
		{"gateway", inject.Repair, 160, 160, 160, 3},
		{"gateway/link-down", inject.OutageP50, 150, 100, 150, 2},
		{"gateway/link-down", inject.OutageMax, 200, 150, 200, 2},
		{"gateway/blackhole", inject.Survived, 0.9, 0.9, 0.9, 1},
		{"gateway/kill", inject.OutageMax, 0, 0, 0, 1},
	} {
		row, ok := stats.Find(rows, "selvage", c.caseName, c.metric)
		if !ok || row.Median != c.median || row.Lo != c.lo || row.Hi != c.hi || row.N != c.n {
			t.Errorf("%s %s: %+v, want %+v", c.caseName, c.metric, row, c)
		}
	}
	if row, ok := stats.Find(rows, "selvage", "gateway/kill", "step_noticed"); ok {
		t.Errorf("a kill that hit nothing has steps: %+v", row)
	}
	if got := strings.Join(cases(r), " "); got != "gateway gateway/link-down gateway/blackhole gateway/kill" {
		t.Errorf("cases %s", got)
	}
}

func TestRefuseFailover(t *testing.T) {
	var kills []result.Sample
	for i := range 5 {
		kills = append(kills, killsOf(i+1, "gateway/kill", 100, 200, 210))
	}
	change := func(f func(*result.Sample)) []result.Sample {
		var all []result.Sample
		for i := range kills {
			k := killsOf(i+1, "gateway/kill", 100, 200, 210)
			f(&k)
			all = append(all, k)
		}
		return all
	}
	for name, c := range map[string]struct {
		samples []result.Sample
		want    string
	}{
		"good":    {kills, ""},
		"none":    {nil, "no kills"},
		"two":     {kills[:2], "2 of the at least 3 kills"},
		"noisy":   {change(func(s *result.Sample) { s.Metrics[inject.Noise] = 150 }), "silent for 150 ms already"},
		"a noise": {change(func(s *result.Sample) { s.Metrics[inject.Noise] = 60 }), ""},
		"failed": {change(func(s *result.Sample) {
			if s.Round == 4 {
				s.Error = "no route"
			}
		}), "kill 4 (gateway/kill) has an error (no route)"},
	} {
		if got := refuse(failoverOf(c.samples...), "selvage"); got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := fmt.Sprint(stats.Pooled(kills, inject.OutageSeries)); !strings.HasPrefix(got, "[200 200") || len(stats.Pooled(kills, inject.OutageSeries)) != 10 {
		t.Errorf("pooled %s", got)
	}
}
