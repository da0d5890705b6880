package ab

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
)

// run is a quiet five-round run in which every target has one value a
// metric; change bends it for a case.
func run(change func(*result.Result)) result.Result {
	r := result.Result{
		Schema:     result.Schema,
		Parameters: result.Parameters{"rounds": result.Count(5)},
		Targets: []result.Target{
			{Name: "wire", InnerMTU: 1500}, {Name: "plain", InnerMTU: 1500},
			{Name: "kernel", InnerMTU: 1450, HeaderTax: 0.0345}, {Name: "selvage", InnerMTU: 1450, HeaderTax: 0.0345},
		},
	}
	for round := 1; round <= 5; round++ {
		wobble := 1 + 0.002*float64(round)
		for _, c := range []struct {
			name                                      string
			gbits, cpu, retr, mss, rr, kpps, soft, id float64
		}{
			{"wire", 28, 0.4, 5, 1448, 13, 330, 0.2, 0.1}, {"plain", 18, 0.6, 100, 1448, 18, 185, 0.4, 0.2},
			{"kernel", 15, 0.7, 120, 1398, 23, 128, 0.6, 0.01}, {"selvage", 19, 0.53, 60, 1398, 16, 232, 0.38, 0.2},
		} {
			// The odd rounds' retransmits wobble far more than the targets differ.
			retr := c.retr
			if c.name == "kernel" && round%2 == 1 {
				retr = 70
			}
			r.Samples = append(r.Samples,
				result.Sample{Target: c.name, Case: "tcp", Round: round, Metrics: map[string]float64{
					"tcp_throughput": c.gbits * wobble, "cpu_per_gb": c.cpu, "retransmits": retr, "mss": c.mss},
					CPU: []result.CPUShare{{Core: 0, SoftIRQ: 0.1, System: 0.4, Idle: 0.5}, {Core: 1, SoftIRQ: c.soft, System: 0.2, Idle: c.id}}},
				result.Sample{Target: c.name, Case: "rr-1", Round: round, Metrics: map[string]float64{"rr_p50": c.rr * wobble}},
				result.Sample{Target: c.name, Case: "udp", Round: round, Metrics: map[string]float64{"udp_pps": c.kpps}})
		}
	}
	if change != nil {
		change(&r)
	}
	return r
}

// set gives one metric of a target the same value in all rounds.
func set(target, metric string, value float64) func(*result.Result) {
	return func(r *result.Result) {
		for _, s := range r.Samples {
			if _, ok := s.Metrics[metric]; ok && s.Target == target {
				s.Metrics[metric] = value
			}
		}
	}
}

func bridgeNetfilter(value string) func(*result.Result) {
	return func(r *result.Result) {
		r.Environment.Sysctls = map[string]string{"net.bridge.bridge-nf-call-iptables": value}
	}
}

func TestSentence(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"better": {nil, "Selvage carries 19.1 Gbit/s through VXLAN, 1.06 × the plain bridge [1.06, 1.06]; the kernel's vxlan carries 0.83 ×. Expected header tax −3.5 %, measured +5.6 % against plain."},
		"equal": {func(r *result.Result) {
			for _, s := range r.Samples {
				if s.Target == "selvage" && s.Case == "tcp" {
					s.Metrics["tcp_throughput"] = 18.1 + 0.2*float64(s.Round%3-1)
				}
			}
		}, "Selvage carries 18.1 Gbit/s through VXLAN, not distinguishable from the plain bridge (1.00 × [0.99, 1.01]); the kernel's"},
		"kernel alone":     {experimenttest.Without("selvage"), "The kernel's vxlan carries 15.1 Gbit/s through VXLAN, 0.83 × the plain bridge [0.83, 0.83]. Expected"},
		"other tunnel":     {func(r *result.Result) { r.Parameters["encapsulation"] = result.Words("geneve") }, "Gbit/s through Geneve"},
		"rival failed":     {func(r *result.Result) { r.Samples[6].Error = "no route" }, "; the kernel's vxlan gave no reliable figure."},
		"rival at plain's": {func(r *result.Result) { set("kernel", "tcp_throughput", 18.1)(r) }, "the kernel's vxlan is not distinguishable from it (1.00 ×)"},
	} {
		v := verdict(run(c.change))
		if v.Refused || !strings.Contains(v.String(), c.want) {
			t.Errorf("%s: refused %v, %q, want %q", name, v.Refused, v.String(), c.want)
		}
	}
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"nothing":       {func(r *result.Result) { *r = result.Result{} }, "nothing to compare"},
		"plain alone":   {func(r *result.Result) { experimenttest.Without("kernel")(r); experimenttest.Without("selvage")(r) }, "nothing to compare"},
		"no plain":      {experimenttest.Without("plain"), "No verdict: plain was not measured. Quiet the machine"},
		"subject fails": {func(r *result.Result) { r.Samples[9].Error = "no route" }, "No verdict: round 1 of selvage has an error (no route)."},
		"interrupted":   {func(r *result.Result) { r.Parameters["rounds"] = result.Count(7) }, "no sample of round 6, 7 of 7"},
		"noise": {func(r *result.Result) {
			for i, s := range r.Samples {
				if s.Target == "plain" && s.Case == "tcp" {
					s.Metrics["tcp_throughput"] *= 1 + 0.02*float64(i%40)
				}
			}
		}, "throughput of plain spreads"},
	} {
		v := verdict(run(c.change))
		if !v.Refused || !strings.Contains(v.String(), c.want) {
			t.Errorf("%s: refused %v, %q, want %q", name, v.Refused, v.String(), c.want)
		}
	}
}

func TestFindings(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   []string
		not    string
	}{
		"quiet run": {nil, []string{
			"CPU: Selvage spends 0.530 CPU s/GB, 0.88 × plain [0.88, 0.88]; no core's softirq share is above plain's.",
			"CPU: the kernel's vxlan spends 0.700 CPU s/GB, 1.17 × plain [1.17, 1.17]; core 1 rises to 60 % softirq, 20 points above plain",
			"Core 1 is full (99 %, all cores together 74 %): one core is the limit.",
			"Latency: 16.1 µs with Selvage against 18.1 with the plain bridge, 0.89 × [0.89, 0.89]; the kernel's vxlan 1.28 ×.",
			"Small packets: 232 kpps with Selvage against 185",
			"Retransmits: 60 a run [60, 60] with Selvage against 100 [100, 100] with the plain bridge: fewer",
			"Limit: the bare wire carries 28.2 Gbit/s, 1.47 × the fastest data path of the verdict",
			"Header tax: the kernel's vxlan loses 16.7 % against the plain bridge, of which headers explain 3.5 %",
			"Header tax: Selvage loses less than the 3.5 %",
			"Placement: neither bulk nor request/response",
		}, "Noise:"},
		"reordering":       {set("selvage", "retransmits", 1100), []string{"with the plain bridge. Without drops, that is reordering between cores"}, "fewer"},
		"zero retransmits": {func(r *result.Result) { set("plain", "retransmits", 0)(r); set("selvage", "retransmits", 0)(r) }, []string{"Retransmits: 0 a run [0, 0] with Selvage against 0 [0, 0] with the plain bridge, not distinguishable"}, ""},
		"small segments":   {func(r *result.Result) { r.Targets[3].InnerMTU = 8950 }, []string{"Segment size: Selvage uses an MSS of only 1,398 bytes although an inner MTU of 8950 has room for 8,898"}, ""},
		"black hole":       {set("kernel", "mss", 1448), []string{"Segment size: the kernel's vxlan uses an MSS of 1,448 bytes on an inner MTU of 1450, which does not fit"}, ""},
		"machine's limit":  {set("wire", "tcp_throughput", 19.2), []string{"close behind: Selvage (99.6 % of it)"}, "generator was not"},
		"no wire":          {experimenttest.Without("wire"), []string{"Limit: the bare wire was not measured"}, ""},
		"all cores full": {func(r *result.Result) {
			for _, s := range r.Samples {
				for i := range s.CPU {
					s.CPU[i].Idle = 0.02
				}
			}
		}, []string{"All 2 cores are 98 % busy: the processor is the limit"}, ""},
		"costly tunnel": {set("selvage", "tcp_throughput", 9), []string{"Placement: bulk transfers (backup, storage, migration) lose 50."}, "neither bulk"},
		"slow answers":  {set("selvage", "rr_p50", 30), []string{"chatty request/response traffic pays 1.66 × the plain latency"}, "neither bulk"},
		"equal CPU":     {set("selvage", "cpu_per_gb", 0.6), []string{"No difference shown: CPU per gigabyte (1.00 ×) of Selvage cannot be told from the plain bridge in 5 rounds."}, ""},
		"steal":         {func(r *result.Result) { r.Samples[0].Metrics["cpu_steal"] = 0.31 }, []string{"Noise: the hypervisor stole up to 31 % of the cores' time (tcp of wire in round 1)"}, ""},
		"failed rival": {func(r *result.Result) { r.Samples[6].Error = "no route\n" }, []string{
			"Errors: 1 of 60 samples failed and are left out of every figure (tcp of kernel in round 1: no route).",
			"Noise: round 1 of kernel has an error (no route). Do not rely on the figures of the kernel's vxlan."}, ""},
		"three rounds": {func(r *result.Result) { r.Samples = r.Samples[:36]; r.Parameters = nil }, []string{"Confidence: with 3 rounds the intervals contain the median with only 75 % confidence."}, ""},
		"one round": {func(r *result.Result) { r.Samples = r.Samples[:12]; r.Parameters = nil }, []string{
			"Confidence: with 1 round the intervals", "cannot be told from the plain bridge in 1 round."}, "1 rounds"},
		"bridge netfilter": {bridgeNetfilter("1"), []string{
			"Bridge netfilter: the baseline's bridge passes every frame through netfilter (bridge-nf-call-iptables=1)", "Run with --bridge-netfilter off to compare."}, ""},
		"no bridge netfilter":    {bridgeNetfilter("0"), nil, "netfilter"},
		"netfilter of no bridge": {func(r *result.Result) { bridgeNetfilter("1")(r); experimenttest.Without("plain")(r) }, nil, "netfilter"},
	} {
		findings := experimenttest.Lines(verdict(run(c.change)))
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

func TestDUT(t *testing.T) {
	if got := underTest(run(nil)); got != "selvage" {
		t.Error(got)
	}
	if got := underTest(run(experimenttest.Without("selvage"))); got != "kernel" {
		t.Error(got)
	}
	if got := underTest(result.Result{}); got != "" {
		t.Error(got)
	}
}

// Targets with an encapsulation in their name, and routed runs, in words.
func TestNames(t *testing.T) {
	rename := func(from, to string) func(*result.Result) {
		return func(r *result.Result) {
			for i := range r.Samples {
				if r.Samples[i].Target == from {
					r.Samples[i].Target = to
				}
			}
			for i := range r.Targets {
				if r.Targets[i].Name == from {
					r.Targets[i].Name = to
				}
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"Geneve":    {rename("selvage", "selvage-geneve"), "Selvage's Geneve carries 19.1 Gbit/s through Geneve, 1.06 × the plain bridge"},
		"NVGRE":     {rename("selvage", "selvage-nvgre"), "through NVGRE"},
		"OVS":       {rename("kernel", "ovs-geneve"), "; Open vSwitch (userspace, Geneve) carries 0.83 ×"},
		"the run's": {func(r *result.Result) { r.Parameters["encapsulation"] = result.Words("nvgre") }, "Selvage carries 19.1 Gbit/s through NVGRE"},
		"kernel is VXLAN": {func(r *result.Result) {
			experimenttest.Without("selvage")(r)
			r.Parameters["encapsulation"] = result.Words("geneve")
		}, "through VXLAN"},
		"routed": {func(r *result.Result) { r.Parameters["routed"] = result.Of(result.Bool(true)) }, "1.06 × plain routing [1.06, 1.06]"},
	} {
		if v := verdict(run(c.change)); !strings.Contains(v.String(), c.want) {
			t.Errorf("%s: %q, want %q", name, v.String(), c.want)
		}
	}
	findings := experimenttest.Lines(verdict(run(func(r *result.Result) { bridgeNetfilter("1")(r); r.Parameters["routed"] = result.Of(result.Bool(true)) })))
	if strings.Contains(findings, "plain bridge") || strings.Contains(findings, "netfilter") {
		t.Errorf("a routed run speaks of bridges:\n%s", findings)
	}
}
