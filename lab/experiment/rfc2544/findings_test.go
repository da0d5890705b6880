package rfc2544

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/transit"
)

// transitRun is a quiet run of five rounds; change bends it for a case.
func transitRun(change func(*result.Result)) result.Result {
	r := result.Result{
		Schema: result.Schema, Experiment: Name,
		Parameters: result.Parameters{"rounds": result.Count(5), "tolerance": result.Of(result.Number(0.01)).In("%"), "cores": result.Words("generator, device and sink share core 1, one after the other"), "shared_core": result.Of(result.Bool(true))},
	}
	for round := 1; round <= 5; round++ {
		wobble := 1 + 0.002*float64(round)
		for _, c := range []struct {
			name string
			mpps float64
		}{{"limit", 5}, {"kernel", 0.5}, {"selvage", 4}} {
			for caseName, by := range map[string]float64{"encap-64": 1, "encap-1518": 0.98, "decap-64": 1.02, "encap-64-flows-1280": 1, "encap-64-flows-100000": 0.7} {
				pdr := c.mpps * by * wobble
				r.Samples = append(r.Samples, result.Sample{Target: c.name, Case: caseName, Round: round, Metrics: map[string]float64{
					transit.NDR: 0.98 * pdr, transit.PDR: pdr, transit.NSPerPacket: 1e3 / pdr, transit.GeneratorCeiling: 8,
					transit.LatencyP50: 6, transit.LatencyP99: 9, "latency_p99_90": 7, "line_share": 0.05,
				}})
			}
		}
	}
	if change != nil {
		change(&r)
	}
	return r
}

func TestTransitSentence(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*result.Result)
		refused bool
		want    string
	}{
		"quiet": {nil, false, "Selvage forwards 3.94 Mpps of 64-byte frames into VXLAN without loss, 0.80 × the machine's limit [0.80, 0.80]; the kernel's routing and vxlan 0.10 ×. With up to 0.01 % loss it is 4.02 Mpps. Out of VXLAN 4.02 Mpps (0.80 ×)."},
		// The device that loses exactly 1 in 10,000 at any rate: PDR met, NDR not.
		"loses at any rate": {experimenttest.Figures("selvage", "", map[string]float64{transit.NDR: 0}), false,
			"Selvage forwards 4.02 Mpps of 64-byte frames into VXLAN with at most 0.01 % loss (PDR met), and at no rate without loss (NDR not met), 0.80 × the machine's limit"},
		"dead":        {experimenttest.Figures("selvage", "", map[string]float64{transit.NDR: 0, transit.PDR: 0}), true, "Selvage forwards nothing within the tolerance"},
		"Geneve":      {experimenttest.EachSample("selvage", "", func(s *result.Sample) { s.Target = "selvage-geneve" }), false, "Selvage's Geneve forwards 3.94 Mpps of 64-byte frames into Geneve without"},
		"tc":          {experimenttest.EachSample("selvage", "", func(s *result.Sample) { s.Target = "selvage-tc" }), false, "Selvage on tc forwards 3.94 Mpps of 64-byte frames into VXLAN"},
		"two uplinks": {experimenttest.EachSample("", "encap-64", func(s *result.Sample) { s.Case = "encap-imix-x2" }), false, "Mpps of 1518-byte frames into VXLAN"},
		"IMIX": {func(r *result.Result) {
			experimenttest.EachSample("", "", func(s *result.Sample) { s.Case = "both-imix-x2" })(r)
		}, false, "of an IMIX into and out of VXLAN over 2 uplinks without loss"},
		"no limit":   {experimenttest.Without("limit"), true, "No verdict: limit was not measured"},
		"no subject": {func(r *result.Result) { experimenttest.Without("selvage")(r); experimenttest.Without("kernel")(r) }, true, "nothing but the limit"},
		"failed": {experimenttest.EachSample("selvage", "", func(s *result.Sample) {
			*s = result.Sample{Target: s.Target, Case: s.Case, Round: s.Round, Error: "void: 3 lost"}
		}), true, "no rate of Selvage was found (decap-64 of selvage in round 1: void: 3 lost)"},
		"noise": {func(r *result.Result) {
			experimenttest.EachSample("limit", "encap-64", func(s *result.Sample) { s.Metrics[transit.NDR] = float64(3 + s.Round) })(r)
		}, true, "the no-drop rate of limit spreads by"},
	} {
		v := verdict(transitRun(c.change))
		if v.Refused != c.refused || !strings.Contains(v.String(), c.want) {
			t.Errorf("%s: refused %v, %q, want %q", name, v.Refused, v.String(), c.want)
		}
	}
}

func TestTransitFindings(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   []string
		not    string
	}{
		"quiet": {nil, []string{
			"Generator: alone it reaches at least 1.59 × the limit's rate (8.00 Mpps against 5.03, decap-64), so it was not the limit.",
			"Cores: generator, device and sink share core 1, one after the other. So nothing is lost",
			"Rate: with 64-byte frames into VXLAN, Selvage reaches 8.00 × the kernel's routing and vxlan [8.00, 8.00].",
			"Loss: rates without loss are 98.0 % or more of those with 0.01 % loss",
			"Latency: p50 6.00 and p99 9.00 µs at the no-drop rate, p99 7.00 at 90 % of it (encap-64); the limit's p99 is 9.00. There is no standing queue",
			"Flows: Selvage forwards 4.02 Mpps with 1,280 flows and 2.82 with 100,000 flows, 70.0 % of it",
		}, "Sizes:"},
		"generator-bound": {experimenttest.Figures("limit", "", map[string]float64{transit.GeneratorCeiling: 7}), []string{"Generator: generator-bound. Alone it reaches 7.00 Mpps, only 1.39 × the limit's 5.03 (decap-64)"}, "so it was not"},
		"no ceiling":      {experimenttest.EachSample("", "", func(s *result.Sample) { delete(s.Metrics, transit.GeneratorCeiling) }), []string{"whether it was the limit is unknown"}, ""},
		"search ended at the ceiling": {func(r *result.Result) {
			r.Parameters["cores"], r.Parameters["shared_core"] = result.Words("generator on core 1; device on core 0"), result.Of(result.Bool(false))
			experimenttest.Figures("selvage", "decap-64", map[string]float64{"limited": 1})(r)
		}, []string{"so the figure is a lower bound, with Selvage in decap-64.", "Cores: generator on core 1; device on core 0. Queues between cores lose"}, ""},
		"limited on one core": {experimenttest.Figures("selvage", "decap-64", map[string]float64{"limited": 1}), nil, "lower bound"},
		"micro-bursts":        {experimenttest.Figures("selvage", "encap-64", map[string]float64{transit.NDR: 3}), []string{"Loss: the rate without loss is only 74.6 % of that with 0.01 % loss (encap-64): bursts overflow"}, "no queue overflows"},
		"no outage":           {experimenttest.Figures("selvage", "", map[string]float64{transit.NDR: 4, transit.PDR: 4}), []string{"Loss: rates without loss are the same as those with 0.01 % loss"}, ""},
		"lossy":               {experimenttest.Figures("kernel", "", map[string]float64{transit.NDR: 0}), []string{"Loss: the kernel's routing and vxlan has no rate without loss (NDR not met) but one with up to 0.01 % (PDR met): encap-64, encap-1518, decap-64, and 2 more."}, ""},
		"study's 128 bytes": {experimenttest.Figures("selvage", "encap-64", map[string]float64{transit.PDR: 2}), []string{
			"Sizes: Selvage moves fewer packets at 64 bytes (2.00 Mpps) than at 1518 (3.94, encap), which contradicts a cost per packet"}, ""},
		"a little fewer": {experimenttest.Figures("selvage", "encap-64", map[string]float64{transit.PDR: 3.85}), nil, "Sizes:"},
		"line":           {experimenttest.Figures("selvage", "encap-1518", map[string]float64{"line_share": 0.97}), []string{"the line is the limit (encap-1518)"}, ""},
		"queue":          {experimenttest.Figures("selvage", "encap-64", map[string]float64{transit.LatencyP99: 70}), []string{"The step of 10.0 × in the last tenth is a standing queue"}, "no standing queue"},
		"not monotonic": {experimenttest.EachSample("selvage", "encap-64", func(s *result.Sample) {
			if s.Round == 2 && s.Case == "encap-64" {
				s.Series = map[string][]float64{transit.LossLoad: {1, 0.9, 0.8}, transit.LossShare: {0.1, 0, 0.02}}
			}
		}), []string{"Loss curve: Selvage is not monotonic in encap-64 (round 2): 2 % are lost at 80 % of the rate, 0 % at 90 %."}, ""},
		"monotonic": {experimenttest.EachSample("selvage", "encap-64", func(s *result.Sample) {
			s.Series = map[string][]float64{transit.LossLoad: {1, 0.9, 0.8}, transit.LossShare: {0.1, 0.01, 0}}
		}), nil, "Loss curve"},
		"noisy rival": {func(r *result.Result) {
			experimenttest.EachSample("kernel", "encap-64", func(s *result.Sample) { s.Metrics[transit.NDR] = float64(s.Round) })(r)
		}, []string{"Do not rely on the figures of the kernel's routing and vxlan."}, ""},
		"busy machine": {experimenttest.Figures("", "", map[string]float64{"idle_busy": 0.4}), []string{"Noise: the cores were 40.0 % busy before samples began (median of 75)"}, ""},
		"nearly idle":  {experimenttest.Figures("", "", map[string]float64{"idle_busy": 0.1}), nil, "Noise:"},
		"other tests": {experimenttest.Figures("selvage", "encap-64", map[string]float64{"back_to_back": 2600, "recovery_ms": 0.4, "reset_ms": 31}), []string{
			"Bursts: Selvage takes 2,600 frames", "Recovery: Selvage loses frames for 0.400 ms", "Reset: Selvage forwards again 31.0 ms"}, ""},
	} {
		findings := experimenttest.Lines(verdict(transitRun(c.change)))
		for _, want := range c.want {
			if !strings.Contains(findings, want) {
				t.Errorf("%s: no %q in\n%s", name, want, findings)
			}
		}
		if c.not != "" && strings.Contains(findings, c.not) {
			t.Errorf("%s: %q in\n%s", name, c.not, findings)
		}
	}
}
