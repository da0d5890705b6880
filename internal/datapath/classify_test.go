package datapath

import (
	"math/rand/v2"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
	"github.com/selvage/selvage/internal/policy/policytest"
)

// compiled is a policy that the data path has, and what it is held against.
type compiled struct {
	*evaluating
	fw      overlay.Firewall
	places  []policy.Place
	policy  *policy.Policy
	numbers policy.Numbers
}

func (j *evaluating) compile(t testing.TB, fw overlay.Firewall, places []policy.Place) compiled {
	t.Helper()
	p, err := policy.Compile(fw, places)
	must(t, err)
	c := compiled{j, fw, places, p, numbered(p, places, policytest.Segments)}
	image, err := p.Compiled(c.numbers)
	must(t, err)
	j.load(t, image)
	return c
}

// agree holds the data path, the compiled policy in Go and the plain reference against
// each other, and returns how many of the openings a rule decides about.
func (c compiled) agree(t testing.TB, queries []policy.Query) (byRules int) {
	t.Helper()
	given := make([]bpfRuleQuery, len(queries))
	for i, o := range queries {
		given[i] = inNumbers(o, c.numbers)
	}
	got, _ := c.ask(t, given, 1)
	for i, o := range queries {
		want := policy.Evaluate(c.fw, c.places, o)
		if evaluated := c.policy.Evaluate(o); evaluated != want {
			t.Fatalf("%+v is judged %+v, want %+v", o, evaluated, want)
		}
		if !sameMatch(t, "in the data path", got[i], want, c.numbers) {
			t.Fatalf("opening %+v", o)
		}
		if want.Rule < len(c.fw.Rules) {
			byRules++
		}
	}
	return byRules
}

// Random policies and openings.
func TestClassifyIsEvaluate(t *testing.T) {
	t.Parallel()
	j, byRules := newEvaluating(t), 0
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 2))
		c := j.compile(t, policytest.Random(r, []int{3, 30, 150}[seed%3]), policytest.Places)
		queries := make([]policy.Query, 60)
		for i := range queries {
			queries[i] = policytest.RandomQuery(r)
		}
		byRules += c.agree(t, queries)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if byRules < 2000 {
		t.Errorf("rules decide about %d openings: too few to say anything", byRules)
	}
}

// Whatever is in the image, a look-up ends, and reads nothing that is not there: the kernel would say so by refusing the program, or here by not coming back.
func TestClassifyBadImages(t *testing.T) {
	t.Parallel()
	j := newEvaluating(t)
	r := policytest.NewRand(11)
	for seed := range uint64(40) {
		c := j.compile(t, policytest.Random(rand.New(rand.NewPCG(seed, 3)), 60), policytest.Places)
		compiled, err := c.policy.Compiled(c.numbers)
		must(t, err)
		for range 1 + r.IntN(1+len(compiled)/4) {
			at := 2 + r.IntN(len(compiled)-2)
			if r.IntN(3) == 0 {
				at = 2 + r.IntN(policy.LineWords-2) // where things are
			}
			compiled[at] = r.Uint32() >> r.IntN(32)
		}
		j.load(t, compiled)
		queries := make([]bpfRuleQuery, 50)
		for i := range queries {
			queries[i] = inNumbers(policytest.RandomQuery(r), c.numbers)
		}
		for _, line := range first(j.ask(t, queries, 1)) {
			if line.Reason == 0 && line.Match.Rule == 0 {
				t.Fatalf("seed %d: judged by no rule", seed)
			}
		}
	}
}

func first[A, B any](a A, _ B) A { return a }
