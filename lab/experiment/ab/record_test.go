package ab

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// shape is what the model of one target is drawn from.
type shape struct {
	name, description            string
	mtu                          int
	gbits, cpu, retr, rr, kpps   float64
	softirq, system, user, extra float64
}

// TestSynthesize writes a result in the shape of a recorded run. It stands in
// until one has been recorded on this kind of machine; figures follow DESIGN.md.
func TestSynthesize(t *testing.T) {
	if !*experimenttest.Synthesize {
		t.Skip("testdata/ab.json is recorded; -synthesize writes a model's instead")
	}
	f, err := os.Create("testdata/ab.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := result.Write(f, synthetic()); err != nil {
		t.Fatal(err)
	}
}

func synthetic() result.Result {
	rnd := rand.New(rand.NewPCG(1, 2))
	shapes := []shape{
		{"wire", "client and server on one veth pair: the machine's own limit", 1500, 27.4, 0.41, 40, 13.1, 331, 0.30, 0.58, 0.04, 0},
		{"plain", "a bridge on each host, no tunnel", 1500, 18.6, 0.62, 980, 18.75, 185, 0.44, 0.46, 0.04, 0},
		{"kernel", "a bridge and the kernel's vxlan device on each host", 1450, 15.1, 0.71, 1100, 23.0, 128, 0.57, 0.36, 0.03, 0.1},
		{"selvage", "the Selvage edge on each host: tc programs on port and underlay", 1450, 19.1, 0.55, 610, 16.2, 232, 0.41, 0.47, 0.04, 0},
	}
	r := result.Result{
		Schema: result.Schema, Experiment: "ab", Started: time.Date(2026, 9, 14, 9, 26, 53, 0, time.UTC),
		Command: []string{"selvage", "lab", "ab", "--targets", "wire,plain,kernel,selvage", "--rounds", "5", "--duration", "10s"},
		Parameters: result.Parameters{"rounds": result.Count(5), "duration": result.Time(10 * time.Second), "streams": result.Count(1), "underlay_mtu": result.Count(1500).In("bytes"), "encapsulation": result.Words("vxlan"),
			"pinning": result.Words("iperf3 client core 0, server core 1; request/response both ends core 0")},
		Environment: result.Environment{
			Kernel: "6.18.5", CPU: "AMD EPYC (virtual)", Cores: 2, MemoryBytes: 8 << 30,
			Versions: map[string]string{"selvage": "v0.1.0", "iperf3": "3.18", "iproute2": "6.15.0"},
			MTU:      map[string]int{"underlay": 1500, "inner": 1450, "plain": 1500},
			Sysctls:  map[string]string{"net.ipv4.tcp_congestion_control": "cubic", "net.ipv4.tcp_timestamps": "1"},
			Offloads: map[string]map[string]bool{
				"underlay": {"tx-tcp-segmentation": true, "tx-udp_tnl-segmentation": true, "rx-gro": true, "rx-gro-list": false},
				"access":   {"tx-tcp-segmentation": true, "tx-udp_tnl-segmentation": true, "rx-gro": true, "rx-gro-list": false}},
		},
		Topology: result.Topology{
			Nodes: []result.Node{
				{Name: "client", Role: "client", Addrs: []string{"10.77.0.1/24", "fd77::1/64"}},
				{Name: "host a", Role: "host", Addrs: []string{"192.0.2.1/24"}},
				{Name: "host b", Role: "host", Addrs: []string{"192.0.2.2/24"}},
				{Name: "server", Role: "server", Addrs: []string{"10.77.0.2/24", "fd77::2/64"}}},
			Links: []result.Link{{A: "client", B: "host a", Role: "access", MTU: 1450}, {A: "host a", B: "host b", Role: "underlay", MTU: 1500},
				{A: "host b", B: "server", Role: "access", MTU: 1450}},
		},
	}
	byName := map[string]shape{}
	var names []string
	plain := stats.Path{MTU: 1500, Timestamps: true}
	for _, s := range shapes {
		names = append(names, s.name)
		byName[s.name] = s
		c := result.Target{Name: s.name, Description: s.description, InnerMTU: s.mtu}
		if s.mtu != 1500 {
			c.HeaderTax = experimenttest.Round(stats.HeaderTax(plain, stats.Path{MTU: s.mtu, Timestamps: true, Outer: 50}), 4)
		}
		r.Targets = append(r.Targets, c)
	}
	clock := 1.5
	for i, order := range stats.Balanced(names, 5) {
		drift := 1 + 0.015*rnd.NormFloat64() // the whole machine, so all targets of a round
		for _, name := range order {
			for _, s := range samplesOf(byName[name], i+1, drift, rnd) {
				s.Start = experimenttest.Round(clock, 3)
				clock += s.Duration + 0.4
				r.Samples = append(r.Samples, s)
			}
		}
	}
	r.Duration = experimenttest.Round(clock, 3)
	return Experiment().Complete(r)
}

// samplesOf draws one round of one target.
func samplesOf(k shape, n int, drift float64, rnd *rand.Rand) []result.Sample {
	vary := func(v, by float64) float64 { return v * drift * (1 + by*rnd.NormFloat64()) }
	gbits := vary(k.gbits, 0.008)
	tcp := result.Sample{Target: k.name, Case: "tcp", Round: n, Duration: 10, Metrics: map[string]float64{
		"tcp_throughput": experimenttest.Round(gbits, 3), "retransmits": math.Round(vary(k.retr, 0.2)),
		"cpu_per_gb": experimenttest.Round(vary(k.cpu, 0.008)/drift/drift, 4), "mss": float64(k.mtu - 52), "cpu_steal": 0.004}}
	for range 10 {
		tcp.Series = map[string][]float64{seriesName: append(tcp.Series[seriesName], experimenttest.Round(gbits*(1+0.02*rnd.NormFloat64()), 3))}
	}
	for core := range 2 {
		soft, sys := k.softirq+0.03*rnd.NormFloat64()+k.extra*float64(core)-k.extra/2, k.system+0.02*rnd.NormFloat64()
		if core == 0 {
			soft, sys = soft*0.55, sys*1.35
		}
		tcp.CPU = append(tcp.CPU, result.CPUShare{Core: core, User: experimenttest.Round(k.user, 3), System: experimenttest.Round(sys, 3),
			SoftIRQ: experimenttest.Round(soft, 3), Idle: experimenttest.Round(max(0, 1-k.user-sys-soft), 3)})
	}
	out := []result.Sample{tcp}
	for _, caseName := range []struct {
		name string
		more float64
	}{{"rr-1", 0}, {"rr-1024", 0.6}} {
		p50 := vary(k.rr+caseName.more, 0.004)
		s := result.Sample{Target: k.name, Case: caseName.name, Round: n, Duration: 3, Metrics: map[string]float64{
			"rr_mean": experimenttest.Round(p50*1.03, 2), "rr_p50": experimenttest.Round(p50, 2), "rr_p99": experimenttest.Round(p50*1.42, 2), "rr_rate": math.Round(1e6 / p50 / 1.03)}}
		for _, q := range []struct{ q, by float64 }{{0, 0.9}, {0.001, 0.92}, {0.1, 0.96}, {0.25, 0.98}, {0.5, 1}, {0.75, 1.03}, {0.9, 1.08}, {0.95, 1.15}, {0.99, 1.42}, {0.995, 1.7}, {0.999, 2.6}, {0.9995, 3.4}, {0.9999, 7}, {1, 40}} {
			s.Latency = append(s.Latency, result.Quantile{Q: q.q, US: experimenttest.Round(p50*q.by*(1+0.04*(q.by-1)*rnd.Float64()), 2)})
		}
		out = append(out, s)
	}
	return append(out, result.Sample{Target: k.name, Case: "udp", Round: n, Duration: 3,
		Metrics: map[string]float64{"udp_pps": experimenttest.Round(vary(k.kpps, 0.01), 1), "udp_loss": 0, "cpu_steal": 0.004}})
}
