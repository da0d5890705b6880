package report

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/test/tier"
)

// drawOdd draws a changed result both ways and looks for what must never be there.
func drawOdd(t *testing.T, r result.Result, want string) {
	t.Helper()
	r.Summary, r.Verdict = nil, result.Verdict{}
	html, text := draw(t, r), table(t, r)
	if !strings.Contains(html, want) {
		t.Errorf("no %q in the page", want)
	}
	if bad := regexp.MustCompile(`NaN|\+Inf|-Inf|%!`).FindString(html + text); bad != "" || strings.Contains(html, "<script>x") {
		t.Errorf("the report holds %q or a script", bad)
	}
	if strings.Contains(text, "No verdict") != diagnose.Verdict(r).Refused {
		t.Error(text)
	}
}

func keeping(ok func(result.Sample) bool) func(*result.Result) {
	return func(r *result.Result) {
		r.Samples = slices.DeleteFunc(r.Samples, func(s result.Sample) bool { return !ok(s) })
	}
}

// eachSample changes samples of a target, "" for all, whose case begins so.
func eachSample(target, caseName string, change func(*result.Sample)) func(*result.Result) {
	return func(r *result.Result) {
		for i := range r.Samples {
			if s := &r.Samples[i]; (target == "" || s.Target == target) && strings.HasPrefix(s.Case, caseName) {
				change(s)
			}
		}
	}
}

func zeroed(s *result.Sample) {
	for k := range s.Metrics {
		s.Metrics[k] = 0
	}
	for _, values := range s.Series {
		clear(values)
	}
}

func failed(s *result.Sample) {
	*s = result.Sample{Target: s.Target, Case: s.Case, Round: s.Round, Error: "<b>no route</b>"}
}

// TestOddTransit draws what interrupted, small and broken runs of rfc2544 leave behind.
func TestOddTransit(t *testing.T) {
	tier.Slow(t)
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"nothing":    {func(r *result.Result) { *r = result.Result{Schema: result.Schema, Experiment: stats.RFC2544} }, "Verdict refused"},
		"no samples": {func(r *result.Result) { r.Samples = nil }, "Verdict refused"},
		"no limit":   {keeping(func(s result.Sample) bool { return s.Target != stats.Limit }), "limit was not measured"},
		"limit alone": {func(r *result.Result) {
			keeping(func(s result.Sample) bool { return s.Target == stats.Limit })(r)
			r.Targets = r.Targets[:1]
		}, "nothing but the limit"},
		"one round":    {keeping(func(s result.Sample) bool { return s.Round == 1 }), "no sample of round 2, 3 of 3"},
		"decap only":   {keeping(func(s result.Sample) bool { return strings.HasPrefix(s.Case, "decap") }), "out of VXLAN without loss"},
		"sweep only":   {keeping(func(s result.Sample) bool { return strings.Contains(s.Case, "flows") }), "Rate over flows"},
		"all failed":   {eachSample("", "", failed), "&lt;b&gt;no route&lt;/b&gt;"},
		"zeros":        {eachSample("", "", zeroed), "forwards nothing within the tolerance"},
		"kernel fails": {eachSample("kernel", "", failed), "Do not rely on the figures of"},
		"hostile name": {eachSample("ovs", "", func(s *result.Sample) { s.Target = `"><script>x</script>` }), "k-x0"},
		"odd case":     {eachSample("ovs", "decap", func(s *result.Sample) { s.Case = "decap-<script>x" }), "without loss"},
		"lossy everywhere": {eachSample("selvage", "", func(s *result.Sample) { s.Metrics[stats.NDR] = 0 }),
			"with at most 0.01\u00a0% loss (PDR met), and at no rate without loss (NDR not met)"},
		"smaller is slower": {eachSample("selvage", "encap-64", func(s *result.Sample) { s.Metrics[stats.PDR], s.Metrics[stats.NDR] = 1, 0.99 }), `<span class="alarm">!</span>`},
		"no parameters":     {func(r *result.Result) { r.Parameters = nil }, "the tolerated loss"},
		"both ways, twice":  {eachSample("", "decap", func(s *result.Sample) { s.Case = strings.Replace(s.Case, "decap", "both", 1) + "-x2" }), "64 ×2"},
		"broken series": {eachSample("", "", func(s *result.Sample) {
			if len(s.Series) > 0 {
				s.Series[stats.LossShare] = s.Series[stats.LossShare][:1]
			}
		}), "Latency under load"},
	} {
		t.Run(name, func(t *testing.T) {
			r := recordedAs(t, stats.RFC2544)
			c.change(&r)
			drawOdd(t, r, c.want)
		})
	}
}

// TestOddCache does so for the cache experiment.
func TestOddCache(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"nothing":    {func(r *result.Result) { *r = result.Result{Schema: result.Schema, Experiment: stats.Cache} }, "Verdict refused"},
		"no off":     {keeping(func(s result.Sample) bool { return s.Target == stats.CacheOn }), "no case was measured both"},
		"one load":   {keeping(func(s result.Sample) bool { return s.Case == "flows-1280" }), "The flow cache saves"},
		"one round":  {keeping(func(s result.Sample) bool { return s.Round == 1 }), "no sample of round 2"},
		"all failed": {eachSample("", "", failed), "&lt;b&gt;no route&lt;/b&gt;"},
		"zeros":      {eachSample("", "", zeroed), "Verdict refused"},
		"thrashing":  {eachSample(stats.CacheOn, "flows-1000000", func(s *result.Sample) { s.Metrics[stats.HitRate] = 0.4 }), "are replaced before their flow’s next packet"},
		"costs more": {eachSample(stats.CacheOn, "", func(s *result.Sample) { s.Metrics[stats.DeviceNS] = 800 }), "The flow cache costs"},
		"whole time": {eachSample("", "", func(s *result.Sample) { delete(s.Metrics, stats.DeviceNS) }), "generator and sink included, lower is better"},
	} {
		t.Run(name, func(t *testing.T) {
			r := recordedAs(t, stats.Cache)
			c.change(&r)
			drawOdd(t, r, c.want)
		})
	}
}
