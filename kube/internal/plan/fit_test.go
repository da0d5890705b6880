package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// many are policies of the pods with app=web of a namespace, each younger than the one before.
func many(gateway, prefix string, first, count int) (list []v1alpha1.EgressPolicy) {
	for i := range count {
		p := policy("shop", fmt.Sprintf("%s-%04d", prefix, i), int32(first+i), func(s *v1alpha1.EgressPolicySpec) {
			s.Gateway, s.Pods = gateway, &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		})
		n := first + i
		p.Status.Addresses = []string{netip.AddrFrom4([4]byte{198, 51, byte(100 + n/200), byte(10 + n%200)}).String()}
		p.CreationTimestamp = metav1.NewTime(time.Unix(1_000_000+int64(n), 0))
		list = append(list, p)
	}
	return list
}

// refused are the policies of a plan that have a problem with these words.
func refused(p Plan, words string) (keys []string) {
	for _, c := range p.Policies {
		if strings.Contains(c.Problem, words) && c.Reason == v1alpha1.ReasonTooManyPolicies {
			keys = append(keys, c.Key)
		}
	}
	return keys
}

// What a gateway's edge has no room for is refused on all nodes, and nothing else is. The file has the rest, and an edge takes it.
func TestGatewayIsFull(t *testing.T) {
	most := maxPolicies - memberUplinks
	in := cluster()
	in.Policies = many("out", "web", 0, most+2)
	urgent := int32(1) // of the youngest
	in.Policies[most+1].Spec.Priority = &urgent
	want := []string{"shop/" + in.Policies[most-1].Name, "shop/" + in.Policies[most].Name}
	for _, node := range []string{"worker-1", "gw-1.example.com", "gw-2.example.com"} {
		if strings.HasPrefix(node, "gw") {
			asGateway(&in)
		}
		in.Node = node
		p := made(t, in)
		if got := refused(p, "node gw-2.example.com of EgressGateway out has 1022 policies already"); !slices.Equal(got, want) {
			t.Errorf("%s refuses %v, want %v", node, got, want)
		}
		if len(p.Groups) != most || strings.Count(string(p.Edge), "gateways: g_out\n") != most {
			t.Errorf("%s has %d groups and %d policies in its file, want %d", node, len(p.Groups), strings.Count(string(p.Edge), "gateways: g_out\n"), most)
		}
		for _, s := range p.Steering {
			if held := slices.Contains(want, s.Policy); held != s.Held {
				t.Errorf("%s: policy %s is held: %t", node, s.Policy, s.Held)
			}
		}
	}
}

// A node without a gateway has policies of its own pods only, and takes as many as an edge does. Those of its gateways come before
// those of its pods, for other nodes rely on them.
func TestNodeIsFull(t *testing.T) {
	in := cluster()
	second := *in.Gateways[0].DeepCopy()
	second.Name, second.Status.Nodes = "second", []v1alpha1.GatewayNode{{Name: "worker-2"}}
	second.CreationTimestamp = metav1.Unix(5, 0)
	in.Gateways = append(in.Gateways, second)
	in.Policies = append(many("out", "a", 0, 700), many("second", "b", 700, 324)...)
	p := made(t, in)
	if got := refused(p, "policies of other pods on node worker-1 are as many as an edge takes"); !slices.Equal(got, []string{"shop/b-0323"}) {
		t.Errorf("worker-1 refuses %v", got)
	}
	if len(p.Groups) != maxPolicies {
		t.Errorf("worker-1 has %d policies", len(p.Groups))
	}
	pods := in.Pods
	asGateway(&in)
	in.Pods = pods
	for i := range 700 {
		in.Policies[i].CreationTimestamp = metav1.Unix(3_000_000, 0)
	}
	p = made(t, in)
	if got, want := refused(p, "on node gw-1.example.com"), []string{"shop/b-0322", "shop/b-0323"}; !slices.Equal(got, want) {
		t.Errorf("gw-1 refuses %v, want %v", got, want)
	}
	in.Pods = nil
	if p = made(t, in); len(p.Policies) != 700 || len(p.Groups) != 700 {
		t.Errorf("without pods gw-1 has %d policies and %d groups", len(p.Policies), len(p.Groups))
	}
}
