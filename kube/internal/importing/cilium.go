package importing

import (
	"encoding/json"
	"fmt"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

const ciliumName = "Cilium"

type ciliumSpec struct {
	Selectors []ciliumSelector `json:"selectors"`
	To        []string         `json:"destinationCIDRs"`
	Except    []string         `json:"excludedCIDRs"`
	Gateway   *ciliumGateway   `json:"egressGateway"`
	Gateways  []ciliumGateway  `json:"egressGateways"`
}

type ciliumSelector struct {
	Namespaces *metav1.LabelSelector `json:"namespaceSelector"`
	Pods       *metav1.LabelSelector `json:"podSelector"`
	Nodes      *metav1.LabelSelector `json:"nodeSelector"`
}

type ciliumGateway struct {
	Nodes     *metav1.LabelSelector `json:"nodeSelector"`
	Interface string                `json:"interface"`
	Address   string                `json:"egressIP"`
}

type ciliumPolicy = manifest[ciliumSpec, none]

// cilium is what has been read of the project.
type cilium struct {
	all  []ciliumPolicy
	made map[string]*gateway // by nodes and interface
}

func (i *importer) readCilium(h heading, o Object) {
	if m, ok := decode[ciliumSpec, none](i, h, o); ok {
		i.cilium.all = append(i.cilium.all, m)
	}
}

func (i *importer) makeCilium() {
	i.cilium.made = map[string]*gateway{}
	before := len(i.policies)
	for _, m := range i.cilium.all {
		i.ciliumPolicy(m)
	}
	made := i.policies[before:]
	if len(i.cilium.all) > 0 {
		i.differs(ciliumName, "it selects by security identities, which leave some labels out; here all labels of pods and namespaces count", "")
		i.differs(ciliumName, "while Cilium routes packets of pods in BPF, they pass Selvage's policy routing by", "set bpf.hostLegacyRouting=true among the values of its chart")
	}
	i.ciliumPriorities(made)
}

// ciliumPriorities has the policy with the longer prefixes asked first, as Cilium takes the longest match.
func (i *importer) ciliumPriorities(made []*policy) {
	shortest := make([]int, len(made))
	differ := false
	for n, p := range made {
		shortest[n] = 128
		for _, to := range p.to {
			shortest[n] = min(shortest[n], to.Bits()*128/to.Addr().BitLen())
		}
		differ = differ || shortest[n] != shortest[0]
	}
	if !differ {
		return
	}
	for n, p := range made {
		priority := int32(1000 - shortest[n])
		p.priority = &priority
	}
	i.differs(ciliumName, "it takes the policy with the longest destination prefix; here priority decides, and was chosen by the shortest prefix of each policy", "check policies with several destinations for the same pods")
}

func (i *importer) ciliumPolicy(m ciliumPolicy) {
	object, spec := m.String(), m.Spec
	gateways := spec.Gateways
	if spec.Gateway != nil {
		gateways = append([]ciliumGateway{*spec.Gateway}, gateways...)
	}
	to, ok1 := i.networks(object, "destinationCIDRs", spec.To)
	except, ok2 := i.networks(object, "excludedCIDRs", spec.Except)
	switch {
	case !ok1 || !ok2:
		return
	case len(to) == 0:
		i.lost(object, "", nil, "it has no destinationCIDRs, so it selects nothing there", "")
		return
	case len(gateways) == 0:
		i.lost(object, "", nil, "it has no egressGateway", "")
		return
	}
	nodes, uplink, fixed, ok := i.ciliumGateways(object, gateways)
	if !ok {
		return
	}
	var made []*policy
	for n, s := range spec.Selectors {
		if p, ok := i.ciliumSelector(object, fmt.Sprintf("selectors[%d]", n), s); ok {
			p.origins, p.project, p.name = []string{object}, "cilium", m.Metadata.Name
			p.to, p.except, p.fixed = to, except, fixed
			made = append(made, p)
		}
	}
	if len(made) == 0 {
		i.lost(object, "", nil, "none of its selectors is carried", "")
		return
	}
	g := i.ciliumGateway(m, nodes, uplink, len(gateways) > 1)
	for _, a := range fixed {
		i.own(object, g, a)
	}
	for _, p := range made {
		p.gateway = g
	}
	before := len(made)
	if made = i.ciliumUnite(made); len(made) < before {
		i.changed(object, "selectors", fmt.Sprintf("(%d)", before), fmt.Sprintf("they are written as %d, which select the same pods", len(made)), "")
	}
	if len(made) > 1 && len(fixed) == 0 {
		i.differs(object, fmt.Sprintf("its selectors are %d policies, each with an address of its own", len(made)), "have partners allow all")
	}
	i.policies = append(i.policies, made...)
}

// ciliumUnite makes as few policies as possible of the selectors of one: those with fixed addresses are joined
// anyway, and those without would each take an address.
func (i *importer) ciliumUnite(made []*policy) []*policy {
	if len(made[0].fixed) > 0 {
		return i.unitePolicies(made)
	}
	for _, p := range made {
		p.fixed = []netip.Addr{{}} // one that all have, while they are joined
	}
	made = i.unitePolicies(made)
	for _, p := range made {
		p.fixed = nil
	}
	return made
}

// ciliumGateways are nodes, interface and addresses of the gateways of a policy, as one.
func (i *importer) ciliumGateways(object string, all []ciliumGateway) (nodes *metav1.LabelSelector, uplink string, fixed []netip.Addr, ok bool) {
	taken := false
	for n, g := range all {
		field := fmt.Sprintf("egressGateways[%d]", n)
		if n == 0 {
			field = "egressGateway"
		}
		if g.Interface != "" && g.Address != "" {
			i.lost(object, "", nil, field+" has interface and egressIP, so Cilium ignores the policy", "")
			return nil, "", nil, false
		}
		if !i.selectable(object, field+".nodeSelector", g.Nodes) {
			return nil, "", nil, false
		}
		a, err := parseAddr(g.Address)
		if g.Address != "" && err != nil {
			i.lost(object, "", nil, fmt.Sprintf("%s.egressIP %q: %v", field, g.Address, err), "correct it")
			return nil, "", nil, false
		}
		with, fits := unite(nodes, g.Nodes)
		switch {
		case len(g.Interface) > maxInterface:
			i.lost(object, field+".interface", g.Interface, fmt.Sprintf("a name has %d bytes at most", maxInterface), "correct it")
			continue
		case !taken:
			taken, nodes, uplink = true, g.Nodes, g.Interface
		case !fits, g.Interface != uplink:
			i.lost(object, field, g, "a policy has one gateway, and this one's nodes or interface do not go with those of the first", "label the nodes of all alike, and name the label")
			continue
		default:
			nodes = with
		}
		if g.Address == "" {
			continue
		}
		if len(fixed) == maxFixed {
			i.lost(object, field+".egressIP", g.Address, fmt.Sprintf("a policy has %d addresses at most", maxFixed), "")
			continue
		}
		fixed = append(fixed, a)
	}
	if !taken {
		i.lost(object, "", nil, "none of its gateways is carried", "")
	}
	return nodes, uplink, sortAddresses(fixed), taken
}

// ciliumGateway is the gateway of all policies with the same nodes and interface.
func (i *importer) ciliumGateway(m ciliumPolicy, nodes *metav1.LabelSelector, uplink string, several bool) *gateway {
	object := m.String()
	key, err := json.Marshal([]any{nodes, uplink})
	if err != nil {
		return nil
	}
	g := i.cilium.made[string(key)]
	if g == nil {
		g = i.addGateway(&gateway{name: m.Metadata.Name, project: "cilium", mode: v1alpha1.ActiveStandby, nodes: nodes, uplink: uplink})
		i.cilium.made[string(key)] = g
		if nodes != nil && everything(nodes) {
			i.everyNode(object)
		}
		i.differs(object, "there the first of the nodes by name translates alone; here the others take over when it is gone", "")
		i.differs(object, "there egress addresses are on an interface of the node; here the gateway has interface and addresses to itself",
			"choose an interface that the node itself needs not, and remove the egress addresses from it")
	}
	if several {
		g.mode = v1alpha1.ActiveActive
		i.differs(object, "there pods are divided among gateways, each with its address; here among the addresses, and any node may have any of them", "have partners allow all")
	}
	g.origins = append(g.origins, object)
	return g
}
