package paths

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
)

// model is what the FortiGate study would have looked like: a box that switches one of two paths on one
// core, and says so when it is asked.
func model() result.Result {
	r := result.Result{
		Schema: result.Schema, Experiment: Name, Started: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC), Duration: 240,
		Command:     []string{"selvage", "lab", "ab", "--client", "ssh:vm", "--server", "ssh:server", "--path", "plain=192.0.2.12", "--path", "overlay=10.1.0.2"},
		Parameters:  result.Parameters{"rounds": result.Count(8), "slice": result.Time(10 * time.Second), "streams": result.Count(1), "client": result.Words("ssh:vm"), "server": result.Words("ssh:server")},
		Environment: experimenttest.Environment(),
		Targets:     []result.Target{{Name: "plain", Description: "to 192.0.2.12"}, {Name: "overlay", Description: "to 10.1.0.2"}},
		Places: []result.Place{
			{Role: "client", Name: "ssh:vm", Machine: "1", Host: "vm", Kernel: "6.8.0", Arch: "amd64", Cores: 2, Clock: "12ms ± 150µs"},
			{Role: "server", Name: "ssh:server", Machine: "2", Host: "server", Kernel: "6.8.0", Arch: "amd64", Cores: 2, Clock: "-3ms ± 90µs"},
			{Role: "watch 1", Name: "ssh:gateway", Machine: "3", Host: "gateway", Kernel: "6.1.0", Arch: "arm64", Cores: 2, Clock: "0s ± 80µs"},
			{Role: "watch 2", Name: "ns:dmz", Machine: "3", Host: "gateway", Kernel: "6.1.0", Arch: "arm64", Cores: 2, Clock: "0s ± 80µs"},
		},
		Devices: []result.Device{{
			Place: "ssh:admin@fw", Command: "get system performance status", Pattern: `(CPU\d) .* (\d+)% softirq`, Asked: 200, Failed: 2, Error: "no answer in 10s",
			Series: []result.DeviceSeries{{Name: "CPU0"}, {Name: "CPU1"}},
		}},
	}
	at := 1.0
	for round := 1; round <= 8; round++ {
		for _, caseName := range []string{caseTCP, caseReverse, caseRR, caseLoad, caseCRR, caseUDP} {
			for i, name := range []string{"plain", "overlay"} {
				s := modelSample(caseName, i == 1, float64(round))
				s.Target, s.Round, s.Start = name, round, at
				at += s.Duration
				r.Samples = append(r.Samples, s)
				for core := range r.Devices[0].Series {
					series := &r.Devices[0].Series[core]
					value := 2.0
					if core == 1 && i == 1 && (caseName == caseTCP || caseName == caseReverse) {
						value = 97
					}
					series.Times, series.Values = append(series.Times, s.Start+s.Duration/2), append(series.Values, value)
				}
			}
		}
	}
	r.Profiles = modelProfiles()
	return r
}

// wiggle is noise of a percent, the same each time.
func wiggle(x float64) float64 { return 1 + 0.01*math.Sin(2.7*x) }

func modelSample(caseName string, overlay bool, round float64) result.Sample {
	pick := func(plain, tunnel float64) float64 {
		if overlay {
			plain = tunnel
		}
		return experimenttest.Round(plain*wiggle(round+plain), 4)
	}
	s := result.Sample{Case: caseName, Duration: 1.2, Metrics: map[string]float64{measure.CPUSteal: 0}}
	tunnelCore := 0.12
	switch caseName {
	case caseTCP, caseReverse:
		rate := pick(0.934, 0.546)
		s.Metrics = map[string]float64{
			measure.TCPThroughput: rate, measure.TCPSent: rate + 0.002, moved: rate * s.Duration / 8, measure.Retransmits: math.Round(pick(4, 19)),
			measure.MSS: map[bool]float64{false: 1448, true: 1398}[overlay], measure.PathMTU: map[bool]float64{false: 1500, true: 1450}[overlay],
		}
		for i := range 6 {
			s.Series = map[string][]float64{measure.TCPSeries: append(s.Series[measure.TCPSeries], experimenttest.Round(rate*wiggle(float64(i)), 4))}
		}
		if overlay {
			tunnelCore = 0.98
		}
	case caseRR, caseLoad:
		p50 := pick(180, 240)
		if caseName == caseLoad {
			p50 *= 6
			s.Metrics[loadRate] = pick(0.93, 0.54)
		}
		s.Metrics[measure.RRP50], s.Metrics[measure.RRP99] = p50, 3*p50
		for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 0.999} {
			s.Latency = append(s.Latency, result.Quantile{Q: q, US: experimenttest.Round(p50*(0.8+q/(1.001-q)/20), 2)})
		}
	case caseCRR:
		s.Metrics[measure.CRRRate], s.Metrics[measure.ConnFailed] = pick(3100, 2500), 0
	case caseUDP:
		s.Metrics[measure.UDPRate], s.Metrics[measure.UDPLossPPM] = pick(210, 95), pick(10, 90_000)
	}
	for role, cores := range map[string]int{"client": 2, "server": 2, "watch 1": 2, "watch 2": 2} {
		u := result.Use{Role: role}
		total := 0.0
		for core := range cores {
			c := result.CPUShare{Core: core, User: 0.03, System: 0.11, SoftIRQ: 0.05, Idle: 0.81}
			if role[0] == 'w' && core == 1 {
				c = result.CPUShare{Core: core, SoftIRQ: tunnelCore, Idle: 1 - tunnelCore}
			}
			u.CPU = append(u.CPU, c)
			total += busy(c)
		}
		if role == "watch 1" && overlay && caseName == caseTCP {
			u.Drops = []result.Drop{{Stage: "softnet", Where: "core 1", Counter: "dropped", Packets: 41}, {Stage: "NIC", Where: "eth0", Counter: "rx_missed_errors", Packets: 3}}
		}
		s.Uses = append(s.Uses, u)
		s.Metrics[cpuMetric(role, busyCores)] = experimenttest.Round(total, 4)
		if gb := s.Metrics[moved]; gb > 0 {
			s.Metrics[cpuMetric(role, secondsByGB)] = experimenttest.Round(total*s.Duration/gb, 4)
		}
	}
	slices.SortFunc(s.Uses, func(a, b result.Use) int { return strings.Compare(a.Role, b.Role) })
	return s
}

func modelProfiles() (all []result.Profile) {
	for _, path := range []string{"plain", "overlay"} {
		for _, role := range []string{"client", "server", "watch 1", "watch 2"} {
			p := result.Profile{Target: path, Case: caseTCP, Role: role, Duration: 1.2, Gigabytes: 0.14, CPU: []result.CPUShare{{Core: 0, Idle: 1}}}
			switch role {
			case "watch 1":
				p.Processes = []result.ProcessTime{{Name: "ksoftirqd/1", Seconds: 0.6}}
				p.SoftIRQs = []result.SoftIRQCount{{Kind: "NET_RX", Core: 1, Count: 90_000}}
				if path == "overlay" {
					p.Functions = []result.FunctionTime{{Name: "vxlan_rcv", Cores: 0.31}, {Name: "__skb_gro_checksum_complete", Cores: 0.22}}
					p.Drops = []result.Drop{{Stage: "reason", Counter: "freed: CPU_BACKLOG", Packets: 40}}
				}
			case "server":
				p.Processes, p.NotRead = []result.ProcessTime{{Name: "instrument", Seconds: 0.2}}, []string{"kernel functions: perf_event_open on core 0: permission denied"}
			}
			all = append(all, p)
		}
	}
	return all
}

func TestGolden(t *testing.T) {
	if *experimenttest.Synthesize {
		experimenttest.Record(t, Experiment(), model())
	}
	experimenttest.Golden(t, Experiment(), Name)
}

// What the study found is found: the loss beyond the headers, the core that climbs and where, what took
// it, where packets went, and what the box said of itself.
func TestFindings(t *testing.T) {
	r := model()
	r.Summary = summarise(r)
	v := verdict(r)
	if v.Refused || !strings.HasPrefix(v.String(), "TCP throughput of overlay is 0.54") || !strings.Contains(v.String(), "0.58 × plain") {
		t.Errorf("%+v", v)
	}
	found := experimenttest.Lines(v)
	for _, want := range []string{
		"headers must cost −3.5 %", "work per packet somewhere on the way", "used were plain 1,448 bytes, overlay 1,398 bytes",
		"over overlay, core 1 of watch 1 (ssh:gateway) is 98 % busy, 98 % in softirq, against 12 % over plain", "CPU s at watch 1",
		"over overlay, watch 1 (ssh:gateway) lost 328 at softnet core 1: dropped; 40 at reason: freed: CPU_BACKLOG; 24 at NIC eth0: rx_missed_errors",
		"CPU1 of ssh:admin@fw: 2.00 over plain, 97.0 over overlay, 2.00 at other times", "2 of 200 questions to ssh:admin@fw failed; the first: no answer in 10s",
		"watch 2 (ns:dmz) is on the machine of watch 1", "Latency under load", "Keep them on plain", "server: kernel functions: perf_event_open",
	} {
		if !strings.Contains(found, want) {
			t.Errorf("no %q in\n%s", want, found)
		}
	}
}

// Too few rounds, noise, a failed slice and a single path carry no verdict; one address under two names does.
func TestRefusals(t *testing.T) {
	noisy := func(s *result.Sample) { s.Metrics[measure.TCPThroughput] *= 1 + 0.5*math.Sin(9*float64(s.Round)) }
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string // of the sentence
	}{
		"few rounds": {experimenttest.Keeping(func(s result.Sample) bool { return s.Round <= 7 }), "No verdict: plain has no sample of round 8 of 8"},
		"seven rounds": {func(r *result.Result) {
			experimenttest.Keeping(func(s result.Sample) bool { return s.Round <= 7 })(r)
			r.Parameters["rounds"] = result.Count(7)
		}, "7 of the at least 8 rounds"},
		"noise":    {experimenttest.EachSample("plain", caseTCP, noisy), "No verdict: the TCP throughput of plain spreads by"},
		"failed":   {experimenttest.EachSample("overlay", caseTCP, experimenttest.Failed), "No verdict: round 1 of overlay has an error"},
		"one path": {experimenttest.Without("overlay"), "there is one path"},
		"A/A": {func(r *result.Result) {
			r.Targets[1].Description = r.Targets[0].Description
			experimenttest.EachSample("", caseTCP, func(s *result.Sample) {
				s.Metrics[measure.TCPThroughput] = 0.9 * wiggle(float64(s.Round+len(s.Target)))
			})(r)
		}, "A/A: TCP throughput of overlay is"},
		"nothing":     {func(r *result.Result) { r.Samples, r.Profiles, r.Devices = nil, nil, nil }, "the result holds no samples"},
		"round trips": {experimenttest.Keeping(func(s result.Sample) bool { return s.Case == caseRR }), "Request/response p50 of overlay is"},
		"hostile names": {func(r *result.Result) {
			r.Devices[0].Command, r.Places[2].Host = `<script>x</script>`, `</svg><script>x</script>`
			r.Profiles[2].Processes[0].Name = `<script>x</script>`
		}, "TCP throughput of overlay"},
		"zeros": {experimenttest.EachSample("", "", experimenttest.Zeroed), "there is no ratio to plain"},
	} {
		t.Run(name, func(t *testing.T) {
			r := model()
			c.change(&r)
			r.Summary = summarise(r)
			if v := verdict(r); !strings.Contains(v.String(), c.want) {
				t.Errorf("%s", v.String())
			}
			experimenttest.DrawOdd(t, Experiment(), r, "What was measured")
		})
	}
}
