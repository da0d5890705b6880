package turns

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Flags of both kinds of networks are not mixed, and any of places asks for these.
func TestFlagsApart(t *testing.T) {
	for line, want := range map[string]struct {
		given bool
		err   string
	}{
		"cmd":                              {},
		"cmd --targets x --rounds 3":       {},
		"cmd --port 7 --rounds 3":          {given: true},
		"cmd --dry-run":                    {given: true},
		"cmd --targets x --port 7 --quick": {err: "--targets, --quick is for networks that the lab builds, and --port for places that exist"},
	} {
		var c struct {
			Cmd struct {
				Targets string
				Quick   bool
				Rounds  int
				Places  struct{ Flags } `embed:""`
			} `cmd:""`
		}
		parser, err := kong.New(&c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = parser.Parse(strings.Fields(line))
		if (err == nil) != (want.err == "") || err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("%s: %v", line, err)
		}
		if err == nil && (c.Cmd.Places.Given != want.given || c.Cmd.Places.Port == 0 || c.Cmd.Places.MaxTime != time.Minute) {
			t.Errorf("%s: %+v", line, c.Cmd.Places)
		}
	}
}

func TestText(t *testing.T) {
	for text, want := range map[string]Rate{"500M": 500e6, "2G": 2e9, "1.5g": 1.5e9, "64k": 64e3, "1000000": 1e6} {
		var r Rate
		if err := r.UnmarshalText([]byte(text)); err != nil || r != want {
			t.Errorf("%s: %d, %v", text, r, err)
		}
	}
	for text, want := range map[string]string{
		"10.0.0.1": "is not NAME=ADDR", "=10.0.0.1": "is not NAME=ADDR", "a=": "is not NAME=ADDR", "a=host": "is not NAME=ADDR",
		"a=fe80::1%eth0": "give the server an address", "a=fe80::1": "give the server an address", "a=fd00::1%eth0": "give the server an address",
		"a=::": "no address of a server", "a=ff02::1": "no address of a server", "a=::ffff:10.0.0.1": "", "a=169.254.0.1": "",
	} {
		if err := new(Path).UnmarshalText([]byte(text)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("path %q: %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"", "M", "fast", "1", "-5M", "NaN", "9999999G"} {
		if err := new(Rate).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("rate %q is no error", text)
		}
	}
}

// Ratios are of rounds that both sides have; where a value is 0 there are differences.
func TestAgainst(t *testing.T) {
	m := stats.Metric{Case: "tcp", Name: "x", Unit: "Gbit/s"}
	var r result.Result
	for round := range 10 {
		for target, v := range map[string]float64{"a": float64(100 + round), "b": 0.5 * float64(100+round)} {
			if target == "b" && round == 9 {
				continue
			}
			r.Samples = append(r.Samples, result.Sample{Target: target, Case: "tcp", Round: round + 1, Metrics: map[string]float64{"x": v, "zero": v - v, "some": v}})
		}
	}
	row, ok := Row(r, "b", m)
	Against(&row, "a", stats.Values(r, "b", "tcp", "x"), stats.Values(r, "a", "tcp", "x"))
	if !ok || math.Abs(row.Ratio-0.5) > 1e-9 || !row.Distinguishable || row.N != 9 || row.Baseline != "a" {
		t.Errorf("%+v", row)
	}
	Against(&row, "a", stats.Values(r, "b", "tcp", "some"), stats.Values(r, "a", "tcp", "zero"))
	if row.Ratio != 0 || row.Difference != 52 || !row.Distinguishable {
		t.Errorf("%+v", row)
	}
	if _, ok := Row(r, "c", m); ok {
		t.Error("a row without a value")
	}
	if iv := Difference(map[int]float64{1: 5}, map[int]float64{1: 2}); iv.Median != 3 || Apart(iv) {
		t.Errorf("one round: %+v", iv)
	}
}

// What a GB costs is of all that arrived, with the warm-up, at each place that was watched.
func TestCostPerGB(t *testing.T) {
	s := result.Sample{Metrics: map[string]float64{CPUMetric("", "a"): 1, CPUMetric("", "b"): 0.5}, Series: map[string][]float64{result.TCPSeries: {0, 8, 8, 16}}}
	got := CostPerGB(s, "a", "b", "unwatched")
	if len(got) != 2 || got["a"+CPUPerGB] != 1 || got["b"+CPUPerGB] != 0.5 {
		t.Error(got)
	}
	s.Series[result.TCPSeries] = []float64{0, 0}
	if got := CostPerGB(s, "a"); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}
