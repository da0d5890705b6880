package controller

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/plan"
)

// VNIs of policies: none that a CNI plugin in wide use has, and the one before is every node's own.
const (
	firstVNI = 6160384
	vnis     = 1 << 16
)

// addressesMost bounds how many addresses of a gateway are looked at.
const addressesMost = 1 << 16

// allocate gives policies their addresses and VNIs. What a policy has it keeps while its gateway has that and it wants as many; where
// two have the same the older one keeps it.
func (a *assessment) allocate() {
	taken, usedVNI := map[netip.Addr]*policy{}, map[int32]bool{}
	a.findUsable()
	old := slices.Clone(a.policies)
	slices.SortFunc(old, func(x, y *policy) int {
		if !x.CreationTimestamp.Equal(&y.CreationTimestamp) {
			return x.CreationTimestamp.Compare(y.CreationTimestamp.Time)
		}
		return strings.Compare(x.key, y.key)
	})
	for _, p := range old {
		keepVNI(p, usedVNI)
		a.keep(p, taken)
	}
	for _, p := range old {
		a.fill(p, taken)
		if p.status.VNI == 0 {
			p.status.VNI = newVNI(usedVNI)
		}
	}
	for i := range a.Gateways {
		a.use(&a.Gateways[i], taken)
	}
}

func keepVNI(p *policy, used map[int32]bool) {
	if v := p.status.VNI; v < firstVNI || v >= firstVNI+vnis || used[v] {
		p.status.VNI = 0
		return
	}
	used[p.status.VNI] = true
}

// newVNI is the one after the highest that is used, so that one that has just become free is not used again soon.
func newVNI(used map[int32]bool) int32 {
	highest := int32(firstVNI - 1)
	for v := range used {
		highest = max(highest, v)
	}
	for i := range int32(vnis) {
		v := firstVNI + (highest+1-firstVNI+i)%vnis
		if !used[v] {
			used[v] = true
			return v
		}
	}
	return 0
}

// keep takes what a policy has and may keep, or all that it names.
func (a *assessment) keep(p *policy, taken map[netip.Addr]*policy) {
	g := a.gateways[p.spec.Gateway]
	had := p.status.Addresses
	p.status.Addresses = nil
	if g == nil {
		p.refuse = refusal{"NoGateway", fmt.Sprintf("there is no EgressGateway %s", p.spec.Gateway)}
		return
	}
	list := a.usable[g.Name]
	switch {
	case p.takesNone():
		return
	case len(g.Spec.Addresses) == 0:
		p.refuse = refusal{"NoAddresses", fmt.Sprintf("EgressGateway %s has no addresses: add spec.addresses to it, or have the policy's spec.address be of type Node", g.Name)}
		return
	case p.spec.Address.Type == v1alpha1.AddressFixed:
		a.fix(p, g, taken)
		return
	}
	var count [2]int32
	for _, text := range had {
		addr, err := netip.ParseAddr(text)
		if err != nil || taken[addr] != nil || !within(list, addr) || count[plan.Family(addr)] >= wants(p) {
			continue
		}
		count[plan.Family(addr)]++
		taken[addr] = p
		p.status.Addresses = append(p.status.Addresses, addr.String())
	}
}

func (a *assessment) fix(p *policy, g *v1alpha1.EgressGateway, taken map[netip.Addr]*policy) {
	for _, text := range p.spec.Address.Fixed {
		addr, err := netip.ParseAddr(text)
		switch {
		case err == nil && taken[addr] == p: // named before, in another spelling
			continue
		case err != nil || !within(rangesOf(g), addr):
			p.refuse = refusal{"AddressUnknown", fmt.Sprintf("%s is no address of EgressGateway %s", text, p.spec.Gateway)}
		case !within(a.usable[g.Name], addr):
			p.refuse = refusal{"AddressInvalid", fmt.Sprintf("%s is %s", text, a.uses.Of(g).Why(addr))}
		case taken[addr] != nil:
			p.refuse = refusal{"AddressTaken", fmt.Sprintf("policy %s has %s", taken[addr].key, text)}
		default:
			taken[addr] = p
			p.status.Addresses = append(p.status.Addresses, addr.String())
			continue
		}
		for _, has := range p.status.Addresses {
			delete(taken, netip.MustParseAddr(has))
		}
		p.status.Addresses = nil
		return
	}
}

func wants(p *policy) int32 { return max(1, p.spec.Address.Count) }

// takesAny reports whether the policy takes whatever addresses are free.
func (p *policy) takesAny() bool {
	return p.spec.Address.Type != v1alpha1.AddressFixed && !p.takesNone()
}

// takesNone reports whether pods of the policy get addresses of nodes.
func (p *policy) takesNone() bool { return p.spec.Address.Type == v1alpha1.AddressNode }

// fill takes from the pool what a policy lacks.
func (a *assessment) fill(p *policy, taken map[netip.Addr]*policy) {
	g := a.gateways[p.spec.Gateway]
	if g == nil || !p.takesAny() {
		return
	}
	var count [2]int32
	for _, text := range p.status.Addresses {
		count[plan.Family(netip.MustParseAddr(text))]++
	}
	for _, r := range a.usable[g.Name] {
		of := plan.Family(r.From())
		for addr, n := r.From(), 0; count[of] < wants(p) && n < addressesMost && addr.IsValid() && addr.Compare(r.To()) <= 0; addr, n = addr.Next(), n+1 {
			if taken[addr] == nil {
				taken[addr] = p
				count[of]++
				p.status.Addresses = append(p.status.Addresses, addr.String())
			}
		}
	}
	for of, name := range []string{"IPv4", "IPv6"} {
		has := slices.ContainsFunc(rangesOf(g), func(r netipx.IPRange) bool { return plan.Family(r.From()) == of })
		if has && count[of] < wants(p) {
			p.refuse = refusal{"AddressesExhausted", fmt.Sprintf("EgressGateway %s has no free %s address: %d of %d", g.Name, name, count[of], wants(p))}
		}
	}
	if p.refuse.reason != "" { // all or nothing, so that no other goes without for what is of no use
		for _, text := range p.status.Addresses {
			delete(taken, netip.MustParseAddr(text))
		}
		p.status.Addresses = nil
	}
}

// use counts the addresses of a gateway.
func (a *assessment) use(g *v1alpha1.EgressGateway, taken map[netip.Addr]*policy) {
	g.Status.Addresses = v1alpha1.AddressUse{}
	list := a.usable[g.Name]
	for _, r := range list {
		g.Status.Addresses.Total += size(r)
	}
	for addr := range taken {
		if within(list, addr) {
			g.Status.Addresses.Used++
		}
	}
}

// Totals are how many addresses of each family gateways can give out.
func Totals(o *Objects) map[string][2]int64 {
	a, totals := assessment{Objects: o}, map[string][2]int64{}
	for i := range o.Nodes {
		a.nodes = append(a.nodes, plan.NodeOf(&o.Nodes[i]))
	}
	a.findUsable()
	for name, list := range a.usable {
		var of [2]int64
		for _, r := range list {
			of[plan.Family(r.From())] += size(r)
		}
		totals[name] = of
	}
	return totals
}

// size is how many addresses a range has, at most addressesMost.
func size(r netipx.IPRange) int64 {
	a, b := r.From().As16(), r.To().As16()
	n := int64(0)
	for i := range a {
		n = min(n<<8+int64(b[i])-int64(a[i]), addressesMost)
	}
	return min(n+1, addressesMost)
}

func within(list []netipx.IPRange, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(r netipx.IPRange) bool { return r.Contains(a) })
}

// findUsable finds what of each gateway's addresses may be given out.
func (a *assessment) findUsable() {
	var cluster []netip.Prefix
	for i := range a.Nodes {
		for _, text := range a.Nodes[i].Spec.PodCIDRs {
			if p, err := netip.ParsePrefix(text); err == nil {
				cluster = append(cluster, p)
			}
		}
	}
	uplinks := map[netip.Prefix]string{}
	for i := range a.EgressNodes {
		for _, text := range a.EgressNodes[i].Status.UplinkAddresses {
			if p, err := netip.ParsePrefix(text); err == nil && (uplinks[p] == "" || a.EgressNodes[i].Name < uplinks[p]) {
				uplinks[p] = a.EgressNodes[i].Name
			}
		}
	}
	a.uses, a.usable = plan.NewUses(a.Gateways, a.nodes, cluster, plan.DefaultLinkPair, uplinks), map[string][]netipx.IPRange{}
	for i := range a.Gateways {
		a.usable[a.Gateways[i].Name] = usableOf(&a.Gateways[i], a.uses)
	}
}

// usableOf are the addresses of a gateway that are nobody else's, each once, in the order of the spec.
func usableOf(g *v1alpha1.EgressGateway, all plan.Uses) (list []netipx.IPRange) {
	uses := all.Of(g)
	for _, r := range rangesOf(g) {
		list = append(list, usable(r, uses, list...)...)
	}
	return list
}

// usable is what of a range is nobody else's, and not given already.
func usable(r netipx.IPRange, uses plan.Uses, given ...netipx.IPRange) []netipx.IPRange {
	var b netipx.IPSetBuilder
	b.AddRange(r)
	for _, p := range uses.Within(r.From(), r.To()) {
		b.RemovePrefix(p)
	}
	for _, g := range given {
		b.RemoveRange(g)
	}
	set, err := b.IPSet()
	if err != nil { // of a prefix that is none, and there is none
		return nil
	}
	return set.Ranges()
}

// rangesOf are the good ones of a gateway.
func rangesOf(g *v1alpha1.EgressGateway) (list []netipx.IPRange) {
	for _, text := range g.Spec.Addresses {
		if r, ok := parseRange(string(text)); ok {
			list = append(list, r)
		}
	}
	return list
}

// badRange says what is wrong with the addresses of a gateway, "" when nothing is. What of a range or network can be given out is.
func (a *assessment) badRange(g *v1alpha1.EgressGateway) string {
	uses := a.uses.Of(g)
	for _, text := range g.Spec.Addresses {
		r, ok := parseRange(string(text))
		if !ok {
			return fmt.Sprintf("spec.addresses: %s does not go from an address to a later one of its family", text)
		}
		if len(usable(r, uses)) == 0 {
			return fmt.Sprintf("spec.addresses: no address of %s can be given out: %s is %s", text, r.From(), uses.Why(r.From()))
		}
	}
	return ""
}

// parseRange reads an address, a range FIRST-LAST, or a network.
func parseRange(text string) (r netipx.IPRange, ok bool) {
	if strings.Contains(text, "-") {
		r, err := netipx.ParseIPRange(text)
		return r, err == nil
	}
	if p, err := netip.ParsePrefix(text); err == nil {
		return netipx.RangeOfPrefix(p), true
	}
	a, err := netip.ParseAddr(text)
	return netipx.IPRangeFrom(a, a), err == nil
}
