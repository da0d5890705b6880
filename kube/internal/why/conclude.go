package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/plan"
)

// conclude says what becomes of packets that a policy decides about, and what is not as it should be.
func (e *explainer) conclude() {
	if n := e.Node; !n.Programmed {
		e.Problems = append(e.Problems, fmt.Sprintf("node %s, where the pod is: %s", n.Name, n.Lacks))
	}
	e.conditions()
	e.Way, e.Steered = ByGateway, true
	lost, byNode := e.lost()
	if lost == "" {
		e.owners()
		e.lacked()
		as := strings.Join(e.Addresses, " or ")
		if as == "" {
			as = "a node of the gateway"
			e.Problems = append(e.Problems, "no node of gateway "+e.Gateway.Name+" says yet with which address pods leave there")
		}
		e.Summary = fmt.Sprintf("%s leaves as %s: %s decides, by gateway %s%s", e.subject(), as, e.decider.title(), e.Gateway.Name, e.givers())
		return
	}
	e.Problems = append(e.Problems, e.decider.title()+": "+lost)
	e.Way, e.Addresses, e.Steered = Dropped, nil, !byNode && e.inFile()
	text := "does not leave, and its packets are dropped"
	if byNode {
		e.Way, text = ByNode, "leaves as its node "+e.Pod.Node
	}
	e.Summary = fmt.Sprintf("%s %s: %s decides, and %s", e.subject(), text, e.decider.title(), lost)
}

// lost is why the pod leaves by no gateway, "" when it does; byNode reports whether it leaves by its node then. A policy for all
// destinations that has no address of a family is in the edge's file, where nothing of that family leaves.
func (e *explainer) lost() (why string, byNode bool) {
	c, has := e.decider, e.families()
	byNode = c.spec.WhenNoGateway == v1alpha1.NoGatewayNode
	switch {
	case e.Gateway == nil:
		return "there is no EgressGateway " + c.spec.Gateway, byNode
	case c.status.VNI == 0 || has == plan.Families{}:
		return "it has no addresses yet", byNode
	case e.to.IsValid() && !has.Has(e.to):
		return "it has no address of " + family(e.to), byNode && len(c.spec.To) > 0
	case !slices.ContainsFunc(e.pod.Addresses, has.Has):
		return "it has no address of the pod's families", byNode && len(c.spec.To) > 0
	case e.Gateway.Serving == 0:
		return "no node of gateway " + e.Gateway.Name + " serves", byNode
	}
	return "", false
}

// givers are the nodes whose own addresses the pod gets, in words, "" where it gets others.
func (e *explainer) givers() string {
	var names []string
	for _, n := range e.Gateway.Nodes {
		if e.decider.ofNode() && slices.ContainsFunc(n.Addresses, func(a string) bool { return slices.Contains(e.Addresses, a) }) {
			names = append(names, n.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ", which gives the address of its node " + strings.Join(names, " or ")
}

// inFile reports whether the edge may have the policy for what is asked about: it drops packets then, and otherwise the node does.
func (e *explainer) inFile() bool {
	has := e.families()
	given := e.to.IsValid() && has.Has(e.to) || !e.to.IsValid() && slices.ContainsFunc(e.pod.Addresses, has.Has)
	return e.Gateway != nil && e.decider.status.VNI != 0 && has != plan.Families{} && (given || len(e.decider.spec.To) == 0)
}

// conditions are problems where the policy itself is not accepted; others are told, as they may be about other pods.
func (e *explainer) conditions() {
	c := e.decider
	if c.status.ObservedGeneration != c.meta.Generation {
		e.Problems = append(e.Problems, fmt.Sprintf("the controller has not seen generation %d of the policy: its status is of %d", c.meta.Generation, c.status.ObservedGeneration))
	}
	for _, cond := range c.status.Conditions {
		if cond.Status == metav1.ConditionTrue {
			continue
		}
		text := fmt.Sprintf("%s of %s is %s: %s", cond.Type, c.title(), cond.Status, cmp.Or(cond.Message, cond.Reason))
		if cond.Type == v1alpha1.ConditionAccepted {
			e.Problems = append(e.Problems, text)
		} else {
			e.Notes = append(e.Notes, text)
		}
	}
	for _, g := range e.o.Gateways {
		if g.Name != c.spec.Gateway {
			continue
		}
		for _, cond := range g.Status.Conditions {
			if cond.Status != metav1.ConditionTrue {
				e.Notes = append(e.Notes, fmt.Sprintf("%s of EgressGateway %s is %s: %s", cond.Type, g.Name, cond.Status, cmp.Or(cond.Message, cond.Reason)))
			}
		}
	}
}

// owners are nodes of the gateway that have the addresses: without one nobody answers for it, and what lacks the policy translates
// nothing.
func (e *explainer) owners() {
	for _, a := range e.Addresses {
		i := slices.IndexFunc(e.Gateway.Nodes, func(n GatewayNode) bool { return slices.Contains(n.Addresses, a) })
		if i < 0 {
			e.Problems = append(e.Problems, "no node of gateway "+e.Gateway.Name+" has "+a)
		}
	}
	for _, n := range e.Gateway.Nodes {
		if len(n.Addresses) > 0 && n.Lacks != "" {
			e.Problems = append(e.Problems, fmt.Sprintf("node %s, which has %s: %s", n.Name, strings.Join(n.Addresses, ", "), n.Lacks))
		}
	}
}

// lacked are families of the pod of which a policy has no address.
func (e *explainer) lacked() {
	if e.to.IsValid() {
		return
	}
	has := e.families()
	for _, own := range e.pod.Addresses {
		if text := "the policy has no address of " + family(own) + ": such packets are dropped"; !has.Has(own) && !slices.Contains(e.Notes, text) {
			e.Notes = append(e.Notes, text)
		}
	}
}
