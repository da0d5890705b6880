package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// second adds a gateway of both nodes by an interface, with a policy.
func second(in *Input, device, hop string) *v1alpha1.EgressGateway {
	g := *in.Gateways[0].DeepCopy()
	g.Name, g.Spec.Uplink.Interface, g.Spec.Uplink.NextHops = "second", device, []string{hop}
	in.Gateways = append(in.Gateways, g)
	in.Policies = append(in.Policies, policy("shop", "second", 2, func(s *v1alpha1.EgressPolicySpec) { s.Gateway = "second" }))
	return &in.Gateways[1]
}

// What one object says is no reason for the edge of a node to refuse all others: each of these was one.
func TestEdgeTakes(t *testing.T) {
	for name, change := range map[string]func(*Input){
		"two gateways with replication": func(in *Input) { second(in, "eth1", "198.51.100.1") },
		"two gateways at VLANs of one interface": func(in *Input) {
			second(in, "eth1", "198.51.100.1").Spec.Uplink.VLAN = 7
		},
		"no member is known": func(in *Input) { in.Gateways[0].Status.Nodes = []v1alpha1.GatewayNode{{Name: "deleted"}} },
		"two nodes with one address": func(in *Input) {
			in.Nodes = append(in.Nodes, Node{Name: "worker-1-old", Addresses: addrs("192.0.2.1")}, Node{Name: "a-old", Addresses: addrs("192.0.2.3")})
		},
		"the uplink is in a network of the cluster": func(in *Input) {
			in.Settings.Cluster = prefixes("10.244.0.0/16", "198.51.100.0/24", "198.51.100.128/25")
		},
		"1,100 nodes": func(in *Input) {
			for i := range 1100 {
				in.Nodes = append(in.Nodes, Node{Name: fmt.Sprintf("n%d", i), Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)})}})
			}
		},
		"an interface whose name is no name of an edge": func(in *Input) {
			in.Gateways[0].Spec.Uplink.Interface = "eth+1"
			in.Host.Uplinks["eth+1"] = in.Host.Uplinks["eth1"]
		},
		"the uplink's own address is in a pool": func(in *Input) { in.Policies[0].Status.Addresses = []string{"198.51.100.3"} },
		"the network's broadcast address is":    func(in *Input) { in.Policies[0].Status.Addresses = []string{"198.51.100.255"} },
		"two policies with one address": func(in *Input) {
			second(in, "eth1", "198.51.100.1")
			in.Policies[1].Status.Addresses = in.Policies[0].Status.Addresses
		},
		"two policies with one VNI": func(in *Input) {
			second(in, "eth1", "198.51.100.1")
			in.Policies[1].Status.VNI = in.Policies[0].Status.VNI
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, self := range []string{"gw-1.example.com", "worker-1"} {
				in := cluster()
				pods := in.Pods
				asGateway(&in)
				in.Node, in.Pods = self, pods
				change(&in)
				made(t, in)
			}
		})
	}
}

// Of Node objects with one address the one counts that is alive, on all nodes alike, whatever their names.
func TestTwins(t *testing.T) {
	for name, change := range map[string]func(old, live *Node, in *Input){
		"the other is not ready":     func(_, live *Node, _ *Input) { live.Ready = true },
		"the other never reported":   func(_, _ *Node, in *Input) { in.Gateways[0].Status.Nodes[1].State = v1alpha1.Serving },
		"the other is older":         func(_, live *Node, _ *Input) { live.Created = time.Unix(9, 0) },
		"the other is new, but lies": func(old, live *Node, _ *Input) { old.Created, live.Ready = time.Unix(9, 0), true },
		"the other sorts after it":   func(old, _ *Node, _ *Input) { old.Name = "zzz-old" },
		"the other has reported once": func(old, live *Node, in *Input) {
			live.Ready = true
			in.Gateways[0].Status.Nodes = append(in.Gateways[0].Status.Nodes, v1alpha1.GatewayNode{Name: old.Name, State: v1alpha1.Gone})
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, self := range []string{"worker-1", "gw-1.example.com", "gw-2.example.com"} {
				in := cluster()
				old := Node{Name: "aaa-old", Addresses: addrs("192.0.2.3")}
				change(&old, &in.Nodes[2], &in)
				in.Nodes, in.Node = append(in.Nodes, old), self
				m, err := newMaker(in)
				if err != nil {
					t.Fatal(err)
				}
				if got := m.members["out"]; !slices.Equal(got, []string{"gw-2.example.com", "gw-1.example.com"}) {
					t.Errorf("%s: members are %v", self, got)
				}
				twin := made(t, in).Twin
				if want := self == "gw-1.example.com"; (twin == Twin{old.Name, addrs("192.0.2.3")[0], false}) != want || !want && twin.Name != "" {
					t.Errorf("%s: its twin is %+v", self, twin)
				}
			}
		})
	}
}

// Translated packets leave by the default route, so a node serves no two gateways with different uplinks. The older one has it, and
// the other's policies say so.
func TestOneUplinkOfANode(t *testing.T) {
	in := cluster()
	asGateway(&in)
	in.Host.Uplinks["eth2"] = prefixes("203.0.113.3/24")
	g := second(&in, "eth2", "203.0.113.1")
	file := string(made(t, in).Edge)
	if strings.Contains(file, "203.0.113.1") || !strings.Contains(file, "interface: eth1") {
		t.Errorf("the file has the other uplink too:\n%s", file)
	}
	in.Gateways[0].CreationTimestamp = metav1.Unix(2, 0)
	g.CreationTimestamp = metav1.Unix(1, 0)
	if file := string(made(t, in).Edge); strings.Contains(file, "interface: eth1") {
		t.Errorf("the younger gateway has the node:\n%s", file)
	}
	in.Node, in.Pods = "worker-1", cluster().Pods
	for _, c := range made(t, in).Policies {
		if want := c.Gateway == "out"; want != strings.Contains(c.Problem, "another uplink") {
			t.Errorf("policy %s: %q", c.Key, c.Problem)
		}
	}
}

// The same routers in another order or spelling are the same uplink.
func TestSameUplink(t *testing.T) {
	of := func(one, two string) string {
		b := &v1alpha1.BGP{AS: 65000, Neighbours: []v1alpha1.BGPNeighbour{{Address: two, AS: 1}, {Address: one, AS: 1}}}
		return uplinkOf(v1alpha1.Uplink{Interface: "eth1", NextHops: []string{one, two}, BGP: b})
	}
	if a, b := of("2001:db8::1", "198.51.100.1"), of("198.51.100.1", "2001:DB8:0::1"); a != b {
		t.Errorf("%q is another uplink than %q", a, b)
	}
}

// A member whose uplink cannot carry all of a gateway says that it is gone, so that another serves.
func TestMemberThatCannotServe(t *testing.T) {
	for words, change := range map[string]func(*Input){
		"no next hop":                     func(in *Input) { in.Gateways[0].Spec.Uplink.NextHops = []string{"203.0.113.1"} },
		"no address of the family":        func(in *Input) { in.Host.Uplinks["eth1"] = prefixes("2001:db8:51::3/64") },
		"is missing on this node, or has": func(in *Input) { in.Host.Uplinks = nil },
	} {
		in := cluster()
		asGateway(&in)
		change(&in)
		p := made(t, in)
		if !strings.Contains(p.Policies[0].Problem, words) || !strings.Contains(string(p.Edge), "interface: "+missing) || strings.Contains(string(p.Edge), "0.0.0.0/0") {
			t.Errorf("%s: %q in\n%s", words, p.Policies[0].Problem, p.Edge)
		}
	}
}

// The namespace of a pod may be known later than the pod.
func TestNamespaceIsNotKnown(t *testing.T) {
	in := cluster()
	all := policy("", "all", 6, nil)
	in.Policies, in.Namespaces = nil, nil
	in.ClusterPolicies = []v1alpha1.ClusterEgressPolicy{{ObjectMeta: all.ObjectMeta, Status: all.Status, Spec: v1alpha1.ClusterEgressPolicySpec{EgressPolicySpec: all.Spec}}}
	if p := made(t, in); len(p.Steering) != 1 || len(p.Steering[0].Pods) != 4 {
		t.Errorf("a policy of all namespaces steers %+v", p.Steering)
	}
	in.ClusterPolicies[0].Spec.Namespaces = &metav1.LabelSelector{MatchLabels: labels.Set{"team": "b"}}
	if _, err := Make(in); err == nil || !strings.Contains(err.Error(), "metadata.namespace") {
		t.Errorf("%v, want what is missing", err)
	}
}
