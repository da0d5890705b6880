package egress

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// stagesRun is a quiet run of five rounds on wires of 5 Gbit/s; change bends it for a case.
func stagesRun(change func(*result.Result)) result.Result {
	r := result.Result{
		Schema: result.Schema, Experiment: Name,
		Parameters:  result.Parameters{"rounds": result.Count(5), "wire_rate": result.Of(result.Number(5)).In("Gbit/s"), "underlay_mtu": result.Count(9000).In("bytes")},
		Environment: result.Environment{Cores: 2, Offloads: map[string]map[string]bool{"underlay": {"tx-tcp-segmentation": true, "rx-gro": false}}},
	}
	figures := map[string]map[string]float64{
		"plain":           {"node-free": 27, "routed-free": 18},
		"kernel":          {"node": 4.96, "tunnel": 4.9, "routed": 4.5, "egress": 4.0, "node-free": 27, "routed-free": 14, "egress-free": 12, "tunnel-free": 22},
		"selvage":         {"node": 4.96, "tunnel": 4.93, "routed": 4.93, "egress": 4.93, "node-free": 27, "routed-free": 18, "egress-free": 17.9},
		"kernel-csum-off": {"tunnel-free": 6},
	}
	for _, name := range []string{"plain", "kernel", "selvage", "kernel-csum-off"} {
		r.Targets = append(r.Targets, result.Target{Name: name, InnerMTU: 8950, HeaderTax: 0.0056})
		for round := 1; round <= 5; round++ {
			for _, caseName := range slices.Sorted(maps.Keys(figures[name])) {
				mss := 8898.0
				if strings.HasPrefix(caseName, "node") {
					mss = 8948
				}
				r.Samples = append(r.Samples, result.Sample{Target: name, Case: caseName, Round: round, Metrics: map[string]float64{
					stats.Decisive: figures[name][caseName] * (1 + 0.001*float64(round)), "mss": mss, "cpu_per_gb": 1, "retransmits": 10,
				}})
			}
			if name == "kernel" || name == "selvage" {
				r.Samples = append(r.Samples, result.Sample{Target: name, Case: "egress", Round: round, Metrics: map[string]float64{
					ConnRate: map[string]float64{"kernel": 8000, "selvage": 14000}[name],
				}})
			}
		}
	}
	if change != nil {
		change(&r)
	}
	return r
}

// bend multiplies a metric of a target's case.
func bend(r *result.Result, target, caseName, metric string, by float64) {
	for _, s := range r.Samples {
		if _, ok := s.Metrics[metric]; ok && s.Target == target && s.Case == caseName {
			s.Metrics[metric] *= by
		}
	}
}

func TestEgressVerdict(t *testing.T) {
	v := verdict(stagesRun(nil))
	if v.Refused {
		t.Fatal(v.String())
	}
	for _, want := range []string{
		"Selvage keeps 0.994 × [0.994, 0.994] of node-to-node throughput through the tunnel, and 0.994 ×", "on wires of 5 Gbit/s",
		"the kernel keeps 0.988 × and 0.806 ×", "Headers alone would leave 0.994 ×", "egress carries 18.0 Gbit/s, 1.49 × the kernel",
		"opens 14,000 connections a second, 1.75 × the kernel's masquerade",
	} {
		if !strings.Contains(v.String(), want) {
			t.Errorf("no %q in %s", want, v.String())
		}
	}
	// The study's order: node to node, offloads, checksum, stages.
	var steps []string
	for _, f := range v.Findings {
		if f.Topic[0] >= '1' && f.Topic[0] <= '9' {
			steps = append(steps, f.Topic[:1])
		}
	}
	if got := strings.Join(slices.Compact(steps), ""); got != "12345" {
		t.Errorf("findings in the order %s", got)
	}
}

func TestEgressFindings(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"sound":             {nil, "hosts and wire are sound"},
		"node is slow":      {func(r *result.Result) { bend(r, "selvage", "node", stats.Decisive, 0.5) }, "something below the tunnel is the limit"},
		"offload off":       {func(r *result.Result) { r.Environment.Offloads["underlay"]["tx-tcp-segmentation"] = false }, "these are off: underlay tx-tcp-segmentation"},
		"checksum":          {nil, "the kernel carries 6.02 Gbit/s from endpoint to endpoint, 0.27 × of its throughput with it"},
		"checksum untried":  {func(r *result.Result) { dropTarget(r, "kernel-csum-off") }, "--troubleshoot measures"},
		"off is faster":     {func(r *result.Result) { bend(r, "kernel-csum-off", "tunnel-free", stats.Decisive, 10) }, "off is faster here"},
		"nothing lost":      {nil, "Which stage loses: none with Selvage"},
		"the gateway loses": {nil, "Which stage loses: with the kernel it is egress, 18.4 % beyond headers. Neither segments"},
		"small segments": {func(r *result.Result) { bend(r, "kernel", "egress", "mss", 0.1) },
			"Its segments are 890 bytes although 8898 fit"},
		"full cores": {func(r *result.Result) {
			for i, s := range r.Samples {
				if s.Target == "kernel" && s.Case == "egress" && s.Metrics[stats.Decisive] > 0 {
					r.Samples[i].CPU = []result.CPUShare{{Core: 0, Idle: 0.01}, {Core: 1, Idle: 0.02}}
				}
			}
		}, "The cores are 98 % busy"},
		"loss": {func(r *result.Result) { bend(r, "kernel", "egress", "retransmits", 50) }, "Retransmits rise from 10 to 500 a run"},
		"others": {func(r *result.Result) {
			for _, s := range r.Samples {
				s.Metrics["idle_busy"] = 0.5
			}
		}, "the cores were 50.0 % busy before samples began"},
		"hops": {nil, "over three links instead of one carries 0.67 × node to node"},
		"NAT":  {nil, "Selvage keeps 0.994 × [0.994, 0.994]; the kernel keeps 0.857 ×"},
	} {
		t.Run(name, func(t *testing.T) {
			findings := experimenttest.Lines(verdict(stagesRun(c.change)))
			if !strings.Contains(findings, c.want) {
				t.Errorf("no %q in\n%s", c.want, findings)
			}
		})
	}
}

func dropTarget(r *result.Result, name string) {
	r.Samples = slices.DeleteFunc(r.Samples, func(s result.Sample) bool { return s.Target == name })
	r.Targets = slices.DeleteFunc(r.Targets, func(c result.Target) bool { return c.Name == name })
}

func TestEgressRefused(t *testing.T) {
	for want, change := range map[string]func(*result.Result){
		"no tunnel was measured": func(r *result.Result) {
			dropTarget(r, "kernel")
			dropTarget(r, "selvage")
			dropTarget(r, "kernel-csum-off")
		},
		"was not measured":   func(r *result.Result) { r.Samples = nil },
		"selvage spreads by": func(r *result.Result) { noisy(r, "selvage", "tunnel") },
		"has an error (no route) (node": func(r *result.Result) {
			for i, s := range r.Samples {
				if s.Target == "selvage" && s.Case == "node" {
					r.Samples[i].Error = "no route"
				}
			}
		},
	} {
		v := verdict(stagesRun(change))
		if !v.Refused || !strings.Contains(v.String(), want) {
			t.Errorf("%+v, want %q", v.String(), want)
		}
	}
	// The rival's noise is said, and does not refuse.
	v := verdict(stagesRun(func(r *result.Result) { noisy(r, "kernel", "egress") }))
	if v.Refused || strings.Contains(v.String(), "; the kernel") || !strings.Contains(experimenttest.Lines(v), "Do not rely on the figures of the kernel") {
		t.Errorf("%+v", v)
	}
}

// noisy has every round of a target's case differ much from the next.
func noisy(r *result.Result, target, caseName string) {
	for _, s := range r.Samples {
		if s.Target == target && s.Case == caseName && s.Metrics[stats.Decisive] > 0 {
			s.Metrics[stats.Decisive] *= float64(s.Round)
		}
	}
}
