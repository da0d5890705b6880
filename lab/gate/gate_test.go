package gate

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

func parse(t *testing.T, text string) Condition {
	t.Helper()
	var c Condition
	if err := c.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConditions(t *testing.T) {
	for text, want := range map[string]Condition{
		"overlay/tcp_throughput<0.95@plain":               {Target: "overlay", Metric: "tcp_throughput", Number: 0.95, Baseline: "plain"},
		"overlay/tcp_throughput<50%@plain":                {Target: "overlay", Metric: "tcp_throughput", Number: 0.5, Baseline: "plain"},
		"selvage/rr-1/rr_p50>50us":                        {Target: "selvage", Case: "rr-1", Metric: "rr_p50", Above: true, Number: 50, Unit: "us"},
		"selvage/gateway/link-down/outage_max>2":          {Target: "selvage", Case: "gateway/link-down", Metric: "outage_max", Above: true, Number: 2},
		"kernel/tcp_throughput<9.5 Gbit/s":                {Target: "kernel", Metric: "tcp_throughput", Number: 9.5, Unit: "Gbit/s"},
		"selvage/two-hosts-on/rr_p50>1.1@selvage:rules-0": {Target: "selvage", Case: "two-hosts-on", Metric: "rr_p50", Above: true, Number: 1.1, Baseline: "selvage:rules-0"},
		"selvage-geneve/udp/udp_pps<-1":                   {Target: "selvage-geneve", Case: "udp", Metric: "udp_pps", Number: -1},
	} {
		var c Condition
		err := c.UnmarshalText([]byte(text))
		want.text = text
		if err != nil || c != want || c.String() != text {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
}

// An error names the character at which a condition is wrong.
func TestWrongConditions(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "character 1: there is no < or >",
		"overlay/tcp":           "character 12: there is no < or >",
		"overlay<1":             "character 8: there is no / between",
		"/tcp<1":                "character 1: there is no target",
		"overlay/<1":            "character 9: there is no metric",
		"overlay/tcp rate<1":    "character 12: the name of a metric",
		"overlay/tcp<=1":        "character 13: an interval is beyond",
		"overlay/tcp<":          `character 13: "" is no number`,
		"overlay/tcp<fast":      `character 13: "fast" is no number`,
		"overlay/tcp<2e2":       `character 14: unknown unit "e2"`,
		"overlay/tcp<1.2.3":     `character 13: "1.2.3" is no number`,
		"µ/tcp<1Gbps":           `character 8: unknown unit "Gbps"; choose from`,
		"overlay/tcp<0.9@":      "character 17: there is no baseline",
		"overlay/tcp<0@plain":   "character 13: a ratio is above 0",
		"overlay/tcp<1ms@plain": "character 14: a ratio has no unit",
	} {
		var c Condition
		if err := c.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// measured is a result of two targets and n rounds: plain about 10, overlay 9, which changes by a
// hundredth from round to round.
func measured(n int) result.Result {
	r := result.Result{Schema: result.Schema, Experiment: "of the test"}
	for round := 1; round <= n; round++ {
		noise := 1 + float64(round%3-1)/100
		for target, v := range map[string]float64{"plain": 10, "overlay": 9 * noise, "idle": 0} {
			r.Samples = append(r.Samples, result.Sample{Target: target, Case: "tcp", Round: round, Metrics: map[string]float64{"rate": v}})
		}
		r.Samples = append(r.Samples, result.Sample{Target: "overlay", Case: "rr", Round: round, Metrics: map[string]float64{"rate": 1 + float64(round)}})
	}
	r.Summary = stats.Summarise(r, "plain", []stats.Metric{{Case: "tcp", Name: "rate", Unit: "Gbit/s"}, {Case: "rr", Name: "rate", Unit: "Gbit/s"}})
	return r
}

func TestEvaluate(t *testing.T) {
	r := measured(8)
	for text, want := range map[string]string{
		"overlay/tcp/rate<0.95@plain":     Fails,
		"overlay/tcp/rate<95%@plain":      Fails,
		"overlay/tcp/rate<0.85@plain":     Passes,
		"overlay/tcp/rate<0.9@plain":      Undecided,
		"overlay/tcp/rate>0.85@plain":     Fails,
		"overlay/tcp/rate>0.9@plain":      Undecided,
		"overlay/tcp/rate<9.5":            Fails,
		"overlay/tcp/rate<9500Mbit/s":     Fails,
		"overlay/tcp/rate<8Gbit/s":        Passes,
		"plain/tcp/rate>1.1@overlay":      Fails, // a baseline that is not the row's own
		"plain/tcp/rate<1.05@overlay":     Passes,
		"overlay/tcp/rate<9.2@overlay:rr": Fails,
	} {
		outcomes, err := Evaluate(r, parse(t, text))
		if err != nil || len(outcomes) != 1 || outcomes[0].Outcome != want {
			t.Errorf("%s: %+v, %v, want %s", text, outcomes, err, want)
		}
	}
	outcomes, err := Evaluate(r, parse(t, "overlay/rate<5"))
	if err != nil || len(outcomes) != 2 || outcomes[0].Outcome != Passes || outcomes[1].Outcome != Undecided {
		t.Errorf("a condition without a case: %+v, %v", outcomes, err)
	}
}

// What cannot be evaluated is an error, not a pass.
func TestNotEvaluated(t *testing.T) {
	for text, want := range map[string]string{
		"selvage/rate<1":            `no target "selvage"; choose from `,
		"overlay/latency<1":         `no metric "latency"; choose from rate`,
		"overlay/udp/rate<1":        `no case "udp"; choose from tcp, rr`,
		"overlay/tcp/rate<1ms":      "the unit of overlay/tcp/rate is Gbit/s, not ms",
		"overlay/tcp/rate<0.9@wire": `no baseline "wire"; choose from`,
		"plain/tcp/rate<0.9@plain":  `no baseline "plain"`,
		"overlay/tcp/rate<0.9@idle": "a figure is 0",
		"overlay/rr/rate<0.9@plain": "no rounds in common",
	} {
		r := measured(8)
		if outcomes, err := Evaluate(r, parse(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %q", text, outcomes, err, want)
		}
	}
	if _, err := Evaluate(measured(2), parse(t, "overlay/tcp/rate<0.95@plain")); err == nil || !strings.Contains(err.Error(), "2 of the at least 3 rounds") {
		t.Errorf("two rounds: %v", err)
	}
	sliced := measured(5)
	sliced.Parameters = result.Parameters{"slice": result.Time(10 * time.Millisecond)}
	if _, err := Evaluate(sliced, parse(t, "overlay/tcp/rate<9.5")); err == nil || !strings.Contains(err.Error(), "5 of the at least 8 rounds") {
		t.Errorf("five rounds of slices: %v", err)
	}
}

func TestEvaluateAll(t *testing.T) {
	r := measured(8)
	evaluate := func(c Condition) ([]Outcome, error) { return Evaluate(r, c) }
	all, err := EvaluateAll([]Condition{parse(t, "overlay/tcp/rate<8"), parse(t, "overlay/tcp/rate<0.9@plain")}, evaluate)
	if err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	_, err = EvaluateAll([]Condition{parse(t, "overlay/tcp/rate<9.5"), parse(t, "nobody/rate<1")}, evaluate)
	var failure Failure
	if !errors.As(err, &failure) || failure.ExitCode() != ExitStatus || len(failure.Outcomes) != 1 || !strings.Contains(err.Error(), `no target "nobody"`) {
		t.Errorf("%v", err)
	}
	if !strings.Contains(failure.Error(), "the whole interval is beyond it") {
		t.Error(failure.Error())
	}
}
