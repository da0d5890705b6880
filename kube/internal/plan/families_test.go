package plan

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// ofNode has the policy give the address of the gateway's node. It keeps those in its status until the controller has seen that.
func ofNode(in *Input) {
	in.Policies[0].Spec.Address.Type = v1alpha1.AddressNode
}

// A policy with addresses of nodes takes none of the pool, and needs an uplink with the families of the next hops.
func TestAddressOfNode(t *testing.T) {
	in := cluster()
	ofNode(&in)
	other := policy("shop", "other", 1, nil) // it has the address that the first one had
	other.Status.VNI = 6160390
	in.Policies = append(in.Policies, other)
	p := made(t, in)
	for _, c := range p.Policies {
		if c.Problem != "" {
			t.Errorf("%s: %s", c.Key, c.Problem)
		}
	}
	if !strings.Contains(string(p.Edge), "- uplink\n") {
		t.Errorf("the edge's file has\n%s", p.Edge)
	}

	asGateway(&in)
	if p := made(t, in); p.Policies[0].Problem != "" {
		t.Error(p.Policies[0].Problem)
	}
	in.Host.Uplinks["eth1"] = prefixes("198.51.100.3/24")
	in.Policies = in.Policies[:1]
	if p := made(t, in); !strings.Contains(p.Policies[0].Problem, "has on this node no address of the family of 2001:db8:51::1") {
		t.Errorf("without IPv6 at the uplink it says %q", p.Policies[0].Problem)
	}
	in.Gateways[0].Spec.Uplink.NextHops = []string{"198.51.100.1"}
	if p := made(t, in); p.Policies[0].Problem != "" {
		t.Error(p.Policies[0].Problem)
	}
}

// What a gateway has no next hop for is held at the pod's node, as what a policy has no address for.
func TestFamilyOfNextHops(t *testing.T) {
	in := cluster()
	ofNode(&in)
	in.Gateways[0].Spec.Uplink.NextHops = []string{"198.51.100.1"}
	in.Policies[0].Spec.To, in.Policies[0].Spec.Except = []v1alpha1.Network{"203.0.113.0/24", "2001:db8:7::/48"}, nil
	p := made(t, in)
	if len(p.Steering) != 2 || p.Steering[0].Held || !p.Steering[1].Held || p.Steering[1].To[0].String() != "2001:db8:7::/48" {
		t.Errorf("steered are %+v", p.Steering)
	}
	if strings.Contains(string(p.Edge), "2001:db8:7::/48") {
		t.Errorf("the edge's file has\n%s", p.Edge)
	}
	in.Policies[0].Spec.To = in.Policies[0].Spec.To[1:]
	if p := made(t, in); !strings.Contains(p.Policies[0].Problem, "no address of the family of its destinations") {
		t.Errorf("it says %q", p.Policies[0].Problem)
	}
}
