package egress

import (
	"math"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// stages is a result with a figure of every case in three rounds, the rounds a percent apart.
func stages(figures map[string]map[string]float64) result.Result {
	r := result.Result{Schema: result.Schema, Experiment: Name, Parameters: result.Parameters{"rounds": result.Count(3)}}
	for _, target := range []string{"plain", "kernel", "selvage", "kernel-csum-off"} {
		for round := 1; round <= 3; round++ {
			for _, caseName := range []string{"node", "tunnel", "routed", "egress", "node-free", "tunnel-free"} {
				if value, ok := figures[target][caseName]; ok {
					r.Samples = append(r.Samples, result.Sample{Target: target, Case: caseName, Round: round, Metrics: map[string]float64{
						stats.Decisive: value * (1 + 0.01*float64(round)), ConnRate: 1000 * value,
					}})
				}
			}
		}
	}
	return r
}

func TestEgressRows(t *testing.T) {
	r := stages(map[string]map[string]float64{
		"plain":           {"node": 10, "routed": 8},
		"kernel":          {"node": 10, "tunnel": 8, "routed": 6, "egress": 5, "node-free": 20, "tunnel-free": 10},
		"selvage":         {"node": 10, "tunnel": 9, "routed": 9, "egress": 8.1},
		"kernel-csum-off": {"tunnel": 2},
	})
	rows := summarise(r)
	for _, c := range []struct {
		target, caseName, metric, baseline string
		median, ratio                      float64
	}{
		{"kernel", "node", stats.Decisive, "", 10.2, 1},
		{"kernel", "tunnel", stats.Decisive, "kernel:node", 8.16, 0.8},
		{"kernel", "tunnel-free", stats.Decisive, "kernel:node-free", 10.2, 0.5},
		{"kernel-csum-off", "tunnel", stats.Decisive, "kernel:node", 2.04, 0.2},
		{"selvage", "tunnel", LossBelow, "selvage:node", 0.1, 0.9},
		{"selvage", "egress", LossBelow, "selvage:tunnel", 0.1, 0.9},
		{"kernel-csum-off", "tunnel", LossBelow, "kernel:node", 0.8, 0.2},
		{"selvage", "egress", NATKept, "selvage:routed", 0.9, 0.9},
		{"kernel", "egress", NATKept, "kernel:routed", 5. / 6, 5. / 6},
		{"selvage", "egress", TCPRival, "kernel:egress", 1.62, 1.62},
		{"selvage", "egress", ConnRival, "kernel:egress", 1.62, 1.62},
		{"selvage", "egress", ConnRate, "selvage:node", 8100, 0.81},
		{"selvage", "egress", NATConn, "selvage:routed", 0.9, 0.9},
		{"kernel", "egress", ConnAdded, "kernel:node", 100, 0},
		{"selvage", "routed", HopsRival, "plain:routed", 9. / 8, 9. / 8},
	} {
		row, ok := stats.Find(rows, c.target, c.caseName, c.metric)
		if !ok || row.Baseline != c.baseline || math.Abs(row.Median-c.median) > 1e-9 || math.Abs(row.Ratio-c.ratio) > 1e-9 || row.N != 3 {
			t.Errorf("%s of %s in %s: %+v, want median %v and ratio %v against %q", c.metric, c.target, c.caseName, row, c.median, c.ratio, c.baseline)
		}
	}
	for _, absent := range []struct{ target, caseName, metric string }{
		{"kernel", "egress", TCPRival}, {"kernel", "node", LossBelow}, {"plain", "routed", LossBelow},
		{"kernel", "routed", NATKept}, {"plain", "routed", HopsRival},
	} {
		if row, ok := stats.Find(rows, absent.target, absent.caseName, absent.metric); ok {
			t.Errorf("%+v, which nothing is to be held against", row)
		}
	}
}

// A base that moved nothing gives no ratio, and none of what is computed from ratios.
func TestEgressRowsOfNothing(t *testing.T) {
	rows := summarise(stages(map[string]map[string]float64{"selvage": {"node": 0, "tunnel": 5}}))
	if row, _ := stats.Find(rows, "selvage", "tunnel", stats.Decisive); row.Ratio != 0 || row.Median == 0 {
		t.Errorf("%+v", row)
	}
	if row, ok := stats.Find(rows, "selvage", "tunnel", LossBelow); ok {
		t.Errorf("%+v", row)
	}
}

func TestClimbed(t *testing.T) {
	for _, stage := range []Stage{{Name: "node"}, {Name: "egress", Free: true}, {Name: "tunnel", Reverse: true}, {Name: "routed", Free: true, Reverse: true}} {
		if read, ok := Climbed(stage.Case()); !ok || read != stage {
			t.Errorf("%s is read as %+v", stage.Case(), read)
		}
	}
	for _, caseName := range []string{"", "tcp", "node-reverse-free", "rules-1"} {
		if stage, ok := Climbed(caseName); ok {
			t.Errorf("%q is read as %+v", caseName, stage)
		}
	}
}

func TestRefuseEgress(t *testing.T) {
	whole := map[string]map[string]float64{"selvage": {"node": 10, "tunnel": 9, "egress": 8}}
	if why := refuse(stages(whole), "selvage", Stage{}); why != "" {
		t.Errorf("refused: %s", why)
	}
	for want, change := range map[string]func(*result.Result){
		"has an error": func(r *result.Result) { r.Samples[3].Error = "no route" },
		"spreads by": func(r *result.Result) {
			r.Samples[0].Metrics[stats.Decisive], r.Samples[6].Metrics[stats.Decisive] = 1, 30
		},
		"was not measured (node)":  func(r *result.Result) { r.Samples = r.Samples[1:2] },
		"moved nothing":            func(r *result.Result) { r.Samples[3].Metrics[stats.Decisive] = 0 },
		"no sample of round 3":     func(r *result.Result) { r.Samples = r.Samples[:6] },
		"was not measured (tunnel": func(r *result.Result) { keepCase(r, "node") },
	} {
		r := stages(whole)
		change(&r)
		if why := refuse(r, "selvage", Stage{}); !strings.Contains(why, want) {
			t.Errorf("%q, want %q", why, want)
		}
	}
}

func keepCase(r *result.Result, caseName string) {
	var kept []result.Sample
	for _, s := range r.Samples {
		if s.Case == caseName {
			kept = append(kept, s)
		}
	}
	r.Samples = kept
}
