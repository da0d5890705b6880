package why

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/controller"
	"github.com/selvage/selvage/kube/internal/plan"
)

// Objects are what an answer is made of.
type Objects struct {
	Pod       corev1.Pod
	Namespace corev1.Namespace // of the pod
	// Pods are those of the pod's namespace and node.
	Pods            []corev1.Pod
	Policies        []v1alpha1.EgressPolicy // of the pod's namespace
	ClusterPolicies []v1alpha1.ClusterEgressPolicy
	Gateways        []v1alpha1.EgressGateway
	Nodes           []v1alpha1.EgressNode
	// Cluster are the networks of the cluster, which count where there is a destination.
	Cluster []netip.Prefix
}

// Explain says why a pod leaves as it does: to a destination, or at all where that is the zero one.
func Explain(o Objects, to netip.Addr) Answer {
	e := explainer{o: o, to: to, pod: plan.PodOf(&o.Pod), Answer: Answer{Notes: []string{}, Problems: []string{}}}
	e.Pod = Pod{
		Namespace: o.Pod.Namespace, Name: o.Pod.Name, Node: o.Pod.Spec.NodeName, HostNetwork: o.Pod.Spec.HostNetwork,
		Phase: string(o.Pod.Status.Phase), Addresses: plan.Texts(e.pod.Addresses),
	}
	if to.IsValid() {
		e.Destination = to.String()
	}
	if !e.outside() {
		return e.Answer
	}
	e.choose()
	if e.decider == nil {
		e.Way, e.Summary = ByNode, e.subject()+" leaves as its node "+e.Pod.Node+", by the CNI plugin's own masquerade: "+e.nobody()
		return e.Answer
	}
	e.policy()
	if e.decider.decision == plan.Excepts {
		e.Way, e.Summary = ByNode, fmt.Sprintf("%s leaves as its node %s, by the CNI plugin's own masquerade: %s excepts the destination", e.subject(), e.Pod.Node, e.decider.title())
		return e.Answer
	}
	e.gateway()
	e.node()
	e.conclude()
	return e.Answer
}

type explainer struct {
	Answer
	o       Objects
	to      netip.Addr
	pod     plan.Pod
	decider *candidate
}

// candidate is a policy that selects the pod.
type candidate struct {
	plan.Rank
	meta     metav1.ObjectMeta
	spec     v1alpha1.EgressPolicySpec
	status   v1alpha1.EgressPolicyStatus
	decision plan.Decision // without a destination the first decides
}

func (c *candidate) kind() string {
	if c.Cluster {
		return "ClusterEgressPolicy"
	}
	return "EgressPolicy"
}

func (c *candidate) title() string { return c.kind() + " " + c.Key }

// subject is the pod, and where to.
func (e *explainer) subject() string {
	s := "pod " + e.pod.Namespace + "/" + e.pod.Name
	if e.to.IsValid() {
		s += ", to " + e.to.String() + ","
	}
	return s
}

// outside reports whether a policy may decide; otherwise it has concluded.
func (e *explainer) outside() bool {
	p, subject := e.o.Pod, e.subject()
	switch {
	case p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed:
		e.Way, e.Summary = NoWay, fmt.Sprintf("%s has ended (%s): it sends nothing", subject, p.Status.Phase)
	case p.Spec.NodeName == "":
		e.Way, e.Summary = NoWay, subject+" is on no node yet: it sends nothing"
	case p.Spec.HostNetwork:
		e.Way, e.Summary = ByNode, fmt.Sprintf("%s is in the network of its node %s, and leaves as the node: no policy ever selects it", subject, e.Pod.Node)
	case len(e.pod.Addresses) == 0:
		e.Way, e.Summary = NoWay, subject+" has no address yet: it sends nothing that leaves its node"
	case e.to.IsValid() && !slices.ContainsFunc(e.pod.Addresses, func(a netip.Addr) bool { return a.Is4() == e.to.Is4() }):
		e.Way, e.Summary = NoWay, fmt.Sprintf("%s sends nothing: it has no %s address", subject, family(e.to))
		e.Problems = append(e.Problems, fmt.Sprintf("the pod has no %s address", family(e.to)))
	case e.to.IsMulticast():
		e.Way, e.Summary = Direct, subject+" is not led to a gateway: multicast never is"
	case within(plan.NodeLocal, e.to) >= 0:
		e.Way, e.Summary = ByNode, fmt.Sprintf("%s goes by its node %s as without policies: link-local addresses, and those of metadata services, answer for the node", subject, e.Pod.Node)
	default:
		i := within(e.o.Cluster, e.to)
		if i < 0 {
			return true
		}
		e.Way, e.Summary = Direct, fmt.Sprintf("%s goes as itself: %s is a network of the cluster", subject, e.o.Cluster[i])
	}
	return false
}

// within is which of the networks has an address, negative where none has.
func within(list []netip.Prefix, a netip.Addr) int {
	return slices.IndexFunc(list, func(n netip.Prefix) bool { return n.Contains(a) })
}

func family(a netip.Addr) string {
	if a.Is4() {
		return plan.IPv4
	}
	return plan.IPv6
}

// choose finds the policy that decides, and says why the others do not.
func (e *explainer) choose() {
	list := e.candidates()
	at := slices.IndexFunc(list, func(c *candidate) bool { return c.decision != plan.Passes })
	if at >= 0 {
		e.decider = list[at]
	}
	open := true // nobody before has said where all packets go
	for i, c := range list {
		switch {
		case at < 0 || i < at:
			e.Others = append(e.Others, c.other(true, "spec.to does not cover "+e.to.String()))
		case i > at:
			why := c.later(e.decider)
			if !e.to.IsValid() && open {
				why += "; it is asked about what spec.to of those before does not cover"
			}
			e.Others = append(e.Others, c.other(false, why))
		}
		open = open && len(c.spec.To) > 0
	}
	if e.decider != nil && !e.to.IsValid() && open {
		e.Notes = append(e.Notes, "to what spec.to does not cover, the pod leaves as its node "+e.Pod.Node)
	}
}

// candidates are the policies that select the pod, in the order in which they are asked.
func (e *explainer) candidates() (list []*candidate) {
	add := func(m metav1.ObjectMeta, spec v1alpha1.EgressPolicySpec, status v1alpha1.EgressPolicyStatus) {
		if !plan.Selector(spec)(e.pod.Labels, e.pod.ServiceAccount) {
			return
		}
		c := &candidate{Rank: plan.RankOf(m, spec), meta: m, spec: spec, status: status, decision: plan.Decides}
		if e.to.IsValid() {
			c.decision = plan.Decide(spec, e.to)
		}
		list = append(list, c)
	}
	for _, p := range e.o.Policies {
		if p.Namespace == e.pod.Namespace {
			add(p.ObjectMeta, p.Spec, p.Status)
		}
	}
	for _, p := range e.o.ClusterPolicies {
		if plan.Selects(p.Spec.Namespaces)(e.o.Namespace.Labels) {
			add(p.ObjectMeta, p.Spec.EgressPolicySpec, p.Status)
		}
	}
	slices.SortFunc(list, func(a, b *candidate) int { return a.Compare(b.Rank) })
	return list
}

func (c *candidate) other(earlier bool, why string) Other {
	return Other{Kind: c.kind(), Key: c.Key, Priority: c.Priority, Earlier: earlier, Why: why}
}

// later is why a policy comes after the one that decides.
func (c *candidate) later(first *candidate) string {
	switch {
	case c.Priority != first.Priority:
		return fmt.Sprintf("its priority is %d, and the other's %d", c.Priority, first.Priority)
	case c.Cluster != first.Cluster:
		return "of one priority, those of a namespace come first"
	}
	return "of one priority, the first by name decides"
}

// nobody is why no policy decides.
func (e *explainer) nobody() string {
	if len(e.Others) > 0 {
		return "no policy that selects it covers the destination"
	}
	return "no policy selects it"
}

func (e *explainer) policy() {
	c := e.decider
	e.Policy = &Policy{
		Kind: c.kind(), Key: c.Key, Priority: c.Priority, Generation: c.meta.Generation, Accepted: meta.IsStatusConditionTrue(c.status.Conditions, v1alpha1.ConditionAccepted),
		To: words(c.spec.To), Except: words(c.spec.Except), Excepts: c.decision == plan.Excepts, AddressType: string(cmp.Or(c.spec.Address.Type, v1alpha1.AddressPool)),
		Addresses:     list(c.status.Addresses),
		WhenNoGateway: string(v1alpha1.NoGatewayDrop), Conditions: list(c.status.Conditions),
	}
	if c.spec.WhenNoGateway == v1alpha1.NoGatewayNode {
		e.Policy.WhenNoGateway = string(v1alpha1.NoGatewayNode)
	}
}

// given are the addresses of the policy, or those of nodes, with which the pod may leave: of its families, or of the destination's.
func (e *explainer) given() (out []string) {
	all := e.decider.status.Addresses
	if e.decider.ofNode() {
		all = nil
		for _, n := range e.nodes() {
			all = append(all, n.OwnAddresses...)
		}
	}
	for _, text := range all {
		if a, err := netip.ParseAddr(text); err == nil && e.sends(a) {
			out = append(out, text)
		}
	}
	return out
}

// sends reports whether the pod sends packets of the family of a, to where it is asked about.
func (e *explainer) sends(a netip.Addr) bool {
	same := func(own netip.Addr) bool { return own.Is4() == a.Is4() }
	return slices.ContainsFunc(e.pod.Addresses, same) && (!e.to.IsValid() || same(e.to))
}

// ofNode reports whether pods of the policy get addresses of nodes.
func (c *candidate) ofNode() bool { return c.spec.Address.Type == v1alpha1.AddressNode }

// of is the policy's gateway, nil where there is none.
func (e *explainer) of() *v1alpha1.EgressGateway {
	i := slices.IndexFunc(e.o.Gateways, func(g v1alpha1.EgressGateway) bool { return g.Name == e.decider.spec.Gateway })
	if i < 0 {
		return nil
	}
	return &e.o.Gateways[i]
}

// nodes are those of the policy's gateway.
func (e *explainer) nodes() []v1alpha1.GatewayNode {
	if g := e.of(); g != nil {
		return g.Status.Nodes
	}
	return nil
}

// families are those of which the policy has addresses.
func (e *explainer) families() plan.Families {
	return plan.FamiliesOf(e.decider.spec, e.decider.status, e.of())
}

func words(networks []v1alpha1.Network) (out []string) {
	for _, n := range networks {
		out = append(out, string(n))
	}
	return out
}

// list is empty, and not missing, in JSON.
func list[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

func (e *explainer) report(node string) *v1alpha1.EgressNode {
	if i := slices.IndexFunc(e.o.Nodes, func(n v1alpha1.EgressNode) bool { return n.Name == node }); i >= 0 {
		return &e.o.Nodes[i]
	}
	return nil
}

func (e *explainer) lacks(node string, pods int) string {
	return controller.Lacks(e.report(node), e.decider.Key, e.decider.meta, pods)
}

// gateway is that of the policy, with its nodes, and what it gives.
func (e *explainer) gateway() {
	e.Addresses = e.given()
	g := e.of()
	if g == nil {
		return
	}
	mode := g.Spec.Mode
	if mode == "" {
		mode = v1alpha1.ActiveStandby
	}
	e.Gateway = &Gateway{Name: g.Name, Mode: string(mode), Nodes: []GatewayNode{}}
	if f := g.Status.LastFailover; f != nil {
		e.Gateway.LastFailover = &Failover{f.Node, f.Change, f.Seen, f.WrittenMicroseconds, f.AnnouncedMicroseconds, f.ReportedBy}
	}
	for _, n := range g.Status.Nodes {
		member := GatewayNode{Name: n.Name, State: string(n.State), Message: n.Message}
		has, wants := n.Addresses, e.decider.status.Addresses
		if e.decider.ofNode() {
			has, wants = n.OwnAddresses, n.OwnAddresses
		}
		for _, a := range wants {
			if slices.Contains(has, a) {
				member.Addresses = append(member.Addresses, a)
			}
		}
		if serves(n.State) {
			e.Gateway.Serving++
			member.Lacks = e.lacks(n.Name, 0)
		}
		e.Gateway.Nodes = append(e.Gateway.Nodes, member)
	}
}

// serves reports whether a node translates, as agents see it.
func serves(s v1alpha1.NodeState) bool { return s == v1alpha1.Serving || s == v1alpha1.Draining }

// node is what the tables of the pod's node have. Of a policy of the cluster there may be pods of other namespaces.
func (e *explainer) node() {
	c, pods := e.decider, 0
	for i := range e.o.Pods {
		if p := plan.PodOf(&e.o.Pods[i]); p.Leaves() && e.o.Pods[i].Spec.NodeName == e.Pod.Node && p.Namespace == e.pod.Namespace && plan.Selector(c.spec)(p.Labels, p.ServiceAccount) {
			pods++
		}
	}
	n := &Node{Name: e.Pod.Node, Lacks: e.lacks(e.Pod.Node, pods)}
	n.Programmed = n.Lacks == ""
	if r := e.report(e.Pod.Node); r != nil {
		for _, p := range r.Status.Policies {
			if p.Policy == c.Key {
				n.Pods = p.Pods
			}
		}
		// What keeps packets of policies from leaving is said of these. A password that is missing keeps none.
		if ready := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady); n.Programmed && ready != nil && ready.Status != metav1.ConditionTrue {
			e.Notes = append(e.Notes, "node "+n.Name+" is not ready: "+ready.Message)
		}
	}
	e.Node = n
}
