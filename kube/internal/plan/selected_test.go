package plan_test

import (
	"maps"
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/plan"
)

func label(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func policyOf(namespace string, spec v1alpha1.EgressPolicySpec) v1alpha1.EgressPolicy {
	return v1alpha1.EgressPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}, Spec: spec}
}

// A pod is selected by what any policy says, with the plan and without.
func TestSelected(t *testing.T) {
	t.Parallel()
	in := plan.Input{
		Namespaces: map[string]labels.Set{"shop": {}, "bank": {"egress": "yes"}, "free": {}},
		Policies:   []v1alpha1.EgressPolicy{policyOf("shop", v1alpha1.EgressPolicySpec{Pods: label("app", "web"), ServiceAccounts: []string{"a", "b"}})},
		ClusterPolicies: []v1alpha1.ClusterEgressPolicy{{Spec: v1alpha1.ClusterEgressPolicySpec{
			Namespaces: label("egress", "yes"), EgressPolicySpec: v1alpha1.EgressPolicySpec{Pods: label("app", "web")},
		}}},
	}
	for _, c := range []struct {
		namespace, app, account string
		want                    bool
	}{
		{"shop", "web", "a", true}, {"shop", "web", "c", false}, {"shop", "db", "a", false}, {"bank", "web", "c", true}, {"bank", "db", "c", false},
		{"free", "web", "a", false}, {"unheard-of", "web", "a", true}, {"unheard-of", "db", "a", false},
	} {
		pod := plan.Pod{Namespace: c.namespace, Labels: labels.Set{"app": c.app}, ServiceAccount: c.account, Addresses: []netip.Addr{netip.MustParseAddr("10.1.1.1")}}
		if got := plan.Selected(in, pod); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
		pod.HostNetwork = true
		if plan.Selected(in, pod) {
			t.Errorf("%+v: in the network of its node it is selected", c)
		}
	}
}

// Of a namespace the strictest policy that may select its pods counts; one that no policy is about is free, whatever others say.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	const drop, node = v1alpha1.NoGatewayDrop, v1alpha1.NoGatewayNode
	byNode := v1alpha1.EgressPolicySpec{WhenNoGateway: node}
	in := plan.Input{
		Namespaces: map[string]labels.Set{"shop": {}, "bank": {"egress": "yes"}, "both": {"egress": "yes"}, "lax": {}, "free": {}},
		Policies:   []v1alpha1.EgressPolicy{policyOf("shop", v1alpha1.EgressPolicySpec{}), policyOf("lax", byNode), policyOf("both", byNode), policyOf("gone", byNode)},
	}
	got, others := plan.Verdicts(in)
	if want := map[string]v1alpha1.NoGateway{"shop": drop, "lax": node, "both": node, "gone": node}; !maps.Equal(got, want) || others != "" {
		t.Errorf("without policies of the cluster: %v, others %q", got, others)
	}
	in.ClusterPolicies = []v1alpha1.ClusterEgressPolicy{{Spec: v1alpha1.ClusterEgressPolicySpec{Namespaces: label("egress", "yes")}}}
	got, others = plan.Verdicts(in)
	if want := map[string]v1alpha1.NoGateway{"shop": drop, "lax": node, "both": drop, "gone": drop, "bank": drop, "free": ""}; !maps.Equal(got, want) || others != drop {
		t.Errorf("with one: %v, others %q", got, others)
	}
	in.ClusterPolicies[0].Spec.WhenNoGateway = node
	got, others = plan.Verdicts(in)
	if want := map[string]v1alpha1.NoGateway{"shop": drop, "lax": node, "both": node, "gone": node, "bank": node, "free": ""}; !maps.Equal(got, want) || others != node {
		t.Errorf("with one by the node: %v, others %q", got, others)
	}
}
