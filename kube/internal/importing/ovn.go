package importing

import (
	"fmt"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

const ovnName = "OVN-Kubernetes"

// egressAssignable is the label of nodes that may have egress IPs; its value counts for nothing.
const egressAssignable = "k8s.ovn.org/egress-assignable"

type ovnSpec struct {
	Addresses  []string              `json:"egressIPs"`
	Namespaces *metav1.LabelSelector `json:"namespaceSelector"`
	Pods       *metav1.LabelSelector `json:"podSelector"`
}

type ovnEgressIP = manifest[ovnSpec, none]

// ovn is what has been read of the project.
type ovn struct{ all []ovnEgressIP }

func (i *importer) readOVN(h heading, o Object) {
	if m, ok := decode[ovnSpec, none](i, h, o); ok {
		i.ovn.all = append(i.ovn.all, m)
	}
}

// makeOVN makes one gateway, for all egress IPs are of the nodes with one label.
func (i *importer) makeOVN() {
	if len(i.ovn.all) == 0 {
		return
	}
	g := &gateway{
		name: "egress-assignable", project: "ovn", mode: v1alpha1.ActiveActive,
		nodes: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: egressAssignable, Operator: metav1.LabelSelectorOpExists}}},
	}
	for _, m := range i.ovn.all {
		i.ovnEgressIP(g, m)
	}
	if len(g.origins) == 0 {
		return
	}
	i.addGateway(g)
	i.noGateway(ovnName, "while no node has an egress IP, packets leave there with the address of their node")
	i.differs(ovnName, "an egress IP of a secondary network leaves there by the interface of that network; here a gateway has one interface", "make a gateway for each network, and divide the addresses")
	if len(i.ovn.all) > 1 {
		i.differs(ovnName, "which of several EgressIPs a pod has is not defined there; here the policy of the lowest priority is asked first, and of equal ones the first by name", "")
	}
}

func (i *importer) ovnEgressIP(g *gateway, m ovnEgressIP) {
	object, spec := m.String(), m.Spec
	switch {
	case spec.Namespaces == nil:
		i.lost(object, "", nil, "it has no namespaceSelector, and OVN-Kubernetes wants one", "")
		return
	case !i.selectable(object, "namespaceSelector", spec.Namespaces), !i.selectable(object, "podSelector", spec.Pods):
		return
	}
	var fixed []netip.Addr
	for _, s := range spec.Addresses {
		a, err := parseAddr(s)
		switch {
		case err != nil:
			i.lost(object, "", nil, fmt.Sprintf("its address %q: %v", s, err), "correct it")
			return
		case len(fixed) == maxFixed:
			i.lost(object, "egressIPs", s, fmt.Sprintf("a policy has %d addresses at most", maxFixed), "")
		default:
			fixed = append(fixed, a)
		}
	}
	if fixed = sortAddresses(fixed); len(fixed) == 0 {
		i.lost(object, "", nil, "it has no address", "")
		return
	}
	if len(fixed) > 1 {
		i.differs(object, "there each connection takes any of its addresses; here each pod keeps to one of a family", "")
	}
	g.origins = append(g.origins, object)
	for _, a := range fixed {
		g.addresses = append(g.addresses, span{a, a})
	}
	i.policies = append(i.policies, &policy{
		origins: []string{object}, name: m.Metadata.Name, project: "ovn",
		namespaces: spec.Namespaces, pods: spec.Pods, gateway: g, fixed: fixed,
	})
}
