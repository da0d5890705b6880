package importing

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Labels by which Cilium selects what is not a label of the pod.
const (
	ciliumNamespace       = "io.kubernetes.pod.namespace"
	ciliumNamespaceLabels = "io.cilium.k8s.namespace.labels."
	ciliumAccount         = "io.cilium.k8s.policy.serviceaccount"
	ciliumCluster         = "io.cilium.k8s.policy.cluster"
)

// ciliumSelector makes a policy of a selector. A restriction that cannot be carried leaves it out: without it the policy
// would select more pods.
func (i *importer) ciliumSelector(object, name string, s ciliumSelector) (*policy, bool) {
	refuse := func(field string, value any, why string) (*policy, bool) {
		i.lost(object, name, nil, fmt.Sprintf("%s %s: %s, and the policy would select more pods without it", field, text(value), why), "label those pods, and select by the label")
		return nil, false
	}
	switch {
	case s.Nodes != nil && !everything(s.Nodes):
		return refuse("nodeSelector", s.Nodes, "policies do not select pods by their nodes")
	case s.Nodes != nil && s.Pods == nil:
		i.lost(object, name, s, "nodeSelector needs podSelector there", "")
		return nil, false
	case s.Namespaces == nil && s.Pods == nil:
		i.lost(object, name, s, "it selects nothing there", "")
		return nil, false
	}
	p := &policy{pods: &metav1.LabelSelector{}, namespaces: &metav1.LabelSelector{}}
	if s.Namespaces != nil {
		p.namespaces = s.Namespaces.DeepCopy()
	}
	for _, e := range requirements(s.Pods) {
		if why := i.ciliumLabel(object, name, p, e); why != "" {
			return refuse("podSelector", e, why)
		}
	}
	if len(p.accounts) > maxAccounts {
		return refuse("podSelector", s.Pods, fmt.Sprintf("a policy has %d service accounts at most", maxAccounts))
	}
	ok := i.selectable(object, name+".podSelector", p.pods) && i.selectable(object, name+".namespaceSelector", p.namespaces)
	p.normalize()
	return p, ok
}

// requirements are those of a selector, its labels first.
func requirements(s *metav1.LabelSelector) (all []metav1.LabelSelectorRequirement) {
	if s == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		all = append(all, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{s.MatchLabels[key]}})
	}
	return append(all, s.MatchExpressions...)
}

// ciliumLabel adds one requirement of a podSelector to a policy. It returns why it cannot.
func (i *importer) ciliumLabel(object, name string, p *policy, e metav1.LabelSelectorRequirement) (why string) {
	key, source := ciliumKey(e.Key)
	if source != "" && source != "k8s" && source != "any" {
		return fmt.Sprintf("labels of source %s are Cilium's own", source)
	}
	e.Key = key
	switch {
	case key == ciliumNamespace:
		e.Key = namespaceName
		addRequirement(p.namespaces, e)
	case strings.HasPrefix(key, ciliumNamespaceLabels):
		e.Key = strings.TrimPrefix(key, ciliumNamespaceLabels)
		addRequirement(p.namespaces, e)
	case key == ciliumAccount, key == ciliumCluster:
		return i.ciliumOwn(object, name, p, e)
	case strings.HasPrefix(key, "io.cilium."):
		return "the label is Cilium's own"
	default:
		addRequirement(p.pods, e)
	}
	return ""
}

// ciliumOwn adds a requirement of a pod's service account or cluster to a policy. It returns why it cannot.
func (i *importer) ciliumOwn(object, name string, p *policy, e metav1.LabelSelectorRequirement) (why string) {
	switch in := e.Operator == metav1.LabelSelectorOpIn && len(e.Values) > 0; {
	case e.Operator == metav1.LabelSelectorOpExists:
		i.changed(object, name+".podSelector", text(e), "it is left out, for each pod has it", "")
	case in && e.Key == ciliumCluster:
		i.lost(object, name+".podSelector", text(e), "policies are of their own cluster", "leave the policy out if it is another one's")
	case in && p.accounts == nil:
		p.accounts = slices.Compact(slices.Sorted(slices.Values(e.Values)))
	case e.Key == ciliumCluster:
		return "the label is Cilium's own"
	default:
		return "a policy names service accounts, once, and does not exclude any"
	}
	return ""
}

// ciliumKey takes the source off the key of a label: k8s:app, k8s.app and any:app are app.
func ciliumKey(key string) (name, source string) {
	if source, name, is := strings.Cut(key, ":"); is {
		return name, source
	}
	for _, source := range []string{"k8s", "any", "reserved"} {
		if name, is := strings.CutPrefix(key, source+"."); is && source != "any" {
			return name, source
		}
	}
	return key, ""
}

// addRequirement adds a requirement to a selector, as a label when that says it.
func addRequirement(s *metav1.LabelSelector, e metav1.LabelSelectorRequirement) {
	if _, twice := s.MatchLabels[e.Key]; e.Operator == metav1.LabelSelectorOpIn && len(e.Values) == 1 && !twice {
		if s.MatchLabels == nil {
			s.MatchLabels = map[string]string{}
		}
		s.MatchLabels[e.Key] = e.Values[0]
		return
	}
	s.MatchExpressions = append(s.MatchExpressions, e)
}
