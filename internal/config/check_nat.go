package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
)

// claim is addresses of a router's pools.
type claim struct {
	overlay.AddrRange
	path string
}

// pools checks that each address of a router is one policy's, and nobody else's.
func (p *policyChecker) pools() {
	byRouter, routers := map[objectName][]claim{}, []objectName{}
	all := 0
	for i, policy := range p.doc.Spec.Egress.Policies {
		at := fmt.Sprintf("spec.egress.policies[%d].pool", i)
		ranges := each(policy.Pool, poolRange.model)
		n := nat.Count(ranges, nat.MaxPool)
		all += n
		if n > nat.MaxPool {
			p.file.problem(at, fmt.Sprintf("the pool has more than %d addresses", nat.MaxPool), "give fewer, or make two policies")
		}
		if !slices.Contains(routers, policy.Router) {
			routers = append(routers, policy.Router)
		}
		for j, r := range ranges {
			if r.First.IsValid() {
				byRouter[policy.Router] = append(byRouter[policy.Router], claim{r, fmt.Sprintf("%s[%d]", at, j)})
			}
		}
	}
	if all > maxPools {
		p.file.problem("spec.egress.policies", fmt.Sprintf("the pools have %d addresses, at most %d", all, maxPools), "divide them among several edges")
		return
	}
	gateways, _ := p.gateways()
	for _, name := range routers {
		p.disjointPools(byRouter[name])
		if name != "" {
			p.poolsApart(byRouter[name], gateways[name], p.uplinksOf(name))
		}
	}
}

// uplinksOf are the networks of a router's uplinks.
func (c checker) uplinksOf(name objectName) (list []connected) {
	for i, r := range c.doc.Spec.Routers {
		if r.Name == name {
			list, _ = c.uplinks(fmt.Sprintf("spec.routers[%d]", i), r)
			break
		}
	}
	return list
}

func (c checker) disjointPools(claims []claim) {
	order := make(map[string]int, len(claims))
	for i, n := range claims {
		order[n.path] = i
	}
	sorted := slices.Clone(claims)
	slices.SortStableFunc(sorted, func(a, b claim) int { return a.First.Compare(b.First) })
	for i := 1; i < len(sorted); i++ {
		a, b := sorted[i-1], sorted[i]
		if b.First.Compare(a.Last) > 0 {
			continue
		}
		last := a // of the two, the one that ends later goes on
		if b.Last.Compare(a.Last) > 0 {
			last = b
		}
		if order[a.path] > order[b.path] {
			a, b = b, a
		}
		c.file.problem(b.path, fmt.Sprintf("%s is already in a pool of the router (%s, line %d)", laterFirst(a, b), a.path, c.file.at(a.path).Line),
			"give each policy addresses of its own")
		sorted[i] = last
	}
}

// laterFirst is the first address that both have.
func laterFirst(a, b claim) netip.Addr {
	if a.First.Compare(b.First) > 0 {
		return a.First
	}
	return b.First
}

// poolsApart checks that pools have no address of the router, nor of hosts of the overlay.
func (c checker) poolsApart(claims []claim, gateways, uplinks []connected) {
	for _, r := range claims {
		has := func(a netip.Addr) bool { return r.First.Compare(a) <= 0 && a.Compare(r.Last) <= 0 }
		for _, n := range gateways {
			if has(n.Masked().Addr()) || n.Contains(r.First) || n.Contains(r.Last) {
				c.file.problem(r.path, fmt.Sprintf("overlaps %s, a network of the overlay (%s, line %d)", n.Masked(), n.path, c.file.at(n.path).Line),
					"a pool needs addresses that nothing else uses")
				break
			}
		}
		for _, n := range uplinks {
			whole := n.Masked().Addr()
			switch {
			case has(n.Addr()):
				c.file.problem(r.path, fmt.Sprintf("%s is the uplink's own address (%s, line %d)", n.Addr(), n.path, c.file.at(n.path).Line),
					"leave it out, or use masquerade of the uplink")
			case whole.Is4() && n.Bits() < 31 && (has(whole) || has(lastAddress(n.Prefix))):
				c.file.problem(r.path, fmt.Sprintf("contains the network or broadcast address of %s", n.Masked()), "leave out the first and the last address of the network")
			}
		}
	}
}

// forwarding is a forward of a router's uplink.
type forwarding struct {
	protocol string
	addr     netip.Addr
	ports    overlay.PortRange
	path     string
	order    int
}

// portForwards checks what uplinks translate by themselves.
func (c checker) portForwards() {
	gateways, _ := c.gateways()
	for i, r := range c.doc.Spec.Routers {
		path := fmt.Sprintf("spec.routers[%d]", i)
		uplinks, _ := c.uplinks(path, r)
		own := append(slices.Clip(gateways[r.Name]), uplinks...)
		var list []forwarding
		for j, u := range r.Uplinks {
			if u.NAT == nil {
				continue
			}
			at := fmt.Sprintf("%s.uplinks[%d].nat", path, j)
			c.natPorts(at, u.NAT.natRange)
			for k, f := range u.NAT.PortForwards {
				where := fmt.Sprintf("%s.portForwards[%d]", at, k)
				c.portForward(where, r, u, f, own)
				list = append(list, forwarding{f.Protocol, u.forwarded(f), f.Port.PortRange, where, len(list)})
			}
		}
		c.distinctPortForwards(list)
	}
}

func (c checker) portForward(path string, r router, u uplink, f portForward, own []connected) {
	c.portForwardAddress(path, r, u, f)
	count := int(f.Port.Last) - int(f.Port.First)
	if f.Port.First == 0 && c.file.given(path+".port") {
		c.file.problem(path+".port", "port 0 is not valid", "begin with 1")
	}
	if f.ToPort != 0 && int(f.ToPort)+count > 65535 {
		c.file.problem(path+".toPort", fmt.Sprintf("%d ports from %d on go beyond 65535", count+1, f.ToPort), "lower it, or forward fewer")
	}
	if f.To.IsValid() && slices.ContainsFunc(own, func(n connected) bool { return n.Addr() == f.To.Addr }) {
		c.file.problem(path+".to", fmt.Sprintf("%s is the router's own address", f.To), "give the address of a host")
	}
}

// portForwardAddress checks where the port is.
func (c checker) portForwardAddress(path string, r router, u uplink, f portForward) {
	switch {
	case !f.Address.IsValid():
		if f.To.IsValid() && len(u.Addresses) > 0 && !u.forwarded(f).IsValid() && !c.file.failed[path+".address"] {
			c.file.problem(path+".to", fmt.Sprintf("uplink %q has no %s address", u.Name, family(f.To.Addr)), "give the address to forward from, or add one to the uplink")
		}
	case f.To.IsValid() && f.Address.Is4() != f.To.Is4():
		c.file.problem(path+".to", fmt.Sprintf("%s is %s but %s is %s", f.To, family(f.To.Addr), f.Address, family(f.Address.Addr)), "families are not translated; make them the same")
	case !c.answersFor(r, u, f.Address.Addr):
		c.file.problem(path+".address", fmt.Sprintf("%s is neither an address of uplink %q nor in a pool at it", f.Address, u.Name), "use one of the uplink's addresses, or leave it out")
	}
}

// answersFor reports whether addr is of the uplink, or of a pool that may be at it.
func (c checker) answersFor(r router, u uplink, addr netip.Addr) bool {
	if slices.ContainsFunc(u.Addresses, func(a interfacePrefix) bool { return !a.IsValid() || a.Addr() == addr }) {
		return true
	}
	e := c.doc.Spec.Egress
	if e == nil {
		return c.file.failed["spec.egress"] || c.file.failed["spec"]
	}
	return slices.ContainsFunc(e.Policies, func(p egressPolicy) bool {
		return p.Router == r.Name && p.Uplink == u.Name && slices.ContainsFunc(p.Pool, func(n poolRange) bool {
			return !n.First.IsValid() || n.First.Compare(addr) <= 0 && addr.Compare(n.Last) <= 0
		})
	})
}

// distinctPortForwards checks that a port leads to one host.
func (c checker) distinctPortForwards(list []forwarding) {
	list = slices.DeleteFunc(list, func(f forwarding) bool { return f.protocol == "" || !f.addr.IsValid() || f.ports.Last == 0 })
	slices.SortFunc(list, func(a, b forwarding) int {
		return cmp.Or(cmp.Compare(a.protocol, b.protocol), a.addr.Compare(b.addr), cmp.Compare(a.ports.First, b.ports.First), cmp.Compare(a.order, b.order))
	})
	for i := 1; i < len(list); i++ {
		a, b := list[i-1], list[i]
		if a.protocol != b.protocol || a.addr != b.addr || b.ports.First > a.ports.Last {
			continue
		}
		last := b
		if a.ports.Last > b.ports.Last {
			last = a
		}
		port := b.ports.First
		if a.order > b.order {
			a, b = b, a
		}
		c.file.problem(b.path+".port", fmt.Sprintf("%s port %d of %s is already forwarded (%s, line %d)", a.protocol, port, a.addr, a.path, c.file.at(a.path).Line),
			"a port can lead to only one host")
		list[i] = last
	}
}
