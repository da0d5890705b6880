package importing

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// titles are how notes name projects.
var titles = map[string]string{"spidernet": spidernetName, "cilium": ciliumName}

// divide makes several gateways of one that was made of policies, and has more ranges of addresses than fit.
func (i *importer) divide(g *gateway) {
	if len(g.addresses) <= maxAddresses || len(mergeSpans(g.given, true)) > maxAddresses {
		return
	}
	owner := map[netip.Addr]*gateway{}
	all, before := i.policiesOf(g), len(g.addresses)
	g.addresses, g.origins = mergeSpans(g.given, true), nil
	parts := []*gateway{g}
	for _, p := range all {
		part := partFor(parts, p)
		if part == nil {
			part = &gateway{
				name: i.unique("EgressGateway", "", g.name, g.project), project: g.project, nodes: g.nodes, mode: g.mode,
				uplink: g.uplink, vlan: g.vlan, hops: g.hops,
			}
			parts, i.gateways = append(parts, part), append(i.gateways, part)
		}
		p.fixed = slices.DeleteFunc(slices.Clone(p.fixed), func(a netip.Addr) bool {
			other := owner[a] != nil && owner[a] != part
			if other {
				i.lostPolicy(p, "address", a, "gateway "+owner[a].name+" has it, and the policy is of "+part.name, "have partners allow the address that it gets instead")
			}
			return other
		})
		for _, a := range p.fixed {
			owner[a] = part
		}
		part.addresses = mergeSpans(part.with(p.fixed), true)
		p.gateway = part
		for _, object := range p.origins {
			if !slices.Contains(part.origins, object) {
				part.origins = append(part.origins, object)
			}
		}
	}
	i.differs(titles[g.project], fmt.Sprintf("%s has %d ranges of addresses, and %d fit: it is %d gateways", g.name, before, maxAddresses, len(parts)), "")
	slices.SortStableFunc(i.gateways, func(a, b *gateway) int { return cmp.Compare(a.name, b.name) })
}

func (i *importer) policiesOf(g *gateway) (all []*policy) {
	for _, p := range i.policies {
		if p.gateway == g {
			all = append(all, p)
		}
	}
	return all
}

// partFor is the gateway that has an address of the policy already, or the first with room for all of them.
func partFor(parts []*gateway, p *policy) *gateway {
	for _, part := range parts {
		if slices.ContainsFunc(part.addresses, func(s span) bool { return slices.ContainsFunc(p.fixed, s.contains) }) {
			return part
		}
	}
	for _, part := range parts {
		if len(p.fixed) == 0 || len(mergeSpans(part.with(p.fixed), true)) <= maxAddresses {
			return part
		}
	}
	return nil
}

// with is the gateway's addresses and more.
func (g *gateway) with(more []netip.Addr) []span {
	all := slices.Clone(g.addresses)
	for _, a := range more {
		all = append(all, span{a, a})
	}
	return all
}
