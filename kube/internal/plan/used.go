package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// Uses is what has addresses that no policy may get. What is known of it is the same on all nodes, so that they refuse the same.
type Uses struct {
	hosts    map[netip.Addr]string
	networks []nat.Use
}

// NewUses are those by gateways' routers and by nodes, of the networks of the cluster, and what is reserved.
//
// uplinks are what nodes have reported, which they themselves do not know of each other.
func NewUses(gateways []v1alpha1.EgressGateway, nodes []Node, cluster []netip.Prefix, link LinkPair, uplinks map[netip.Prefix]string) Uses {
	u := Uses{hosts: map[netip.Addr]string{}, networks: nat.Reserved()}
	for i := range gateways {
		g := &gateways[i]
		for _, text := range g.Spec.Uplink.NextHops {
			u.add(text, "a next hop of EgressGateway "+g.Name)
		}
		if bgp := g.Spec.Uplink.BGP; bgp != nil {
			for _, n := range bgp.Neighbours {
				u.add(n.Address, "a BGP neighbour of EgressGateway "+g.Name)
			}
		}
	}
	for _, n := range nodes {
		for _, a := range n.Addresses {
			u.hosts[a] = "the address of node " + n.Name
		}
	}
	for _, text := range nowhere {
		u.networks = append(u.networks, nat.Use{Prefix: netip.MustParsePrefix(text), By: "reserved for uplinks that are missing"})
	}
	for p, node := range uplinks {
		u.add(p.Addr().String(), "the address of an uplink of node "+node)
		u.networks = append(u.networks, nat.Unassignable(p)...)
	}
	for _, p := range slices.Concat(link.HostAddrs, link.EdgeAddrs) {
		u.networks = append(u.networks, nat.Use{Prefix: p.Masked(), By: "between a node and its edge"})
	}
	for _, p := range cluster {
		u.networks = append(u.networks, nat.Use{Prefix: p.Masked(), By: "a network of pods, services or nodes"})
	}
	return u
}

func (u *Uses) add(text, by string) {
	if a, err := netip.ParseAddr(text); err == nil && u.hosts[a] == "" {
		u.hosts[a] = by
	}
}

// Of are those that concern a gateway. Where its routers are in a network of the cluster, nodes and uplinks share that; where they are in a network
// of its addresses, that is the uplink's.
func (u Uses) Of(g *v1alpha1.EgressGateway) Uses {
	out := Uses{hosts: u.hosts}
	near := func(p netip.Prefix) bool {
		return slices.ContainsFunc(g.Spec.Uplink.NextHops, func(h string) bool { a, err := netip.ParseAddr(h); return err == nil && p.Contains(a) })
	}
	for _, n := range u.networks {
		if !near(n.Prefix) {
			out.networks = append(out.networks, n)
		}
	}
	for _, text := range g.Spec.Addresses {
		if p, err := netip.ParsePrefix(string(text)); err == nil && near(p) {
			out.networks = append(out.networks, nat.Unassignable(p)...)
		}
	}
	return out
}

// Why says whose an address is, "" when it is free.
func (u Uses) Why(a netip.Addr) string {
	if by := u.hosts[a]; by != "" {
		return by
	}
	return nat.WhyUsed(a, u.networks)
}

// Within are the uses of addresses of a range.
func (u Uses) Within(first, last netip.Addr) (list []netip.Prefix) {
	for a := range u.hosts {
		if first.Compare(a) <= 0 && a.Compare(last) <= 0 && first.Is4() == a.Is4() {
			list = append(list, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	for _, n := range u.networks {
		list = append(list, n.Masked())
	}
	return list
}

// refuse keeps policies out of the file that have an address of somebody else.
func (m *maker) refuse() {
	all := NewUses(m.in.Gateways, m.in.Nodes, m.in.Settings.Cluster, m.in.Settings.LinkUp, nil)
	uses, here := map[string]Uses{}, m.usesHere()
	for _, c := range m.concerns {
		if !c.inFile() {
			continue
		}
		u, known := uses[c.Policy.Gateway]
		if !known {
			u = all.Of(c.gateway)
			uses[c.Policy.Gateway] = u
		}
		c.refused = m.whyRefused(c, u, here)
	}
}

// whyRefused is why no edge has a policy, as far as it is by its addresses; "" when nothing is wrong with them.
func (m *maker) whyRefused(c *concern, u Uses, here []nat.Use) string {
	if c.status.VNI <= nodeVNI || c.status.VNI >= 1<<24 {
		return fmt.Sprintf("its VNI %d is none of a policy's", c.status.VNI)
	}
	for _, text := range c.status.Addresses {
		if _, err := netip.ParseAddr(text); err != nil && !c.ofNode() {
			return fmt.Sprintf("its address %q is none", text)
		}
	}
	for _, a := range parsed(c.addresses()) {
		text := a.String()
		if by := u.Why(a); by != "" {
			return fmt.Sprintf("its address %s is %s", text, by)
		}
		if by := nat.WhyUsed(a, here); by != "" {
			return fmt.Sprintf("its address %s is on this node %s", text, by)
		}
		if c.Member && !m.hasFamily(c.gateway, a) {
			return fmt.Sprintf("its address %s is of a family that neither the uplink of this node nor a next hop of the gateway has", text)
		}
	}
	return ""
}

// usesHere are those where the node has its uplinks, whatever gateway they belong to: the edge has one router.
func (m *maker) usesHere() (uses []nat.Use) {
	for _, p := range m.ownUplinks() {
		uses = append(uses, nat.UseOf(p.Addr(), "the uplink's own"))
		uses = append(uses, nat.Unassignable(p)...)
	}
	return uses
}

// hasFamily reports whether the uplink of the node, or a next hop of the gateway, is of the family of an address. Where only the hop is, another
// node may serve. A node without the uplink says so of the gateway.
func (m *maker) hasFamily(g *v1alpha1.EgressGateway, a netip.Addr) bool {
	own := m.uplink(g)
	return len(own) == 0 || slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Addr().Is4() == a.Is4() }) ||
		slices.ContainsFunc(parsed(g.Spec.Uplink.NextHops), func(h netip.Addr) bool { return h.Is4() == a.Is4() })
}

// ownUplinks are the addresses of the node's uplinks, as a member of gateways.
func (m *maker) ownUplinks() (list []netip.Prefix) {
	for _, g := range m.gateways {
		if m.isMember(g) {
			list = append(list, m.uplink(g)...)
		}
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	return slices.Compact(list)
}

// parsed are addresses, which the API server has checked.
func parsed(list []string) (out []netip.Addr) {
	for _, text := range list {
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, a)
		}
	}
	return out
}
