package places

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/turns"
)

func TestGolden(t *testing.T) { experimenttest.Golden(t, Experiment(), Name) }

// TestOdd draws what interrupted, small and broken runs leave behind.
func TestOdd(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"nothing":      {func(r *result.Result) { *r = result.Result{Schema: result.Schema, Experiment: Name} }, "Verdict refused"},
		"one round":    {experimenttest.Keeping(func(s result.Sample) bool { return s.Round == 1 }), "Verdict refused"},
		"sources only": {experimenttest.Keeping(func(s result.Sample) bool { return s.Case == source }), "Verdict refused"},
		"no sources":   {experimenttest.Keeping(func(s result.Sample) bool { return s.Case != source }), "never told the source address"},
		"no transfers": {experimenttest.Keeping(func(s result.Sample) bool { return s.Case != tcp }), "Verdict refused"},
		"no baseline":  {experimenttest.Without("direct"), "What each path costs"},
		"no gateway":   {experimenttest.Without("gateway-egress"), "What each path costs"},
		"all failed":   {experimenttest.EachSample("", "", experimenttest.Failed), "&lt;b&gt;no route&lt;/b&gt;"},
		"zeros":        {experimenttest.EachSample("", "", experimenttest.Zeroed), "Method"},
		"hostile name": {experimenttest.EachSample("egress6", "", func(s *result.Sample) { s.Target = `"><script>x</script>` }), "k-x"},
	} {
		t.Run(name, func(t *testing.T) {
			r := experimenttest.Recorded(t, Name)
			c.change(&r)
			experimenttest.DrawOdd(t, Experiment(), r, c.want)
		})
	}
}

// synthetic is a run of 8 rounds in which egress carries half and takes 10 µs longer, and of whose
// connections some show other addresses.
func synthetic(fromNode, fromOther int) (r result.Result) {
	r = result.Result{Schema: result.Schema, Experiment: Name, Parameters: result.Parameters{
		"rounds":             result.Count(8),
		sourceKey + "direct": result.Of(result.Texts{"10.0.0.1 of the node"}), sourceKey + "egress": result.Of(result.Texts{"192.0.2.1 of the gateway"}),
		gatewayErrorKey + "egress": result.Words("connect: no route to host"),
	}}
	sampleOf := func(round int, path, caseName string, metrics map[string]float64) {
		r.Samples = append(r.Samples, result.Sample{Target: path, Case: caseName, Round: round, Metrics: metrics})
	}
	for round := 1; round <= 8; round++ {
		rate, trip := 8+0.01*float64(round), 30+0.1*float64(round)
		sampleOf(round, "direct", source, map[string]float64{seenNode: 8, seenGateway: 0, seenOther: 0})
		sampleOf(round, "direct", tcp, map[string]float64{measure.TCPThroughput: rate})
		sampleOf(round, "direct", rr, map[string]float64{measure.RRP50: trip})
		of := map[string]float64{seenNode: 0, seenGateway: 8, seenOther: 0}
		if round == 5 {
			of = map[string]float64{seenNode: float64(fromNode), seenGateway: float64(8 - fromNode - fromOther), seenOther: float64(fromOther)}
		}
		sampleOf(round, "egress", source, of)
		sampleOf(round, "egress", tcp, map[string]float64{measure.TCPThroughput: rate / 2, turns.CoreMetric("", gateway, 0): 0.2, turns.CoreMetric("", gateway, 1): 0.99, gateway + turns.CPUPerGB: 0.7, node + turns.CPUPerGB: 0.4})
		sampleOf(round, "egress", rr, map[string]float64{measure.RRP50: trip + 10 + 0.01*float64(round)})
	}
	return r
}

// One connection of one round is a leak, and is so without a difference of any size; the cost is told
// beside it.
func TestVerdict(t *testing.T) {
	few := synthetic(0, 0)
	experimenttest.Keeping(func(s result.Sample) bool { return s.Round < 8 })(&few)
	bypassed := synthetic(0, 0)
	experimenttest.EachSample("direct", source, func(s *result.Sample) { s.Metrics = map[string]float64{seenGateway: 8} })(&bypassed)
	cost := "Egress carries 4.02 Gbit/s, 0.50 × direct [0.50, 0.50]; the target sees 192.0.2.1 of the gateway. Over egress a round trip takes 40.5 µs, +10.0 [+10.0, +10.1]."
	for name, c := range map[string]struct {
		r    result.Result
		want []string
	}{
		"clean": {synthetic(0, 0), []string{
			"= " + cost, "Behind the gateway: the gateway's own way to the address of egress is not measured, as its connections fail there: connect: no route to host.",
			"Limit: while a transfer ran over egress, core 1 at the gateway was 99.0 % busy", "CPU per GB: for each GB over egress the gateway's cores are busy for 0.700 s [0.700, 0.700], the node's for 0.400 s",
		}},
		"one leaks":    {synthetic(1, 0), []string{"= A leak: over egress the target sees the node's own address in 1 of 64 connections", cost, "ports of the pool run out"}},
		"few rounds":   {few, []string{"= No verdict: n = 7; a difference needs at least 8 rounds. Raise --rounds."}},
		"another NAT":  {synthetic(0, 3), []string{"= " + cost, "there is another NAT behind the gateway"}},
		"not a direct": {bypassed, []string{"= " + cost, "it is no baseline without one"}},
	} {
		v := verdict(c.r)
		text := "= " + v.String()
		for _, f := range v.Findings {
			text += "\n" + f.Topic + ": " + f.Text
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in %s", name, want, text)
			}
		}
	}
	rows := summarise(synthetic(1, 0))
	if row, ok := stats.Find(rows, "egress", source, leak); !ok || row.Median != 1 || row.Lo != 1 || row.N != 64 {
		t.Errorf("leak: %+v", row)
	}
	if row, ok := stats.Find(rows, "egress", rr, rrAdded); !ok || !row.Distinguishable || row.Median < 10 || row.Median > 10.1 {
		t.Errorf("added: %+v", row)
	}
}

// An address that both places have is the node's only where the connection left from it.
func TestWhose(t *testing.T) {
	addr := netip.MustParseAddr
	ofNode, ofGateway := []netip.Addr{addr("10.0.0.1"), addr("172.17.0.1"), addr("fd00::1")}, []netip.Addr{addr("192.0.2.1"), addr("172.17.0.1")}
	for _, c := range []struct{ local, seen, want string }{
		{"10.0.0.1", "192.0.2.1", seenGateway}, {"10.0.0.1", "10.0.0.1", seenNode}, {"fd00::2", "fd00::1", seenNode},
		{"10.0.0.1", "172.17.0.1", seenGateway}, {"172.17.0.1", "172.17.0.1", seenNode}, {"10.0.0.1", "203.0.113.9", seenOther},
	} {
		if got, _ := whose(measure.Peer{Local: addr(c.local), Seen: addr(c.seen)}, ofNode, ofGateway); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestCheck(t *testing.T) {
	good := func() *Command {
		host := func(name string) place.Place { return place.Place{Kind: place.SSH, Host: name} }
		return &Command{
			Node: host("a"), Gateway: host("g"), Target: host("b"), Path: []turns.Path{{Name: "direct"}, {Name: "egress6"}},
			Flags: turns.Flags{Port: 1, Slice: time.Second, MaxTime: time.Minute},
		}
	}
	if err := good().Check(10); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Command){
		"--node: name a place":         func(c *Command) { c.Node = place.Place{} },
		"--gateway: name a place":      func(c *Command) { c.Gateway = place.Place{} },
		"--target: nothing can run at": func(c *Command) { c.Target = place.Place{Kind: place.Address} },
		"name three different places":  func(c *Command) { c.Gateway = c.Node },
		"--path: name at least one":    func(c *Command) { c.Path = nil },
		"--path: name the one over":    func(c *Command) { c.Path = c.Path[:1] },
		"--path: gateway-x is":         func(c *Command) { c.Path[0].Name = "gateway-x" },
		"--slice: ":                    func(c *Command) { c.Slice = 0 },
	} {
		c := good()
		change(c)
		if err := c.Check(10); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := good().Check(0); err == nil || !strings.Contains(fmt.Sprint(err), "--rounds: 0") {
		t.Error(err)
	}
}
