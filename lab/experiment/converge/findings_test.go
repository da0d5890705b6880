package converge

import (
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/result"
)

// convergeRun is four rounds of two cases: a move takes the kernel twice as long as Selvage,
// and the reflector's loss costs it packets; change bends each event.
func convergeRun(change func(*result.Sample)) result.Result {
	r := result.Result{Schema: result.Schema, Experiment: Name, Parameters: result.Parameters{"liveness": result.Time(50 * time.Millisecond), "multiplier": result.Count(3)}}
	for round := 1; round <= 4; round++ {
		for i, name := range []string{"kernel", "selvage"} {
			outage, lost := []float64{113, 55}[i], []float64{900, 450}[i]
			move := result.Sample{
				Target: name, Case: Move, Round: round, Series: map[string][]float64{inject.OutageSeries: {outage, outage + 1}},
				Metrics: map[string]float64{
					Flows: 2, inject.AffectedFlows: 2, inject.Lost: lost, inject.OutageP50: outage, inject.OutageP99: outage + 1, inject.OutageMax: outage + 1, inject.Noise: 1, inject.Late: 2,
					Followed: outage, "step_told": []float64{51, 2}[i], "step_passed": 50, "step_followed": outage - 50 - []float64{51, 2}[i],
				},
			}
			loss := result.Sample{
				Target: name, Case: RRLoss, Round: round, Series: map[string][]float64{inject.OutageSeries: {[]float64{5000, 1}[i]}},
				Metrics: map[string]float64{
					Flows: 2, inject.AffectedFlows: []float64{2, 0}[i], inject.Lost: []float64{9000, 0}[i], inject.Noise: 1, inject.Late: 2, Open: []float64{2, 0}[i],
					inject.OutageP50: []float64{5000, 1}[i], inject.OutageP99: []float64{5000, 1}[i], inject.OutageMax: []float64{5000, 1}[i],
				},
			}
			for _, s := range []result.Sample{move, loss} {
				if change != nil {
					change(&s)
				}
				r.Samples = append(r.Samples, s)
			}
		}
	}
	return r
}

func TestConvergeVerdict(t *testing.T) {
	only := func(target string) func(*result.Sample) {
		return func(s *result.Sample) { s.Target = target }
	}
	of := func(target, caseName string, change func(*result.Sample)) func(*result.Sample) {
		return func(s *result.Sample) {
			if s.Target == target && s.Case == caseName {
				change(s)
			}
		}
	}
	for name, c := range map[string]struct {
		change  func(*result.Sample)
		refused bool
		want    []string
	}{
		"selvage is faster": {nil, false, []string{
			"After a host moved, flows resumed within 56.0 ms (p99, n = 8) with Selvage; flows resumed within 114 ms (p99, n = 8) with the kernel and FRR (0.49 × [0.49, 0.49])",
			"Without the route reflector, no packet was lost with Selvage; flows did not resume in 4 of 4 events with the kernel and FRR",
			"Slower: the kernel and FRR in move (p99 114 ms against 56.0 ms); most of that time passed until an edge advertised it (51.0 ms)",
			"Goal: Selvage's outage in move should be at most 100 ms (p99), and was 56.0 ms: reached", "Goal: Selvage should lose no packet in rr-loss, and lost none: reached",
			"No recovery: in rr-loss, flows did not resume until the fault was undone: the kernel and FRR in 4 of 4 events",
			"Steps: move with Selvage, medians in sequence: 2.00 ms until an edge advertised it, 50.0 ms until the reflector advertised it", "coalesce-time",
			"Reflector: FRR removes the routes", "Quantiles: with fewer than 100 outages",
		}},
		"selvage is slower": {of("selvage", Move, func(s *result.Sample) {
			s.Series[inject.OutageSeries], s.Metrics[inject.OutageP99], s.Metrics["step_written"] = []float64{250, 250}, 250, 190
		}), false, []string{"Slower: Selvage in move (p99 250 ms against 114 ms); most of that time passed until an edge used the new path (190 ms)", "(p99), and was 250 ms: missed"}},
		"selvage loses packets": {of("selvage", RRLoss, func(s *result.Sample) { s.Metrics[inject.Lost], s.Metrics[inject.AffectedFlows] = 3, 1 }), false,
			[]string{"Goal: Selvage should lose no packet in rr-loss, and lost 12 in all events: missed"}},
		"kernel alone":  {only("kernel"), false, []string{"After a host moved, flows resumed within"}},
		"selvage alone": {only("selvage"), false, []string{"with Selvage. Without"}},
		"an error":      {of("selvage", RRLoss, func(s *result.Sample) { s.Error = "no route" }), true, []string{"rr-loss of selvage in round 1 has an error (no route)"}},
		"noise":         {func(s *result.Sample) { s.Metrics[inject.Noise] = 90 }, true, []string{"already in the second before move"}},
		"held up":       {func(s *result.Sample) { s.Metrics[inject.Late] = 45 }, false, []string{"Machine: the traffic source itself stalled for up to 45.0 ms"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := verdict(convergeRun(c.change))
			text := v.String() + "\n" + experimenttest.Lines(v)
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			if v.Refused != c.refused {
				t.Errorf("refused %t: %s", v.Refused, v.String())
			}
		})
	}
	if v := verdict(result.Result{Experiment: Name}); !v.Refused || len(v.Findings) > 0 {
		t.Errorf("a verdict on nothing: %+v", v)
	}
}
