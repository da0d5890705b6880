package mtu

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
)

// transfersRun is a run in which the kernel has a black hole and Selvage none; change bends
// it for a case.
func transfersRun(change func(*result.Result)) result.Result {
	r := result.Result{
		Schema: result.Schema, Experiment: Name,
		Parameters: result.Parameters{
			"rounds": result.Count(3), "guest_mtu": result.Count(1500).In("bytes"), "underlay_mtu": result.Count(1500).In("bytes"), "jumbo_mtu": result.Count(9000).In("bytes"),
			"path_mtu_plain": result.Count(1500).In("bytes"), "path_mtu_kernel": result.Count(1450).In("bytes"), "path_mtu_selvage": result.Count(1450).In("bytes"),
		},
		Environment: result.Environment{Sysctls: map[string]string{"net.ipv4.tcp_mtu_probing": "0"}},
		Targets:     []result.Target{{Name: "plain", InnerMTU: 1500}, {Name: "kernel", InnerMTU: 1500}, {Name: "selvage", InnerMTU: 1500}},
	}
	add := func(target, caseName string, round int, gbits, mss float64, series ...float64) {
		r.Samples = append(r.Samples, result.Sample{Target: target, Case: caseName, Round: round, Duration: 2,
			Metrics: map[string]float64{"tcp_throughput": gbits, "tcp_sent": 0.0003128, "mss": mss, "retransmits": 3}, Series: map[string][]float64{"tcp_gbps": series}})
	}
	for _, way := range ways() {
		add("plain", "hole"+way.suffix, 1, 3, 1448, 3, 3, 3, 3)
		add("kernel", "hole"+way.suffix, 1, 0, 1448, 0, 0, 0, 0)
		add("selvage", "hole"+way.suffix, 1, 4, 1398, 4, 4, 4, 4)
		for name, size := range map[string][2]float64{"plain": {1500, 0}, "kernel": {1450, 0}, "selvage": {1450, 1450}} {
			reported := 0.0
			if size[1] > 0 {
				reported = 16
			}
			r.Samples = append(r.Samples, result.Sample{Target: name, Case: "size" + way.suffix, Round: 1, Duration: 1,
				Metrics: map[string]float64{"largest_size": size[0], "largest_best": size[0], "reported_mtu": size[1], "reported_flows": reported, "flows": 16}})
		}
	}
	add("kernel", "hole-offload", 1, 12, 1398, 12, 12, 12, 12)
	for round := 1; round <= 3; round++ {
		for name, gbits := range map[string]float64{"plain": 2.8, "kernel": 3, "selvage": 4.2} {
			for _, caseName := range []string{"guest-mtu", "clamp", "messages"} {
				if caseName != "messages" || name != "plain" {
					add(name, caseName, round, gbits, 1398, gbits, gbits)
				}
			}
			add(name, "jumbo", round, gbits*3, 8898, gbits*3, gbits*3)
			for _, p := range sweep(3000, 0.01, map[int]float64{1: 1, 4: 1}, func(asked float64) float64 { return asked }) {
				if p.Round == round {
					add(name, fmt.Sprintf("sweep-%.0fx%d", p.Asked, p.Flows), round, p.Gbits, p.MSS, 1, 1)
				}
			}
		}
	}
	if change != nil {
		change(&r)
	}
	return r
}

// each applies change to the samples of a target whose case begins with caseName.
func each(target, caseName string, change func(*result.Sample)) func(*result.Result) {
	return func(r *result.Result) {
		for i := range r.Samples {
			if s := &r.Samples[i]; s.Target == target && strings.HasPrefix(s.Case, caseName) {
				change(s)
			}
		}
	}
}

func stall(s *result.Sample) { s.Series = map[string][]float64{"tcp_gbps": {5, 0, 0, 0}} }
func flow(s *result.Sample)  { s.Series = map[string][]float64{"tcp_gbps": {5, 5, 5, 5}} }

func TestMTUSentence(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*result.Result)
		want    string
		refused bool
	}{
		"as it should be": {nil, "The kernel's vxlan has an MTU black hole: guests assume 1,500 bytes, only 1,450 pass, and no ICMP error tells them; Selvage has none, and carries 4.00 Gbit/s with an MSS of 1,398 bytes. Fixed, the kernel's vxlan carries 3.00 Gbit/s with a guest MTU of 1,450, 3.00 with a clamped MSS, 3.00 with too-big messages.", false},
		"both have one":   {each("selvage", "hole", stall), "The kernel's vxlan and Selvage have an MTU black hole", false},
		"one way only":    {func(r *result.Result) { each("kernel", "hole", flow)(r); each("kernel", "hole-v6", stall)(r) }, "The kernel's vxlan has an MTU black hole", false},
		"none":            {each("kernel", "hole", flow), "No black hole: with guests that assume 1,500 bytes on a path of 1,450, the throughput is the kernel's vxlan: 0 Gbit/s", false},
		"plain stalls":    {each("plain", "hole-v6", stall), "No verdict: even the plain path stalls", true},
		"a sample failed": {each("kernel", "hole-reverse", func(s *result.Sample) { s.Error = "no route" }), "No verdict: hole-reverse of kernel has an error (no route).", true},
		"plain alone": {func(r *result.Result) {
			r.Samples = slices.DeleteFunc(r.Samples, func(s result.Sample) bool { return s.Target != "plain" })
			r.Targets = r.Targets[:1]
		}, "No verdict: no tunnel was measured.", true},
		"no hole case": {func(r *result.Result) {
			r.Samples = slices.DeleteFunc(r.Samples, func(s result.Sample) bool { return IsHole(s.Case) })
		}, "No verdict: no transfer was made that could fall into a black hole.", true},
		"nothing": {func(r *result.Result) { *r = result.Result{Experiment: Name} }, "No verdict: no tunnel was measured.", true},
	} {
		v := verdict(transfersRun(c.change))
		if v.Refused != c.refused || !strings.Contains(v.String(), c.want) {
			t.Errorf("%s: refused %v, %q, want %q", name, v.Refused, v.String(), c.want)
		}
	}
}

func TestMTUFindings(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   []string
		not    string
	}{
		"as it should be": {nil, []string{
			"Black hole: the kernel's vxlan has one in all 4 transfers. Client to server, the sender wrote 78.2 kB, and in 2.0 s nothing arrived, while small packets passed throughout; TCP retransmitted 3 segments and kept an MSS of 1,448 bytes.",
			"Black hole: Selvage has none in 4 transfers (4.00 Gbit/s client to server).",
			"Largest packet: with the kernel's vxlan 1,450 bytes arrive, both ways, over IPv4 and IPv6, and from each of 16 source ports: no member of a LAG or of ECMP carries less. Larger ones are dropped silently.",
			"ICMP errors tell senders of larger ones 1,450.",
			"MTU probing: TCP never tries smaller segments by itself here",
			"Segmentation offload: with it on in the guests the same transfer through the kernel's vxlan gives 12.0 Gbit/s with an MSS of 1,398 bytes",
			"with a guest MTU of 1,450 the kernel's vxlan carries 3.00 Gbit/s [3.00, 3.00] (n = 3), its MSS being 1,398 bytes, 1.07 × plain with the same segments [1.07, 1.07]. In every guest: ip link set dev eth0 mtu 1450.",
			"nft add rule bridge clamp forward ether type ip tcp flags syn tcp option maxseg size set 1410; nft add rule bridge clamp forward ether type ip6 tcp flags syn tcp option maxseg size set 1390.",
			"On both hosts: ip link set dev vxlan0 mtu 1500.",
			"ip link set dev u0 mtu 1550. Changes nothing in the guests",
			"Jumbo: with an underlay of 9,000 bytes the MSS of Selvage grew from 1,398 to 8,898 and throughput from 4.20 to 12.6 Gbit/s (3.00 ×).",
			"Ceiling: the kernel's vxlan is limited per packet: from segments of 536 to 8,898 bytes",
			"4 flows carry 1.00 × what one does",
		}, "did not help"},
		"jumbo not used": {each("selvage", "jumbo", func(s *result.Sample) { s.Metrics["mss"] = 1448 }), []string{
			"Jumbo: no conclusion for Selvage: the MSS in use stayed at 1,448 bytes (1,398 before) on an underlay of 9,000."}, ""},
		"sweep not used": {each("kernel", "sweep", func(s *result.Sample) { s.Metrics["mss"] = 1398 }), []string{
			"Ceiling: no conclusion for the kernel's vxlan: the MSS in use was 1,398 bytes where 8,898 were requested"}, "Ceiling: the kernel"},
		"one way": {func(r *result.Result) { each("kernel", "hole", flow)(r); each("kernel", "hole-v6", stall)(r) }, []string{
			"Black hole: the kernel's vxlan has one client to server over IPv6, server to client over IPv6, and none client to server, server to client. Client to server over IPv6, the sender",
			"in 2.0 s nothing arrived after the first 0.5"}, ""},
		"one flow carries less": {each("kernel", "size-reverse", func(s *result.Sample) { s.Metrics["largest_size"] = 1400 }), []string{
			"with the kernel's vxlan 1,400 to 1,450 bytes arrive, by direction, family or source port: look for a member of a LAG"}, ""},
		"fix in vain":   {each("kernel", "clamp", stall), []string{"In at least one round it did not help. On both hosts: nft"}, ""},
		"probing on":    {func(r *result.Result) { r.Environment.Sysctls["net.ipv4.tcp_mtu_probing"] = "1" }, nil, "MTU probing"},
		"offload holes": {each("kernel", "hole-offload", stall), nil, "Segmentation offload"},
		"no hole":       {each("kernel", "hole", flow), []string{"Black hole: the kernel's vxlan has none"}, "nft add"},
		"full machine": {func(r *result.Result) {
			for i := range r.Samples {
				r.Samples[i].CPU = []result.CPUShare{{User: 0.2, System: 0.4, SoftIRQ: 0.39, Idle: 0.01}}
			}
		}, []string{"One flow fills the whole machine (99 %), so this run cannot show"}, "4 flows carry"},
	} {
		findings := experimenttest.Lines(verdict(transfersRun(c.change)))
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
