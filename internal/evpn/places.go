package evpn

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// places are what addresses belong to that a router has itself, or reaches without a next hop. A host that says that it has one of
// them is believed only in the segment whose network it is.
type places struct {
	at    map[netip.Prefix]place
	bits  [2][]int // lengths of those by family, the longest first
	pools []pool
	// endpoints are those of tunnels. The networks of a router may have the same addresses: then they are hosts'.
	endpoints map[netip.Addr]bool
}

// place is what an address belongs to.
type place struct {
	segment string // whose hosts may have it, "" where no host may
	vni     overlay.VNI
	gateway bool   // it is that of a segment
	text    string // what it is, in words
}

// pool is a range of external addresses.
type pool struct {
	overlay.AddrRange
	place
}

// newPlaces is what the router c of an edge has; endpoints are those of tunnels.
func newPlaces(e overlay.Edge, c overlay.Router, endpoints map[netip.Addr]bool) places {
	n := places{at: map[netip.Prefix]place{}, endpoints: endpoints}
	interfaces(e, c, n.addInterface)
	for _, a := range c.Loopbacks {
		n.add(netip.PrefixFrom(a, a.BitLen()), place{text: "a loopback of this edge"})
	}
	n.addPools(e, c)
	for _, l := range c.Leaks {
		n.addLeak(e, l)
	}
	return n
}

// interfaces calls do for those of a router, with its addresses, and with what a network of it and an address of it are.
func interfaces(e overlay.Edge, c overlay.Router, do func(addresses []netip.Prefix, network, own place)) {
	for _, s := range e.Segments {
		if s.Gateway != nil && s.Gateway.Router == c.Name {
			do(s.Gateway.Addresses, place{segment: s.Name, vni: s.VNI, text: "segment " + s.Name},
				place{gateway: true, text: "the address of the gateway of segment " + s.Name})
		}
	}
	for _, u := range c.Uplinks {
		do(u.Addresses, place{text: "uplink " + u.Name}, place{text: "the address of uplink " + u.Name})
	}
}

// addLeak adds the networks that are imported of another router, where c has no network of its own.
func (n *places) addLeak(e overlay.Edge, l overlay.Leak) {
	i := slices.IndexFunc(e.Routers, func(r overlay.Router) bool { return r.Name == l.From })
	if i < 0 {
		return
	}
	interfaces(e, e.Routers[i], func(addresses []netip.Prefix, network, _ place) {
		for _, a := range addresses {
			p := a.Masked()
			if slices.ContainsFunc(l.Prefixes, func(of netip.Prefix) bool { return of.Bits() <= p.Bits() && of.Contains(p.Addr()) }) {
				n.add(p, place{text: fmt.Sprintf("in the network %s of %s, imported from router %s", p, network.text, l.From)})
			}
		}
	})
}

// addInterface adds the networks of one, and its own addresses, of which no host has any.
func (n *places) addInterface(addresses []netip.Prefix, network, own place) {
	for _, a := range addresses {
		if a.Addr().IsLinkLocalUnicast() {
			continue // valid on its link alone
		}
		in := network
		in.text = fmt.Sprintf("in the network %s of %s", a.Masked(), network.text)
		n.add(netip.PrefixFrom(a.Addr(), a.Addr().BitLen()), own)
		n.add(a.Masked(), in)
	}
}

func (n *places) addPools(e overlay.Edge, c overlay.Router) {
	if e.Egress == nil {
		return
	}
	for _, p := range e.Egress.Policies {
		for _, r := range p.Pool {
			if p.Router == c.Name {
				n.pools = append(n.pools, pool{r, place{text: "in the pool of egress policy " + p.Name}})
			}
		}
	}
}

// add enters a prefix. Of two owners the first stays.
func (n *places) add(p netip.Prefix, at place) {
	if _, known := n.at[p]; known {
		return
	}
	n.at[p] = at
	bits := &n.bits[family(p.Addr())]
	if !slices.Contains(*bits, p.Bits()) {
		*bits = append(*bits, p.Bits())
		slices.SortFunc(*bits, func(a, b int) int { return b - a })
	}
}

// find says what an address belongs to.
func (n *places) find(a netip.Addr) (at place, known bool) {
	if !a.IsValid() {
		return place{}, false
	}
	for _, bits := range n.bits[family(a)] {
		p := netip.PrefixFrom(a, bits).Masked()
		if at, known := n.at[p]; known {
			if at.segment != "" && isForNoHost(a, p) {
				at = place{text: "the first or last address of " + p.String()}
			}
			return at, true
		}
	}
	for _, r := range n.pools {
		if r.First.Compare(a) <= 0 && a.Compare(r.Last) <= 0 {
			return r.place, true
		}
	}
	if n.endpoints[a] {
		return place{text: "a tunnel endpoint"}, true
	}
	return place{}, false
}

// isForNoHost reports whether an address of a network is no host's: the network's and that for broadcasts (RFC 1122
// section 3.2.1.3, but not RFC 3021), and that of all routers (RFC 4291 section 2.6.1, but not RFC 6164).
func isForNoHost(a netip.Addr, network netip.Prefix) bool {
	if network.Bits() >= a.BitLen()-1 {
		return false
	}
	next := a.Next()
	return a == network.Addr() || a.Is4() && (!next.IsValid() || !network.Contains(next))
}

// isRouted reports whether the segment's router leads others to the address of a host: it is in a network of the gateway.
func (s *segment) isRouted(a netip.Addr) bool {
	if s.router == nil {
		return false
	}
	at, _ := s.router.places.find(a)
	return at.segment == s.name
}

// checkPlace refuses the route to a host whose address is connected here, but not by the host's segment. That is the one with
// its route target or, as that segment may be no instance here, with its VNI.
func (p *path) checkPlace() verdict {
	if p.Type != MACIP {
		return fits
	}
	at, known := p.router.places.find(p.Addr)
	switch {
	case !known || at.segment != "" && (at.vni == p.VNI || p.segment != nil && at.segment == p.segment.name):
		return fits
	case at.gateway && (p.DefaultGateway || p.inSegment == ownGateway):
		return ownGateway
	}
	return connectedElsewhere
}

// Foreign reports whether an address that a host of a segment says it has is in no network of the segment's gateway, so that no
// route leads to it, and what has it here, "" where that is not known. Of a family in which the gateway has no network nothing is known.
func (t *Table) Foreign(segment string, a netip.Addr) (foreign bool, owner string) {
	s := t.in.segments[segment]
	if s == nil || s.gateway == nil || a.IsLinkLocalUnicast() {
		return false, ""
	}
	for _, g := range s.gateway.Addresses {
		if g.Addr().IsLinkLocalUnicast() || g.Addr().Is4() != a.Is4() {
			continue
		}
		if g.Contains(a) {
			return false, ""
		}
		foreign = true
	}
	if s.router != nil {
		if at, known := s.router.places.find(a); known {
			return true, at.text
		}
	}
	return foreign, ""
}
