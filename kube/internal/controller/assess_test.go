package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// world is two workers and two nodes of gateway "out" with four addresses.
func world() *Objects {
	o := &Objects{
		Gateways: []v1alpha1.EgressGateway{{
			ObjectMeta: metav1.ObjectMeta{Name: "out", Generation: 1},
			Spec: v1alpha1.EgressGatewaySpec{
				Nodes: metav1.LabelSelector{MatchLabels: map[string]string{"egress": "yes"}}, Addresses: []v1alpha1.AddressRange{"198.51.100.20-198.51.100.22", "198.51.100.30", "2001:db8::/126"},
			},
		}},
		Namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, {ObjectMeta: metav1.ObjectMeta{Name: "bank", Labels: map[string]string{"team": "b"}}}},
	}
	for _, name := range []string{"worker-1", "worker-2", "gw-1", "gw-2"} {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
		if strings.HasPrefix(name, "gw") {
			n.Labels = map[string]string{"egress": "yes"}
		}
		o.Nodes = append(o.Nodes, n)
	}
	o.Pods = podsOf(podOn("worker-1", "shop", "web-1", "web"), podOn("worker-1", "shop", "web-2", "web"), podOn("worker-2", "bank", "web-1", "web"))
	return o
}

func podsOf(list ...*corev1.Pod) *Pods {
	s := NewPods()
	for _, p := range list {
		_ = s.Add(p) // it has no errors
	}
	return s
}

func podOn(node, namespace, name, app string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.244.1.1"}}},
	}
}

// with adds a policy that is so many seconds old.
func (o *Objects) with(name string, age int, change func(*v1alpha1.EgressPolicySpec)) *v1alpha1.EgressPolicy {
	p := v1alpha1.EgressPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Generation: 1, CreationTimestamp: metav1.NewTime(time.Unix(1_000_000-int64(age), 0))},
		Spec:       v1alpha1.EgressPolicySpec{Gateway: "out", Address: v1alpha1.PolicyAddress{Type: v1alpha1.AddressPool}},
	}
	if change != nil {
		change(&p.Spec)
	}
	o.Policies = append(o.Policies, p)
	return &o.Policies[len(o.Policies)-1]
}

func (o *Objects) policy(t *testing.T, name string) *v1alpha1.EgressPolicy {
	t.Helper()
	for i := range o.Policies {
		if o.Policies[i].Name == name {
			return &o.Policies[i]
		}
	}
	t.Fatalf("there is no policy %s", name)
	return nil
}

// says fails where a condition is not so.
func says(t *testing.T, list []metav1.Condition, kind string, status metav1.ConditionStatus, words string) {
	t.Helper()
	c := meta.FindStatusCondition(list, kind)
	if c == nil || c.Status != status || !strings.Contains(c.Reason+": "+c.Message, words) {
		t.Errorf("%s is %+v, want %s with %q", kind, c, status, words)
	}
}

// again has the same outcome: what was given out stays, and nothing is written for nothing.
func again(t *testing.T, o *Objects) {
	t.Helper()
	before := o.copied()
	Assess(o)
	for i := range o.Policies {
		if !equality.Semantic.DeepEqual(o.Policies[i].Status, before.Policies[i].Status) {
			t.Errorf("status of %s was %+v, and now %+v", o.Policies[i].Name, before.Policies[i].Status, o.Policies[i].Status)
		}
	}
	for i := range o.Gateways {
		if !equality.Semantic.DeepEqual(o.Gateways[i].Status, before.Gateways[i].Status) {
			t.Errorf("status of %s was %+v, and now %+v", o.Gateways[i].Name, before.Gateways[i].Status, o.Gateways[i].Status)
		}
	}
}

// The older policy has the addresses; a pool that is too small and addresses of nobody are refused; what one gives back another gets.
func TestAddresses(t *testing.T) {
	o := world()
	o.with("young", 1, nil)
	o.with("old", 9, func(s *v1alpha1.EgressPolicySpec) { s.Address.Count = 2 })
	o.with("fixed", 5, func(s *v1alpha1.EgressPolicySpec) {
		s.Address = v1alpha1.PolicyAddress{Type: v1alpha1.AddressFixed, Fixed: []string{"198.51.100.21"}}
	})
	o.with("late", 0, nil)
	o.with("same", 0, func(s *v1alpha1.EgressPolicySpec) {
		s.Address = v1alpha1.PolicyAddress{Type: v1alpha1.AddressFixed, Fixed: []string{"198.51.100.21"}}
	})
	o.with("wrong", 0, func(s *v1alpha1.EgressPolicySpec) {
		s.Address = v1alpha1.PolicyAddress{Type: v1alpha1.AddressFixed, Fixed: []string{"198.51.100.99"}}
	})
	o.with("nobody", 0, func(s *v1alpha1.EgressPolicySpec) { s.Gateway = "none" })
	Assess(o)
	for name, want := range map[string]string{
		"old": "198.51.100.20 198.51.100.22 2001:db8:: 2001:db8::1", "fixed": "198.51.100.21", "young": "198.51.100.30 2001:db8::2", "late": "", "same": "", "wrong": "", "nobody": "",
	} {
		if got := strings.Join(o.policy(t, name).Status.Addresses, " "); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
	for name, words := range map[string]string{
		"late": "AddressesExhausted: EgressGateway out has no free IPv4 address: 0 of 1", "same": "AddressTaken: policy shop/fixed has 198.51.100.21",
		"wrong": "AddressUnknown: 198.51.100.99 is no address of EgressGateway out", "nobody": "NoGateway: there is no EgressGateway none",
	} {
		says(t, o.policy(t, name).Status.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionFalse, words)
	}
	if use := o.Gateways[0].Status.Addresses; use.Total != 8 || use.Used != 7 {
		t.Errorf("of the gateway's addresses %+v are used", use)
	}
	again(t, o)
	o.policy(t, "old").Spec.Address.Count = 1
	Assess(o)
	if got := strings.Join(o.policy(t, "old").Status.Addresses, " "); got != "198.51.100.20 2001:db8::" {
		t.Errorf("old keeps %s", got)
	}
	says(t, o.policy(t, "late").Status.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionTrue, "")
	again(t, o)
}

func TestVNIs(t *testing.T) {
	o := world()
	seen := map[int32]bool{}
	for i := range 4 {
		o.with(fmt.Sprint("p", i), 10-i, func(s *v1alpha1.EgressPolicySpec) { s.Gateway = "none" })
	}
	o.Policies[3].Status.VNI = 7 // none of ours
	Assess(o)
	for i := range o.Policies {
		if v := o.Policies[i].Status.VNI; v < firstVNI || seen[v] {
			t.Errorf("%s has VNI %d", o.Policies[i].Name, v)
		}
		seen[o.Policies[i].Status.VNI] = true
	}
	last := o.Policies[3].Status.VNI
	o.Policies = o.Policies[1:]
	o.with("new", 0, nil)
	Assess(o)
	if v := o.policy(t, "new").Status.VNI; v <= last {
		t.Errorf("a new policy has VNI %d at once, others had %v", v, seen)
	}
}

// Members stay in their order; new ones come last, and those that are gone leave.
func TestMembers(t *testing.T) {
	o := world()
	Assess(o)
	names := func() (list string) {
		for _, n := range o.Gateways[0].Status.Nodes {
			list += n.Name + " "
		}
		return list
	}
	if names() != "gw-1 gw-2 " {
		t.Errorf("members %s", names())
	}
	o.Nodes[0].Labels = map[string]string{"egress": "yes"}
	o.Nodes[2].Labels = nil
	Assess(o)
	if names() != "gw-2 worker-1 " {
		t.Errorf("members %s", names())
	}
	o.Nodes[2].Labels = map[string]string{"egress": "yes"}
	Assess(o)
	if names() != "gw-2 worker-1 gw-1 " {
		t.Errorf("members %s", names())
	}
	o.Nodes = o.Nodes[:1]
	Assess(o)
	if names() != "worker-1 " {
		t.Errorf("members %s", names())
	}
	o.Nodes = nil
	Assess(o)
	says(t, o.Gateways[0].Status.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionFalse, "NoNodes")
}

// report is what an agent says of a policy and its own part in the gateway.
func (o *Objects) report(node string, p *v1alpha1.EgressPolicy, pods int32, state v1alpha1.NodeState, others ...v1alpha1.GatewayNode) *v1alpha1.EgressNode {
	n := v1alpha1.EgressNode{ObjectMeta: metav1.ObjectMeta{Name: node}, Status: v1alpha1.EgressNodeStatus{
		Policies: []v1alpha1.NodePolicy{{Policy: "shop/" + p.Name, UID: string(p.UID), Generation: p.Generation, Pods: pods, Programmed: true}},
	}}
	if state != "" {
		n.Status.Gateways = []v1alpha1.NodeGateway{{Gateway: "out", State: state, Others: others}}
	}
	o.EgressNodes = append(o.EgressNodes, n)
	return &o.EgressNodes[len(o.EgressNodes)-1]
}

// A policy is programmed when all nodes that need it say so, of this generation and of all their pods.
func TestProgrammed(t *testing.T) {
	o := world()
	p := o.with("web", 1, func(s *v1alpha1.EgressPolicySpec) {
		s.Pods = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	})
	Assess(o)
	if p.Status.Pods != 2 || p.Status.Nodes != "0/3" {
		t.Errorf("%d pods on %s nodes", p.Status.Pods, p.Status.Nodes)
	}
	says(t, p.Status.Conditions, v1alpha1.ConditionProgrammed, metav1.ConditionFalse, "gw-1: its agent has not reported yet; gw-2")
	o.report("gw-1", p, 0, v1alpha1.Serving, v1alpha1.GatewayNode{Name: "gw-2", State: v1alpha1.Serving})
	o.report("gw-2", p, 0, v1alpha1.Serving, v1alpha1.GatewayNode{Name: "gw-1", State: v1alpha1.Serving})
	o.report("worker-1", p, 2, "")
	Assess(o)
	says(t, p.Status.Conditions, v1alpha1.ConditionProgrammed, metav1.ConditionTrue, "3 of 3 nodes at generation 1")
	says(t, p.Status.Conditions, v1alpha1.ConditionServing, metav1.ConditionTrue, "2 of 2 nodes serve")
	again(t, o)
	for words, change := range map[string]func(*Objects){
		"worker-1: it has 1 of 2 pods":  func(o *Objects) { o.EgressNodes[2].Status.Policies[0].Pods = 1 },
		"worker-1: it has generation 1": func(o *Objects) { o.Policies[0].Generation, o.EgressNodes[0].Status.Policies[0].Generation = 2, 2 },
		"gw-2: a table lacks it": func(o *Objects) {
			o.EgressNodes[1].Status.Policies[0] = v1alpha1.NodePolicy{Policy: "shop/web", UID: "web", Generation: 1, Message: "a table lacks it"}
		},
		"gw-1: it does not have the policy": func(o *Objects) { o.EgressNodes[0].Status.Policies[0].UID = "another" },
		"worker-2: its agent has not reported ": func(o *Objects) {
			o.Pods = podsOf(podOn("worker-1", "shop", "web-1", "web"), podOn("worker-1", "shop", "web-2", "web"), podOn("worker-2", "shop", "web-3", "web"))
		},
		"worker-1: no room; gw-1: it has generation 1": func(o *Objects) {
			o.Policies[0].Generation, o.EgressNodes[1].Status.Policies[0].Generation = 2, 2
			o.EgressNodes[2].Status.Policies[0] = v1alpha1.NodePolicy{Policy: "shop/web", UID: "web", Generation: 2, Message: "no room", Reason: v1alpha1.ReasonTooManyPolicies}
		},
	} {
		c := o.copied()
		c.EgressNodes = copies(o.EgressNodes)
		change(c)
		Assess(c)
		says(t, c.Policies[0].Status.Conditions, v1alpha1.ConditionProgrammed, metav1.ConditionFalse, words)
		reason := meta.FindStatusCondition(c.Policies[0].Status.Conditions, v1alpha1.ConditionProgrammed).Reason
		if full := strings.Contains(words, "no room"); full != (reason == v1alpha1.ReasonTooManyPolicies) {
			t.Errorf("%s: reason %s", words, reason)
		}
	}
}

// A member that is dead leaves a report behind in which it serves: what the others say goes before, and the dead have no say.
func TestDeadMember(t *testing.T) {
	o := world()
	p := o.with("web", 1, nil)
	gone := v1alpha1.GatewayNode{Name: "gw-1", State: v1alpha1.Gone, Message: "it does not answer"}
	o.report("gw-1", p, 0, v1alpha1.Serving, v1alpha1.GatewayNode{Name: "gw-2", State: v1alpha1.Gone})
	o.report("gw-2", p, 0, v1alpha1.Serving, gone)
	o.Nodes[2].Status.Conditions = nil
	Assess(o)
	if nodes := o.Gateways[0].Status.Nodes; nodes[0].State != v1alpha1.Gone || nodes[0].Message != "it does not answer" || nodes[1].State != v1alpha1.Serving || o.Gateways[0].Status.Serving != "1/2" {
		t.Errorf("nodes %+v", nodes)
	}
	o.EgressNodes = nil
	Assess(o)
	says(t, o.Gateways[0].Status.Conditions, v1alpha1.ConditionServing, metav1.ConditionFalse, "0 of 2 nodes serve")
}

// What shares an address is named: two nodes that answer for one, and two Node objects.
func TestOneAddressTwice(t *testing.T) {
	o := world()
	p := o.with("web", 1, nil)
	Assess(o)
	for _, name := range []string{"gw-1", "gw-2"} {
		o.report(name, p, 0, v1alpha1.Serving)
		n := &o.EgressNodes[len(o.EgressNodes)-1].Status.Gateways[0]
		n.Addresses = p.Status.Addresses
	}
	own := corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "192.0.2.3"}
	o.Nodes[2].Status.Addresses = []corev1.NodeAddress{own}
	o.Nodes = append(o.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "aaa-old", Labels: o.Nodes[2].Labels}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{own}}})
	Assess(o)
	g := o.Gateways[0].Status
	for _, list := range [][]metav1.Condition{g.Conditions, o.policy(t, "web").Status.Conditions} {
		says(t, list, v1alpha1.ConditionServing, metav1.ConditionTrue, "2 of 3 nodes serve; nodes gw-1 and gw-2 both answer for 198.51.100.")
	}
	for i, words := range []string{"Node aaa-old has its address 192.0.2.3 too, and does not count", "", "Node gw-1 has its address 192.0.2.3 too, and counts instead"} {
		if m := g.Nodes[i].Message; !strings.Contains(m, words) || words == "" && m != "" {
			t.Errorf("%s says %q, want %q", g.Nodes[i].Name, m, words)
		}
	}
}

// What a pod sends by a family of which its policy has no address is dropped, and the status says so.
func TestFamilyWithoutAddress(t *testing.T) {
	six := podOn("worker-1", "shop", "web-3", "web")
	six.Status.PodIPs = append(six.Status.PodIPs, corev1.PodIP{IP: "fd00::1"})
	for _, c := range []struct {
		to        []v1alpha1.Network
		addresses []v1alpha1.AddressRange
		want      bool
	}{
		{nil, []v1alpha1.AddressRange{"198.51.100.20"}, true},
		{nil, []v1alpha1.AddressRange{"198.51.100.20", "2001:db8::/126"}, false},
		{[]v1alpha1.Network{"203.0.113.0/24"}, []v1alpha1.AddressRange{"198.51.100.20"}, false}, // IPv6 is not the policy's
		{[]v1alpha1.Network{"203.0.113.0/24", "2001:db8:1::/48"}, []v1alpha1.AddressRange{"198.51.100.20"}, true},
	} {
		o := world()
		o.Pods, o.Gateways[0].Spec.Addresses = podsOf(six), c.addresses
		p := o.with("web", 1, func(s *v1alpha1.EgressPolicySpec) { s.To = c.to })
		Assess(o)
		accepted := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionAccepted)
		if got := strings.Contains(accepted.Message, "what they send by IPv6 is dropped"); got != c.want || accepted.Status != metav1.ConditionTrue {
			t.Errorf("to %v with %v: %+v", c.to, c.addresses, accepted)
		}
	}
}

// One IPv6 address may be written in two ways.
func TestTwoSpellings(t *testing.T) {
	o := world()
	p := o.with("web", 1, func(s *v1alpha1.EgressPolicySpec) {
		s.Address = v1alpha1.PolicyAddress{Type: v1alpha1.AddressFixed, Fixed: []string{"2001:db8::1", "2001:DB8:0::1"}}
	})
	Assess(o)
	if got := p.Status.Addresses; len(got) != 1 || got[0] != "2001:db8::1" {
		t.Errorf("it has %q: %+v", got, p.Status.Conditions)
	}
	again(t, o)
}

// Of two policies for a pod the first decides, and the second says so.
func TestSharedPods(t *testing.T) {
	o := world()
	o.with("a", 1, nil)
	o.with("b", 1, func(s *v1alpha1.EgressPolicySpec) {
		s.Pods = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	})
	Assess(o)
	says(t, o.policy(t, "a").Status.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionTrue, "Accepted")
	says(t, o.policy(t, "b").Status.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionTrue, "PodsShared: of its pods another policy decides about some: shop/web-1, which policy shop/a has first")
}

func TestRanges(t *testing.T) {
	for text, want := range map[string]int64{"192.0.2.1": 1, "192.0.2.1-192.0.2.9": 9, "192.0.2.0/24": 256, "2001:db8::/64": addressesMost, "10.0.0.0/8": addressesMost, "192.0.1.255-192.0.2.0": 2} {
		if r, ok := parseRange(text); !ok || size(r) != want {
			t.Errorf("%s has %d addresses, want %d", text, size(r), want)
		}
	}
	for _, text := range []string{"", "192.0.2.9-192.0.2.1", "192.0.2.1-2001:db8::", "x", "1-2-3"} {
		if _, ok := parseRange(text); ok {
			t.Errorf("%q is a range", text)
		}
	}
}

func BenchmarkAssess(b *testing.B) {
	o := world()
	for i := range 1000 {
		o.Nodes = append(o.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i)}})
	}
	for i := range 100 {
		o.with(fmt.Sprint("p", i), i, func(s *v1alpha1.EgressPolicySpec) {
			s.Pods = &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint("app", i)}}
		})
	}
	for i := range 50_000 {
		_ = o.Pods.Add(podOn(fmt.Sprint("node-", i%1000), []string{"shop", "bank"}[i%2], fmt.Sprint("pod-", i), fmt.Sprint("app", i%200)))
	}
	for b.Loop() {
		Assess(o.copied())
	}
}
