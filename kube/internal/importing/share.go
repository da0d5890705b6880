package importing

import (
	"cmp"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strings"

	"github.com/selvage/selvage/kube/internal/plan"
)

// share sees to it that an address is of one policy alone, which the kinds want and the other projects do not: policies
// with the same addresses become one where one can say it. Of others the first keeps them: one that the caller puts first,
// then one that has them already.
func (i *importer) share() {
	slices.SortStableFunc(i.policies, func(a, b *policy) int {
		return cmp.Or(cmp.Compare(a.gateway.name, b.gateway.name), plan.CompareTrue(i.First[a.object()], i.First[b.object()]), plan.CompareTrue(a.holds, b.holds),
			cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	i.policies = i.unitePolicies(i.policies)
	owner := map[netip.Addr]*policy{}
	var pool []*policy
	for _, p := range i.policies {
		if p.ofNode {
			continue
		}
		if len(p.fixed) == 0 {
			pool = append(pool, p)
			continue
		}
		kept := slices.DeleteFunc(slices.Clone(p.fixed), func(a netip.Addr) bool { return owner[a] != nil })
		for _, a := range p.fixed {
			if other := owner[a]; other != nil {
				who := other.object()
				if who == p.object() {
					who = "another of its selectors"
				}
				i.lostPolicy(p, "address", a, who+" has it, an address is of one policy alone, and one policy cannot say what both do",
					"have partners allow the address that it gets instead, or make the labels of their pods alike")
			}
		}
		if p.fixed = kept; len(kept) == 0 {
			pool = append(pool, p)
		}
		for _, a := range kept {
			owner[a] = p
		}
	}
	i.fill(pool)
}

// fill leaves policies out for which a gateway has no address left.
func (i *importer) fill(pool []*policy) {
	left := map[*gateway]map[bool]*big.Int{}
	for _, p := range pool {
		if left[p.gateway] == nil {
			left[p.gateway] = room(p.gateway, i.policies)
		}
		full := false
		for _, n := range left[p.gateway] {
			full = full || n.Sign() <= 0
		}
		if full {
			i.lostPolicy(p, "", nil, fmt.Sprintf("gateway %s has no address left for it, and each policy has its own", p.gateway.name),
				fmt.Sprintf("give the gateway more: --address ADDR@%s", p.gateway.name))
			i.policies = slices.DeleteFunc(i.policies, func(q *policy) bool { return p == q })
			continue
		}
		for _, n := range left[p.gateway] {
			n.Sub(n, big.NewInt(1))
		}
	}
}

// unitePolicies joins policies with the same addresses until no two can be.
func (i *importer) unitePolicies(all []*policy) []*policy {
	for again := true; again; {
		again = false
		for a := 0; a < len(all); a++ {
			for b := a + 1; b < len(all); b++ {
				if i.join(all[a], all[b]) {
					all = slices.Delete(all, b, b+1)
					again = true
					b--
				}
			}
		}
	}
	return all
}

// join makes p what either of two policies says, if one policy can say it.
func (i *importer) join(p, q *policy) bool {
	if !alike(p, q) || !p.widen(q) {
		return false
	}
	if fresh := slices.DeleteFunc(slices.Clone(q.origins), func(s string) bool { return slices.Contains(p.origins, s) }); len(fresh) > 0 {
		i.changed(q.object(), "", nil, fmt.Sprintf("it is one policy with %s, for both have the address %s", p.object(), addresses(p.fixed)), "")
		p.origins = append(p.origins, fresh...)
	}
	return true
}

// alike says whether policies with fixed addresses are the same but for the pods that they select.
func alike(p, q *policy) bool {
	priority := func(p *policy) int32 {
		if p.priority == nil {
			return -1
		}
		return *p.priority
	}
	return len(p.fixed) > 0 && p.gateway == q.gateway && slices.Equal(p.fixed, q.fixed) &&
		slices.Equal(p.to, q.to) && slices.Equal(p.except, q.except) && priority(p) == priority(q)
}

// widen has p select the pods of q too, and no others. It returns false if that cannot be said.
func (p *policy) widen(q *policy) bool {
	ps, qs := p.spaces(), q.spaces()
	sameSpaces, samePods, sameAccounts := same(ps, qs), same(p.pods, q.pods), slices.Equal(p.accounts, q.accounts)
	accounts := joinAccounts(p.accounts, q.accounts)
	switch {
	case sameSpaces && sameAccounts:
		pods, ok := unite(p.pods, q.pods)
		if !ok {
			return false
		}
		p.pods = pods
	case samePods && sameAccounts:
		spaces, ok := unite(ps, qs)
		if !ok {
			return false
		}
		p.namespaces, p.namespace = spaces, ""
	case sameSpaces && samePods && len(accounts) <= maxAccounts:
		p.accounts = accounts
	default:
		return false
	}
	if q.namespace == "" && p.namespace != "" {
		p.namespaces, p.namespace = p.spaces(), ""
	}
	return true
}

// joinAccounts is all accounts of two policies; none is any.
func joinAccounts(a, b []string) []string {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

func addresses(all []netip.Addr) string {
	words := make([]string, len(all))
	for n, a := range all {
		words[n] = a.String()
	}
	return strings.Join(words, ", ")
}
