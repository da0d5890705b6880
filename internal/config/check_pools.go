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
			c.apart(byRouter[name], gateways[name], c.declared.uplinksOf(name))
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

// apart checks that pools have no address of the router, nor of hosts of the overlay.
func (c poolChecker) apart(claims []claim, gateways, uplinks []connected) {
	for _, r := range claims {
		has := func(a netip.Addr) bool { return r.First.Compare(a) <= 0 && a.Compare(r.Last) <= 0 }
		for _, n := range gateways {
			if has(n.Masked().Addr()) || n.Contains(r.First) || n.Contains(r.Last) {
				c.file.problem(r.path, fmt.Sprintf("overlaps %s, a network of the overlay (%s)", n.Masked(), c.file.place(r.path, n.path)),
					"a pool needs addresses that nothing else uses")
				break
			}
		}
		for _, n := range uplinks {
			whole := n.Masked().Addr()
			switch {
			case has(n.Addr()):
				c.file.problem(r.path, fmt.Sprintf("%s is the uplink's own address (%s)", n.Addr(), c.file.place(r.path, n.path)),
					"leave it out, or use masquerade of the uplink")
			case whole.Is4() && n.Bits() < 31 && (has(whole) || has(lastAddress(n.Prefix))):
				c.file.problem(r.path, fmt.Sprintf("contains the network or broadcast address of %s", n.Masked()), "leave out the first and the last address of the network")
			}
		}
	}
}
