package places

import (
	"math"
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
		"never off":    {experimenttest.Keeping(func(s result.Sample) bool { return s.Case == on }), "Verdict refused"},
		"never on":     {experimenttest.Keeping(func(s result.Sample) bool { return s.Case == off }), "Verdict refused"},
		"one path":     {experimenttest.Without("overlay"), "Firewall off and on"},
		"all failed":   {experimenttest.EachSample("", "", experimenttest.Failed), "&lt;b&gt;no route&lt;/b&gt;"},
		"zeros":        {experimenttest.EachSample("", "", experimenttest.Zeroed), "Method"},
		"hostile name": {experimenttest.EachSample("overlay", "", func(s *result.Sample) { s.Target = `"><script>x</script>` }), "k-x"},
	} {
		t.Run(name, func(t *testing.T) {
			r := experimenttest.Recorded(t, Name)
			c.change(&r)
			experimenttest.DrawOdd(t, Experiment(), r, c.want)
		})
	}
}

// synthetic is a run of a firewall that adds 4 µs to a round trip and 30 to a connection.
func synthetic(rounds int, added, connection float64) (r result.Result) {
	r = result.Result{Schema: result.Schema, Experiment: Name, Parameters: result.Parameters{"slice": result.Time(time.Second), "rounds": result.Count(10)}}
	for round := range rounds {
		for _, state := range []string{off, on} {
			drift := 20 + 0.1*float64(round)
			rr, crr := drift, 5*drift
			if state == on {
				rr, crr = rr+added, crr+connection
			}
			for _, metrics := range []map[string]float64{
				{measure.RRP50: rr, measure.RRP99: 2 * rr, measure.RRP999: 3 * rr}, {rr1P50: rr - 1}, {measure.CRRP50: crr, measure.CRRRate: 1e6 / crr},
			} {
				r.Samples = append(r.Samples, result.Sample{Target: "lan", Case: state, Round: round + 1, Metrics: metrics})
			}
		}
	}
	return r
}

// What is added is the difference within rounds, whatever the drift between them.
func TestAdded(t *testing.T) {
	r := synthetic(10, 4, 30)
	for metric, want := range map[string]float64{rrAdded: 4, rr1Added: 4, crrAdded: 30} {
		row, ok := stats.Find(summarise(r), "lan", on, metric)
		if !ok || math.Abs(row.Median-want) > 1e-9 || !row.Distinguishable || row.N != 10 || row.Baseline != "lan:off" {
			t.Errorf("%s: %+v", metric, row)
		}
	}
	v := verdict(r)
	if v.Refused || !strings.HasPrefix(v.String(), "The firewall adds +4.00 µs [+4.00, +4.00] to the round trip of 20.4 µs over lan, and +30.0 µs") {
		t.Errorf("%+v", v)
	}
	if v := verdict(synthetic(10, 0, 0)); v.Refused || strings.Count(v.String(), "not distinguishable") != 2 {
		t.Errorf("a firewall that adds nothing: %s", v.String())
	}
	if v := verdict(synthetic(5, 4, 30)); !v.Refused {
		t.Errorf("of five rounds: %s", v.String())
	}
}

func TestCheck(t *testing.T) {
	good := func() *Command {
		return &Command{
			Client: place.Place{Kind: place.SSH, Host: "a"}, Server: place.Place{Kind: place.SSH, Host: "b"}, Path: []turns.Path{{Name: "x"}},
			On: "true", Off: "true", Flags: turns.Flags{Port: 1, Slice: time.Second, MaxTime: time.Minute},
		}
	}
	if err := good().Check(10); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Command){
		"--client: name a place":    func(c *Command) { c.Client = place.Place{} },
		"--server: nothing can run": func(c *Command) { c.Server = place.Place{Kind: place.Address} },
		"--path: name at least one": func(c *Command) { c.Path = nil },
		"--path: x is named twice":  func(c *Command) { c.Path = append(c.Path, c.Path...) },
		"--on and --off":            func(c *Command) { c.Off = "" },
		"--slice":                   func(c *Command) { c.Slice = time.Hour },
		"--port":                    func(c *Command) { c.Port = 70000 },
		"--settle":                  func(c *Command) { c.Settle = time.Hour },
		"--at: nothing can run":     func(c *Command) { c.At = &place.Place{Kind: place.Address} },
	} {
		c := good()
		change(c)
		if err := c.Check(10); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
