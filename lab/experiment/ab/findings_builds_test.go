package ab

import (
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// builds is a run of two equal builds in slices; change bends its samples for a case.
func builds(rounds int, change func(*result.Sample)) result.Result {
	r := result.Result{
		Schema: result.Schema, Experiment: Name, Parameters: result.Parameters{"slice": result.Time(10 * time.Millisecond), "rounds": result.Count(rounds)},
		Targets: []result.Target{{Name: "old"}, {Name: "new"}},
	}
	for round := 1; round <= rounds; round++ {
		for i, name := range []string{"old", "new"} {
			wobble := 1 + 0.001*float64(i*((round+1)/2)*(2*(round%2)-1)) // to and fro
			for _, m := range []struct {
				caseName, metric string
				value            float64
			}{{"tcp", "tcp_throughput", 19}, {"tcp", "cpu_per_gb", 0.5}, {"rr-1", "rr_p50", 16}, {"udp", "udp_pps", 230}} {
				s := result.Sample{
					Target: name, Case: m.caseName, Round: round, Metrics: map[string]float64{m.metric: m.value * wobble},
					Series: map[string][]float64{m.metric: {m.value * wobble, m.value * wobble}},
				}
				if m.caseName == "udp" {
					s.Metrics["udp_loss_ppm"] = 0
				}
				if change != nil {
					change(&s)
				}
				r.Samples = append(r.Samples, s)
			}
		}
	}
	return r
}

func TestBuildsVerdict(t *testing.T) {
	ofNew := func(caseName string, change func(*result.Sample)) func(*result.Sample) {
		return func(s *result.Sample) {
			if s.Target == "new" && s.Case == caseName {
				change(s)
			}
		}
	}
	slower := func(metric string, by float64) func(*result.Sample) {
		return func(s *result.Sample) {
			if _, ok := s.Metrics[metric]; !ok {
				return
			}
			s.Metrics[metric] *= by
			for i := range s.Series[metric] {
				s.Series[metric][i] *= by
			}
		}
	}
	for name, c := range map[string]struct {
		rounds  int
		change  func(*result.Sample)
		refused bool
		want    []string // of the sentence and the findings
	}{
		"equal":  {10, nil, false, []string{"new against old: no difference in any of 5 figures.", "new: UDP packets lost, of a million, no difference.", "finds a change of"}},
		"slower": {10, ofNew("rr-1", slower("rr_p50", 1.2)), false, []string{"new against old: worse in request/response p50, 1 B (1.20", "no difference in 4 others."}},
		"faster": {10, ofNew("tcp", slower("tcp_throughput", 1.2)), false, []string{"new against old: better in TCP throughput (1.20"}},
		"lossy": {10, ofNew("udp", func(s *result.Sample) { s.Metrics["udp_loss_ppm"] = 100 + float64(s.Round) }), false, []string{
			"worse in UDP packets lost, of a million", "new: UDP packets lost, of a million, worse, 106 ppm more than the baseline.",
		}},
		"few rounds":      {stats.LeastPairs - 1, nil, true, []string{"No verdict: 7 rounds are fewer than the 8"}},
		"a failed sample": {10, ofNew("udp", func(s *result.Sample) { s.Error = "the cable is out" }), true, []string{"No verdict: 10 samples failed.", "the cable is out"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := verdict(builds(c.rounds, c.change))
			text := v.String() + "\n" + experimenttest.Lines(v)
			if v.Refused != c.refused {
				t.Errorf("refused: %v\n%s", v.Refused, text)
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
		})
	}
}
