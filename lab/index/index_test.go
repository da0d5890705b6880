package index

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

func find(_, name string) (stats.Metric, bool) {
	return stats.Metric{Name: name, Unit: "Gbit/s", Title: "Throughput", Higher: true}, name == "rate"
}

// run is one of n rounds on a day, with a kernel and a parameter.
func run(day int, kernel, routed string, overlay float64) Run {
	r := result.Result{
		Schema: result.Schema, Experiment: "ab", Started: time.Date(2026, 11, day, 6, 0, 0, 0, time.UTC),
		Parameters: result.Parameters{"routed": result.Words(routed), "rounds": result.Count(day)}, Environment: result.Environment{Kernel: kernel, Versions: map[string]string{"selvage": "v1"}},
		Targets: []result.Target{{Name: "plain"}, {Name: "<overlay>"}},
		Verdict: result.Verdict{Headline: fmt.Sprintf("Day %d.", day), Explanation: "And more.", Refused: day == 3},
	}
	for round := 1; round <= 3; round++ {
		for target, v := range map[string]float64{"plain": 10, "<overlay>": overlay} {
			r.Samples = append(r.Samples, result.Sample{Target: target, Case: "tcp", Round: round, Metrics: map[string]float64{"rate": v}})
		}
	}
	r.Summary = stats.Summarise(r, "plain", []stats.Metric{{Case: "tcp", Name: "rate", Unit: "Gbit/s"}})
	return Run{Link: fmt.Sprintf("day%d/report.html", day), Result: r, Metric: find}
}

func draw(t *testing.T, unread []Unread, runs ...Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := Page(&b, runs, unread); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="([^"]*)"|url\(|@import|NaN|Inf|ZgotmplZ|%!|<overlay>`).FindAllStringSubmatch(b.String(), -1) {
		if !regexp.MustCompile(`^day\d/report.html$`).MatchString(m[1]) {
			t.Errorf("the page holds %q", m[0])
		}
	}
	if !strings.Contains(b.String(), "default-src 'none'") {
		t.Error("the page has no policy")
	}
	return b.String()
}

func TestPage(t *testing.T) {
	runs := []Run{run(3, "6.18.6", "false", 8), run(1, "6.18.5", "false", 9), run(2, "6.18.5", "false", 9), run(4, "6.18.6", "true", 7), run(5, "6.18.6", "true", 7.5)}
	page := draw(t, []Unread{{"old/result.json", "another <schema>"}}, runs...)
	for _, want := range []string{
		"5 runs of 1 experiment, 1 without a verdict", "1 November 2026 to 5 November 2026", "routed true", "routed false",
		"2026-11-03 06:00: kernel: 6.18.5, then 6.18.6", `class="none">Day 3.`, "another &lt;schema&gt;", "Throughput, tcp", "ratio to the baseline, higher is better",
		"&lt;overlay&gt;: median 9.00 Gbit/s",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	if n := strings.Count(page, `class="guide"`); n != 2 { // wide and narrow
		t.Errorf("%d changes are marked, want 1", n/2)
	}
	if n := strings.Count(page, `class="hollow"`); n != 2 {
		t.Errorf("%d points are hollow, want 1", n/2)
	}
	if n := strings.Count(page, `class="spot"`); n != 2*4 {
		t.Errorf("%d points, want 4: 3 of one trend and 2 of the other, one of them hollow", n/2)
	}
	if five, one := strings.Index(page, "Day 5."), strings.Index(page, "Day 1."); five < 0 || one < five {
		t.Error("the newest run is not the first of the list")
	}
	if again := draw(t, []Unread{{"old/result.json", "another <schema>"}}, runs[4], runs[2], runs[0], runs[1], runs[3]); again != page {
		t.Error("the order of the runs changes the page")
	}
}

// Of an experiment that is not known, nobody says which way is better.
func TestUnknownExperiment(t *testing.T) {
	runs := []Run{run(1, "6.18.5", "false", 9), run(2, "6.18.5", "false", 8)}
	runs[0].Metric, runs[1].Metric = nil, nil
	if page := draw(t, nil, runs...); !strings.Contains(page, "rate, tcp") || strings.Contains(page, "is better") {
		t.Error("no trend of an unknown experiment, or a way that is better")
	}
}

// One run has no trend, and figures that do not change have one all the same.
func TestFew(t *testing.T) {
	if page := draw(t, nil, run(1, "6.18.5", "false", 9)); strings.Contains(page, "<figure>") || !strings.Contains(page, "1 run of 1 experiment") {
		t.Error("a trend of one run")
	}
	if page := draw(t, nil); !strings.Contains(page, "There is no result here.") {
		t.Error("a page without runs")
	}
	same := draw(t, nil, run(1, "6.18.5", "false", 0), run(2, "6.18.5", "false", 0))
	if strings.Count(same, "<figure>") != 1 {
		t.Error("no trend of zeroes")
	}
}

func TestLevels(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		want   string
	}{{0.85, 1.03, "[0.85 0.9 0.95 1]"}, {0, 10, "[0 2 4 6 8 10]"}, {-1, 1, "[-1 -0.5 0 0.5 1]"}, {1e5, 3e5, "[100000 150000 200000 250000 300000]"}} {
		if got := fmt.Sprint(levels(c.lo, c.hi)); got != c.want {
			t.Errorf("%g … %g: %s, want %s", c.lo, c.hi, got, c.want)
		}
	}
}
