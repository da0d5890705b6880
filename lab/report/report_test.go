package report

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func recorded(t *testing.T) result.Result {
	t.Helper()
	return recordedAs(t, "ab")
}

func recordedAs(t *testing.T, experiment string) result.Result {
	t.Helper()
	r, err := result.ReadFile("testdata/" + experiment + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// experiments are those with a page of their own. (ab.json is of samples of seconds, as the A/B
// experiment once had them; slices.json is as it has them now:
// lab ab --targets wire,limit,plain,kernel,selvage --cases tcp,rr,udp,transit --rounds 8 --cycles 4.)
func experiments() []string {
	return []string{"ab", stats.MTU, stats.RFC2544, stats.Cache, stats.Latency, stats.Egress, stats.Offload, stats.Failover, stats.Converge, stats.Attack}
}

func draw(t *testing.T, r result.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func table(t *testing.T, r result.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := Table(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	pages := map[string]string{}
	for _, name := range append(experiments(), "slices") {
		r := recordedAs(t, name)
		pages["testdata/"+name+".html"], pages["testdata/"+name+".txt"] = draw(t, r), table(t, r)
	}
	for name, got := range pages {
		if *update {
			if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatalf("%v (run go test -update)", err)
		}
		if string(want) != got {
			t.Errorf("%s differs (run go test -update and look at it):\n%s", name, cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")))
		}
	}
}

// TestSelfContained looks for anything that a browser would fetch.
func TestSelfContained(t *testing.T) {
	html := ""
	for _, name := range experiments() {
		html += draw(t, recordedAs(t, name))
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="([^"]{0,40})|url\(|@import`).FindAllStringSubmatch(html, -1) {
		if !strings.HasPrefix(m[1], "data:application/json;base64,") && m[1] != "result.json" {
			t.Errorf("the page refers to %q", m[0])
		}
	}
	if !strings.Contains(html, `default-src 'none'`) || strings.Contains(html, "ZgotmplZ") {
		t.Error("no policy, or the template filtered a value")
	}
}

// TestOddResults draws what interrupted, small and broken runs leave behind.
func TestOddResults(t *testing.T) {
	keep := func(r *result.Result, ok func(result.Sample) bool) {
		r.Samples = slices.DeleteFunc(r.Samples, func(s result.Sample) bool { return !ok(s) })
	}
	without := func(name string) func(*result.Result) {
		return func(r *result.Result) {
			keep(r, func(s result.Sample) bool { return s.Target != name })
			r.Targets = slices.DeleteFunc(r.Targets, func(c result.Target) bool { return c.Name == name })
		}
	}
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"nothing":    {func(r *result.Result) { *r = result.Result{Schema: result.Schema} }, "Verdict refused"},
		"no samples": {func(r *result.Result) { r.Samples = nil }, "Verdict refused"},
		"no plain":   {without("plain"), "plain was not measured"},
		"no selvage": {without("selvage"), "The kernel"},
		"no wire":    {without("wire"), "bare wire was not measured"},
		"one round": {func(r *result.Result) {
			keep(r, func(s result.Sample) bool { return s.Round == 1 })
			r.Parameters["rounds"] = "1"
		}, "at least 3 rounds"},
		"interrupted": {func(r *result.Result) { keep(r, func(s result.Sample) bool { return s.Round < 4 }) }, "no sample of round 4, 5 of 5"},
		"only udp":    {func(r *result.Result) { keep(r, func(s result.Sample) bool { return s.Case == "udp" }) }, "was not measured"},
		"all failed": {func(r *result.Result) {
			for i := range r.Samples {
				r.Samples[i] = result.Sample{Target: r.Samples[i].Target, Case: r.Samples[i].Case, Round: r.Samples[i].Round, Error: "<b>no route</b>"}
			}
		}, "&lt;b&gt;no route&lt;/b&gt;"},
		"hostile names": {func(r *result.Result) {
			r.Targets = append(r.Targets, result.Target{Name: `"><script>x</script>`})
			r.Samples = append(r.Samples, result.Sample{Target: `"><script>x</script>`, Case: "tcp", Round: 1, Metrics: map[string]float64{"tcp_throughput": 1}})
			r.Topology.Nodes[0].Name = `</svg><script>x</script>`
		}, "k-x0"},
		"zeros": {func(r *result.Result) {
			for _, s := range r.Samples {
				for k := range s.Metrics {
					s.Metrics[k] = 0
				}
				for _, values := range s.Series {
					clear(values)
				}
			}
		}, "moved nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			r := recorded(t)
			c.change(&r)
			r.Summary, r.Verdict = nil, result.Verdict{}
			html := draw(t, r)
			if !strings.Contains(html, c.want) {
				t.Errorf("no %q in the page", c.want)
			}
			if bad := regexp.MustCompile(`NaN|\+Inf|-Inf|<script>x|%!`).FindString(html); bad != "" {
				t.Errorf("the page holds %q", bad)
			}
			text := table(t, r)
			if strings.Contains(text, "NaN") || strings.Contains(text, "No verdict") != diagnose.Verdict(r).Refused {
				t.Error(text)
			}
		})
	}
}

// TestOddMTU draws what interrupted, small and broken runs of the MTU experiment leave
// behind.
func TestOddMTU(t *testing.T) {
	keep := func(ok func(result.Sample) bool) func(*result.Result) {
		return func(r *result.Result) {
			r.Samples = slices.DeleteFunc(r.Samples, func(s result.Sample) bool { return !ok(s) })
		}
	}
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"nothing":     {func(r *result.Result) { *r = result.Result{Schema: result.Schema, Experiment: stats.MTU} }, "Verdict refused"},
		"no samples":  {func(r *result.Result) { r.Samples = nil }, "Verdict refused"},
		"hole only":   {keep(func(s result.Sample) bool { return stats.IsHole(s.Case) }), "has an MTU black hole"},
		"sizes only":  {keep(func(s result.Sample) bool { return stats.IsSize(s.Case) }), "no transfer was made that could fall"},
		"sweep only":  {keep(func(s result.Sample) bool { _, _, ok := stats.Swept(s.Case); return ok }), "What limits the rate"},
		"one size":    {keep(func(s result.Sample) bool { size, _, ok := stats.Swept(s.Case); return ok && size == 536 }), "no conclusion: the MSS in use did not change"},
		"no plain":    {keep(func(s result.Sample) bool { return s.Target != "plain" }), "black hole"},
		"no fixes":    {keep(func(s result.Sample) bool { return stats.IsHole(s.Case) || stats.IsSize(s.Case) }), "not measured"},
		"one round":   {keep(func(s result.Sample) bool { return s.Round == 1 }), "1 round cannot tell"},
		"other names": {func(r *result.Result) { r.Samples[0].Target = `"><script>x</script>` }, "k-x0"},
		"jumbo unused": {func(r *result.Result) {
			for _, s := range r.Samples {
				if _, ok := s.Metrics["mss"]; ok {
					s.Metrics["mss"] = 1448
				}
			}
		}, "no conclusion: the MSS in use was 1,448 bytes where 8,898 were requested"},
		"all failed": {func(r *result.Result) {
			for i := range r.Samples {
				r.Samples[i] = result.Sample{Target: r.Samples[i].Target, Case: r.Samples[i].Case, Round: 1, Error: "<b>no route</b>"}
			}
		}, "&lt;b&gt;no route&lt;/b&gt;"},
		"zeros": {func(r *result.Result) {
			for _, s := range r.Samples {
				for k := range s.Metrics {
					s.Metrics[k] = 0
				}
				for _, values := range s.Series {
					clear(values)
				}
			}
		}, "even the plain path stalls"},
	} {
		t.Run(name, func(t *testing.T) {
			r := recordedAs(t, "mtu")
			c.change(&r)
			html := draw(t, r)
			if !strings.Contains(html, c.want) {
				t.Errorf("no %q in the page", c.want)
			}
			if bad := regexp.MustCompile(`NaN|\+Inf|-Inf|<script>x|%!`).FindString(html); bad != "" {
				t.Errorf("the page holds %q", bad)
			}
			if bad := regexp.MustCompile(`NaN|\+Inf|-Inf|%!`).FindString(table(t, r)); bad != "" {
				t.Errorf("the table holds %q", bad)
			}
		})
	}
}

func TestOtherSchema(t *testing.T) {
	if err := HTML(&bytes.Buffer{}, result.Result{}); err == nil || !strings.Contains(err.Error(), "schema") {
		t.Errorf("got %v", err)
	}
}
