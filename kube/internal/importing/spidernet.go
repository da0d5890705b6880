package importing

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// spidernetName is the project in notes; its kinds have the names of Selvage's.
const spidernetName = "EgressGateway of spidernet"

// DefaultGatewayLabel is the label of a namespace that names the gateway of policies without one.
const DefaultGatewayLabel = "spidernet.io/egressgateway-default"

type spidernetGatewaySpec struct {
	ClusterDefault bool `json:"clusterDefault"`
	IPPools        struct {
		IPv4        []string `json:"ipv4"`
		IPv6        []string `json:"ipv6"`
		IPv4Default string   `json:"ipv4DefaultEIP"`
		IPv6Default string   `json:"ipv6DefaultEIP"`
	} `json:"ippools"`
	NodeSelector struct {
		Policy   string                `json:"policy"`
		Selector *metav1.LabelSelector `json:"selector"`
	} `json:"nodeSelector"`
}

type spidernetGatewayStatus struct {
	NodeList []struct {
		EIPs []struct {
			spidernetAddress
			Policies []struct {
				Name      string `json:"name"`
				Namespace string `json:"namespace"`
			} `json:"policies"`
		} `json:"eips"`
	} `json:"nodeList"`
}

type spidernetAddress struct {
	IPv4 string `json:"ipv4"`
	IPv6 string `json:"ipv6"`
}

type spidernetPolicySpec struct {
	Gateway  string `json:"egressGatewayName"`
	EgressIP struct {
		spidernetAddress
		UseNodeIP bool   `json:"useNodeIP"`
		Allocator string `json:"allocatorPolicy"`
	} `json:"egressIP"`
	AppliedTo struct {
		Pods       *metav1.LabelSelector `json:"podSelector"`
		PodSubnet  []string              `json:"podSubnet"`
		Namespaces *metav1.LabelSelector `json:"namespaceSelector"`
	} `json:"appliedTo"`
	Destinations []string `json:"destSubnet"`
	Priority     uint64   `json:"priority"`
}

type spidernetPolicyStatus struct {
	EIP spidernetAddress `json:"eip"`
}

type (
	spidernetGateway = manifest[spidernetGatewaySpec, spidernetGatewayStatus]
	spidernetPolicy  = manifest[spidernetPolicySpec, spidernetPolicyStatus]
)

// spidernet is what has been read of the project.
type spidernet struct {
	gateways []spidernetGateway
	policies []spidernetPolicy
	defaults map[string]string // gateways by namespace
	made     map[string]*gateway
	spec     map[string]spidernetGateway
	extra    []netip.Prefix // of EgressClusterInfo, where they are exceptions
}

func (i *importer) readSpidernetGateway(h heading, o Object) {
	if m, ok := decode[spidernetGatewaySpec, spidernetGatewayStatus](i, h, o); ok {
		i.spidernet.gateways = append(i.spidernet.gateways, m)
	}
}

func (i *importer) readSpidernetPolicy(h heading, o Object) {
	if h.Kind == "EgressPolicy" && h.Metadata.Namespace == "" {
		h.Metadata.Namespace = "default" // as kubectl does
		i.changed(h.String(), "metadata.namespace", nil, "it has none, and default is taken", "")
	}
	if m, ok := decode[spidernetPolicySpec, spidernetPolicyStatus](i, h, o); ok {
		m.heading = h
		i.spidernet.policies = append(i.spidernet.policies, m)
	}
}

func (i *importer) readNamespace(h heading, _ Object) {
	if name := h.Metadata.Labels[DefaultGatewayLabel]; name != "" {
		if i.spidernet.defaults == nil {
			i.spidernet.defaults = map[string]string{}
		}
		i.spidernet.defaults[h.Metadata.Name] = name
	}
}

type spidernetClusterInfo struct {
	AutoDetect struct {
		PodCIDRMode string `json:"podCidrMode"`
		ClusterIP   *bool  `json:"clusterIP"`
		NodeIP      *bool  `json:"nodeIP"`
	} `json:"autoDetect"`
	Extra []string `json:"extraCidr"`
}

func (i *importer) readSpidernetClusterInfo(h heading, o Object) {
	m, ok := decode[spidernetClusterInfo, none](i, h, o)
	if !ok {
		return
	}
	const do = "check the networks of the cluster that Selvage's chart finds"
	for _, cidr := range m.Spec.Extra {
		if p, err := parseNetwork(cidr); err == nil && i.ExtraCIDRs {
			i.spidernet.extra = append(i.spidernet.extra, p)
			continue
		}
		i.lost(h.String(), "extraCidr", cidr, "policies have no network that is left out for the whole cluster", "give it to all policies: --except "+cidr)
	}
	if a := m.Spec.AutoDetect; a.PodCIDRMode != "" || a.ClusterIP != nil || a.NodeIP != nil {
		i.lost(h.String(), "autoDetect", a, "the networks of pods, services and nodes are found otherwise", do)
	}
}

func (i *importer) makeSpidernet() {
	s := &i.spidernet
	s.made, s.spec = map[string]*gateway{}, map[string]spidernetGateway{}
	for _, m := range s.gateways {
		i.spidernetGateway(m)
	}
	for _, m := range s.policies {
		i.spidernetPolicy(m)
	}
	if len(s.gateways) > 0 {
		i.noGateway(spidernetName, "while no node of a gateway is ready, packets leave there with the address of their node")
	}
}

func (i *importer) spidernetGateway(m spidernetGateway) {
	object, pools := m.String(), m.Spec.IPPools
	g := &gateway{name: m.Metadata.Name, origins: []string{object}, project: "spidernet", pool: true, mode: v1alpha1.ActiveActive, nodes: m.Spec.NodeSelector.Selector}
	if g.nodes != nil && !i.selectable(object, "nodeSelector.selector", g.nodes) {
		return
	}
	for _, pool := range []struct {
		name string
		all  []string
	}{{"ippools.ipv4", pools.IPv4}, {"ippools.ipv6", pools.IPv6}} {
		for _, entry := range pool.all {
			if strings.TrimSpace(entry) == "" {
				continue
			}
			s, err := parseSpan(entry)
			if err != nil {
				i.lost(object, pool.name, entry, err.Error(), "correct it")
				continue
			}
			if p, err := netip.ParsePrefix(entry); err == nil && p.Masked() != p {
				i.changed(object, pool.name, entry, "it is written as "+s.String(), "")
			}
			g.addresses = append(g.addresses, s)
		}
	}
	if m.Spec.NodeSelector.Policy != "" {
		i.lost(object, "nodeSelector.policy", m.Spec.NodeSelector.Policy, "EgressGateway never reads it", "")
	}
	if m.Spec.ClusterDefault {
		i.lost(object, "clusterDefault", true, "each policy names its gateway", "policies that are written later have to name it")
	}
	for _, f := range [][2]string{{"ippools.ipv4DefaultEIP", pools.IPv4Default}, {"ippools.ipv6DefaultEIP", pools.IPv6Default}} {
		if f[1] != "" {
			i.lost(object, f[0], f[1], "a gateway has no address that policies share; those that have it now keep it where one policy can say so", "")
		}
	}
	if g.nodes != nil && everything(g.nodes) {
		i.everyNode(object)
	}
	s := &i.spidernet
	s.made[m.Metadata.Name], s.spec[m.Metadata.Name] = i.addGateway(g), m
	i.lacksFamily(g)
}

// everyNode says that a gateway takes 16 nodes.
func (i *importer) everyNode(object string) {
	i.differs(object, "it selects all nodes of the cluster, and a gateway has 16 at most", "label those that are to translate: --nodes")
}

// lacksFamily says what becomes of packets of a family without addresses.
func (i *importer) lacksFamily(g *gateway) {
	left := room(g, nil)
	for _, f := range bothFamilies {
		if len(g.addresses) > 0 && left[f.is4] == nil {
			i.differs(g.origins[0], "it has no "+f.name+" address; where pods have one, their packets leave there by their node, and here they do not leave",
				"add addresses, or name the destinations of the other family in to")
		}
	}
}

func (i *importer) spidernetPolicy(m spidernetPolicy) {
	object, spec := m.String(), m.Spec
	g, name := i.spidernetGatewayOf(m)
	if g == nil {
		return
	}
	m.Spec.Gateway = name
	if spec.Priority != 0 {
		i.lost(object, "priority", spec.Priority, "EgressGateway ignores it, and here it would take effect: the lowest is asked first", "set priority where policies overlap")
	}
	if len(spec.AppliedTo.PodSubnet) > 0 {
		i.lost(object, "appliedTo.podSubnet", spec.AppliedTo.PodSubnet, "EgressGateway does not implement it either", "select pods by labels")
	}
	if m.Kind == "EgressPolicy" && spec.AppliedTo.Namespaces != nil {
		i.lost(object, "appliedTo.namespaceSelector", spec.AppliedTo.Namespaces, "an EgressPolicy is of its own namespace, there too", "")
	}
	if everything(spec.AppliedTo.Pods) && (m.Kind == "EgressPolicy" || spec.AppliedTo.Pods == nil) {
		i.lost(object, "", nil, "it has no podSelector, so it selects nothing there", "select pods by labels")
		return
	}
	if !i.selectable(object, "appliedTo.podSelector", spec.AppliedTo.Pods) || !i.selectable(object, "appliedTo.namespaceSelector", spec.AppliedTo.Namespaces) {
		return
	}
	to, ok := i.networks(object, "destSubnet", spec.Destinations)
	if !ok {
		return
	}
	p := &policy{
		origins: []string{object}, name: m.Metadata.Name, namespace: m.Metadata.Namespace, project: "spidernet",
		pods: spec.AppliedTo.Pods, to: to, gateway: g,
	}
	if m.Kind != "EgressPolicy" {
		p.namespace, p.namespaces = "", spec.AppliedTo.Namespaces
	}
	if p.fixed, p.holds, ok = i.spidernetAddresses(m, g); !ok {
		return
	}
	p.ofNode = spec.EgressIP.UseNodeIP
	if len(to) == 0 {
		p.except = slices.Clone(i.spidernet.extra)
	}
	i.policies = append(i.policies, p)
}

// spidernetGatewayOf finds the gateway of a policy; EgressGateway's webhook writes the name of the default one when the
// policy is made, but files may lack it.
func (i *importer) spidernetGatewayOf(m spidernetPolicy) (g *gateway, name string) {
	name = m.Spec.Gateway
	if name == "" {
		name = i.spidernet.defaults[m.Metadata.Namespace]
	}
	if name == "" {
		for _, g := range i.spidernet.gateways {
			if g.Spec.ClusterDefault {
				name = g.Metadata.Name
			}
		}
	}
	g = i.spidernet.made[name]
	switch {
	case name == "":
		i.lost(m.String(), "", nil, "it names no gateway, and there is no default one", "set egressGatewayName")
	case g == nil:
		i.lost(m.String(), "", nil, fmt.Sprintf("its gateway %s is not among the objects, or is not carried", name), "read it too")
	}
	return g, name
}

// spidernetAddresses are those that the policy has now, so that what partners allow stays valid. It holds them if its
// status, or that of its gateway, says so.
func (i *importer) spidernetAddresses(m spidernetPolicy, g *gateway) (fixed []netip.Addr, holds, ok bool) {
	object, spec, gw := m.String(), m.Spec.EgressIP, i.spidernet.spec[m.Spec.Gateway]
	if spec.UseNodeIP {
		i.changed(object, "egressIP.useNodeIP", true, "pods get the address of the uplink of the gateway's node, not the one of its default route", "have partners allow those of all nodes of the gateway")
		return nil, false, true
	}
	if spec.Allocator != "" && spec.Allocator != "default" {
		i.lost(object, "egressIP.allocatorPolicy", spec.Allocator, "each policy has an address of its own", "")
	}
	now := m.Status.EIP
	if now == (spidernetAddress{}) {
		now = i.spidernetStatus(m)
	}
	byDefault := spidernetAddress{}
	if now == byDefault && spec.Allocator != "rr" && spec.spidernetAddress == byDefault {
		byDefault = spidernetAddress{gw.Spec.IPPools.IPv4Default, gw.Spec.IPPools.IPv6Default}
	}
	for _, f := range []struct{ name, now, want, byDefault string }{
		{"egressIP.ipv4", now.IPv4, spec.IPv4, byDefault.IPv4},
		{"egressIP.ipv6", now.IPv6, spec.IPv6, byDefault.IPv6},
	} {
		if f.now != "" && f.want != "" && f.now != f.want {
			i.lost(object, f.name, f.want, "its status has "+f.now+", with which its packets leave", "")
		}
		value := cmp.Or(f.now, f.want, f.byDefault)
		if value == "" {
			continue
		}
		a, err := parseAddr(value)
		if err != nil {
			i.lost(object, "", nil, fmt.Sprintf("its address %q: %v", value, err), "correct it")
			return nil, false, false
		}
		i.own(object, g, a)
		fixed = append(fixed, a)
	}
	return sortAddresses(fixed), now != spidernetAddress{}, true
}

// spidernetStatus finds the address of a policy in the status of its gateway.
func (i *importer) spidernetStatus(m spidernetPolicy) spidernetAddress {
	for _, node := range i.spidernet.spec[m.Spec.Gateway].Status.NodeList {
		for _, eip := range node.EIPs {
			for _, p := range eip.Policies {
				if p.Name == m.Metadata.Name && p.Namespace == m.Metadata.Namespace {
					return eip.spidernetAddress
				}
			}
		}
	}
	return spidernetAddress{}
}

func sortAddresses(all []netip.Addr) []netip.Addr {
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}
