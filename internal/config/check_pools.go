package config

import (
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

// poolChecker compares the pools of egress policies.
type poolChecker struct {
	file     *fileErrors
	doc      *document
	declared declared
}

// check refuses an address of a router that is not one policy's alone.
func (c poolChecker) check() {
	if c.doc.Spec.Egress == nil {
		return
	}
	byRouter, routers := map[objectName][]claim{}, []objectName{}
	all := 0
	for i, policy := range c.doc.Spec.Egress.Policies {
		at := fmt.Sprintf("spec.egress.policies[%d].pool", i)
		ranges := each(policy.Pool, poolRange.model)
		n := nat.Count(ranges, nat.MaxPool)
		all += n
		if n > nat.MaxPool {
			c.file.problem(at, fmt.Sprintf("the pool has more than %d addresses", nat.MaxPool), "give fewer, or make two policies")
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
		c.file.problem("spec.egress.policies", fmt.Sprintf("the pools have %d addresses, at most %d", all, maxPools), "divide them among several edges")
		return
	}
	gateways, _ := c.declared.gateways()
	for _, name := range routers {
		c.disjoint(byRouter[name])
		if name != "" {
			c.apart(byRouter[name], c.uses(name, gateways[name]))
		}
	}
}

func (c poolChecker) disjoint(claims []claim) {
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
		c.file.problem(b.path, fmt.Sprintf("%s is already in a pool of the router (%s)", laterFirst(a, b), c.file.place(b.path, a.path)),
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

// use is an address, or a network, that is no pool's.
type use struct {
	nat.Use
	path string // where that is said, "" where the rule is an RFC's
	hint string
}

// apart checks that pools have no address of the router, of its neighbours, nor of hosts of the overlay.
func (c poolChecker) apart(claims []claim, uses []use) {
	plain := each(uses, func(u use) nat.Use { return u.Use })
	for _, r := range claims {
		i := nat.Used(r.AddrRange, plain)
		if i < 0 {
			continue
		}
		u := uses[i]
		what := fmt.Sprintf("%s is %s", u.Addr(), u.By)
		if !u.IsSingleIP() {
			what = fmt.Sprintf("overlaps %s, %s", u.Masked(), u.By)
		}
		if u.path != "" {
			what += fmt.Sprintf(" (%s)", c.file.place(r.path, u.path))
		}
		c.file.problem(r.path, what, u.hint)
	}
}

// uses are those of a router.
func (c poolChecker) uses(name objectName, gateways []connected) (list []use) {
	const others = "a pool needs addresses that nothing else uses"
	for _, n := range gateways {
		list = append(list, use{nat.Use{Prefix: n.Masked(), By: "a network of the overlay"}, n.path, others})
	}
	for _, n := range c.declared.uplinksOf(name) {
		list = append(list, use{nat.UseOf(n.Addr(), "the uplink's own address"), n.path, "leave it out, or use masquerade of the uplink"})
		for _, end := range nat.Unassignable(n.Prefix) {
			list = append(list, use{end, "", "leave it out"})
		}
	}
	for i, r := range c.doc.Spec.Routers {
		for j, route := range r.Routes {
			for k, h := range route.Via {
				if r.Name == name && h.Address.IsValid() {
					at := fmt.Sprintf("spec.routers[%d].routes[%d].via[%d].address", i, j, k)
					list = append(list, use{nat.UseOf(h.Address.Addr, "a next hop of the router"), at, "leave it out: it belongs to another router"})
				}
			}
		}
	}
	return append(list, c.sessions(name)...)
}

// sessions are the ends of BGP sessions by the uplinks of a router. This host has their local addresses.
func (c poolChecker) sessions(name objectName) (list []use) {
	if c.doc.Spec.BGP == nil {
		return nil
	}
	for i, n := range c.doc.Spec.BGP.Neighbours {
		if r, u := c.doc.uplink(n.Uplink); u == nil || r.Name != name {
			continue
		}
		at := fmt.Sprintf("spec.bgp.neighbours[%d]", i)
		if n.Address.IsValid() {
			list = append(list, use{nat.UseOf(n.Address.Addr, "a BGP neighbour"), at + ".address", "leave it out: it belongs to another router"})
		}
		if n.LocalAddress.IsValid() {
			list = append(list, use{nat.UseOf(n.LocalAddress.Addr, "this host's address in a BGP session"), at + ".localAddress", "leave it out: the session would end"})
		}
	}
	return list
}
