package importing

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// random is a selector of few labels, so that two of them are often alike.
func random(r *rand.Rand) *metav1.LabelSelector {
	s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for _, key := range []string{"a", "b"} {
		value := string(rune('x' + r.IntN(3)))
		switch r.IntN(5) {
		case 0, 1:
			s.MatchLabels[key] = value
		case 2:
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value, "x"}})
		case 3:
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: []string{value}})
		}
	}
	return s
}

func selects(t *testing.T, s *metav1.LabelSelector, set labels.Set) bool {
	t.Helper()
	if s == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return selector.Matches(set)
}

// TestUnite unites random selectors: the result selects what either does, and nothing else.
func TestUnite(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	var sets []labels.Set
	for _, a := range []string{"", "x", "y", "z"} {
		for _, b := range []string{"", "x", "y", "z"} {
			set := labels.Set{}
			if a != "" {
				set["a"] = a
			}
			if b != "" {
				set["b"] = b
			}
			sets = append(sets, set)
		}
	}
	united := 0
	for range 5000 {
		a, b := random(r), random(r)
		both, ok := unite(a, b)
		if !ok {
			continue
		}
		united++
		for _, set := range sets {
			if got, want := selects(t, both, set), selects(t, a, set) || selects(t, b, set); got != want {
				t.Fatalf("%v and %v are %v, and of %v that says %v", text(a), text(b), text(both), set, got)
			}
		}
	}
	if united < 500 {
		t.Errorf("%d of 5000 are united", united)
	}
}

// TestAggregate writes random networks as fewer ones: each address is in the same as before.
func TestAggregate(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // a test
	for range 500 {
		var all []netip.Prefix
		for range 1 + r.IntN(20) {
			a := netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(256))})
			all = append(all, netip.PrefixFrom(a, 24+r.IntN(9)).Masked())
		}
		fewer := aggregate(all)
		if len(fewer) > len(all) {
			t.Fatalf("%v are %v", all, fewer)
		}
		for n := range 256 {
			a, got, want := netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), 0, false
			for _, p := range all {
				want = want || p.Contains(a)
			}
			for _, p := range fewer {
				if p.Contains(a) {
					got++
				}
			}
			if got > 1 || (got == 1) != want {
				t.Fatalf("%v are %v: %v", all, fewer, a)
			}
		}
	}
}
