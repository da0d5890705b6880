package rfc2544

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
)

// TestSynthesizeTransit writes a result from models that follow
// DESIGN.md's figures of a prototype. They stand in until runs have been recorded.
func TestSynthesizeTransit(t *testing.T) {
	if !*experimenttest.Synthesize {
		t.Skip("testdata/rfc2544.json.gz is there; -synthesize writes it anew")
	}
	experimenttest.Record(t, Experiment(), syntheticTransit())
}

// pathModel is what one target's packets cost.
type pathModel struct {
	name, description string
	ns                float64 // of a core per packet at 64 bytes, generator and sink included
	perByte           float64 // ns
	ndr               float64 // share of the PDR
	many              float64 // ns more a packet for each tenfold of flows beyond 1,280
	outer             int
	tail              float64 // p99 over p50 at the full rate
}

// idle is the time of generator and sink alone, ns.
const idle = 127

func syntheticTransit() result.Result {
	rnd := rand.New(rand.NewPCG(25, 44))
	models := []pathModel{
		{"limit", "XDP redirect without any work: the machine's limit", 206, 0, 0.998, 2, 0, 1.4},
		{"kernel", "Linux routing and a vxlan device", 2170, 0.03, 0.96, 90, 50, 3.2},
		{"ovs", "Open vSwitch's userspace datapath, vxlan", 6400, 0.1, 0, 700, 50, 9},
		{"selvage", "the Selvage edge: XDP programs on uplink and underlay", 252, 0.004, 0.985, 42, 50, 1.6},
	}
	r := result.Result{
		Schema: result.Schema, Experiment: Name, Started: time.Date(2026, 9, 21, 14, 3, 11, 0, time.UTC),
		Command: []string{"selvage", "lab", "rfc2544", "--quick", "--imix", "--loss-curve", "--flow-sweep", "1,1280,100000,1000000"},
		Parameters: result.Parameters{"rounds": result.Count(3), "cores": result.Words("generator, device and sink share core 1, one after the other"), "shared_core": result.Of(result.Bool(true)), "tolerance": result.Of(result.Number(0.01)).In("%"), "line_rate": result.Of(result.Number(100)).In("Gbit/s"), "flows": result.Count(1280),
			"encapsulation": result.Words("vxlan"), "duration": result.Time(200 * time.Millisecond), "search": result.Words("mlr")},
		Environment: experimenttest.Environment(),
		Topology: result.Topology{
			Nodes: []result.Node{
				{Name: "generator", Role: "client", Addrs: []string{"198.18.0.0/16"}},
				{Name: "device", Role: "host", Addrs: []string{"10.201.0.1/24", "192.0.2.1/24"}},
				{Name: "sink", Role: "server", Addrs: []string{"192.0.2.2/24", "198.19.0.0/16"}}},
			Links: []result.Link{{A: "generator", B: "device", Role: "access", MTU: 1500}, {A: "device", B: "sink", Role: "underlay", MTU: 1700}},
		},
	}
	var names []string
	byName := map[string]pathModel{}
	for _, m := range models {
		names, byName[m.name] = append(names, m.name), m
		r.Targets = append(r.Targets, result.Target{Name: m.name, Description: m.description, InnerMTU: 1500})
	}
	var cases []Traffic
	for _, direction := range []string{transit.Encap, transit.Decap} {
		for _, size := range []int{64, 512, 1518} {
			cases = append(cases, Traffic{Direction: direction, Size: size, Pairs: 1})
		}
	}
	cases = append(cases, Traffic{Direction: transit.Encap, Pairs: 1})
	for _, flows := range []int{1280, 100_000, 1_000_000} {
		cases = append(cases, Traffic{Direction: transit.Encap, Size: 64, Flows: flows, Pairs: 1})
	}
	clock := 2.0
	for i, order := range stats.Balanced(names, 3) {
		for _, t := range cases {
			for _, name := range order {
				s := byName[name].sample(t, i+1, rnd)
				s.Start = experimenttest.Round(clock, 2)
				clock += s.Duration + 0.1
				r.Samples = append(r.Samples, s)
			}
		}
	}
	r.Duration = experimenttest.Round(clock, 2)
	return r
}

func (m pathModel) sample(t Traffic, n int, rnd *rand.Rand) result.Sample {
	size := float64(t.Size)
	if t.Size == 0 {
		size = 362
	}
	ns := m.ns + m.perByte*(size-64)
	if t.Direction == transit.Decap {
		ns -= 0.04 * (ns - idle)
	}
	for f := 1280; f < t.Flows; f *= 10 {
		ns += m.many
	}
	ns *= 1 + 0.006*rnd.NormFloat64()
	pdr := 1e3 / ns
	ndr := pdr * m.ndr
	wire := size + float64(m.outer)
	egress := pdr * (wire + 20) * 8 / 1e3
	s := result.Sample{Target: m.name, Case: t.Case(), Round: n, Duration: 2.4, Metrics: map[string]float64{
		"ndr": experimenttest.Round(ndr, 4), "pdr": experimenttest.Round(pdr, 4), "ns_per_packet": experimenttest.Round(ns, 1), "device_ns": experimenttest.Round(ns-idle, 1),
		"offered": experimenttest.Round(pdr*1.00005, 4), "forwarded": experimenttest.Round(pdr, 4), "frame_out": wire, "egress": experimenttest.Round(egress, 3),
		"line_share": experimenttest.Round(egress/100, 4), "cpu": 0.5, "mpps_per_core": experimenttest.Round(pdr, 4), "ceiling": experimenttest.Round(1e3/idle, 2),
	}}
	if t.Flows > 0 {
		return s
	}
	p50 := 3 + ns/90
	for _, at := range []struct {
		suffix     string
		load, tail float64
	}{{"_10", 0.8, 1.2}, {"_50", 0.86, 1.25}, {"_90", 0.95, 1.3}, {"", 1, m.tail}} {
		if t.Size != 64 && at.suffix != "" {
			continue
		}
		v := p50 * at.load * (1 + 0.02*rnd.NormFloat64())
		s.Metrics["latency_p50"+at.suffix], s.Metrics["latency_p99"+at.suffix] = experimenttest.Round(v, 2), experimenttest.Round(v*at.tail, 2)
	}
	if t.Size != 64 {
		return s
	}
	s.Metrics["latency_min"], s.Metrics["latency_mean"] = experimenttest.Round(p50*0.7, 2), experimenttest.Round(p50*1.08, 2)
	s.Metrics["latency_p999"], s.Metrics["jitter"] = experimenttest.Round(p50*m.tail*1.7, 2), experimenttest.Round(p50*0.06, 2)
	for _, q := range []struct{ q, by float64 }{{0, 0.7}, {0.25, 0.92}, {0.5, 1}, {0.9, 1.15}, {0.99, m.tail}, {0.999, m.tail * 1.7}, {0.9999, m.tail * 3}} {
		s.Latency = append(s.Latency, result.Quantile{Q: q.q, US: experimenttest.Round(p50*q.by, 2)})
	}
	s.Series = map[string][]float64{}
	top := 1e3 / idle
	for load := 1.0; load > 0.05; load -= 0.1 {
		lost := max(0, 1-pdr/(top*load))
		if m.name == "ovs" {
			lost = max(lost, 0.00004)
		}
		s.Series[transit.LossLoad] = append(s.Series[transit.LossLoad], experimenttest.Round(load, 2))
		s.Series[transit.LossShare] = append(s.Series[transit.LossShare], experimenttest.Round(lost, 6))
		if k := len(s.Series[transit.LossShare]); k > 1 && lost == 0 && s.Series[transit.LossShare][k-2] == 0 {
			break
		}
	}
	if m.name == "selvage" {
		s.Metrics["back_to_back"], s.Metrics["recovery_ms"], s.Metrics["reset_ms"] = 2600, 0.42, 31
	}
	return s
}
