package latency

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// latencyRun is a quiet run of five rounds; change bends it for a case.
func latencyRun(change func(*result.Result)) result.Result {
	r := result.Result{
		Schema: result.Schema, Experiment: Name,
		Parameters: result.Parameters{"rounds": result.Count(5), "scenarios": result.Of(result.Texts{"same-host", "two-hosts"}), "check_governor": result.Words("performance")},
	}
	for round := 1; round <= 5; round++ {
		wobble := 0.01 * float64(round)
		for _, c := range []struct {
			name             string
			rtt, conn, added float64 // µs; a second; µs with 100 rules
		}{{"kernel", 23, 8000, 2}, {"selvage", 17, 9000, 0}} {
			for caseName, rules := range map[string]float64{"rules-0": 0, "rules-100": 1, "rules-10000": 1.5, "same-host-off": 0, "same-host-on": 1} {
				rtt := c.rtt + rules*c.added + wobble
				if c.name == "selvage" && rules > 0 && round%2 == 0 {
					rtt -= 0.05 // to either side
				} else if rules > 0 {
					rtt += 0.04
				}
				conn := c.conn
				if c.name == "kernel" && caseName == "rules-10000" {
					conn = 2000
				}
				r.Samples = append(r.Samples, result.Sample{Target: c.name, Case: caseName, Round: round, Metrics: map[string]float64{
					RRP50: rtt, RRP1: rtt - 1, "rr_p9999": 3 * rtt, "rr_mean": rtt, "rr_rtt": rtt, ConnRate: conn, UDPRate: 100, stats.Decisive: 10,
				}})
			}
		}
	}
	if change != nil {
		change(&r)
	}
	return r
}

func TestLatencySentence(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*result.Result)
		refused bool
		want    []string
	}{
		"quiet": {nil, false, []string{
			"A firewall with 100 rules adds +0.04 µs [−0.05, 0.04] (not distinguishable from zero) to the round trip of 17.0 µs that Selvage takes between two hosts",
			"a firewall with 10,000 rules adds +0.04 µs", "nftables on the kernel's vxlan adds +2.04 µs [2.04, 2.04] with 100 rules",
		}},
		"a firewall that costs": {experimenttest.Figures("selvage", "rules-100", map[string]float64{RRP50: 18}), false, []string{"adds +0.97 µs [0.95, 0.99] to the round trip"}},
		"kernel alone": {func(r *result.Result) {
			var rest []result.Sample
			for _, s := range r.Samples {
				if s.Target == "kernel" {
					rest = append(rest, s)
				}
			}
			r.Samples = rest
		}, false, []string{"that nftables on the kernel's vxlan takes between two hosts"}},
		"one host alone": {func(r *result.Result) {
			var rest []result.Sample
			for _, s := range r.Samples {
				if strings.HasPrefix(s.Case, "same-host") {
					rest = append(rest, s)
				}
			}
			r.Samples = rest
		}, false, []string{"within one host"}},
		"failed": {experimenttest.EachSample("selvage", "rules-100", func(s *result.Sample) { s.Error = "the firewall is off" }), true, []string{"No verdict", "the firewall is off"}},
		"broken": {func(r *result.Result) {
			r.Samples[0].Error, r.Samples[0].Case, r.Samples[0].Target = "the firewall is off", "rules-0", "selvage"
		}, true, []string{"the firewall is off"}},
		"nothing": {func(r *result.Result) { r.Samples = nil }, true, []string{"No verdict"}},
	} {
		v := verdict(latencyRun(c.change))
		if v.Refused != c.refused {
			t.Errorf("%s: refused %t, want %t: %s", name, v.Refused, c.refused, v.String())
		}
		for _, want := range c.want {
			if !strings.Contains(v.String(), want) {
				t.Errorf("%s: %q, want %q", name, v.String(), want)
			}
		}
	}
}

func TestLatencyFindings(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"study":       {nil, "Study: the NSX firewall study's firewall added 13.3 to 15.7 µs with 100 rules, on other machines. Selvage adds +0.04 µs [−0.05, 0.04] within one host and +0.04 µs"},
		"per rule":    {nil, "Per rule: one more rule costs a round trip 0.101 ns with nftables on the kernel's vxlan"},
		"nothing":     {nil, "a round trip no measurable time with Selvage (by 10,000 rules)"},
		"undisturbed": {experimenttest.Figures("selvage", "", map[string]float64{RRP1: 15}), "Selvage adds +0.00 µs [0.00, 0.00] with 100 rules, +0.00 µs [0.00, 0.00] with 10,000 rules"},
		"connections": {nil, "9,000 a second, many at once, with 10,000 rules, 4.50 × nftables' [4.50, 4.50]"},
		"governor":    {func(r *result.Result) { r.Parameters["check_governor"] = result.Words("powersave") }, "the frequency governor is powersave"},
		"hidden":      {func(r *result.Result) { r.Parameters["check_governor"] = result.Words("not visible") }, "frequencies are not visible"},
		"instrument":  {experimenttest.Figures("kernel", "rules-0", map[string]float64{"rr_rtt": 30}), "the instrument itself stalled between transactions"},
		"tail":        {experimenttest.Figures("selvage", "rules-100", map[string]float64{"rr_p9999": 500}), "Tail: the slowest of 10,000 transactions"},
		"omission":    {experimenttest.Figures("selvage", "rules-0", map[string]float64{"open_p9999": 900}), "Omission: transactions that are due at fixed times have a p99.99 of 900 µs"},
	} {
		findings := experimenttest.Lines(verdict(latencyRun(c.change)))
		if !strings.Contains(findings, c.want) {
			t.Errorf("%s: want %q in\n%s", name, c.want, findings)
		}
	}
	// Rates alone are figures without a verdict, and no noise.
	rates := verdict(latencyRun(func(r *result.Result) {
		for i := range r.Samples {
			delete(r.Samples[i].Metrics, RRP50)
		}
	}))
	if got := rates.String() + experimenttest.Lines(rates); !strings.Contains(got, "no round trip was measured") || strings.Contains(got, "Noise:") {
		t.Errorf("rates alone: %s", got)
	}
	// A quiet run has no complaints.
	findings := experimenttest.Lines(verdict(latencyRun(nil)))
	for _, unwanted := range []string{"Noise", "Machine", "Instrument", "Tail", "Omission", "Errors"} {
		if strings.Contains(findings, unwanted+":") {
			t.Errorf("unwanted %s in\n%s", unwanted, findings)
		}
	}
}
