// Package controller gives out what policies need, and tells in their status what became of them. It changes no node: agents do, from
// the same objects.
package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go4.org/netipx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/plan"
)

// Objects are all that the API server has of interest.
type Objects struct {
	Nodes           []corev1.Node
	Gateways        []v1alpha1.EgressGateway
	Policies        []v1alpha1.EgressPolicy
	ClusterPolicies []v1alpha1.ClusterEgressPolicy
	EgressNodes     []v1alpha1.EgressNode
	Namespaces      []corev1.Namespace
	Pods            *Pods
}

// Assess sets the status of gateways and policies to what it has to be, in place.
func Assess(o *Objects) {
	a := assessment{Objects: o, reports: map[string]*v1alpha1.EgressNode{}, views: map[string][]view{}, ready: map[string]bool{}, gateways: map[string]*v1alpha1.EgressGateway{}}
	for i := range o.Nodes {
		n := plan.NodeOf(&o.Nodes[i])
		a.nodes, a.ready[n.Name] = append(a.nodes, n), n.Ready
	}
	a.twins = plan.Twins(a.nodes, o.Gateways, "")
	a.read()
	for i := range o.Gateways {
		g := &o.Gateways[i]
		a.gateways[g.Name] = g
		a.members(g)
	}
	a.policies = a.list()
	a.allocate()
	a.place()
	for _, p := range a.policies {
		a.conclude(p)
	}
	for i := range o.Gateways {
		a.concludeGateway(&o.Gateways[i])
	}
}

type assessment struct {
	*Objects
	reports  map[string]*v1alpha1.EgressNode // by node
	views    map[string][]view               // by gateway
	ready    map[string]bool                 // nodes that there are
	nodes    []plan.Node
	twins    map[string]plan.Twin // by node
	gateways map[string]*v1alpha1.EgressGateway
	policies []*policy // in the order in which they are asked
	uses     plan.Uses
	usable   map[string][]netipx.IPRange // by gateway: what it may give out
}

// view is a gateway as a member of it reports it.
type view struct {
	node string
	*v1alpha1.NodeGateway
}

// policy is one of either kind.
type policy struct {
	*metav1.ObjectMeta
	spec   *v1alpha1.EgressPolicySpec
	status *v1alpha1.EgressPolicyStatus
	within func(namespace string) bool
	key    string         // NAMESPACE/NAME or NAME
	on     map[string]int // pods by node
	has    plan.Families  // of the pods
	shared string         // a pod that an earlier policy has, and that policy
	refuse refusal
}

// refusal is why a policy is not accepted, the zero one when it is.
type refusal struct{ reason, message string }

// read takes in what nodes report, of each gateway in the order of nodes.
func (a *assessment) read() {
	for i := range a.EgressNodes {
		n := &a.EgressNodes[i]
		a.reports[n.Name] = n
		for j := range n.Status.Gateways {
			g := &n.Status.Gateways[j]
			a.views[g.Gateway] = append(a.views[g.Gateway], view{n.Name, g})
		}
	}
	for _, list := range a.views {
		slices.SortFunc(list, func(x, y view) int { return strings.Compare(x.node, y.node) })
	}
}

// members keeps the nodes of a gateway that are still selected, in their order, and adds new ones behind.
func (a *assessment) members(g *v1alpha1.EgressGateway) {
	selector, err := metav1.LabelSelectorAsSelector(&g.Spec.Nodes)
	if err != nil {
		selector = labels.Nothing()
	}
	var selected []string
	for i := range a.Nodes {
		if selector.Matches(labels.Set(a.Nodes[i].Labels)) {
			selected = append(selected, a.Nodes[i].Name)
		}
	}
	slices.Sort(selected)
	was := g.Status.Nodes
	g.Status.Nodes = nil
	for _, n := range was {
		if slices.Contains(selected, n.Name) {
			g.Status.Nodes = append(g.Status.Nodes, v1alpha1.GatewayNode{Name: n.Name})
		}
	}
	for _, name := range selected {
		known := slices.ContainsFunc(g.Status.Nodes, func(n v1alpha1.GatewayNode) bool { return n.Name == name })
		if !known && len(g.Status.Nodes) < plan.MaxMembers {
			g.Status.Nodes = append(g.Status.Nodes, v1alpha1.GatewayNode{Name: name})
		}
	}
	for i := range g.Status.Nodes {
		n := a.standing(g.Name, g.Status.Nodes[i].Name)
		if twin := a.twins[n.Name].String(); twin != "" {
			n.Message = strings.TrimPrefix(n.Message+"; "+twin, "; ")
		}
		g.Status.Nodes[i] = n
	}
}

// standing is how a member stands. A node that is dead has left a report behind, so what others say of it goes before, and what nodes
// say that are not ready does not count.
func (a *assessment) standing(gateway, node string) v1alpha1.GatewayNode {
	s := v1alpha1.GatewayNode{Name: node, State: v1alpha1.Unknown, Message: "its agent has not reported yet"}
	for _, g := range a.views[gateway] {
		if !a.ready[g.node] && g.node != node {
			continue
		}
		if g.node == node && s.State == v1alpha1.Unknown {
			s.State, s.Message, s.Addresses, s.OwnAddresses = g.State, g.Message, g.Addresses, g.OwnAddresses
		}
		for _, other := range g.Others {
			if other.Name == node && other.State == v1alpha1.Gone && g.node != node {
				s.State, s.Message, s.Addresses, s.OwnAddresses = v1alpha1.Gone, cmp.Or(other.Message, "gone to node "+g.node), nil, nil
				return s
			}
		}
	}
	return s
}

// list is all policies in the order in which they are asked.
func (a *assessment) list() (list []*policy) {
	for i := range a.Policies {
		p := &a.Policies[i]
		list = append(list, &policy{ObjectMeta: &p.ObjectMeta, spec: &p.Spec, status: &p.Status, key: p.Namespace + "/" + p.Name,
			within: func(n string) bool { return n == p.Namespace }})
	}
	for i := range a.ClusterPolicies {
		p := &a.ClusterPolicies[i]
		list = append(list, &policy{ObjectMeta: &p.ObjectMeta, spec: &p.Spec.EgressPolicySpec, status: &p.Status, key: p.Name, within: a.namespaces(p.Spec.Namespaces)})
	}
	slices.SortFunc(list, func(x, y *policy) int {
		return plan.RankOf(*x.ObjectMeta, *x.spec).Compare(plan.RankOf(*y.ObjectMeta, *y.spec))
	})
	return list
}

func (a *assessment) namespaces(s *metav1.LabelSelector) func(string) bool {
	matches := plan.Selects(s)
	names := map[string]bool{}
	for i := range a.Namespaces {
		names[a.Namespaces[i].Name] = matches(a.Namespaces[i].Labels)
	}
	return func(n string) bool { return names[n] }
}

// place counts the pods of policies by node.
func (a *assessment) place() {
	a.Pods.mu.RLock()
	defer a.Pods.mu.RUnlock()
	owner := map[*alike]*policy{}
	for _, p := range a.policies {
		p.on = map[string]int{}
		selects := plan.Selector(*p.spec)
		for namespace, pods := range a.Pods.alike {
			if !p.within(namespace) {
				continue
			}
			for class, pods := range pods {
				if !selects(pods.labels, class.Value().account) {
					continue
				}
				for node, count := range pods.on {
					p.on[node] += count
				}
				for f, is := range class.Value().families {
					p.has[f] = p.has[f] || is
				}
				p.take(pods, owner)
			}
		}
	}
}

// leaves reports whether a pod has a network of its own, on a node.
func leaves(p *corev1.Pod) bool {
	return !p.Spec.HostNetwork && p.Spec.NodeName != "" && len(p.Status.PodIPs) > 0 && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// take makes the policy that of pods, or notes whose they are.
func (p *policy) take(pods *alike, owner map[*alike]*policy) {
	first := owner[pods]
	if first == nil {
		owner[pods] = p
		return
	}
	if name := pods.first(); p.shared == "" || name < p.shared {
		p.shared = fmt.Sprintf("%s, which policy %s has first", name, first.key)
	}
}

// conclude writes a policy's status.
func (a *assessment) conclude(p *policy) {
	s := p.status
	s.ObservedGeneration, s.AddressList = p.Generation, strings.Join(s.Addresses, ",")
	if p.takesNone() {
		s.AddressList = string(v1alpha1.AddressNode)
	}
	s.Pods = 0
	for _, n := range p.on {
		s.Pods += int32(n)
	}
	g := a.gateways[p.spec.Gateway]
	wanted := map[string]int{}
	for node, n := range p.on {
		wanted[node] = n
	}
	if g != nil {
		for _, n := range g.Status.Nodes {
			wanted[n.Name] += 0
		}
	}
	missing, reason := a.missing(p, wanted)
	done := len(wanted) - len(missing)
	s.Nodes = fmt.Sprintf("%d/%d", done, len(wanted))
	accepted := refusal{"Accepted", p.dropped(g)}
	if p.shared != "" {
		accepted = refusal{"PodsShared", "of its pods another policy decides about some: " + p.shared}
	}
	if p.refuse.reason != "" {
		accepted = p.refuse
	}
	condition(&s.Conditions, p.Generation, v1alpha1.ConditionAccepted, p.refuse.reason == "", accepted.reason, accepted.message)
	if len(missing) > 0 {
		condition(&s.Conditions, p.Generation, v1alpha1.ConditionProgrammed, false, reason, some(missing))
	} else {
		condition(&s.Conditions, p.Generation, v1alpha1.ConditionProgrammed, p.refuse.reason == "", "Programmed",
			fmt.Sprintf("%d of %d nodes at generation %d", done, len(wanted), p.Generation))
	}
	serving, why := served(g, func(address string) bool { return slices.Contains(s.Addresses, address) })
	condition(&s.Conditions, p.Generation, v1alpha1.ConditionServing, serving > 0, map[bool]string{true: "Serving", false: "NoGateway"}[serving > 0], why)
}

// dropped says that packets of a family of the pods are, of which the policy has no address; "" where none are.
func (p *policy) dropped(g *v1alpha1.EgressGateway) string {
	for f, name := range []string{plan.IPv4, plan.IPv6} {
		to := slices.ContainsFunc(p.spec.To, func(n v1alpha1.Network) bool { return strings.Contains(string(n), ":") == (f == 1) })
		if p.has[f] && !plan.FamiliesOf(*p.spec, *p.status, g)[f] && (len(p.spec.To) == 0 || to && p.spec.WhenNoGateway != v1alpha1.NoGatewayNode) {
			return fmt.Sprintf("its pods have %s addresses, and it has none: what they send by %s is dropped", name, name)
		}
	}
	return ""
}

// missing are the nodes that lack something of a policy, and what; those whose edges have no room for it come first, and are the reason.
func (a *assessment) missing(p *policy, wanted map[string]int) (list []string, reason string) {
	var full []string
	for _, node := range sortedKeys(wanted) {
		why := a.lacks(p, node, wanted[node])
		switch {
		case why == "":
		case a.isFull(p, node):
			full = append(full, node+": "+why)
		default:
			list = append(list, node+": "+why)
		}
	}
	if len(full) > 0 {
		return append(full, list...), v1alpha1.ReasonTooManyPolicies
	}
	return list, "NodesMissing"
}

// isFull reports whether a node says that there are too many policies for this one.
func (a *assessment) isFull(p *policy, node string) bool {
	report := a.reports[node]
	return report != nil && slices.ContainsFunc(report.Status.Policies, func(has v1alpha1.NodePolicy) bool {
		return has.Policy == p.key && has.UID == string(p.UID) && has.Reason == v1alpha1.ReasonTooManyPolicies
	})
}

// lacks is what a node's tables lack of a policy, "" when nothing.
func (a *assessment) lacks(p *policy, node string, pods int) string {
	if _, ok := a.ready[node]; !ok {
		return "there is no such node"
	}
	return Lacks(a.reports[node], p.key, *p.ObjectMeta, pods)
}

// Lacks is what a node's tables lack of a policy, by the node's report, nil when there is none; "" when nothing.
func Lacks(report *v1alpha1.EgressNode, key string, policy metav1.ObjectMeta, pods int) string {
	if report == nil {
		return "its agent has not reported yet"
	}
	for _, has := range report.Status.Policies {
		if has.Policy != key || has.UID != string(policy.UID) {
			continue
		}
		switch {
		case has.Generation != policy.Generation:
			return fmt.Sprintf("it has generation %d", has.Generation)
		case !has.Programmed:
			return cmp.Or(has.Message, "not programmed")
		case int(has.Pods) < pods:
			return fmt.Sprintf("it has %d of %d pods", has.Pods, pods)
		}
		return ""
	}
	return "it does not have the policy"
}

// some are the first few of a list, and how many more there are.
func some(list []string) string {
	const most = 5
	if len(list) <= most {
		return strings.Join(list, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(list[:most], "; "), len(list)-most)
}

// served counts the nodes that serve, and names two that answer for one of the addresses.
func served(g *v1alpha1.EgressGateway, among func(address string) bool) (serving int, why string) {
	if g == nil {
		return 0, "there is no such EgressGateway"
	}
	owner, both := map[string]string{}, ""
	for _, n := range g.Status.Nodes {
		if n.State == v1alpha1.Serving {
			serving++
		}
		for _, a := range n.Addresses {
			if first := owner[a]; first != "" && both == "" && among(a) {
				both = fmt.Sprintf("; nodes %s and %s both answer for %s", first, n.Name, a)
			}
			owner[a] = n.Name
		}
	}
	return serving, fmt.Sprintf("%d of %d nodes serve", serving, len(g.Status.Nodes)) + both
}

// concludeGateway writes a gateway's status.
func (a *assessment) concludeGateway(g *v1alpha1.EgressGateway) {
	s := &g.Status
	s.ObservedGeneration = g.Generation
	serving, why := served(g, func(string) bool { return true })
	s.Serving = fmt.Sprintf("%d/%d", serving, len(s.Nodes))
	accepted := refusal{"Accepted", ""}
	bad, unusable := a.badRange(g), a.passwords(g)
	switch {
	case bad != "":
		accepted = refusal{"AddressesInvalid", bad}
	case len(s.Nodes) == 0:
		accepted = refusal{"NoNodes", "spec.nodes selects no node"}
	case unusable != "":
		accepted = refusal{v1alpha1.ReasonPassword, unusable}
	}
	condition(&s.Conditions, g.Generation, v1alpha1.ConditionAccepted, accepted.reason == "Accepted", accepted.reason, accepted.message)
	condition(&s.Conditions, g.Generation, v1alpha1.ConditionServing, serving > 0, map[bool]string{true: "Serving", false: "NoGateway"}[serving > 0], why)
	s.LastFailover = a.lastFailover(g.Name)
}

// lastFailover is the newest that a node reports.
func (a *assessment) lastFailover(gateway string) (last *v1alpha1.Failover) {
	for _, g := range a.views[gateway] {
		if f := g.LastFailover; f != nil && (last == nil || f.Seen.After(last.Seen.Time)) {
			last = f
		}
	}
	return last
}

func condition(list *[]metav1.Condition, generation int64, kind string, is bool, reason, message string) {
	status := map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}[is]
	meta.SetStatusCondition(list, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: generation})
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
