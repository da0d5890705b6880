package gateway

import (
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
)

// Self is this edge as a gateway.
func Self(e overlay.Edge) netip.Addr { return e.Underlay.Local()[0].Addr }

// Members are the gateways of all groups, sorted, each once.
func Members(e overlay.Edge) (list []netip.Addr) {
	if e.Egress == nil {
		return nil
	}
	for _, g := range e.Egress.Gateways {
		list = append(list, g.Members...)
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

// IsMember reports whether e is a member of a group.
func IsMember(e overlay.Edge) bool { return slices.Contains(Members(e), Self(e)) }

// partners are the other members of groups that e is in.
func partners(e overlay.Edge) (list []netip.Addr) {
	if e.Egress == nil {
		return nil
	}
	for _, g := range e.Egress.Gateways {
		if slices.Contains(g.Members, Self(e)) {
			list = append(list, g.Members...)
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.DeleteFunc(slices.Compact(list), func(m netip.Addr) bool { return m == Self(e) })
}

// groupMembers are the gateways of a policy.
func groupMembers(config overlay.Edge, policy string) []netip.Addr {
	for _, p := range config.Egress.Policies {
		for _, g := range config.Egress.Gateways {
			if p.Name == policy && g.Name == p.Gateways {
				return g.Members
			}
		}
	}
	return nil
}

// leased marks what another gateway may take over should this process die. The last
// gateway's addresses are answered for without it too.
func leased(config overlay.Edge, list []fib.Egress, all map[netip.Addr]Status) {
	for i := range list {
		list[i].Leased = slices.ContainsFunc(groupMembers(config, list[i].Name), func(m netip.Addr) bool {
			return m != Self(config) && all[m].State != nat.Gone
		})
	}
}

// Name is what an operator calls a gateway.
func Name(config overlay.Edge, member netip.Addr) string {
	if member == Self(config) {
		return config.Name
	}
	if name := config.Remote(member).Name; name != "" {
		return name
	}
	return member.String()
}
