package agent

import (
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/kube/internal/plan"
)

func TestReadiness(t *testing.T) {
	p := plan.Plan{Gateways: map[string]string{"g_out": "out"}, Policies: []plan.Policy{{Key: "shop/web"}, {Key: "shop/db", Problem: "no such gateway"}}}
	group := func(state string, self bool) api.EgressInfo {
		return api.EgressInfo{Groups: []api.GatewayGroupInfo{{Name: "g_out", Members: []api.GatewayInfo{{State: "serving"}, {State: state, Self: self, Why: "it waits"}}}}}
	}
	drained := group("gone", true)
	drained.Drain = &api.DrainInfo{}
	for _, c := range []struct {
		name, want string
		f          Found
	}{
		{"serves", "", Found{Egress: group("serving", true)}},
		{"nothing to serve", "", Found{}},
		{"has not joined", "gateway out: this node is gone: it waits", Found{Egress: group("gone", true)}},
		{"another has not", "", Found{Egress: group("gone", false)}},
		{"is drained", "", Found{Egress: drained}},
		{"no answer", "the edge does not answer", Found{Failed: "the edge does not answer"}},
		{"lacks a policy", "policy shop/web: it is not there", Found{Lacks: map[string]string{"shop/web": "it is not there"}}},
		{"cannot have one", "", Found{Lacks: map[string]string{"shop/db": "no such gateway"}}},
	} {
		r := readiness{}
		if r.check(nil) == nil {
			t.Error("an agent that has not looked is ready")
		}
		r.set(unserved(p, c.f))
		got := ""
		if err := r.check(nil); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
