package policy_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
	"github.com/selvage/selvage/internal/policy/policytest"
)

// shadows are those of a policy in words, by names.
func shadows(t *testing.T, rules ...string) []string {
	t.Helper()
	fw := policytest.Table{Rules: rules, Groups: []string{"web: 10.0.0.0/24,10.0.1.0/24", "one: 10.0.0.7", "none: "}}.Firewall()
	p, err := policy.Compile(fw, policytest.Places)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, s := range p.Shadowed() {
		words := p.Rules()[s.Rule].Name + " by " + p.Rules()[s.By].Name
		if s.Duplicate {
			words += " again"
		}
		found = append(found, words)
	}
	return found
}

func TestShadowed(t *testing.T) {
	for _, c := range []struct {
		name  string
		rules []string
		want  []string
	}{
		{"a wider rule", []string{"a: allow both 10.0.0.0/8 > any", "b: drop both 10.1.0.0/16 > any tcp/80"}, []string{"b by a"}},
		{"a narrower rule", []string{"a: allow both 10.1.0.0/16 > any", "b: drop both 10.0.0.0/8 > any"}, nil},
		{"the same again", []string{"a: allow both 10.1.0.0/16 > any", "b: allow both 10.1.0.0/16 > any"}, []string{"b by a again"}},
		{"the same with another verdict", []string{"a: allow both 10.1.0.0/16 > any", "b: drop both 10.1.0.0/16 > any"}, []string{"b by a"}},
		{"the same by other words", []string{"a: allow both 10.0.0.0/25,10.0.0.128/25 > any", "b: allow both 10.0.0.0-10.0.0.255 > any"}, []string{"b by a again"}},
		{"a rule on trial hides nothing", []string{"a: log-only both any > any", "b: drop both 10.1.0.0/16 > any"}, nil},
		{"a rule on trial is hidden", []string{"a: drop both any > any", "b: log-only both 10.1.0.0/16 > any"}, []string{"b by a"}},
		{"any is not in a prefix", []string{"a: allow both 10.0.0.0/8 > any", "b: allow both any > any"}, nil},
		{"all of both families is any", []string{"a: allow both 0.0.0.0/0,::/0 > any", "b: allow both any > any"}, []string{"b by a again"}},
		{"one family is not any", []string{"a: allow both 0.0.0.0/0 > any", "b: allow both any > any"}, nil},
		{"two together are not looked for", []string{"a: allow both 10.0.0.0/9 > any", "b: allow both 10.128.0.0/9 > any", "c: drop both 10.0.0.0/8 > any"}, nil},
		{"the first of two", []string{"a: allow both 10.0.0.0/8 > any", "b: allow both any > any", "c: drop both 10.0.0.0/16 > any"}, []string{"c by a"}},
		{"one direction in both", []string{"a: allow both any > any", "b: drop in any > any"}, []string{"b by a"}},
		{"both directions in one", []string{"a: allow in any > any", "b: drop both any > any"}, nil},
		{"the other direction", []string{"a: allow in any > any", "b: drop out any > any"}, nil},
		{"at one port in at all", []string{"a: allow both any > any", "b: drop both any > any @port=p0"}, []string{"b by a"}},
		{"at all in at one port", []string{"a: allow both any > any @port=p0", "b: drop both any > any"}, nil},
		{"at a VLAN in at the trunk", []string{"a: allow both any > any @port=p2", "b: drop both any > any @port=p2.10"}, []string{"b by a"}},
		{"a host in a group", []string{"a: allow both group=web > any", "b: drop both group=one > any"}, []string{"b by a"}},
		{"half of a group", []string{"a: allow both 10.0.0.0/24 > any", "b: drop both group=web > any"}, nil},
		{"a group's parts by a prefix", []string{"a: allow both 10.0.0.0/23 > any", "b: drop both group=web > any"}, []string{"b by a"}},
		{"a rule for nobody", []string{"a: allow both any > any", "b: drop both group=none > any"}, nil},
		{"a port in a range", []string{"a: allow both any > any tcp/1-100", "b: drop both any > any tcp/80,100"}, []string{"b by a"}},
		{"a port in two ranges that touch", []string{"a: allow both any > any tcp/1-79,80-100", "b: drop both any > any tcp/70-90"}, []string{"b by a"}},
		{"a protocol is more than its ports", []string{"a: allow both any > any tcp/0-65535", "b: drop both any > any tcp"}, nil},
		{"ports in their protocol", []string{"a: allow both any > any tcp", "b: drop both any > any tcp/0-65535"}, []string{"b by a"}},
		{"a source port in any", []string{"a: allow both any > any tcp/80", "b: drop both any > any tcp/80<1-5"}, []string{"b by a"}},
		{"any source port in some", []string{"a: allow both any > any tcp/80<1-5", "b: drop both any > any tcp/80"}, nil},
		{"a type of ICMP", []string{"a: allow both any > any icmp/8", "b: drop both any > any icmp/8/0"}, []string{"b by a"}},
		{"a MAC in a list", []string{"a: allow both mac=02:00:00:00:00:01,mac=02:00:00:00:00:02 > any", "b: drop both mac=02:00:00:00:00:02 > any"}, []string{"b by a"}},
		{"a MAC in any", []string{"a: allow both any > any", "b: drop both any > mac=02:00:00:00:00:02"}, []string{"b by a"}},
		{"a segment in a list", []string{"a: allow both any > segment=red,10.0.0.0/8", "b: drop both any > segment=red"}, []string{"b by a"}},
		{"a port in its labels", []string{"a: allow both labels=app:web > any", "b: drop both port=p2 > any"}, []string{"b by a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := shadows(t, c.rules...); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// What is found by candidates is what is found by holding each rule against all before it.
func TestShadowedFindsAll(t *testing.T) {
	found := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 4))
		fw := policytest.Random(r, 60)
		p, err := policy.CompileBy(fw, policytest.Places, policy.Plans()[seed%5])
		if err != nil {
			t.Fatal(err)
		}
		got, want := p.Shadowed(), p.ShadowedByAll()
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v, want %v", seed, got, want)
		}
		found += len(got)
	}
	if found < 100 {
		t.Errorf("%d rules are hidden in all: too few to say anything", found)
	}
}

// A hidden rule never decides, and its packets are decided by the one that hides it or an
// earlier one.
func TestShadowedNeverDecide(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 6))
		fw := policytest.Random(r, 40)
		p, err := policy.Compile(fw, policytest.Places)
		if err != nil {
			t.Fatal(err)
		}
		by := map[int]int{}
		for _, s := range p.Shadowed() {
			by[s.Rule] = s.By
		}
		for range 200 {
			o := policytest.RandomQuery(r)
			for i, first := range by {
				alone := overlay.Firewall{Groups: fw.Groups, Default: overlay.Drop, Rules: fw.Rules[i : i+1]}
				j := policy.Evaluate(alone, policytest.Places, o)
				if (j.Rule == 0 || j.LogOnly == 0) && policy.Evaluate(fw, policytest.Places, o).Rule > first {
					t.Fatalf("seed %d: %+v is of rule %d, which rule %d should hide", seed, o, i, first)
				}
			}
		}
	}
}
