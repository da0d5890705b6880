package plan

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// nothing is the name of the policy for routes that routers advertise: the way out is that of the gateway's next hops.
const nothing = "nothing"

// session is one of BGP, with a router.
type session struct {
	neighbour netip.Addr
	local     netip.Addr // unset: as the node routes
	v1alpha1.BGPNeighbour
}

// bgp advertises the addresses that the node answers for, as a member of gateways; nil where none does. Their uplinks are the same.
func (m *maker) bgp() object {
	g := m.advertised()
	if g == nil {
		return nil
	}
	out := object{
		"as": int64(g.Spec.Uplink.BGP.AS), "neighbours": m.neighbours(g), "gracefulRestart": m.restart(),
		"policies": []object{{"name": nothing, "statements": []object{{"reject": true}}}},
	}
	if id := m.routerID(); id.IsValid() {
		out["routerID"] = id.String()
	}
	return out
}

// advertised is a gateway of the node whose addresses go by BGP, nil where there is none.
func (m *maker) advertised() *v1alpha1.EgressGateway {
	for _, g := range m.uplinked() {
		if g.Spec.Uplink.BGP != nil {
			return g
		}
	}
	return nil
}

func (m *maker) neighbours(g *v1alpha1.EgressGateway) []object {
	list := []object{}
	sessions, _ := m.sessions(g)
	for _, s := range sessions {
		n := object{
			"name": neighbourName(s.neighbour), "address": s.neighbour.String(), "as": int64(s.AS), "uplink": uplinkName(g.Spec.Uplink),
			"advertise": []string{"egress"}, "import": []string{nothing},
		}
		if s.local.IsValid() {
			n["localAddress"] = s.local.String()
		} else {
			n["ebgpMultihop"] = s.EBGPMultihop
		}
		if s.BFD == v1alpha1.Enabled {
			n["bfd"] = true
		}
		if s.PasswordSecret.Name != "" {
			n["passwordFile"] = m.password(s.PasswordSecret)
		}
		list = append(list, n)
	}
	return list
}

func neighbourName(a netip.Addr) string {
	return edgeName("r", strings.ReplaceAll(a.String(), ":", "-"))
}

// restart has routers forget the node's routes at once when its process ends: another node advertises them by then. Of a gateway
// that is alone they go on to it, for its data path forwards meanwhile.
func (m *maker) restart() object {
	shared := slices.ContainsFunc(m.uplinked(), func(g *v1alpha1.EgressGateway) bool { return len(m.members[g.Name]) > 1 })
	if shared {
		return object{"time": "0s", "stale": "0s"}
	}
	return object{"time": "120s", "stale": "0s"}
}

// routerID is unset where the edge has one by itself: its tunnel endpoint is of IPv4.
func (m *maker) routerID() (id netip.Addr) {
	self := m.nodes[m.in.Node]
	if tep, err := m.endpoint(self); err == nil && tep.Is4() {
		return id
	}
	if i := slices.IndexFunc(self.Addresses, netip.Addr.Is4); i >= 0 {
		return self.Addresses[i]
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(self.Name))
	return netip.AddrFrom4([4]byte(hash.Sum(nil)))
}

// sessions are those of the node for a gateway, or what keeps them from it. Routers of other nodes are none of it.
func (m *maker) sessions(g *v1alpha1.EgressGateway) (list []session, problem string) {
	u := g.Spec.Uplink
	if u.BGP == nil {
		return nil, ""
	}
	for _, n := range u.BGP.Neighbours {
		a, err := netip.ParseAddr(n.Address)
		again := slices.ContainsFunc(list, func(s session) bool { return s.neighbour == a })
		if err != nil || again || !a.IsGlobalUnicast() || m.isOwn(a) {
			continue
		}
		s := session{neighbour: a, BGPNeighbour: n}
		switch {
		case m.isNear(g, a) && u.VLAN != 0:
			return nil, fmt.Sprintf("BGP neighbour %s of EgressGateway %s is in VLAN %d, where this node has no address of its own: name the router by an address elsewhere", a, g.Name, u.VLAN)
		case m.isNear(g, a):
			if s.local = m.sessionAddress(g, a); !s.local.IsValid() {
				return nil, fmt.Sprintf("interface %s of this node has one address in the network of BGP neighbour %s of EgressGateway %s: "+
					"add a second one with the same prefix length, from which the session runs", u.Interface, a, g.Name)
			}
		case n.EBGPMultihop == 0:
			continue
		}
		list = append(list, s)
	}
	if len(list) == 0 {
		return nil, fmt.Sprintf("no BGP neighbour of EgressGateway %s is in a network of interface %s of this node, or has ebgpMultihop", g.Name, u.Interface)
	}
	slices.SortFunc(list, func(a, b session) int { return a.neighbour.Compare(b.neighbour) })
	return list, ""
}

// isOwn reports whether the node has an address.
func (m *maker) isOwn(a netip.Addr) bool {
	for _, list := range m.in.Host.Uplinks {
		if slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Addr() == a }) {
			return true
		}
	}
	return slices.Contains(m.nodes[m.in.Node].Addresses, a)
}

// sessionAddress is the highest of several addresses in the network of a neighbour: packets to an uplink's do not reach the node.
func (m *maker) sessionAddress(g *v1alpha1.EgressGateway, neighbour netip.Addr) (highest netip.Addr) {
	own := m.uplink(g)
	near := slices.IndexFunc(own, func(p netip.Prefix) bool { return p.Contains(neighbour) })
	mates := slices.DeleteFunc(slices.Clone(own), func(p netip.Prefix) bool { return p.Masked() != own[near].Masked() })
	if len(mates) < 2 {
		return highest
	}
	return slices.MaxFunc(mates, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) }).Addr()
}

// forwarding are the addresses of a gateway's uplink: those of the interface but for what sessions run from.
func (m *maker) forwarding(g *v1alpha1.EgressGateway) []netip.Prefix {
	sessions, _ := m.sessions(g)
	return slices.DeleteFunc(slices.Clone(m.uplink(g)), func(p netip.Prefix) bool {
		return slices.ContainsFunc(sessions, func(s session) bool { return s.local == p.Addr() })
	})
}

// textOf is the same for equal ways to advertise.
func textOf(b *v1alpha1.BGP) string {
	if b == nil {
		return ""
	}
	list := slices.Clone(b.Neighbours)
	for i, n := range list {
		if a, err := netip.ParseAddr(n.Address); err == nil {
			list[i].Address = a.String()
		}
	}
	slices.SortFunc(list, func(a, b v1alpha1.BGPNeighbour) int { return cmp.Compare(a.Address, b.Address) })
	return fmt.Sprintf(" bgp %d %+v", b.AS, list)
}
