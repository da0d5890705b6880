package converge

import (
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// withEvents makes an event of a case that hit flows with these outages; without any, flows were
// silent for a millisecond and nothing was lost.
func withEvents(target, caseName string, round int, outages ...float64) result.Sample {
	s := result.Sample{
		Target: target, Case: caseName, Round: round, Series: map[string][]float64{inject.OutageSeries: outages},
		Metrics: map[string]float64{Flows: 8, inject.AffectedFlows: float64(len(outages)), inject.Noise: 1, inject.Lost: 100 * float64(len(outages))},
	}
	if len(outages) == 0 {
		s.Series[inject.OutageSeries] = []float64{1, 1}
	} else {
		s.Series[WaySeries("from C")] = outages
		s.Metrics[Followed], s.Metrics["step_told"], s.Metrics["step_followed"] = outages[0], 2, outages[0]-2
	}
	sorted := slices.Sorted(slices.Values(s.Series[inject.OutageSeries]))
	s.Metrics[inject.OutageP50], s.Metrics[inject.OutageP99], s.Metrics[inject.OutageMax] = stats.Quantile(sorted, 0.5), stats.Quantile(sorted, 0.99), stats.Quantile(sorted, 1)
	return s
}

func convergeOf(samples ...result.Sample) result.Result {
	return result.Result{Schema: result.Schema, Experiment: Name, Parameters: result.Parameters{}, Samples: samples}
}

// Outages are pooled over the flows of all events that hit some, and ratios are of same rounds.
func TestConvergeRows(t *testing.T) {
	r := convergeOf(
		withEvents("kernel", EdgeLoss, 1, 200, 220), withEvents("kernel", EdgeLoss, 2), withEvents("kernel", EdgeLoss, 3, 240), withEvents("kernel", EdgeLoss, 4, 200),
		withEvents("selvage", EdgeLoss, 1, 100, 110), withEvents("selvage", EdgeLoss, 2, 130), withEvents("selvage", EdgeLoss, 3, 120), withEvents("selvage", EdgeLoss, 4, 100),
		withEvents("kernel", RRLoss, 1, 3000), withEvents("selvage", RRLoss, 1))
	broken := withEvents("selvage", EdgeLoss, 5, 9999)
	broken.Error = "no route"
	r.Samples = append(r.Samples, broken)
	rows := summarise(r)
	for _, c := range []struct {
		target, caseName, metric string
		median, lo, hi           float64
		n                        int
		ratio                    float64
	}{
		{"kernel", EdgeLoss, inject.OutageP50, 200, 200, 240, 4, 1},
		{"kernel", EdgeLoss, inject.OutageMax, 240, 200, 240, 4, 1},
		{"selvage", EdgeLoss, inject.OutageP50, 110, 100, 130, 5, 0.5},
		{"selvage", EdgeLoss, inject.OutageP99, 130, 100, 130, 5, 0.5},
		{"selvage", EdgeLoss, inject.AffectedFlows, 1, 1, 2, 4, 1},
		{"selvage", EdgeLoss, "step_told", 2, 2, 2, 4, 1},
		{"selvage", RRLoss, inject.OutageMax, 1, 1, 1, 2, 1.0 / 3000},
		{"selvage", RRLoss, inject.Lost, 0, 0, 0, 1, 0},
	} {
		row, ok := stats.Find(rows, c.target, c.caseName, c.metric)
		if !ok || row.Median != c.median || row.Lo != c.lo || row.Hi != c.hi || row.N != c.n || row.Ratio != c.ratio {
			t.Errorf("%+v, want %+v", row, c)
		}
	}
	if row, _ := stats.Find(rows, "selvage", EdgeLoss, inject.OutageP99); !row.Distinguishable || row.Baseline != "kernel" {
		t.Errorf("%+v is half of the kernel's in all three rounds in which both were hit", row)
	}
	if lost := LostInAll(r, "selvage", EdgeLoss); lost != 500 {
		t.Errorf("%g packets were lost, want 500", lost)
	}
	if ways := Ways(r, EdgeLoss); !slices.Equal(ways, []string{"from C"}) {
		t.Errorf("ways %q", ways)
	}
}

func TestRefuseConverge(t *testing.T) {
	noisy := func(round int) result.Sample {
		s := withEvents("selvage", Move, round, 40)
		s.Metrics[inject.Noise] = 30
		return s
	}
	failed := withEvents("selvage", Move, 4)
	failed.Error = "no route"
	for want, samples := range map[string][]result.Sample{
		"":                    {withEvents("selvage", Move, 1, 40), withEvents("selvage", Move, 2, 40), withEvents("selvage", Move, 3, 40)},
		"2 of the at least 3": {withEvents("selvage", Move, 1, 40), withEvents("selvage", Move, 2, 40)},
		"has an error":        {withEvents("selvage", Move, 1, 40), withEvents("selvage", Move, 2, 40), withEvents("selvage", Move, 3, 40), failed},
		"silent for 30":       {noisy(1), noisy(2), noisy(3)},
	} {
		got := refuse(convergeOf(samples...), "selvage", Move)
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
