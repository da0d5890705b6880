package why

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files anew")

// objects are a pod whose policy is in force.
func objects() *Objects {
	condition := func(kind string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind}
	}
	report := func(name string, pods int32) v1alpha1.EgressNode {
		return v1alpha1.EgressNode{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.EgressNodeStatus{
			Policies:   []v1alpha1.NodePolicy{{Policy: "shop/web", UID: "u1", Generation: 3, Pods: pods, Programmed: true}},
			Conditions: []metav1.Condition{condition(v1alpha1.ConditionReady)},
		}}
	}
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web1", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "n1", ServiceAccountName: "default"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.244.1.7"}, {IP: "fd00:10:1::7"}}},
	}
	return &Objects{
		Pod: pod, Pods: []corev1.Pod{pod}, Namespace: corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "a"}}},
		Policies: []v1alpha1.EgressPolicy{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1", Generation: 3},
			Spec:       v1alpha1.EgressPolicySpec{Gateway: "out", Pods: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
			Status: v1alpha1.EgressPolicyStatus{ObservedGeneration: 3, VNI: 6160385, Addresses: []string{"198.51.100.20", "2001:db8:51::20"}, Conditions: []metav1.Condition{
				condition(v1alpha1.ConditionAccepted), condition(v1alpha1.ConditionProgrammed), condition(v1alpha1.ConditionServing),
			}},
		}},
		Gateways: []v1alpha1.EgressGateway{{ObjectMeta: metav1.ObjectMeta{Name: "out"}, Status: v1alpha1.EgressGatewayStatus{
			Nodes: []v1alpha1.GatewayNode{
				{Name: "gw1", State: v1alpha1.Serving, Addresses: []string{"198.51.100.20", "2001:db8:51::20", "198.51.100.21"}}, {Name: "gw2", State: v1alpha1.Serving},
			},
			Conditions: []metav1.Condition{condition(v1alpha1.ConditionAccepted), condition(v1alpha1.ConditionServing)},
		}}},
		Nodes:   []v1alpha1.EgressNode{report("n1", 1), report("gw1", 0), report("gw2", 0)},
		Cluster: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10::/32")},
	}
}

func (o *Objects) fails(kind, message string) {
	c := o.Policies[0].Status.Conditions
	for i := range c {
		if c[i].Type == kind {
			c[i].Status, c[i].Message = metav1.ConditionFalse, message
		}
	}
}

// killed has the first gateway be gone, and the other have its addresses.
func (o *Objects) killed() {
	g := &o.Gateways[0].Status
	g.Nodes[1].Addresses = g.Nodes[0].Addresses
	g.Nodes[0] = v1alpha1.GatewayNode{Name: "gw1", State: v1alpha1.Gone, Message: "BFD session is down"}
	g.LastFailover = &v1alpha1.Failover{
		Node: "gw1", Change: "serving>gone", Seen: metav1.NewMicroTime(time.Date(2026, 11, 26, 17, 56, 57, 179026000, time.UTC)), WrittenMicroseconds: 857, AnnouncedMicroseconds: 25799, ReportedBy: "gw2",
	}
}

// ofNode has the policy give the address of the gateway's node.
func (o *Objects) ofNode() {
	o.spec().Address.Type, o.Policies[0].Status.Addresses = v1alpha1.AddressNode, nil
	o.Gateways[0].Spec.Uplink.NextHops = []string{"198.51.100.1", "2001:db8:51::1"}
	o.Gateways[0].Status.Nodes[0].OwnAddresses = []string{"198.51.100.3", "2001:db8:51::3"}
}

func (o *Objects) spec() *v1alpha1.EgressPolicySpec { return &o.Policies[0].Spec }

// another policy selects the pod too.
func (o *Objects) another(name string, priority int32, to ...v1alpha1.Network) {
	p := *o.Policies[0].DeepCopy()
	p.Name, p.UID, p.Spec.Priority, p.Spec.To = name, "u2", &priority, to
	o.Policies = append(o.Policies, p)
}

func (o *Objects) clusterPolicy(name string, s *metav1.LabelSelector) {
	p := v1alpha1.ClusterEgressPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u3"}}
	p.Spec.EgressPolicySpec, p.Spec.Namespaces = v1alpha1.EgressPolicySpec{Gateway: "out"}, s
	o.ClusterPolicies = append(o.ClusterPolicies, p)
}

// Cases are of each way that packets take, and of each reason why they do not leave as the policy says. The golden text is what people
// see of all.
func TestExplain(t *testing.T) {
	const outside, outside6 = "203.0.113.1", "2001:db8:cafe::1"
	for _, c := range []struct {
		name     string
		to       string
		change   func(*Objects)
		way      Way
		problems int
	}{
		{"in force", "", func(*Objects) {}, ByGateway, 0},
		{"in force, to IPv6", outside6, func(*Objects) {}, ByGateway, 0},
		{"no policy", "", func(o *Objects) { o.Pod.Labels["app"] = "db" }, ByNode, 0},
		{"policy of another namespace", "", func(o *Objects) { o.Policies[0].Namespace = "other" }, ByNode, 0},
		{"another service account", "", func(o *Objects) { o.spec().ServiceAccounts = []string{"builder"} }, ByNode, 0},
		{"address of a node", "", func(o *Objects) { o.ofNode() }, ByGateway, 0},
		{"address of two nodes", outside, func(o *Objects) {
			o.ofNode()
			o.Gateways[0].Spec.Mode = v1alpha1.ActiveActive
			o.Gateways[0].Status.Nodes[1].OwnAddresses = []string{"198.51.100.4", "2001:db8:51::4"}
		}, ByGateway, 0},
		{"address of a node of IPv4 alone", "", func(o *Objects) {
			o.ofNode()
			o.Gateways[0].Spec.Uplink.NextHops = []string{"198.51.100.1"}
			o.Gateways[0].Status.Nodes[0].OwnAddresses = []string{"198.51.100.3"}
		}, ByGateway, 0},
		{"address of a node not to IPv6", outside6, func(o *Objects) {
			o.ofNode()
			o.Gateways[0].Spec.Uplink.NextHops = []string{"198.51.100.1"}
		}, Dropped, 1},
		{"address of a node unknown yet", "", func(o *Objects) {
			o.ofNode()
			o.Gateways[0].Status.Nodes[0].OwnAddresses = nil
		}, ByGateway, 1},
		{"later ones", "", func(o *Objects) {
			o.another("zeta", 1000)
			o.another("also", 2000)
			o.clusterPolicy("all", nil)
			o.clusterPolicy("not", &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}})
		}, ByGateway, 0},
		{"earlier one for other destinations", outside, func(o *Objects) {
			o.another("partner", 10, "192.0.2.0/24", "2001:db8::/32")
			o.clusterPolicy("all", nil)
		}, ByGateway, 0},
		{"first for some destinations", "", func(o *Objects) { o.spec().To = []v1alpha1.Network{"203.0.113.0/24"}; o.another("rest", 2000) }, ByGateway, 0},
		{"only for some destinations", "", func(o *Objects) { o.spec().To = []v1alpha1.Network{"203.0.113.0/24"} }, ByGateway, 0},
		{"not to there", outside, func(o *Objects) { o.spec().To = []v1alpha1.Network{"192.0.2.0/24"} }, ByNode, 0},
		{"of another family", outside, func(o *Objects) {
			o.another("rest", 2000)
			o.spec().To, o.spec().Except = []v1alpha1.Network{"2001:db8::/32"}, []v1alpha1.Network{"203.0.113.0/24"}
			o.Nodes[0].Status.Policies = append(o.Nodes[0].Status.Policies, v1alpha1.NodePolicy{Policy: "shop/rest", UID: "u2", Generation: 3, Pods: 1, Programmed: true})
			o.Nodes[1].Status.Policies = o.Nodes[0].Status.Policies
			o.Nodes[2].Status.Policies = o.Nodes[0].Status.Policies
		}, ByGateway, 0},
		{"excepted", outside, func(o *Objects) { o.spec().Except = []v1alpha1.Network{"203.0.113.0/24"}; o.another("rest", 2000) }, ByNode, 0},
		{"network of the cluster", "10.244.9.9", func(*Objects) {}, Direct, 0},
		{"multicast", "239.1.1.1", func(*Objects) {}, Direct, 0},
		{"metadata service", "169.254.169.254", func(*Objects) {}, ByNode, 0},
		{"host network", outside, func(o *Objects) { o.Pod.Spec.HostNetwork = true }, ByNode, 0},
		{"ended", "", func(o *Objects) { o.Pod.Status.Phase = corev1.PodSucceeded }, NoWay, 0},
		{"on no node", "", func(o *Objects) { o.Pod.Spec.NodeName, o.Pod.Status = "", corev1.PodStatus{Phase: corev1.PodPending} }, NoWay, 0},
		{"without an address", "", func(o *Objects) { o.Pod.Status = corev1.PodStatus{Phase: corev1.PodPending} }, NoWay, 0},
		{"without an address of that family", outside6, func(o *Objects) { o.Pod.Status.PodIPs = o.Pod.Status.PodIPs[:1] }, NoWay, 1},
		{"policy without that family", outside6, func(o *Objects) {
			o.Policies[0].Status.Addresses = o.Policies[0].Status.Addresses[:1]
			o.spec().WhenNoGateway = v1alpha1.NoGatewayNode
		}, Dropped, 1},
		{"policy for destinations without that family", outside6, func(o *Objects) {
			o.Policies[0].Status.Addresses = o.Policies[0].Status.Addresses[:1]
			o.spec().To, o.spec().WhenNoGateway = []v1alpha1.Network{"192.0.2.0/24", "2001:db8::/32"}, v1alpha1.NoGatewayNode
		}, ByNode, 1},
		{"policy without a family of the pod", "", func(o *Objects) { o.Policies[0].Status.Addresses = o.Policies[0].Status.Addresses[:1] }, ByGateway, 0},
		{"refused", "", func(o *Objects) {
			o.fails(v1alpha1.ConditionAccepted, "of gateway out no address is left")
			o.Policies[0].Status.Addresses = nil
		}, Dropped, 2},
		{"refused, by the node", "", func(o *Objects) {
			o.fails(v1alpha1.ConditionAccepted, "there is no EgressGateway out")
			o.Policies[0].Status.Addresses, o.Gateways, o.spec().WhenNoGateway = nil, nil, v1alpha1.NoGatewayNode
		}, ByNode, 2},
		{"new", "", func(o *Objects) { o.Policies[0].Status = v1alpha1.EgressPolicyStatus{} }, Dropped, 2},
		{"changed", "", func(o *Objects) { o.Policies[0].Generation = 4 }, ByGateway, 3},
		{"made again", "", func(o *Objects) { o.Policies[0].UID = "u9" }, ByGateway, 2},
		{"shared pods and another node", "", func(o *Objects) {
			o.Policies[0].Status.Conditions[0].Reason = "PodsShared"
			o.fails(v1alpha1.ConditionProgrammed, "n7: its agent has not reported yet")
		}, ByGateway, 0},
		{"node without an agent", "", func(o *Objects) { o.Nodes = o.Nodes[1:] }, ByGateway, 1},
		{"node that lacks", "", func(o *Objects) {
			o.Nodes[0].Status.Policies[0].Programmed, o.Nodes[0].Status.Policies[0].Message = false, "the table that steers pods is not what it should be"
		}, ByGateway, 1},
		{"node without the pod", "", func(o *Objects) {
			second := o.Pod
			second.Name = "web2"
			o.Pods = append(o.Pods, second)
		}, ByGateway, 1},
		{"node that is not ready", "", func(o *Objects) { // and has all of the policy: see agent.Report
			o.Nodes[0].Status.Conditions[0] = metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPassword,
				Message: "there is no Secret routers; the last password stays in force"}
		}, ByGateway, 0},
		{"a gateway is gone", "", (*Objects).killed, ByGateway, 0},
		{"both are gone", outside, func(o *Objects) {
			o.killed()
			o.Gateways[0].Status.Nodes[1] = v1alpha1.GatewayNode{Name: "gw2", State: v1alpha1.Gone, Message: "gone to node n1"}
			o.fails(v1alpha1.ConditionServing, "0 of 2 nodes serve")
		}, Dropped, 1},
		{"both are gone, by the node", outside, func(o *Objects) {
			o.Gateways[0].Status.Nodes, o.spec().WhenNoGateway = nil, v1alpha1.NoGatewayNode
		}, ByNode, 1},
		{"nobody has the address", "", func(o *Objects) { o.Gateways[0].Status.Nodes[0].Addresses = nil }, ByGateway, 2},
		{"gateway that lacks", "", func(o *Objects) { o.Nodes[1].Status.Policies = nil }, ByGateway, 1},
		{"standby that lacks", "", func(o *Objects) { o.Nodes[2].Status.Policies = nil }, ByGateway, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := objects()
			c.change(o)
			var to netip.Addr
			if c.to != "" {
				to = netip.MustParseAddr(c.to)
			}
			a := Explain(*o, to)
			var b bytes.Buffer
			if err := a.Text(&b); err != nil {
				t.Fatal(err)
			}
			if a.Way != c.way || len(a.Problems) != c.problems || a.Way != ByGateway && len(a.Addresses) > 0 {
				t.Errorf("%s, %d problems, %v\n%s", a.Way, len(a.Problems), a.Addresses, &b)
			}
			golden(t, strings.ReplaceAll(strings.ReplaceAll(c.name, ",", ""), " ", "-")+".txt", b.Bytes())
		})
	}
}

// The JSON has its names, and lists that are empty rather than missing.
func TestJSON(t *testing.T) {
	o := objects()
	o.killed()
	o.clusterPolicy("all", nil)
	a := Explain(*o, netip.MustParseAddr("203.0.113.1"))
	text, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "answer.json", append(text, '\n'))
	o.Pod.Labels, o.ClusterPolicies = nil, nil
	text, err = json.Marshal(Explain(*o, netip.Addr{}))
	if err != nil || !bytes.Contains(text, []byte(`"notes":[],"problems":[]`)) {
		t.Errorf("%s %v", text, err)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: it is\n%s\nwant\n%s", name, got, want)
	}
}
