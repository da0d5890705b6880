package offload

import (
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
)

// offloadRecorded is the recorded run, with what is computed left to be computed again.
func offloadRecorded(t *testing.T, keep func(result.Sample, Stream) bool) result.Result {
	t.Helper()
	r := experimenttest.Recorded(t, Name)
	r.Summary, r.Verdict = nil, result.Verdict{}
	r.Samples = slices.DeleteFunc(r.Samples, func(s result.Sample) bool {
		stream, ok := Streamed(s.Case)
		return !ok || !keep(s, stream)
	})
	return r
}

// What interrupted, small and broken runs leave behind is drawn, and says what it lacks.
func TestOddOffloads(t *testing.T) {
	for name, c := range map[string]struct {
		keep         func(result.Sample, Stream) bool
		want, absent string
	}{
		"nothing":     {func(result.Sample, Stream) bool { return false }, "no complete round of any state in common", "By size of writes"},
		"no kernel":   {func(s result.Sample, _ Stream) bool { return s.Target != "kernel" }, "no complete round of any state in common", "Against the kernel"},
		"no selvage":  {func(s result.Sample, _ Stream) bool { return s.Target == "kernel" }, "no complete round of any state in common", "Against the kernel"},
		"one state":   {func(_ result.Sample, s Stream) bool { return s.State == AllOn }, "Against the kernel", "What each offload brings</h2>"},
		"one size":    {func(_ result.Sample, s Stream) bool { return s.Size == 65536 }, ">64\u00a0kB<", ">1\u00a0kB<"},
		"no all-off":  {func(_ result.Sample, s Stream) bool { return s.State != AllOff }, "Throughput by state", "The identity on every row"},
		"first round": {func(s result.Sample, _ Stream) bool { return s.Round == 1 }, "complete rounds of 3", "∞"},
	} {
		r := offloadRecorded(t, c.keep)
		page := experimenttest.Draw(t, Experiment(), r)
		if !strings.Contains(page, c.want) || strings.Contains(page, c.absent) || strings.Contains(page, "NaN") {
			t.Errorf("%s: want %q and not %q", name, c.want, c.absent)
		}
		if text := experimenttest.Table(t, Experiment(), r); strings.Contains(text, "NaN") || !strings.Contains(text, "No verdict") && name != "one state" && name != "one size" && name != "no all-off" {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}

// Every encapsulation and way has the study's four charts, on both widths.
func TestOffloadCharts(t *testing.T) {
	v := viewOf(Experiment().Complete(experimenttest.Recorded(t, Name)))
	groups := v.Groups()
	if len(groups) != 2 || groups[0].Title != "vxlan one way" || groups[1].Title != "vxlan both ways" {
		t.Fatalf("%d groups", len(groups))
	}
	for _, g := range groups {
		for i, title := range []string{"Throughput", "Gain of throughput", "Processor time", "Efficiency"} {
			f := g.Figures[i]
			if f.Title != title || strings.Count(string(f.Wide), "<title>") == 0 || f.Narrow == "" {
				t.Errorf("%s: figure %d is %q", g.Title, i, f.Title)
			}
		}
	}
	for _, m := range v.Matrices() {
		if len(m.Lines) != len(states()) || len(m.Sizes) != 3 {
			t.Errorf("%s has %d states, %v", m.Title, len(m.Lines), m.Sizes)
		}
	}
	// A bar that goes down has its axis below zero.
	down := chart.BundleChart{Title: "x", Bundles: []chart.Bundle{{Label: "a", Bars: []chart.Bundled{{Row: result.Row{Median: 0.5, Lo: 0.4, Hi: 0.6, N: 3}, Name: "kernel", Words: "kernel", Percent: true}}}}}
	f, ok := down.Figure(v.Color)
	if !ok || !strings.Contains(string(f.Wide), ">-") {
		t.Errorf("%s", f.Wide)
	}
	if _, ok := (chart.BundleChart{Bundles: []chart.Bundle{{Label: "a"}}}).Figure(v.Color); ok {
		t.Error("a chart without bars was drawn")
	}
}

func TestRatioCell(t *testing.T) {
	for want, row := range map[string]result.Row{
		"good": {Ratio: 1.2, RatioLo: 1.1, RatioHi: 1.3}, "bad": {Ratio: 1, RatioLo: 0.9, RatioHi: 1.09}, "": {Ratio: 1.1, RatioLo: 1, RatioHi: 1.2},
	} {
		if got := ratioCell(row, 3); got.Class != want {
			t.Errorf("%+v is %q", row, got.Class)
		}
	}
	if got := ratioCell(result.Row{Ratio: 2, RatioLo: 2, RatioHi: 2}, 1); got.Class != "" {
		t.Errorf("one round is marked %q", got.Class)
	}
	if got := ratioCell(result.Row{}, 3); got.Value != "–" {
		t.Errorf("no ratio is %q", got.Value)
	}
}

func TestGolden(t *testing.T) { experimenttest.Golden(t, Experiment(), Name) }
