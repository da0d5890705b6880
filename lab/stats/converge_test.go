package stats

import (
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/result"
)

// happened makes an event of a case that hit flows with these outages; without any, flows were
// silent for a millisecond and nothing was lost.
func happened(target, caseName string, round int, outages ...float64) result.Sample {
	s := result.Sample{
		Target: target, Case: caseName, Round: round, Series: map[string][]float64{OutageSeries: outages},
		Metrics: map[string]float64{Flows: 8, AffectedFlows: float64(len(outages)), Noise: 1, Lost: 100 * float64(len(outages))},
	}
	if len(outages) == 0 {
		s.Series[OutageSeries] = []float64{1, 1}
	} else {
		s.Series[WaySeries("from C")] = outages
		s.Metrics[Followed], s.Metrics["step_told"], s.Metrics["step_followed"] = outages[0], 2, outages[0]-2
	}
	sorted := slices.Sorted(slices.Values(s.Series[OutageSeries]))
	s.Metrics[OutageP50], s.Metrics[OutageP99], s.Metrics[OutageMax] = Quantile(sorted, 0.5), Quantile(sorted, 0.99), Quantile(sorted, 1)
	return s
}

func convergeOf(samples ...result.Sample) result.Result {
	return result.Result{Schema: result.Schema, Experiment: Converge, Parameters: map[string]string{}, Samples: samples}
}

// Outages are pooled over the flows of all events that hit some, and ratios are of same rounds.
func TestConvergeRows(t *testing.T) {
	r := convergeOf(
		happened("kernel", EdgeLoss, 1, 200, 220), happened("kernel", EdgeLoss, 2), happened("kernel", EdgeLoss, 3, 240), happened("kernel", EdgeLoss, 4, 200),
		happened("selvage", EdgeLoss, 1, 100, 110), happened("selvage", EdgeLoss, 2, 130), happened("selvage", EdgeLoss, 3, 120), happened("selvage", EdgeLoss, 4, 100),
		happened("kernel", RRLoss, 1, 3000), happened("selvage", RRLoss, 1))
	broken := happened("selvage", EdgeLoss, 5, 9999)
	broken.Error = "no route"
	r.Samples = append(r.Samples, broken)
	rows := ConvergeRows(r)
	for _, c := range []struct {
		target, caseName, metric string
		median, lo, hi           float64
		n                        int
		ratio                    float64
	}{
		{"kernel", EdgeLoss, OutageP50, 200, 200, 240, 4, 1},
		{"kernel", EdgeLoss, OutageMax, 240, 200, 240, 4, 1},
		{"selvage", EdgeLoss, OutageP50, 110, 100, 130, 5, 0.5},
		{"selvage", EdgeLoss, OutageP99, 130, 100, 130, 5, 0.5},
		{"selvage", EdgeLoss, AffectedFlows, 1, 1, 2, 4, 1},
		{"selvage", EdgeLoss, "step_told", 2, 2, 2, 4, 1},
		{"selvage", RRLoss, OutageMax, 1, 1, 1, 2, 1.0 / 3000},
		{"selvage", RRLoss, Lost, 0, 0, 0, 1, 0},
	} {
		row, ok := Find(rows, c.target, c.caseName, c.metric)
		if !ok || row.Median != c.median || row.Lo != c.lo || row.Hi != c.hi || row.N != c.n || row.Ratio != c.ratio {
			t.Errorf("%+v, want %+v", row, c)
		}
	}
	if row, _ := Find(rows, "selvage", EdgeLoss, OutageP99); !row.Distinguishable || row.Baseline != "kernel" {
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
		s := happened("selvage", Move, round, 40)
		s.Metrics[Noise] = 30
		return s
	}
	failed := happened("selvage", Move, 4)
	failed.Error = "no route"
	for want, samples := range map[string][]result.Sample{
		"":                    {happened("selvage", Move, 1, 40), happened("selvage", Move, 2, 40), happened("selvage", Move, 3, 40)},
		"2 of the at least 3": {happened("selvage", Move, 1, 40), happened("selvage", Move, 2, 40)},
		"has an error":        {happened("selvage", Move, 1, 40), happened("selvage", Move, 2, 40), happened("selvage", Move, 3, 40), failed},
		"silent for 30":       {noisy(1), noisy(2), noisy(3)},
	} {
		got := RefuseConverge(convergeOf(samples...), "selvage", Move)
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
