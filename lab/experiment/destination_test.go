package experiment

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/gate"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// ofTwo is an experiment of two targets that were measured so often, fast ones and slow ones.
func ofTwo(rounds int) (Experiment, result.Result) {
	metric := stats.Metric{Case: "tcp", Name: "rate", Unit: "Gbit/s", Higher: true}
	r := result.Result{Schema: result.Schema, Experiment: "two", Parameters: result.Parameters{}}
	for round := 1; round <= rounds; round++ {
		for target, v := range map[string]float64{"plain": 10, "overlay": 9} {
			r.Samples = append(r.Samples, result.Sample{Target: target, Case: "tcp", Round: round, Metrics: map[string]float64{"rate": v}})
		}
	}
	write := func(text string) func(io.Writer, result.Result) error {
		return func(w io.Writer, _ result.Result) error {
			_, err := io.WriteString(w, text)
			return err
		}
	}
	return Experiment{
		Name:      "two",
		Summarise: func(r result.Result) []result.Row { return stats.Summarise(r, "plain", []stats.Metric{metric}) },
		Verdict:   func(result.Result) result.Verdict { return result.Verdict{Headline: "Nine of ten."} },
		Page:      write("page"), Table: write("table"),
	}, r
}

// A run ends by its conditions, after its files were written and its rows printed.
func TestConditionsOfRun(t *testing.T) {
	for text, want := range map[string]string{
		"overlay/rate<0.95@plain": "the whole interval is beyond it",
		"overlay/rate<0.8@plain":  "",
		"nobody/rate<1":           `no target "nobody"`,
	} {
		e, r := ofTwo(3)
		dir := t.TempDir()
		var out, log bytes.Buffer
		to := Destination{Output: "csv", FailIf: make([]gate.Condition, 1)}
		if err := to.FailIf[0].UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		err := finish(&Console{Out: &out, Err: &log}, e, dir, to, r, nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		var failure gate.Failure
		if errors.As(err, &failure) != strings.Contains(want, "beyond") {
			t.Errorf("%s: %v", text, err)
		}
		if !strings.Contains(out.String(), "two,0001-01-01T00:00:00Z,overlay,tcp,rate,Gbit/s,9,9,9,3,plain,0.9,0.9,0.9,true") {
			t.Errorf("%s: printed %s", text, out.String())
		}
		if (want == "") != strings.Contains(log.String(), "passes: overlay/tcp/rate") {
			t.Errorf("%s: told %s", text, log.String())
		}
		for _, file := range []string{ResultFile, ReportFile} {
			if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
				t.Error(err)
			}
		}
	}
}

// A run that an error broke off has no verdict.
func TestBrokenOff(t *testing.T) {
	e, r := ofTwo(3)
	dir := t.TempDir()
	if err := finish(&Console{Out: io.Discard, Err: io.Discard}, e, dir, Destination{}, r, errors.New("no host")); err == nil {
		t.Error("no error")
	}
	got, err := result.ReadFile(filepath.Join(dir, ResultFile))
	if err != nil || got.Verdict.Headline != "No verdict: the run was interrupted in sample 7: no host." {
		t.Errorf("%+v, %v", got.Verdict, err)
	}
}

// Of an interrupted run no condition passes.
func TestConditionsOfInterruptedRun(t *testing.T) {
	_, r := ofTwo(3)
	Interrupt(&r, "round %d of %d", 3, 8)
	if err := Gate(io.Discard, r, make([]gate.Condition, 1)); err == nil || !strings.Contains(err.Error(), "round 3 of 8") {
		t.Error(err)
	}
}

// A figure that is no number costs its own sample, or row, or parameter, and is named; the rest of the run is written and can be read.
func TestNoNumbers(t *testing.T) {
	e, r := ofTwo(3)
	summarise, nan := e.Summarise, math.NaN()
	e.Summarise = func(r result.Result) []result.Row {
		return append(summarise(r), result.Row{Target: "overlay", Case: "tcp", Metric: "computed", Ratio: math.Inf(1)})
	}
	r.Parameters["ceiling"] = result.Of(result.Number(nan))
	result.Add(&r,
		result.Sample{Target: "plain", Case: "tcp", Round: 4, Metrics: map[string]float64{"rate": math.Inf(1), "other": 1}},
		result.Sample{
			Target: "overlay", Case: "tcp", Round: 4, Duration: nan, Metrics: map[string]float64{"rate": 1e300}, Series: map[string][]float64{"a": {1, nan}, "b": {1}},
			CPU: []result.CPUShare{{User: math.Inf(-1)}, {Core: 1}}, Latency: []result.Quantile{{Q: 1, US: nan}}, Error: "slow",
		},
	)
	dir := t.TempDir()
	err := finish(&Console{Out: io.Discard, Err: io.Discard}, e, dir, Destination{Output: "json"}, r, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "2 of 8 samples failed; the first: tcp of overlay in round 4: slow; cpu is -Inf, duration_s is NaN, latency is NaN, rate is 1e+300, series a is NaN") {
		t.Error(err)
	}
	got, err := result.ReadFile(filepath.Join(dir, ResultFile))
	if err != nil {
		t.Fatal(err)
	}
	if s := got.Samples[6]; !strings.HasPrefix(s.Error, "rate is +Inf, which is no figure") || len(s.Metrics) != 1 {
		t.Errorf("%+v", s)
	}
	if s := got.Samples[7]; len(s.Series) != 1 || len(s.CPU) != 1 || len(s.Latency) != 0 || s.Duration != 0 {
		t.Errorf("%+v", s)
	}
	if len(got.Summary) != 2 || len(got.Parameters) != 0 || !strings.HasPrefix(got.Verdict.Findings[0].Text, "computed of overlay (tcp), parameter ceiling: ") {
		t.Errorf("%+v %+v %+v", got.Summary, got.Parameters, got.Verdict)
	}
}
