package plan

import (
	"cmp"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// defaultPriority is that of a policy without one; the API server fills it in.
const defaultPriority = 1000

// Rank is a policy's place: of those that select a pod and a destination the first decides.
type Rank struct {
	Priority int32
	Cluster  bool   // it is a ClusterEgressPolicy
	Key      string // NAMESPACE/NAME, or NAME
}

// RankOf is a policy's.
func RankOf(meta metav1.ObjectMeta, spec v1alpha1.EgressPolicySpec) Rank {
	r := Rank{Priority: defaultPriority, Cluster: meta.Namespace == "", Key: meta.Name}
	if !r.Cluster {
		r.Key = meta.Namespace + "/" + meta.Name
	}
	if spec.Priority != nil {
		r.Priority = *spec.Priority
	}
	return r
}

// Compare orders by priority, then by namespace and name, those of the cluster last.
func (r Rank) Compare(o Rank) int {
	return cmp.Or(cmp.Compare(r.Priority, o.Priority), -CompareTrue(r.Cluster, o.Cluster), cmp.Compare(r.Key, o.Key))
}

// Selector reports whether a policy selects a pod, with these labels and this service account, of a namespace that it is about.
func Selector(spec v1alpha1.EgressPolicySpec) func(labels.Set, string) bool {
	matches := Selects(spec.Pods)
	return func(set labels.Set, account string) bool {
		return matches(set) && (len(spec.ServiceAccounts) == 0 || slices.Contains(spec.ServiceAccounts, account))
	}
}

// Decision is what a policy says of a destination.
type Decision int

// Decisions of a policy that selects a pod.
const (
	// Passes leaves the destination to later policies.
	Passes Decision = iota
	// Decides has packets go to the gateway.
	Decides
	// Excepts has packets go as without this policy, and without those after it.
	Excepts
)

// Decide is what a policy that selects a pod says of a destination, as what steers the node's packets does.
func Decide(spec v1alpha1.EgressPolicySpec, to netip.Addr) Decision {
	in := func(p netip.Prefix) bool { return p.Contains(to) }
	family := func(p netip.Prefix) bool { return p.Addr().Is4() == to.Is4() }
	all := networks(spec.To)
	switch {
	case len(all) > 0 && !slices.ContainsFunc(all, family):
		return Passes
	case slices.ContainsFunc(networks(spec.Except), in):
		return Excepts
	case len(all) == 0 || slices.ContainsFunc(all, in):
		return Decides
	}
	return Passes
}

// Selects makes a selector a function; without one it selects all. One that cannot be read, which the API server does not let
// in, selects nothing.
func Selects(s *metav1.LabelSelector) func(labels.Set) bool {
	if s == nil {
		return func(labels.Set) bool { return true }
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return func(labels.Set) bool { return false }
	}
	return func(set labels.Set) bool { return selector.Matches(set) }
}

// Selected reports whether any policy selects a pod, whether or not a gateway can serve it.
func Selected(in Input, pod Pod) bool {
	if !pod.Leaves() {
		return false
	}
	for i := range in.Policies {
		if p := &in.Policies[i]; p.Namespace == pod.Namespace && Selector(p.Spec)(pod.Labels, pod.ServiceAccount) {
			return true
		}
	}
	set, known := in.Namespaces[pod.Namespace]
	for i := range in.ClusterPolicies {
		p := &in.ClusterPolicies[i]
		if (!known || Selects(p.Spec.Namespaces)(set)) && Selector(p.Spec.EgressPolicySpec)(pod.Labels, pod.ServiceAccount) {
			return true
		}
	}
	return false
}

// Verdicts say of each namespace what becomes of packets of a pod of it while nobody knows which policies select that pod: what the
// strictest says that might; nothing where none might. Others is that of namespaces that are not among them.
func Verdicts(in Input) (namespaces map[string]v1alpha1.NoGateway, others v1alpha1.NoGateway) {
	namespaces = map[string]v1alpha1.NoGateway{}
	for i := range in.Policies {
		p := &in.Policies[i]
		namespaces[p.Namespace] = stricter(namespaces[p.Namespace], p.Spec.WhenNoGateway)
	}
	if len(in.ClusterPolicies) == 0 {
		return namespaces, ""
	}
	for name := range in.Namespaces {
		if _, about := namespaces[name]; !about {
			namespaces[name] = "" // known, so that it is none of the others
		}
	}
	for i := range in.ClusterPolicies {
		spec := &in.ClusterPolicies[i].Spec
		within := Selects(spec.Namespaces)
		others = stricter(others, spec.WhenNoGateway)
		for name := range namespaces {
			if set, known := in.Namespaces[name]; !known || within(set) {
				namespaces[name] = stricter(namespaces[name], spec.WhenNoGateway)
			}
		}
	}
	return namespaces, others
}

// stricter is the verdict when a policy comes to it; a policy that says nothing says Drop.
func stricter(verdict, policy v1alpha1.NoGateway) v1alpha1.NoGateway {
	if policy == v1alpha1.NoGatewayNode && verdict != v1alpha1.NoGatewayDrop {
		return v1alpha1.NoGatewayNode
	}
	return v1alpha1.NoGatewayDrop
}
