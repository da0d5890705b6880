package report

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// TestSynthesizeTransit writes results of rfc2544 and cache from models that follow
// DESIGN.md's figures of a prototype. They stand in until runs have been recorded.
func TestSynthesizeTransit(t *testing.T) {
	if !*synthesize {
		t.Skip("testdata/rfc2544.json and cache.json are there; -synthesize writes them anew")
	}
	for name, r := range map[string]result.Result{"testdata/rfc2544.json": syntheticTransit(), "testdata/cache.json": syntheticCache()} {
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := result.Write(f, RFC2544Experiment().Complete(r)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
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

func environment() result.Environment {
	return result.Environment{
		Kernel: "6.18.5", CPU: "AMD EPYC (virtual)", Cores: 2, MemoryBytes: 8 << 30,
		Versions: map[string]string{"selvage": "v0.1.0", "iproute2": "6.15.0"}, MTU: map[string]int{"underlay": 1700, "inner": 1500},
	}
}

func syntheticTransit() result.Result {
	rnd := rand.New(rand.NewPCG(25, 44))
	models := []pathModel{
		{"limit", "XDP redirect without any work: the machine's limit", 206, 0, 0.998, 2, 0, 1.4},
		{"kernel", "Linux routing and a vxlan device", 2170, 0.03, 0.96, 90, 50, 3.2},
		{"ovs", "Open vSwitch's userspace datapath, vxlan", 6400, 0.1, 0, 700, 50, 9},
		{"selvage", "the Selvage edge: XDP programs on uplink and underlay", 252, 0.004, 0.985, 42, 50, 1.6},
	}
	r := result.Result{
		Schema: result.Schema, Experiment: stats.RFC2544, Started: time.Date(2026, 9, 21, 14, 3, 11, 0, time.UTC),
		Command: []string{"selvage", "lab", "rfc2544", "--quick", "--imix", "--loss-curve", "--flow-sweep", "1,1280,100000,1000000"},
		Parameters: map[string]string{"rounds": "3", "cores": "generator, device and sink share core 1, one after the other", "tolerance": "0.01 %", "line_rate": "100", "flows": "1280",
			"encapsulation": "vxlan", "duration": "200ms", "search": "mlr"},
		Environment: environment(),
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
	var cases []stats.Traffic
	for _, direction := range []string{stats.Encap, stats.Decap} {
		for _, size := range []int{64, 512, 1518} {
			cases = append(cases, stats.Traffic{Direction: direction, Size: size, Pairs: 1})
		}
	}
	cases = append(cases, stats.Traffic{Direction: stats.Encap, Pairs: 1})
	for _, flows := range []int{1280, 100_000, 1_000_000} {
		cases = append(cases, stats.Traffic{Direction: stats.Encap, Size: 64, Flows: flows, Pairs: 1})
	}
	clock := 2.0
	for i, order := range stats.Balanced(names, 3) {
		for _, t := range cases {
			for _, name := range order {
				s := byName[name].sample(t, i+1, rnd)
				s.Start = round(clock, 2)
				clock += s.Duration + 0.1
				r.Samples = append(r.Samples, s)
			}
		}
	}
	r.Duration = round(clock, 2)
	return r
}

func (m pathModel) sample(t stats.Traffic, n int, rnd *rand.Rand) result.Sample {
	size := float64(t.Size)
	if t.Size == 0 {
		size = 362
	}
	ns := m.ns + m.perByte*(size-64)
	if t.Direction == stats.Decap {
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
		"ndr": round(ndr, 4), "pdr": round(pdr, 4), "ns_per_packet": round(ns, 1), "device_ns": round(ns-idle, 1),
		"offered": round(pdr*1.00005, 4), "forwarded": round(pdr, 4), "frame_out": wire, "egress": round(egress, 3),
		"line_share": round(egress/100, 4), "cpu": 0.5, "mpps_per_core": round(pdr, 4), "ceiling": round(1e3/idle, 2),
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
		s.Metrics["latency_p50"+at.suffix], s.Metrics["latency_p99"+at.suffix] = round(v, 2), round(v*at.tail, 2)
	}
	if t.Size != 64 {
		return s
	}
	s.Metrics["latency_min"], s.Metrics["latency_mean"] = round(p50*0.7, 2), round(p50*1.08, 2)
	s.Metrics["latency_p999"], s.Metrics["jitter"] = round(p50*m.tail*1.7, 2), round(p50*0.06, 2)
	for _, q := range []struct{ q, by float64 }{{0, 0.7}, {0.25, 0.92}, {0.5, 1}, {0.9, 1.15}, {0.99, m.tail}, {0.999, m.tail * 1.7}, {0.9999, m.tail * 3}} {
		s.Latency = append(s.Latency, result.Quantile{Q: q.q, US: round(p50*q.by, 2)})
	}
	s.Series = map[string][]float64{}
	top := 1e3 / idle
	for load := 1.0; load > 0.05; load -= 0.1 {
		lost := max(0, 1-pdr/(top*load))
		if m.name == "ovs" {
			lost = max(lost, 0.00004)
		}
		s.Series[stats.LossLoad] = append(s.Series[stats.LossLoad], round(load, 2))
		s.Series[stats.LossShare] = append(s.Series[stats.LossShare], round(lost, 6))
		if k := len(s.Series[stats.LossShare]); k > 1 && lost == 0 && s.Series[stats.LossShare][k-2] == 0 {
			break
		}
	}
	if m.name == "selvage" {
		s.Metrics["back_to_back"], s.Metrics["recovery_ms"], s.Metrics["reset_ms"] = 2600, 0.42, 31
	}
	return s
}

func syntheticCache() result.Result {
	rnd := rand.New(rand.NewPCG(3, 9))
	r := result.Result{
		Schema: result.Schema, Experiment: stats.Cache, Started: time.Date(2026, 9, 21, 15, 40, 2, 0, time.UTC),
		Command:     []string{"selvage", "lab", "cache"},
		Parameters:  map[string]string{"rounds": "5", "cores": "generator, device and sink share core 1, one after the other"},
		Environment: environment(),
		Targets: []result.Target{
			{Name: stats.CacheOn, Description: "the Selvage edge with its flow cache", InnerMTU: 1500},
			{Name: stats.CacheOff, Description: "the same edge, every packet decided anew", InnerMTU: 1500}},
	}
	clock := 1.0
	for n := 1; n <= 5; n++ {
		for _, routes := range []int{0, 1000} {
			for i, flows := range []int{1, 1280, 10_000, 100_000, 1_000_000} {
				for _, name := range []string{stats.CacheOn, stats.CacheOff} {
					device, hits := 112+[]float64{0, 8, 30, 96, 170}[i], 0.9995
					if name == stats.CacheOff {
						device, hits = 330+[]float64{0, 2, 4, 9, 16}[i]+0.04*float64(routes), 0
					}
					if flows == 1_000_000 && name == stats.CacheOn {
						hits = 0.97
					}
					device *= 1 + 0.01*rnd.NormFloat64()
					s := result.Sample{Target: name, Case: stats.Load{Flows: flows, Routes: routes}.Case(), Round: n, Start: round(clock, 2), Duration: 0.6,
						Metrics: map[string]float64{stats.DeviceNS: round(device, 1), stats.NSPerPacket: round(device+idle, 1), stats.HitRate: hits}}
					r.Samples = append(r.Samples, s)
					clock += 0.8
				}
			}
		}
	}
	r.Duration = round(clock, 2)
	return r
}
