package ports

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/transit"
)

func TestGolden(t *testing.T) { experimenttest.Golden(t, Experiment(), Name) }

// TestOdd draws what interrupted, small and broken runs leave behind.
func TestOdd(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"nothing":     {func(r *result.Result) { *r = result.Result{Schema: result.Schema, Experiment: Name} }, "Verdict refused"},
		"one round":   {experimenttest.Keeping(func(s result.Sample) bool { return s.Round == 1 }), "Rates by frame size"},
		"one case":    {experimenttest.Keeping(func(s result.Sample) bool { return s.Case == "reverse-64" }), "From rx to tx"},
		"all failed":  {experimenttest.EachSample("", "", experimenttest.Failed), "&lt;b&gt;no route&lt;/b&gt;"},
		"zeros":       {experimenttest.EachSample("", "", experimenttest.Zeroed), "Method"},
		"strange":     {experimenttest.EachSample("", "forward-64", func(s *result.Sample) { s.Case, s.Metrics[limiterMetric] = `"><script>x</script>`, 99 }), "Rates by frame size"},
		"no latency":  {experimenttest.EachSample("", "", func(s *result.Sample) { delete(s.Metrics, transit.LatencyP50) }), "Rates by frame size"},
		"no such one": {experimenttest.EachSample("", "", func(s *result.Sample) { s.Case = "forward" }), "Rates by frame size"},
	} {
		t.Run(name, func(t *testing.T) {
			r := experimenttest.Recorded(t, Name)
			c.change(&r)
			experimenttest.DrawOdd(t, Experiment(), r, c.want)
		})
	}
}

// What set a rate is said of each, also where rounds differ, and loss at any rate is no rate.
func TestVerdict(t *testing.T) {
	one := func(ndr, pdr float64, limiters ...int) result.Result {
		r := result.Result{Schema: result.Schema, Experiment: Name, Parameters: result.Parameters{tolerance: result.Of(result.Number(0.01)).In("%")}}
		for i, limiter := range limiters {
			r.Samples = append(r.Samples, result.Sample{Target: deviceName, Case: "forward-64", Round: i + 1, Metrics: map[string]float64{
				transit.NDR: ndr, transit.PDR: pdr, limiterMetric: float64(limiter)}})
		}
		return r
	}
	for want, r := range map[string]result.Result{
		"64 bytes: 2.00 Mpps without loss [2.00, 2.00].":                                             one(2, 2, limitDevice, limitDevice),
		"2.00 Mpps without loss [2.00, 2.00], limited by the line: the device may do more":           one(2, 2, limitLine),
		"2.00 Mpps without loss [2.00, 2.00], limited by the device or line: the device may do more": one(2, 2, limitLine, limitDevice),
		"no rate is without loss; 2.00 Mpps with at most 0.01 %":                                     one(0, 2, limitDevice),
		"even the lowest rate loses more than 0.01 %":                                                one(0, 0, limitDevice),
	} {
		if v := verdict(r); v.Refused || !strings.Contains(v.Headline, want) {
			t.Errorf("%q, want %q", v.Headline, want)
		}
	}
	var topics []string
	for _, f := range verdict(one(0, 2, limitCore)).Findings {
		topics = append(topics, f.Topic)
	}
	if got := strings.Join(topics, ", "); !strings.Contains(got, "Loss at any rate, Limited by the core") {
		t.Error(got)
	}
}
