package plan

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
)

// Policies whose rules, and what they are about, did not change are the previous ones.
func TestPoliciesAreKept(t *testing.T) {
	config := func(vni overlay.VNI, verdict overlay.Verdict) overlay.Edge {
		return overlay.Edge{
			Segments: []overlay.Segment{{Name: "blue", VNI: vni}}, Ports: []overlay.Port{{Name: "p0", Segment: "blue"}},
			Firewall: &overlay.Firewall{Default: overlay.Drop, NonIP: overlay.Allow, Rules: []overlay.Rule{{Name: "all", Verdict: verdict, Direction: overlay.Both}}},
		}
	}
	first := config(1, overlay.Allow)
	was, err := CompilePolicies(overlay.Edge{}, Policies{}, first)
	if err != nil || was.Firewall == nil || was.Shadows == nil {
		t.Fatalf("%+v, %v", was, err)
	}
	more := config(1, overlay.Allow)
	more.Ports = append(more.Ports, overlay.Port{Name: "p1", Segment: "blue"})
	for name, test := range map[string]struct {
		next overlay.Edge
		kept bool
	}{
		"another VNI": {config(2, overlay.Allow), true}, "another verdict": {config(1, overlay.Drop), false}, "another port": {more, false},
	} {
		next, err := CompilePolicies(first, was, test.next)
		if kept := next.Firewall == was.Firewall; err != nil || kept != test.kept {
			t.Errorf("%s: kept is %t, %v", name, kept, err)
		}
	}
	if none, err := CompilePolicies(first, was, overlay.Edge{}); err != nil || none.Firewall != nil || none.Egress != nil {
		t.Errorf("without a firewall: %+v, %v", none, err)
	}
	wrong := config(1, overlay.Allow)
	wrong.Firewall.Rules[0].From = []overlay.Member{{Group: "nobody"}}
	if _, err := CompilePolicies(first, was, wrong); err == nil || !strings.Contains(err.Error(), "spec.firewall: ") || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("a wrong policy: %v", err)
	}
}
