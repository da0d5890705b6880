package policy_test

import (
	"math/rand/v2"
	"testing"

	"github.com/selvage/selvage/internal/policy"
	"github.com/selvage/selvage/internal/policy/policytest"
	"github.com/selvage/selvage/test/tier"
)

// The table: the reference and what is compiled say what the words do.
func TestTables(t *testing.T) {
	for _, table := range policytest.Tables() {
		t.Run(table.Name, func(t *testing.T) {
			fw := table.Firewall()
			p, err := policy.Compile(fw, policytest.Places)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for _, c := range table.Cases {
				if seen[c.Name] {
					t.Errorf("%s: two cases have the name", c.Name)
				}
				seen[c.Name] = true
				o := c.Query()
				if got := policytest.Says(p.Rules(), policy.Evaluate(fw, policytest.Places, o)); got != c.Want {
					t.Errorf("%s: %s: evaluated %s, want %s", c.Name, c.Words, got, c.Want)
				}
				if got := policytest.Says(p.Rules(), p.Evaluate(o)); got != c.Want {
					t.Errorf("%s: %s: judged %s, want %s", c.Name, c.Words, got, c.Want)
				}
			}
		})
	}
}

// What is compiled says what the rules say, by each way to compile.
func TestLookupIsEvaluate(t *testing.T) {
	plans := policy.Plans()
	seeds := uint64(150)
	if tier.IsLong() {
		seeds = 2000
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 1))
		fw := policytest.Random(r, []int{3, 30, 120}[seed%3])
		p, err := policy.CompileBy(fw, policytest.Places, plans[seed%uint64(len(plans))])
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for range 40 {
			o := policytest.RandomQuery(r)
			if got, want := p.Evaluate(o), policy.Evaluate(fw, policytest.Places, o); got != want {
				t.Fatalf("seed %d: %+v is judged %+v, want %+v", seed, o, got, want)
			}
		}
	}
}
