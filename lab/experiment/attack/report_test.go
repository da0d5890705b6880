package attack

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/test/tier"
)

func TestGolden(t *testing.T) { experimenttest.Golden(t, Experiment(), Name) }

// TestOddAttack draws what interrupted, small and broken runs leave behind.
func TestOddAttack(t *testing.T) {
	tier.Slow(t)
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"nothing":      {func(r *result.Result) { *r = result.Result{Schema: result.Schema, Experiment: Name} }, "Verdict refused"},
		"no samples":   {func(r *result.Result) { r.Samples = nil }, "Verdict refused"},
		"ovs alone":    {experimenttest.Keeping(func(s result.Sample) bool { return s.Target == "ovs" }), "it has no NAT"},
		"one round":    {experimenttest.Keeping(func(s result.Sample) bool { return s.Round == 1 }), "Who holds"},
		"all failed":   {experimenttest.EachSample("", "", experimenttest.Failed), "&lt;b&gt;no route&lt;/b&gt;"},
		"zeros":        {experimenttest.EachSample("", "", experimenttest.Zeroed), "Who holds"},
		"hostile name": {experimenttest.EachSample("kernel", "", func(s *result.Sample) { s.Target = `"><script>x</script>` }), "k-x0"},
		"wild ratios":  {experimenttest.EachSample("selvage", "bum-storm", func(s *result.Sample) { s.Metrics[KeptRR+"_same"] = 1e9 }), "What honest pairs keep"},
	} {
		t.Run(name, func(t *testing.T) {
			r := experimenttest.Recorded(t, Name)
			c.change(&r)
			experimenttest.DrawOdd(t, Experiment(), r, c.want)
		})
	}
}

// Each target has a verdict on each attack: it holds, it loses what, or there is nothing to attack.
func TestAttackVerdicts(t *testing.T) {
	r := experimenttest.Recorded(t, Name)
	r.Summary, r.Verdict = nil, result.Verdict{}
	experimenttest.EachSample("selvage", "bum-storm", func(s *result.Sample) {
		s.Metrics = map[string]float64{Crossed: 0, KeptTCP + "_same": 1, KeptRR + "_same": 1, KeptConnections + "_same": 1}
	})(&r)
	v := viewOf(Experiment().Complete(r))
	words := map[string]bool{}
	for _, l := range v.Verdicts() {
		if len(l.Cells) != len(v.Names()) || l.Title == "" {
			t.Errorf("%s: %+v", l.Case, l)
		}
		for _, c := range l.Cells {
			word, _, _ := strings.Cut(c.Word, " ")
			words[word] = true
		}
	}
	for _, want := range []string{"holds", "loses", "not"} {
		if !words[want] {
			t.Errorf("none %s: %v", want, words)
		}
	}
}
