package controller

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// A network with its router in it is the uplink's: its first and last address, the router, BGP neighbours, nodes and their uplinks keep theirs.
func TestAddressesOfOthers(t *testing.T) {
	o := world()
	g := &o.Gateways[0]
	g.Spec.Addresses = []v1alpha1.AddressRange{"198.51.100.0/29", "198.51.100.4-198.51.100.8"}
	g.Spec.Uplink = v1alpha1.Uplink{Interface: "eth1", NextHops: []string{"198.51.100.1"}, BGP: &v1alpha1.BGP{Neighbours: []v1alpha1.BGPNeighbour{{Address: "198.51.100.2"}}}}
	o.Nodes[0].Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "198.51.100.3"}}
	for _, name := range []string{"a", "b", "c"} {
		o.with(name, 1, nil)
	}
	o.with("fixed", 5, func(s *v1alpha1.EgressPolicySpec) {
		s.Address = v1alpha1.PolicyAddress{Type: v1alpha1.AddressFixed, Fixed: []string{"198.51.100.1"}}
	})
	o.policy(t, "a").Status.Addresses = []string{"198.51.100.0"} // of an older controller
	o.policy(t, "b").Status.Addresses = []string{"198.51.100.5"}
	Assess(o)
	for name, want := range map[string]string{"a": "198.51.100.4", "b": "198.51.100.5", "c": "198.51.100.6", "fixed": ""} {
		if got := strings.Join(o.policy(t, name).Status.Addresses, " "); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
	says(t, o.policy(t, "fixed").Status.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionFalse, "AddressInvalid: 198.51.100.1 is a next hop of EgressGateway out")
	says(t, g.Status.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionTrue, "")
	if use := g.Status.Addresses; use.Total != 4 || use.Used != 3 { // .4 to .6 and .8: .7 is the last one of the network
		t.Errorf("of the gateway's addresses %+v are used, want 3 of 4", use)
	}
	if got := Totals(o)["out"]; got != [2]int64{4, 0} {
		t.Errorf("of IPv4 and IPv6 there are %v", got)
	}
	again(t, o)

	// The uplink's own network is larger than what was written.
	o.EgressNodes = []v1alpha1.EgressNode{{ObjectMeta: metav1.ObjectMeta{Name: "gw-1"}, Status: v1alpha1.EgressNodeStatus{UplinkAddresses: []string{"198.51.100.4/28"}}}}
	Assess(o)
	if got := strings.Join(o.policy(t, "a").Status.Addresses, " "); got != "198.51.100.8" {
		t.Errorf("a has %s, want another one than the uplink's of node gw-1", got)
	}
	again(t, o)
}

// A gateway none of whose addresses can be given out says so, and takes nothing from another.
func TestAddressesOfNoHost(t *testing.T) {
	for text, words := range map[string]string{
		"127.0.0.0/8": "a loopback address", "224.0.0.0/24": "a multicast address", "0.0.0.0/8": "reserved", "255.255.255.255": "the broadcast address",
		"169.254.0.0/24": "valid on one link only", "::/120": "reserved", "fe80::/64": "valid on one link only", "192.0.0.252/30": "between a node and its edge",
		"192.0.2.1": "the address of node worker-1", "10.244.1.0/24": "a network of pods", "198.51.100.1-198.51.100.1": "a next hop of EgressGateway bad",
	} {
		o := world()
		o.Nodes[0].Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}
		o.Nodes[0].Spec.PodCIDRs = []string{"10.244.1.0/24"}
		bad := *o.Gateways[0].DeepCopy()
		bad.Name, bad.Spec.Addresses, bad.Spec.Uplink.NextHops = "bad", []v1alpha1.AddressRange{v1alpha1.AddressRange(text)}, []string{"198.51.100.1"}
		o.Gateways = append(o.Gateways, bad)
		o.with("wrong", 9, func(s *v1alpha1.EgressPolicySpec) { s.Gateway = "bad" })
		o.with("good", 1, nil)
		Assess(o)
		says(t, o.Gateways[1].Status.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionFalse, "AddressesInvalid: spec.addresses: no address of "+text+" can be given out")
		says(t, o.Gateways[1].Status.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionFalse, words)
		if list := o.policy(t, "wrong").Status.Addresses; len(list) > 0 || o.Gateways[1].Status.Addresses.Total != 0 {
			t.Errorf("%s: a policy has %v of %d", text, list, o.Gateways[1].Status.Addresses.Total)
		}
		says(t, o.policy(t, "good").Status.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionTrue, "")
		says(t, o.Gateways[0].Status.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionTrue, "")
	}
}
