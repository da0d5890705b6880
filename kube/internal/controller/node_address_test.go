package controller

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// A policy with addresses of nodes takes none, gives back what it had, and needs none of its gateway; others of that gateway do.
func TestAddressOfNode(t *testing.T) {
	o := world()
	o.with("own", 9, nil)
	Assess(o)
	p := o.policy(t, "own")
	vni := p.Status.VNI
	p.Spec.Address = v1alpha1.PolicyAddress{Type: v1alpha1.AddressNode}
	Assess(o)
	if s := o.policy(t, "own").Status; len(s.Addresses) > 0 || s.AddressList != "Node" || s.VNI != vni {
		t.Errorf("%+v", s)
	}
	says(t, p.Status.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionTrue, "Accepted")
	if use := o.Gateways[0].Status.Addresses; use.Used != 0 {
		t.Errorf("of the gateway's addresses %+v are used", use)
	}
	o.Gateways[0].Spec.Addresses = nil
	o.with("pool", 1, nil)
	Assess(o)
	says(t, o.policy(t, "own").Status.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionTrue, "Accepted")
	says(t, o.policy(t, "pool").Status.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionFalse, "NoAddresses: EgressGateway out has no addresses: add spec.addresses to it")
	again(t, o)
}

// Which node gives which address is in the gateway's status, and no more of one that others say is gone.
func TestOwnAddresses(t *testing.T) {
	o := world()
	report := func(node string, g v1alpha1.NodeGateway) {
		g.Gateway = "out"
		o.EgressNodes = append(o.EgressNodes, v1alpha1.EgressNode{ObjectMeta: metav1.ObjectMeta{Name: node}, Status: v1alpha1.EgressNodeStatus{Gateways: []v1alpha1.NodeGateway{g}}})
	}
	report("gw-1", v1alpha1.NodeGateway{State: v1alpha1.Serving, OwnAddresses: []string{"198.51.100.3"}})
	report("gw-2", v1alpha1.NodeGateway{State: v1alpha1.Serving})
	own := func() (list string) {
		Assess(o)
		for _, n := range o.Gateways[0].Status.Nodes {
			list += n.Name + " " + strings.Join(n.OwnAddresses, ",") + ";"
		}
		return list
	}
	if got := own(); got != "gw-1 198.51.100.3;gw-2 ;" {
		t.Errorf("it says %q", got)
	}
	g := &o.EgressNodes[1].Status.Gateways[0]
	g.OwnAddresses, g.Others = []string{"198.51.100.4"}, []v1alpha1.GatewayNode{{Name: "gw-1", State: v1alpha1.Gone}}
	if got := own(); got != "gw-1 ;gw-2 198.51.100.4;" {
		t.Errorf("after a failover it says %q", got)
	}
}
