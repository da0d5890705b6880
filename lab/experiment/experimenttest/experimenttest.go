// Package experimenttest tests what experiments make of recorded results: golden reports, and
// reports of results that are interrupted, small or broken.
//
// Its invariant: nothing is measured, and a file is written with -update alone. Do not use it
// outside of tests.
package experimenttest

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/result"
)

// Synthesize is set where recorded results are to be replaced by those of a model.
var Synthesize = flag.Bool("synthesize", false, "write recorded results anew from models")

var update = flag.Bool("update", false, "rewrite the golden files")

// Recorded is the result testdata/NAME.json.gz.
func Recorded(t *testing.T, name string) result.Result {
	t.Helper()
	r, err := result.ReadFile("testdata/" + name + ".json.gz")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Draw is the page of r.
func Draw(t *testing.T, e experiment.Experiment, r result.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := e.WritePage(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Table is the table of r.
func Table(t *testing.T, e experiment.Experiment, r result.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := e.WriteTable(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Golden compares the table of recorded results and the outline of their page with testdata/NAME.txt, and
// looks for anything that a browser would fetch.
func Golden(t *testing.T, e experiment.Experiment, names ...string) {
	for _, name := range names {
		r := Recorded(t, name)
		page := Draw(t, e, r)
		parts, err := outline(page)
		if err != nil {
			t.Errorf("the page of %s: %v", name, err)
		}
		golden(t, "testdata/"+name+".txt", Table(t, e, r)+"\nThe page\n\n"+parts)
		for _, m := range regexp.MustCompile(`(?:src|href)="([^"]{0,40})|url\(|@import`).FindAllStringSubmatch(page, -1) {
			if !strings.HasPrefix(m[1], "data:application/json;base64,") && m[1] != "result.json" {
				t.Errorf("%s: the page refers to %q", name, m[0])
			}
		}
		if !strings.Contains(page, `default-src 'none'`) {
			t.Errorf("%s: no policy", name)
		}
	}
	if err := e.WritePage(&bytes.Buffer{}, result.Result{}); err == nil || !strings.Contains(err.Error(), "schema") {
		t.Errorf("a page of another schema: %v", err)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("%v (run go test -update)", err)
	}
	if string(want) != got {
		t.Errorf("%s differs (run go test -update and look at it):\n%s", name, cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")))
	}
}

// DrawOdd draws a changed result both ways and looks for what must never be there.
func DrawOdd(t *testing.T, e experiment.Experiment, r result.Result, want string) {
	t.Helper()
	r.Summary, r.Verdict = nil, result.Verdict{}
	html, text := Draw(t, e, r), Table(t, e, r)
	if !strings.Contains(html, want) {
		t.Errorf("no %q in the page", want)
	}
	if bad := regexp.MustCompile(`NaN|\+Inf|-Inf|%!`).FindString(html + text); bad != "" || strings.Contains(html, "<script>x") {
		t.Errorf("the report holds %q or a script", bad)
	}
	if strings.Contains(text, "No verdict") != e.Verdict(r).Refused {
		t.Error(text)
	}
}

// Keeping leaves some of the samples.
func Keeping(ok func(result.Sample) bool) func(*result.Result) {
	return func(r *result.Result) {
		r.Samples = slices.DeleteFunc(r.Samples, func(s result.Sample) bool { return !ok(s) })
	}
}

// Without leaves out a target.
func Without(target string) func(*result.Result) {
	return func(r *result.Result) {
		r.Samples = slices.DeleteFunc(r.Samples, func(s result.Sample) bool { return s.Target == target })
		r.Targets = slices.DeleteFunc(r.Targets, func(c result.Target) bool { return c.Name == target })
	}
}

// EachSample changes samples of a target, "" for all, whose case begins so.
func EachSample(target, caseName string, change func(*result.Sample)) func(*result.Result) {
	return func(r *result.Result) {
		for i := range r.Samples {
			if s := &r.Samples[i]; (target == "" || s.Target == target) && strings.HasPrefix(s.Case, caseName) {
				change(s)
			}
		}
	}
}

// Zeroed makes all figures of a sample 0.
func Zeroed(s *result.Sample) {
	for k := range s.Metrics {
		s.Metrics[k] = 0
	}
	for _, values := range s.Series {
		clear(values)
	}
}

// Failed makes a sample one that failed.
func Failed(s *result.Sample) {
	*s = result.Sample{Target: s.Target, Case: s.Case, Round: s.Round, Error: "<b>no route</b>"}
}

// Parse reads a command line into command, a pointer as Experiment.Command has it.
func Parse(command any, args ...string) error {
	parser, err := kong.New(command, kong.Exit(func(int) {}))
	if err != nil {
		return err
	}
	_, err = parser.Parse(args)
	return err
}

// Figures sets metrics in samples of a target, "" for all, whose case begins so.
func Figures(target, caseName string, metrics map[string]float64) func(*result.Result) {
	return EachSample(target, caseName, func(s *result.Sample) {
		for name, value := range metrics {
			s.Metrics[name] = value
		}
	})
}

// Samples makes one sample of a case per value, rounds from 1.
func Samples(target, caseName, metric string, values ...float64) []result.Sample {
	var samples []result.Sample
	for i, v := range values {
		samples = append(samples, result.Sample{Target: target, Case: caseName, Round: i + 1, Metrics: map[string]float64{metric: v}})
	}
	return samples
}

// TCP makes TCP samples.
func TCP(target, metric string, values ...float64) []result.Sample {
	return Samples(target, "tcp", metric, values...)
}

// Of is a result of such samples.
func Of(groups ...[]result.Sample) result.Result {
	r := result.Result{Schema: result.Schema}
	for _, g := range groups {
		r.Samples = append(r.Samples, g...)
	}
	return r
}

// Near says whether figures are the same but for how they were computed.
func Near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// Round rounds a figure of a model to so many digits.
func Round(v float64, digits int) float64 {
	p := math.Pow(10, float64(digits))
	return math.Round(v*p) / p
}

// Environment is a machine for models.
func Environment() result.Environment {
	return result.Environment{
		Kernel: "6.18.5", CPU: "AMD EPYC (virtual)", Cores: 2, MemoryBytes: 8 << 30,
		Versions: map[string]string{"selvage": "v0.1.0", "iproute2": "6.15.0"}, MTU: map[string]int{"underlay": 1700, "inner": 1500},
	}
}

// Record writes a model's result as testdata/NAME.json.gz.
func Record(t *testing.T, e experiment.Experiment, r result.Result) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	err := errors.Join(result.Write(z, e.Complete(r)), z.Close(), os.WriteFile("testdata/"+e.Name+".json.gz", b.Bytes(), 0o644))
	if err != nil {
		t.Fatal(err)
	}
}

// Lines are the findings of a verdict, one a line.
func Lines(v result.Verdict) string {
	var lines []string
	for _, f := range v.Findings {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}
