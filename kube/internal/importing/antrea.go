package importing

import (
	"fmt"
	"net/netip"
	"slices"

	"go4.org/netipx"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

const antreaName = "Antrea"

// hostname is the label of a node that has, as a rule, its name.
const hostname = "kubernetes.io/hostname"

type antreaPoolSpec struct {
	Ranges []struct {
		CIDR  string `json:"cidr"`
		Start string `json:"start"`
		End   string `json:"end"`
	} `json:"ipRanges"`
	Subnet *struct {
		Gateway string `json:"gateway"`
		Length  int32  `json:"prefixLength"`
		VLAN    int32  `json:"vlan"`
	} `json:"subnetInfo"`
	Nodes *metav1.LabelSelector `json:"nodeSelector"`
}

type antreaEgressSpec struct {
	AppliedTo struct {
		Pods       *metav1.LabelSelector `json:"podSelector"`
		Namespaces *metav1.LabelSelector `json:"namespaceSelector"`
	} `json:"appliedTo"`
	Address   string   `json:"egressIP"`
	Addresses []string `json:"egressIPs"`
	Pool      string   `json:"externalIPPool"`
	Pools     []string `json:"externalIPPools"`
	Bandwidth *struct {
		Rate  string `json:"rate"`
		Burst string `json:"burst"`
	} `json:"bandwidth"`
}

type antreaEgressStatus struct {
	Node    string `json:"egressNode"`
	Address string `json:"egressIP"`
}

type antreaPool = manifest[antreaPoolSpec, none]

type antreaEgress struct {
	manifest[antreaEgressSpec, antreaEgressStatus]
}

// antrea is what has been read of the project.
type antrea struct {
	pools    []antreaPool
	egresses []antreaEgress
	made     map[string]*gateway
	static   *gateway // of addresses that users put on nodes themselves
	nodes    []string // that have those
}

func (i *importer) readAntreaPool(h heading, o Object) {
	if m, ok := decode[antreaPoolSpec, none](i, h, o); ok {
		i.antrea.pools = append(i.antrea.pools, m)
	}
}

func (i *importer) readAntreaEgress(h heading, o Object) {
	if m, ok := decode[antreaEgressSpec, antreaEgressStatus](i, h, o); ok {
		i.antrea.egresses = append(i.antrea.egresses, antreaEgress{m})
	}
}

func (i *importer) makeAntrea() {
	a := &i.antrea
	a.made = map[string]*gateway{}
	used := map[string]bool{}
	for _, e := range a.egresses {
		for _, name := range append(slices.Clone(e.Spec.Pools), e.Spec.Pool) {
			used[name] = true
		}
	}
	for _, m := range a.pools {
		if !used[m.Metadata.Name] {
			i.lost(m.String(), "", nil, "no Egress that was read names it: it may be for Services", "")
			continue
		}
		i.antreaPool(m)
	}
	for _, m := range a.egresses {
		i.antreaEgress(m)
	}
	if a.static != nil && len(a.nodes) > 0 {
		a.static.nodes = &metav1.LabelSelector{}
		require(a.static.nodes, hostname, a.nodes)
	}
	if len(a.egresses) == 0 {
		return
	}
	i.noGateway(antreaName, "while no node has an egress IP, packets leave there with the address of their node")
	if len(i.Except) == 0 {
		i.differs(antreaName, "exceptCIDRs of antrea-agent.conf are not in these objects", "give them by --except")
	}
	if len(a.egresses) > 1 {
		i.differs(antreaName, "of several Egresses for a pod one is taken at random there; here the policy of the lowest priority is asked first, and of equal ones the first by name", "")
	}
}

func (i *importer) antreaPool(m antreaPool) {
	object := m.String()
	g := &gateway{name: m.Metadata.Name, origins: []string{object}, project: "antrea", pool: true, mode: v1alpha1.ActiveActive, nodes: m.Spec.Nodes}
	if g.nodes == nil {
		g.nodes = &metav1.LabelSelector{} // all nodes, there too
	}
	if !i.selectable(object, "nodeSelector", g.nodes) {
		return
	}
	for n, r := range m.Spec.Ranges {
		name := fmt.Sprintf("ipRanges[%d]", n)
		s, ok := i.antreaRange(object, name, r.CIDR, r.Start, r.End)
		if ok {
			g.addresses = append(g.addresses, s)
		}
	}
	if s := m.Spec.Subnet; s != nil {
		if a, err := parseAddr(s.Gateway); err == nil {
			g.hops = []netip.Addr{a}
		} else if s.Gateway != "" {
			i.lost(object, "subnetInfo.gateway", s.Gateway, err.Error(), "give it by --next-hop")
		}
		switch {
		case s.VLAN >= 1 && s.VLAN <= maxVLAN:
			g.vlan = uint16(s.VLAN)
		case s.VLAN != 0:
			i.lost(object, "subnetInfo.vlan", s.VLAN, fmt.Sprintf("a VLAN is from 1 to %d", maxVLAN), "correct it")
		}
		if s.Length != 0 {
			i.lost(object, "subnetInfo.prefixLength", s.Length, "the addresses of the uplink interface on each node say it", "give the interface of each node an address of that network")
		}
	}
	if everything(g.nodes) {
		i.everyNode(object)
	}
	i.differs(object, "Services of type LoadBalancer may have addresses of it too", "take those out of addresses of the gateway")
	i.antrea.made[m.Metadata.Name] = i.addGateway(g)
	i.lacksFamily(g)
}

// antreaRange reads a range. Of a network Antrea leaves the first address out, and the last one of IPv4.
func (i *importer) antreaRange(object, name, cidr, start, end string) (span, bool) {
	if cidr == "" {
		s, err := newSpan(start, end)
		if err != nil {
			i.lost(object, name, start+"-"+end, err.Error(), "correct it")
		}
		return s, err == nil
	}
	if start != "" || end != "" {
		i.lost(object, name+".start", start+"-"+end, "the range has a cidr too, and Antrea takes that", "")
	}
	p, err := parseNetwork(cidr)
	if err != nil {
		i.lost(object, name+".cidr", cidr, err.Error(), "correct it")
		return span{}, false
	}
	s := span{p.Addr().Next(), netipx.PrefixLastIP(p)}
	if p.Addr().Is4() {
		s.last = s.last.Prev()
	}
	if !s.first.IsValid() || !s.last.IsValid() || s.last.Less(s.first) || !p.Contains(s.first) {
		i.lost(object, name+".cidr", cidr, "Antrea takes no address of so small a network", "")
		return span{}, false
	}
	i.changed(object, name+".cidr", cidr, "it is written as "+s.String()+", the addresses that Antrea takes of it", "")
	return s, true
}

func (i *importer) antreaEgress(m antreaEgress) {
	object, applied := m.String(), m.Spec.AppliedTo
	if m.Spec.Bandwidth != nil {
		i.lost(object, "bandwidth", *m.Spec.Bandwidth, "policies have no rate", "limit rates at the router behind the gateway")
	}
	switch {
	case applied.Pods == nil && applied.Namespaces == nil:
		i.lost(object, "", nil, "its appliedTo has neither podSelector nor namespaceSelector, so it selects nothing there", "")
		return
	case !i.selectable(object, "appliedTo.podSelector", applied.Pods), !i.selectable(object, "appliedTo.namespaceSelector", applied.Namespaces):
		return
	}
	g, fixed, ok := i.antreaAddresses(m)
	if !ok {
		return
	}
	for _, a := range fixed {
		i.own(object, g, a)
	}
	i.policies = append(i.policies, &policy{
		origins: []string{object}, name: m.Metadata.Name, project: "antrea",
		namespaces: applied.Namespaces, pods: applied.Pods, gateway: g, fixed: fixed,
	})
}

// antreaAddresses are the addresses of an Egress, and the gateway that has them.
func (i *importer) antreaAddresses(m antreaEgress) (g *gateway, fixed []netip.Addr, ok bool) {
	object, pools, pool := m.String(), m.pools(), m.pool()
	if g = i.antrea.made[pool]; g == nil && pool != "" {
		i.lost(object, "", nil, fmt.Sprintf("its ExternalIPPool %s is not among the objects, or is not carried", pool), "read it too")
		return nil, nil, false
	}
	for _, name := range pools {
		if name != pool {
			i.lost(object, "externalIPPools", name, "a policy has one gateway", "write a policy for those pods that are to leave by it")
		}
	}
	if fixed, ok = i.antreaFixed(m, pools, pool); !ok {
		return nil, nil, false
	}
	if len(fixed) > 1 {
		i.differs(object, "Antrea uses one of its addresses at a time; here each pod keeps to one of them, and all are in use", "have partners allow all")
	}
	if g == nil && len(fixed) == 0 {
		i.lost(object, "", nil, "it has neither an address nor a pool", "")
		return nil, nil, false
	}
	if g == nil {
		g = i.antreaStatic(object, m.Status.Node)
	}
	return g, fixed, true
}

// wanted are the addresses of the spec, or the one that the Egress has now.
func (m antreaEgress) wanted() []string {
	all := m.Spec.Addresses
	if m.Spec.Address != "" {
		all = append([]string{m.Spec.Address}, all...)
	}
	if len(all) == 0 && m.Status.Address != "" {
		return []string{m.Status.Address}
	}
	return all
}

// pools are those of the spec, each for the address with its index.
func (m antreaEgress) pools() []string {
	if m.Spec.Pool != "" {
		return append([]string{m.Spec.Pool}, m.Spec.Pools...)
	}
	return m.Spec.Pools
}

// pool is the one of the address that the Egress has now, or the first one.
func (m antreaEgress) pool() (pool string) {
	wanted := m.wanted()
	for n, name := range m.pools() {
		if n == 0 || n < len(wanted) && m.Status.Address != "" && wanted[n] == m.Status.Address {
			pool = name
		}
	}
	return pool
}

// antreaFixed are the addresses that are of one of the pools.
func (i *importer) antreaFixed(m antreaEgress, pools []string, pool string) (fixed []netip.Addr, ok bool) {
	object, wanted, now := m.String(), m.wanted(), m.Status.Address
	for n, s := range wanted {
		a, err := parseAddr(s)
		switch {
		case s == "":
		case err != nil:
			i.lost(object, "", nil, fmt.Sprintf("its address %q: %v", s, err), "correct it")
			return nil, false
		case n < len(pools) && pools[n] != pool:
			i.lost(object, "egressIPs", s, "it is of ExternalIPPool "+pools[n], "")
		case len(fixed) == maxFixed:
			i.lost(object, "egressIPs", s, fmt.Sprintf("a policy has %d addresses at most", maxFixed), "")
		default:
			fixed = append(fixed, a)
		}
	}
	if now != "" && !slices.Contains(wanted, now) {
		i.differs(object, "its status has another address, "+now+", than its spec: the one of the spec is carried", "have partners allow it")
	}
	return sortAddresses(fixed), true
}

// antreaStatic is the gateway of addresses that are on nodes without Antrea's doing.
func (i *importer) antreaStatic(object, node string) *gateway {
	a := &i.antrea
	if a.static == nil {
		a.static = i.addGateway(&gateway{name: "antrea-static", project: "antrea", mode: v1alpha1.ActiveActive})
	}
	a.static.origins = append(a.static.origins, object)
	if node != "" && !slices.Contains(a.nodes, node) {
		a.nodes = append(a.nodes, node)
		i.changed(object, "status.egressNode", node, "the gateway takes the nodes that have static addresses now, by their label "+hostname, "name others by --nodes NODES@antrea-static")
	}
	i.differs(object, "its address is on an interface of a node, where somebody put it; the gateway answers for it by itself", "remove it from the node when the gateway takes over")
	return a.static
}
