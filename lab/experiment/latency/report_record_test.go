package latency

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/breakdown"
	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// TestSynthesizeLatency writes a result of the latency experiment from a model that follows
// DESIGN.md's figures. It stands in until a run has been recorded.
func TestSynthesizeLatency(t *testing.T) {
	if !*experimenttest.Synthesize {
		t.Skip("testdata/latency.json.gz is there; -synthesize writes it anew")
	}
	experimenttest.Record(t, Experiment(), syntheticLatency())
}

// wallModel is what one target's firewall costs.
type wallModel struct {
	name, description string
	rr, same          float64 // µs without a firewall, between two hosts and on one
	added             float64 // µs of any
	perRule           float64 // µs of a rule to a connection's first packet
	open              float64 // µs to open, use and close a connection
	kpps, udpRule     float64 // µs of a rule to a UDP packet
	gbits             float64
}

func wallModels() []wallModel {
	return []wallModel{
		{"plain", "a bridge on each host, without tunnel and firewall", 18.8, 14.1, 0, 0, 88, 185, 0, 18.6},
		{"kernel", "a bridge and a vxlan device on each host, nftables", 23.1, 15.9, 1.6, 0.027, 99, 128, 0.0155, 15.0},
		{"selvage", "the Selvage edge on each host: tc programs on port and underlay", 16.3, 12.2, 0.06, 0, 91, 233, 0, 18.8},
	}
}

// recorder draws samples with the time of the run going on.
type recorder struct {
	rnd   *rand.Rand
	clock float64
	r     result.Result
}

func (c *recorder) vary(v, by float64) float64 { return v * (1 + by*c.rnd.NormFloat64()) }

func (c *recorder) add(s result.Sample) {
	s.Start = experimenttest.Round(c.clock, 2)
	c.clock += s.Duration + 0.6
	c.r.Samples = append(c.r.Samples, s)
}

func syntheticLatency() result.Result {
	c := &recorder{rnd: rand.New(rand.NewPCG(13, 15)), clock: 2.2, r: result.Result{
		Schema: result.Schema, Experiment: Name, Started: time.Date(2026, 11, 22, 8, 15, 30, 0, time.UTC),
		Command: []string{"selvage", "lab", "latency", "--targets", "plain,kernel,selvage", "--duration", "5s", "--app", "--breakdown"},
		Parameters: result.Parameters{"rounds": result.Count(5), "scenarios": result.Of(result.Texts{"same-host", "two-hosts"}), "duration": result.Time(5 * time.Second), "sample": result.Time(2 * time.Second), "pairs": result.Count(4),
			"app": result.Words("a web service with net/http, and PostgreSQL 17.2")},
		Environment: experimenttest.Environment(),
		Topology: result.Topology{
			Nodes: []result.Node{
				{Name: "client", Role: "client", Addrs: []string{"10.0.0.1", "fd00::1"}}, {Name: "host A", Role: "host", Addrs: []string{"192.0.2.1"}},
				{Name: "host B", Role: "host", Addrs: []string{"192.0.2.2"}}, {Name: "server", Role: "server", Addrs: []string{"10.0.0.2", "fd00::2"}}},
			Links: []result.Link{{A: "client", B: "host A", Role: "access", MTU: 1450}, {A: "host A", B: "host B", Role: "underlay", MTU: 1500},
				{A: "host B", B: "server", Role: "access", MTU: 1450}},
		},
	}}
	var names []string
	byName := map[string]wallModel{}
	for _, m := range wallModels() {
		names, byName[m.name] = append(names, m.name), m
		c.r.Targets = append(c.r.Targets, result.Target{Name: m.name, Description: m.description, InnerMTU: 1450})
	}
	for i, order := range stats.Balanced(names, 5) {
		for _, s := range syntheticSettings() {
			for _, name := range order {
				if name != "plain" || s.Rules == 0 {
					c.setting(byName[name], s, i+1)
				}
			}
		}
	}
	for n := range 5 {
		for _, rules := range []int{0, ScenarioRules} {
			for _, kind := range []string{RequestKind, ConnectKind} {
				c.broken(Broken{Scenario: TwoHosts, Kind: kind, Rules: rules}, n+1)
			}
		}
	}
	c.r.Duration = experimenttest.Round(c.clock, 2)
	return c.r
}

func syntheticSettings() []Setting {
	all := []Setting{{Scenario: SameHost, Pairs: 1}, {Scenario: SameHost, Rules: ScenarioRules, Pairs: 1}}
	for _, rules := range []int{0, 1, 10, 100, 1000, 10_000, 100_000} {
		all = append(all, Setting{Scenario: TwoHosts, Rules: rules, Pairs: 1})
	}
	return all
}

// setting draws all samples of a target in a setting.
func (c *recorder) setting(m wallModel, s Setting, n int) {
	base, on := m.rr, math.Min(1, float64(s.Rules))
	if s.Scenario == SameHost {
		base = m.same
	}
	p50 := c.vary(base+1.1+on*m.added, 0.003)
	rr := result.Sample{Target: m.name, Case: s.Case(), Round: n, Duration: 5, Metrics: map[string]float64{
		RRP50: experimenttest.Round(p50, 2), "rr_p99": experimenttest.Round(p50*1.4, 2), "rr_p999": experimenttest.Round(p50*2.4, 2), "rr_p9999": experimenttest.Round(c.vary(p50*6, 0.1), 2),
		"rr_rate": math.Round(1e6 / p50 / 1.03), "rr_rtt": experimenttest.Round(p50*1.03, 2)}}
	for _, q := range []struct{ q, by float64 }{{0, 0.9}, {0.25, 0.98}, {0.5, 1}, {0.9, 1.08}, {0.95, 1.15}, {0.99, 1.4}, {0.999, 2.4}, {0.9999, 6}, {0.99999, 20}} {
		rr.Latency = append(rr.Latency, result.Quantile{Q: q.q, US: experimenttest.Round(p50*q.by, 2)})
	}
	c.add(rr)
	one := func(metrics map[string]float64) {
		c.add(result.Sample{Target: m.name, Case: s.Case(), Round: n, Duration: 2, Metrics: metrics})
	}
	one(map[string]float64{RR1P50: experimenttest.Round(c.vary(base+on*m.added, 0.003), 2), "rr1_p99": experimenttest.Round(base*1.4, 2)})
	crr := m.open + float64(s.Rules)*m.perRule
	one(map[string]float64{CRRRate: math.Round(1e6 / c.vary(crr, 0.01)), "crr_p50": experimenttest.Round(crr*0.97, 1), "crr_p99": experimenttest.Round(crr*1.6, 1)})
	one(map[string]float64{ConnRate: math.Round(1e6 / c.vary(crr*0.7, 0.012))})
	if s.Scenario == SameHost {
		return
	}
	one(map[string]float64{"udprr_p50": experimenttest.Round(c.vary(base-1.4+on*m.added, 0.004), 2), "udprr_p99": experimenttest.Round(base*1.5, 2)})
	one(map[string]float64{UDPRate: experimenttest.Round(1e3/c.vary(1e3/m.kpps+float64(s.Rules)*m.udpRule, 0.01), 1)})
	one(map[string]float64{stats.Decisive: experimenttest.Round(c.vary(m.gbits, 0.006), 2)})
	if s.Rules == 0 || s.Rules == ScenarioRules {
		c.app(m, s, n)
	}
}

// app draws the application loop.
func (c *recorder) app(m wallModel, s Setting, n int) {
	for _, loop := range []struct {
		kind string
		us   float64
	}{{"app", 120}, {"app_connect", 190}, {"app_rated", 170}} {
		p50 := c.vary(loop.us+4*m.rr+math.Min(1, float64(s.Rules))*4*m.added, 0.01)
		sample := result.Sample{Target: m.name, Case: s.Case(), Round: n, Duration: 2, Metrics: map[string]float64{
			loop.kind + "_p50": experimenttest.Round(p50, 1), loop.kind + "_p90": experimenttest.Round(p50*1.2, 1), loop.kind + "_p99": experimenttest.Round(p50*2.1, 1),
			loop.kind + "_p999": experimenttest.Round(p50*5, 1), loop.kind + "_rate": math.Round(1e6 / p50 / 1.05)}}
		for _, q := range []struct{ q, by float64 }{{0, 0.85}, {0.5, 1}, {0.9, 1.2}, {0.99, 2.1}, {0.999, 5}} {
			sample.Latency = append(sample.Latency, result.Quantile{Q: q.q, US: experimenttest.Round(p50*q.by, 1)})
		}
		c.add(sample)
	}
}

// leg is what a packet passes in one host, with the time of each in µs.
type leg []struct {
	part string
	us   float64
}

// broken draws a pair of samples of a breakdown: with stamps and without.
func (c *recorder) broken(b Broken, n int) {
	const perStamp = 0.045
	into, out := leg{{breakdown.ParsePart, 0.06}, {breakdown.CachePart, 0.09}, {breakdown.EncapPart, 0.15}}, leg{{breakdown.ParsePart, 0.08}, {breakdown.CachePart, 0.07}, {breakdown.DecapPart, 0.21}}
	call, wake := 1.55, 3.7 // of a guest's stack, and of a program that sleeps
	if b.Kind == ConnectKind {
		into = leg{{breakdown.ParsePart, 0.07}, {breakdown.DecidePart, 0.43}, {breakdown.FirewallPart, 0.61}, {breakdown.KeepPart, 0.31}, {breakdown.EncapPart, 0.2}}
		out = leg{{breakdown.ParsePart, 0.09}, {breakdown.DecidePart, 0.45}, {breakdown.FirewallPart, 0.52}, {breakdown.KeepPart, 0.28}, {breakdown.DecapPart, 0.3}}
		call, wake = 4.1, 7.9
	}
	timed := result.Sample{Target: "selvage", Round: n, Duration: 0.4, Metrics: map[string]float64{LeftOut: 0.0002}, Series: map[string][]float64{}}
	sum, stamps := 0.0, 0
	step := func(part, place string, us float64, within int) {
		us = c.vary(us, 0.01)
		number := len(timed.Series[StampsSeries])
		timed.Metrics[StepMetric(number, part, place)] = experimenttest.Round(us+float64(within)*perStamp, 3)
		timed.Series[StampsSeries] = append(timed.Series[StampsSeries], float64(within))
		sum, stamps = sum+us, stamps+within
	}
	pass := func(l leg, place string) {
		for _, s := range l {
			if s.part != breakdown.FirewallPart || b.Rules > 0 {
				step(s.part, place, s.us, 1)
			}
		}
	}
	send := func(place string, within int) {
		step(breakdown.StackPart, place, call, within)
		step(breakdown.PortPart, place, 0.68, 1)
	}
	send(breakdown.ClientPlace, 0)
	pass(into, "host A")
	step(breakdown.UnderlayPart, breakdown.UnderlayPlace, 0.47, 2)
	pass(out, "host B")
	if b.Kind == RequestKind {
		step(breakdown.StackPart, breakdown.ServerPlace, 1.9, 1)
		step(breakdown.WakePart, breakdown.ServerPlace, wake, 1)
		step(breakdown.ProgramPart, breakdown.ServerPlace, 0.03, 0)
		send(breakdown.ServerPlace, 0)
	} else {
		send(breakdown.ServerPlace, 1)
	}
	pass(into, "host B")
	step(breakdown.UnderlayPart, breakdown.UnderlayPlace, 0.47, 2)
	pass(out, "host A")
	step(breakdown.StackPart, breakdown.ClientPlace, 1.9, 1)
	step(breakdown.WakePart, breakdown.ClientPlace, wake, 1)
	bare := result.Sample{Target: "selvage", Case: b.Case(), Round: n, Duration: 0.4, Metrics: map[string]float64{BrokenRTT: experimenttest.Round(c.vary(sum+0.15, 0.003), 3)}}
	bare.Metrics[BrokenFloor] = experimenttest.Round(0.96*bare.Metrics[BrokenRTT], 3)
	b.Timed = true
	timed.Case = b.Case()
	for _, metric := range []string{BrokenRTT, BrokenFloor} {
		timed.Metrics[metric] = experimenttest.Round(bare.Metrics[metric]+float64(stamps)*c.vary(perStamp, 0.05), 3)
	}
	if n%2 == 0 {
		c.add(bare)
		c.add(timed)
		return
	}
	c.add(timed)
	c.add(bare)
}

// rulesCase is the sweep's case.
func rulesCase(n int) string { return "rules-" + strconv.Itoa(n) }
