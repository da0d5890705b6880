package places

import (
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/result"
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
		"one round":    {experimenttest.Keeping(func(s result.Sample) bool { return s.Round == 1 }), "What each path carries"},
		"sizes alone":  {experimenttest.Keeping(func(s result.Sample) bool { return isSize(s.Case) }), "Verdict refused"},
		"no sizes":     {experimenttest.Keeping(func(s result.Sample) bool { return !isSize(s.Case) }), "stall with an MSS"},
		"one path":     {experimenttest.Without("overlay"), "What each path carries"},
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

// synthetic is a run over one path: transfers whose series is given, and a search to the server.
func synthetic(series []float64, largest, believed, reported float64) (r result.Result) {
	r = result.Result{Schema: result.Schema, Experiment: Name, Parameters: result.Parameters{"slice": result.Time(time.Second), "rounds": result.Count(1)}}
	for _, suffix := range []string{"", reverse} {
		r.Samples = append(r.Samples,
			result.Sample{Target: "lan", Case: tcp + suffix, Round: 1, Duration: 1, Series: map[string][]float64{measure.TCPSeries: series},
				Metrics: map[string]float64{measure.TCPThroughput: 9, measure.MSS: 1448, ipVersion: 4}},
			result.Sample{Target: "lan", Case: size + suffix, Round: 1, Metrics: map[string]float64{
				measure.LargestSize: largest, measure.LargestBest: largest, measure.BelievedMTU: believed, measure.ReportedMTU: reported}})
	}
	return r
}

// A stall is a hole; silence beside transfers that pass is told, and is none.
func TestVerdict(t *testing.T) {
	passes, stalls := []float64{9, 9, 9, 9}, []float64{1, 0, 0, 0}
	for name, c := range map[string]struct {
		r    result.Result
		want []string
	}{
		"whole":    {synthetic(passes, 1500, 1500, 0), []string{"No black hole: lan carries 9.00 Gbit/s and packets of 1,500 bytes."}},
		"told":     {synthetic(passes, 1400, 1500, 1400), []string{"No black hole", "ICMP errors tell the sender of 1,400"}},
		"clamped":  {synthetic(passes, 1400, 1500, 0), []string{"No black hole", "vanish silently. TCP lives"}},
		"hole":     {synthetic(stalls, 1400, 1500, 0), []string{"An MTU black hole: over lan, client to server, 1 of 1 transfers stall", "no ICMP error tells it", "maxseg size set 1360"}},
		"loss":     {synthetic(stalls, 1500, 1500, 0), []string{"No black hole", "not for their size"}},
		"deaf":     {synthetic(stalls, 1400, 1500, 1400), []string{"An MTU black hole", "ICMP errors tell the sender of 1,400"}},
		"unproven": {experimentOf(synthetic(passes, 1400, 1500, 0).Samples[1:2]), []string{"No verdict: no transfer over lan succeeded"}},
	} {
		v := verdict(c.r)
		text := v.String()
		for _, f := range v.Findings {
			text += "\n" + f.Text
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in %s", name, want, text)
			}
		}
	}
}

func experimentOf(samples []result.Sample) result.Result {
	return result.Result{Schema: result.Schema, Experiment: Name, Samples: samples}
}

func TestCheck(t *testing.T) {
	good := func() *Command {
		return &Command{
			Client: place.Place{Kind: place.SSH, Host: "a"}, Server: place.Place{Kind: place.SSH, Host: "b"}, Path: []turns.Path{{Name: "x"}},
			Inner: []Inner{{Client: true, Interface: "x0"}}, InnerMTU: []int{1300, 1400},
			Flags: turns.Flags{Port: 1, Slice: time.Second, MaxTime: time.Minute},
		}
	}
	if err := good().Check(10); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Command){
		"--client: name a place":           func(c *Command) { c.Client = place.Place{} },
		"--server: nothing can run":        func(c *Command) { c.Server = place.Place{Kind: place.Address} },
		"--inner and --inner-mtu":          func(c *Command) { c.Inner = nil },
		"--inner-mtu: 1279 is not within":  func(c *Command) { c.InnerMTU = []int{1279} },
		"--inner-mtu: 1400 is named twice": func(c *Command) { c.InnerMTU = []int{1400, 1400} },
	} {
		c := good()
		change(c)
		if err := c.Check(10); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	var i Inner
	if err := i.UnmarshalText([]byte("both:eth1.7")); err != nil || i != (Inner{true, true, "eth1.7"}) {
		t.Errorf("%+v, %v", i, err)
	}
	for _, text := range []string{"", "eth1", "all:eth1", "both:", "client:eth1:mtu=5"} {
		if err := new(Inner).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is no error", text)
		}
	}
}
