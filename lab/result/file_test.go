package result

import (
	"bytes"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWriteReadRoundTrip(t *testing.T) {
	want := Result{
		Schema: Schema, Experiment: "ab", Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Parameters: Parameters{
			"rounds": Count(1), "slice": Time(1500 * time.Microsecond).Explained("of TCP"), "routed": Of(Bool(true)), "sizes": Counts([]int{1, 64}).In("kB"),
			"cases": Of(Texts{"tcp", "rr"}), "none": Of(Texts{}), "rules": Counts([]int{0, 100}), "cores": Words("one"),
		},
		Samples: []Sample{{Target: "plain", Case: "tcp", Round: 1,
			Metrics: map[string]float64{"tcp_throughput": 18.6}, Latency: []Quantile{{0.5, 18.75}}}},
		Verdict: Verdict{Refused: true, Headline: "No.", Explanation: "Why.", Findings: []Finding{{Topic: "Noise", Text: "a: b"}, {Text: "c"}}},
	}
	var buf bytes.Buffer
	if err := Write(&buf, want); err != nil {
		t.Fatal(err)
	}
	got, err := Read(&buf)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWriteRefuses(t *testing.T) {
	if err := Write(&bytes.Buffer{}, Result{}); err == nil || !strings.Contains(err.Error(), `schema is ""`) {
		t.Errorf("empty schema: %v", err)
	}
	if err := Write(&bytes.Buffer{}, Result{Schema: Schema, Parameters: Parameters{"slice": {Unit: "s"}}}); err == nil || !strings.Contains(err.Error(), "slice has no value") {
		t.Errorf("no value: %v", err)
	}
	if err := Write(&bytes.Buffer{}, Result{Schema: Schema, Duration: math.NaN()}); err == nil {
		t.Error("NaN was written")
	}
}

func TestReadErrors(t *testing.T) {
	head := `{"schema":"` + Schema + `"`
	for name, c := range map[string]struct{ in, want string }{
		"empty":         {" \n", "the document is empty"},
		"not JSON":      {"{\n\"a\":\n!", "line 3"},
		"no schema":     {`{"experiment":"ab"}`, "not a result of selvage lab"},
		"other schema":  {`{"schema":"selvage.dev/result/v9","new":1}`, `"selvage.dev/result/v9"`},
		"unknown field": {head + `,"smaples":[]}`, `unknown field "smaples"`},
		"wrong type":    {head + ",\n\"duration_s\":\"ten\"}", "line 2: duration_s is a string, want float64"},
		"v2":            {`{"schema":"selvage.dev/result/v2","parameters":{"rounds":"5"}}`, `"selvage.dev/result/v2", this version reads "selvage.dev/result/v3": use the selvage that wrote it`},
		"no value":      {head + `,"parameters":{"a":{"unit":"s"}}}`, "the value is neither"},
		"object value":  {head + `,"parameters":{"a":{"value":{}}}}`, "the value is neither"},
		"mixed list":    {head + `,"parameters":{"a":{"value":[1,"b"]}}}`, "other than texts alone or numbers alone"},
		"old parameter": {head + `,"parameters":{"a":"5"}}`, "parameter"},
		"bad parameter": {head + `,"parameters":{"a":{"valeu":5}}}`, `unknown field "valeu"`},
		"trailing data": {head + "}\n{}", "line 2: invalid character"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(strings.NewReader(c.in))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	name := filepath.Join(t.TempDir(), "absent.json")
	if _, err := ReadFile(name); err == nil || !strings.Contains(err.Error(), "absent.json") {
		t.Errorf("absent file: %v", err)
	}
}
