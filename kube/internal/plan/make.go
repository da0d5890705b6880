package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// Make computes what a node has to have. The order of what is given does not matter. It fails where the node itself cannot
// be configured; what is wrong with a policy is that policy's Problem, and its pods do not leave by their node.
func Make(in Input) (Plan, error) {
	m, err := newMaker(in)
	if err != nil {
		return Plan{}, err
	}
	if err := m.collect(); err != nil {
		return Plan{}, err
	}
	text, err := m.file()
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Cluster: in.Settings.Cluster, Unknown: in.NetworksUnknown, Twin: Twins(in.Nodes, in.Gateways, in.Node)[in.Node], Edge: text, BGP: m.advertised() != nil, Password: m.passwords, Groups: map[string][]netip.Addr{}, Gateways: map[string]string{}, Remotes: map[netip.Addr]string{}}
	for _, g := range m.used() {
		p.Gateways[edgeName("g", g.Name)] = g.Name
	}
	for name, a := range m.peers {
		p.Remotes[a] = name
	}
	for _, c := range m.concerns {
		p.Policies = append(p.Policies, c.Policy)
		if c.inFile() {
			p.Groups[c.EdgeName] = c.addrs
		}
		p.Steering = append(p.Steering, c.steer()...)
	}
	p.Uplinks = m.ownUplinks()
	return p, nil
}

// newMaker knows the nodes, and which are of gateways.
func newMaker(in Input) (*maker, error) {
	m := &maker{
		in: in, nodes: map[string]Node{}, gateways: map[string]*v1alpha1.EgressGateway{}, members: map[string][]string{}, ports: map[string]uint16{},
	}
	for _, n := range in.Nodes {
		m.nodes[n.Name] = n
	}
	for i := range in.Gateways {
		m.gateways[in.Gateways[i].Name] = &in.Gateways[i]
	}
	self, ok := m.nodes[in.Node]
	if !ok {
		return nil, fmt.Errorf("node %s: the API server has no such node", in.Node)
	}
	if _, err := m.endpoint(self); err != nil {
		return nil, err
	}
	m.peers = m.known()
	m.join()
	return m, nil
}

type maker struct {
	in       Input
	nodes    map[string]Node
	gateways map[string]*v1alpha1.EgressGateway
	peers    map[string]netip.Addr // nodes that edges can reach
	members  map[string][]string   // of gateways, in the order of the group
	ports    map[string]uint16     // of gateways' replication
	concerns []*concern            // in the order of policies

	passwords Passwords // that the file has needed so far
}

// concern is a policy that concerns the node.
type concern struct {
	Policy
	rank    Rank
	created time.Time
	spec    v1alpha1.EgressPolicySpec
	status  v1alpha1.EgressPolicyStatus
	gateway *v1alpha1.EgressGateway
	members []string
	addrs   []netip.Addr // of the node's pods
	strange []netip.Addr // of its pods too, in no network of the cluster that is known: answers do not find them, nor other pods
	refused string       // why no edge has it
}

// inFile reports whether the edge's file has it.
func (c *concern) inFile() bool { return c.gateway != nil && c.accepted() && c.refused == "" }

func (c *concern) accepted() bool {
	return c.status.VNI != 0 && c.families() != Families{} && len(c.members) > 0 && (len(c.spec.To) == 0 || len(c.served()) > 0)
}

// served are the destinations of a family of which the policy has an address.
func (c *concern) served() []netip.Prefix {
	return slices.DeleteFunc(networks(c.spec.To), func(to netip.Prefix) bool { return !c.has(to) })
}

// has reports whether the policy has an address of the family of a destination.
func (c *concern) has(to netip.Prefix) bool { return c.families().Has(to.Addr()) }

// families are those of which the policy has an address.
func (c *concern) families() Families { return FamiliesOf(c.spec, c.status, c.gateway) }

// ofNode reports whether pods get the address of the gateway's node.
func (c *concern) ofNode() bool { return c.spec.Address.Type == v1alpha1.AddressNode }

// addresses are those of the policy alone, each once.
func (c *concern) addresses() []string {
	if c.ofNode() {
		return nil // what it had before
	}
	list := Texts(parsed(c.status.Addresses))
	slices.Sort(list)
	return slices.Compact(list)
}

// steer is none without pods. What the edge has no policy for is held here: packets of pods that a later policy selects too would
// leave with its addresses. So are pods of unknown networks, whose packets to each other would leave the cluster.
func (c *concern) steer() (list []Steer) {
	s := Steer{
		Policy: c.Key, Pods: c.strange, Except: networks(c.spec.Except), To: networks(c.spec.To),
		Gateway: c.Policy.Gateway, NodeWhenGone: c.spec.WhenNoGateway == v1alpha1.NoGatewayNode, Held: true,
	}
	if len(c.strange) > 0 {
		list = append(list, s)
	}
	if len(c.addrs) == 0 {
		return list
	}
	s.Pods, s.Held = c.addrs, !c.inFile()
	lost := slices.DeleteFunc(networks(c.spec.To), c.has)
	if s.Held || len(lost) == 0 {
		return append(list, s)
	}
	s.To = c.served()
	list = append(list, s)
	s.To, s.Held = lost, true
	return append(list, s)
}

// networks are those of a spec, which the API server has checked.
func networks(list []v1alpha1.Network) (out []netip.Prefix) {
	for _, n := range list {
		if p, err := netip.ParsePrefix(string(n)); err == nil {
			out = append(out, p.Masked())
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// collect finds the policies that concern the node, in their order.
func (m *maker) collect() (err error) {
	for i := range m.in.Policies {
		p := &m.in.Policies[i]
		m.add(p.ObjectMeta, p.Spec, p.Status, func(pod Pod) bool { return pod.Namespace == p.Namespace })
	}
	for i := range m.in.ClusterPolicies {
		p := &m.in.ClusterPolicies[i]
		within := Selects(p.Spec.Namespaces)
		m.add(p.ObjectMeta, p.Spec.EgressPolicySpec, p.Status, func(pod Pod) bool {
			set, known := m.in.Namespaces[pod.Namespace]
			if !known && p.Spec.Namespaces != nil { // its pods might leave by the node, and should not
				err = fmt.Errorf("pod %s/%s: metadata.namespace: nothing is known of it", pod.Namespace, pod.Name)
			}
			return within(set)
		})
	}
	slices.SortFunc(m.concerns, func(a, b *concern) int { return a.rank.Compare(b.rank) })
	m.refuse()
	apart(m.concerns)
	m.fit()
	m.concerns = slices.DeleteFunc(m.concerns, func(c *concern) bool { return c.Pods == 0 && len(c.addrs) == 0 && !c.Member })
	for _, c := range m.concerns {
		c.Problem = m.problem(c)
	}
	return err
}

func (m *maker) add(meta metav1.ObjectMeta, spec v1alpha1.EgressPolicySpec, status v1alpha1.EgressPolicyStatus, within func(Pod) bool) {
	c := &concern{rank: RankOf(meta, spec), created: meta.CreationTimestamp.Time, spec: spec, status: status, gateway: m.gateways[spec.Gateway], members: m.members[spec.Gateway], Policy: Policy{
		Key: meta.Name, UID: string(meta.UID), Generation: meta.Generation, EdgeName: PolicyName(meta.Namespace, meta.Name), Cluster: meta.Namespace == "", Gateway: spec.Gateway,
	}}
	if !c.Cluster {
		c.Key = meta.Namespace + "/" + meta.Name
	}
	m.selectPods(c, within)
	c.Member = c.gateway != nil && m.isMember(c.gateway)
	m.concerns = append(m.concerns, c)
}

// selectPods finds the pods of a policy.
func (m *maker) selectPods(c *concern, within func(Pod) bool) {
	selected := Selector(c.spec)
	for _, pod := range m.in.Pods {
		if pod.Leaves() && within(pod) && selected(pod.Labels, pod.ServiceAccount) {
			c.Pods++
			c.addrs = append(c.addrs, pod.Addresses...)
		}
	}
	c.addrs = append(c.addrs, m.in.Lingering[ShortKey(c.Key)]...)
	slices.SortFunc(c.addrs, netip.Addr.Compare)
	c.addrs = slices.Compact(c.addrs)
	c.addrs, c.strange = m.divide(c.addrs)
}

// divide tells addresses in networks of the cluster that are known from others.
func (m *maker) divide(list []netip.Addr) (inside, outside []netip.Addr) {
	for _, a := range list {
		if slices.ContainsFunc(m.in.Settings.Cluster, func(p netip.Prefix) bool { return p.Contains(a) }) {
			inside = append(inside, a)
		} else {
			outside = append(outside, a)
		}
	}
	return inside, outside
}

// problem is why a policy cannot be carried out on the node, "" when it can.
func (m *maker) problem(c *concern) string {
	name := c.spec.Gateway
	switch {
	case c.gateway == nil:
		return fmt.Sprintf("there is no EgressGateway %s", name)
	case len(c.members) == 0:
		return fmt.Sprintf("EgressGateway %s has no nodes, or none that is known and no gateway's with another uplink", name)
	case c.families() == Families{} || c.status.VNI == 0:
		return "it has no addresses yet"
	case !c.accepted():
		return "it has no address of the family of its destinations"
	case c.refused != "":
		return c.refused
	case m.in.NetworksUnknown != "" && c.Pods > 0:
		return "its pods are held: " + m.in.NetworksUnknown
	case len(c.strange) > 0:
		return fmt.Sprintf("the pod with address %s is held, as it is in no network of the cluster that is known: "+
			"name its network in agent.clusterNetworks of the chart's values, which is --cluster-cidr of the agent", c.strange[0])
	case !c.Member:
		return ""
	}
	return m.broken(c.gateway)
}

// broken is what keeps the node from serving for a gateway of which it is a member, "" when nothing does.
func (m *maker) broken(g *v1alpha1.EgressGateway) string {
	u, name, addrs := g.Spec.Uplink, g.Name, m.uplink(g)
	near := func(h string) bool { a, err := netip.ParseAddr(h); return err == nil && m.isNextHop(g, a) }
	switch {
	case u.Interface == m.in.Host.Underlay && u.VLAN == 0:
		return fmt.Sprintf("interface %s, the uplink of EgressGateway %s, has the node's own address: an uplink is an interface, or a VLAN, of its own", u.Interface, name)
	case len(addrs) == 0:
		return fmt.Sprintf("interface %s, the uplink of EgressGateway %s, is missing on this node, or has no address", u.Interface, name)
	case !slices.ContainsFunc(u.NextHops, near):
		return fmt.Sprintf("no next hop of EgressGateway %s is in a network of interface %s of this node", name, u.Interface)
	}
	for _, c := range m.concerns {
		if c.inFile() && c.Member {
			pool := c.addresses()
			if c.ofNode() {
				pool = u.NextHops // of whose families the uplink needs an address
			}
			if problem := carries(addrs, pool); problem != "" {
				return fmt.Sprintf("interface %s, the uplink of EgressGateway %s, %s: policy %s", u.Interface, name, problem, c.Key)
			}
		}
	}
	_, problem := m.sessions(g)
	return problem
}

// carries is why an interface with these addresses cannot be the uplink of a pool, "" when it can.
func carries(own []netip.Prefix, pool []string) string {
	for _, text := range pool {
		a, err := netip.ParseAddr(text)
		switch {
		case err != nil:
		case !slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Addr().Is4() == a.Is4() }):
			return "has on this node no address of the family of " + text
		}
	}
	return ""
}

// Leaves reports whether a pod may be steered: it has addresses of its own, and is not over.
func (p Pod) Leaves() bool {
	return !p.HostNetwork && len(p.Addresses) > 0 && p.Phase != corev1.PodSucceeded && p.Phase != corev1.PodFailed
}

// endpoint is a node's tunnel endpoint.
func (m *maker) endpoint(n Node) (netip.Addr, error) {
	for _, a := range n.Addresses {
		if a.Is4() == (m.in.Settings.TunnelIP != IPv6) {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("node %s: it has no InternalIP of %s", n.Name, cmp.Or(m.in.Settings.TunnelIP, IPv4))
}
