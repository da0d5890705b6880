package evpn

import (
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// neighbour is one that told routes.
type neighbour struct {
	addr     netip.Addr
	external bool // of another AS
	up       bool
	paths    map[Key]*path
	stale    int   // so many of them are
	expires  int64 // when the first of those goes, ns
	prefixes
}

// path is a route of a neighbour, and whom it concerns here.
type path struct {
	Route
	from  *neighbour
	at    int64 // received, ns
	stale int64 // since when, ns; 0: it is not
	ends  int64 // when a stale one goes, ns
	// remote is the next hop's edge.
	remote netip.Addr
	// segment and router are those whose targets it has, nil without.
	segment             *segment
	router              *router
	inSegment, inRouter verdict
	// implausible is why it concerns nobody, whatever it says.
	implausible verdict
	// excess: the neighbour says more than is used of it, and this is kept only.
	excess bool
}

// verdict is whether an instance can use a path at all, whatever others there are.
type verdict uint8

const (
	fits verdict = iota
	noTarget
	otherEncapsulation
	otherVNI
	ownNextHop
	otherFamily
	mixedFamilies
	noNextHop
	groupMAC
	ownGateway
	otherGateway
	noRouterMAC
	noGateway
	noUplink
	unreachable
	connectedElsewhere
	looped
	badNextHop
	badPrefix
	badRouterMAC
	ownAddress
	endOfNetwork
	ownRouterMAC
)

// differing is another edge's gateway.
type differing struct {
	remote, addr netip.Addr
	mac          overlay.MAC
}

// classify finds whom p concerns.
func (in *instances) classify(p *path) {
	p.remote = in.remote(p.NextHop)
	p.segment, p.inSegment, p.router, p.inRouter = nil, noTarget, nil, noTarget
	if p.implausible = implausible(p); p.excess || p.implausible != fits {
		return
	}
	if p.Type == Unicast {
		p.router = in.uplinks[p.Uplink]
		p.inRouter = in.checkUnicast(p)
		return
	}
	for _, target := range p.Targets {
		in.classifyFor(p, in.targets[targetKey{target: target}])
		if key, ok := wild(target); ok {
			in.classifyFor(p, in.targets[key])
		}
	}
	if p.router != nil && p.inRouter == fits {
		p.inRouter = p.checkPlace()
	}
}

// classifyFor tries the instances of a target. The best verdict stays, and of equal ones that
// of the instance that is configured first, so that the order of targets does not matter.
func (in *instances) classifyFor(p *path, by *importers) {
	if by == nil {
		return
	}
	if p.Type != Prefix {
		for _, s := range by.segments {
			v := in.checkSegment(p, s)
			if p.segment == nil || better(v, s.order, p.inSegment, p.segment.order) {
				p.segment, p.inSegment = s, v
			}
		}
	}
	if p.Type == Prefix || p.hasHostRoute() {
		for _, r := range by.routers {
			v := in.checkRouter(p, r)
			if p.router == nil || better(v, r.order, p.inRouter, p.router.order) {
				p.router, p.inRouter = r, v
			}
		}
	}
}

func better(v verdict, order int, than verdict, thanOrder int) bool {
	if (v == fits) != (than == fits) {
		return v == fits
	}
	return order < thanOrder
}

// hasHostRoute reports whether p may be a route of a router (RFC 9135 section 5.2).
func (p *path) hasHostRoute() bool {
	return p.Type == MACIP && p.Addr.IsValid() && p.L3VNI != 0 && !p.Addr.IsLinkLocalUnicast()
}

// prefix is what p says in a router.
func (p *path) prefix() netip.Prefix {
	if p.Type == MACIP {
		return netip.PrefixFrom(p.Addr, p.Addr.BitLen())
	}
	return p.Prefix.Masked()
}

func (in *instances) checkTunnel(p *path, i *instance, vni overlay.VNI) verdict {
	switch {
	case !p.NextHop.IsValid() || p.NextHop.IsUnspecified():
		return noNextHop
	case slices.Contains(in.teps, p.NextHop) || p.Type == Multicast && slices.Contains(in.teps, p.Addr):
		return ownNextHop
	case !slices.ContainsFunc(in.teps, func(a netip.Addr) bool { return a.Is4() == p.NextHop.Is4() }):
		return otherFamily
	case p.encapsulation() != i.encapsulation:
		return otherEncapsulation
	case vni != i.vni:
		return otherVNI
	}
	return fits
}

func (in *instances) checkSegment(p *path, s *segment) verdict {
	if v := in.checkTunnel(p, &s.instance, p.VNI); v != fits || p.Type != MACIP {
		return v
	}
	if p.MAC.Multicast() || p.MAC == (overlay.MAC{}) {
		return groupMAC
	}
	if s.gateway == nil {
		return fits
	}
	switch {
	case p.MAC == s.gateway.MAC:
		return ownGateway
	case p.DefaultGateway || slices.ContainsFunc(s.gateway.Addresses, hasAddr(p.Addr)):
		return otherGateway
	}
	return fits
}

func hasAddr(a netip.Addr) func(netip.Prefix) bool {
	return func(p netip.Prefix) bool { return p.Addr() == a }
}

// checkRouter takes a prefix without a VNI for one with r's: RFC 9136 has 0 where the next hop is yet to be resolved, and
// FRR before 10 advertises 0 for a default route that is older than the VNI of its VRF.
func (in *instances) checkRouter(p *path, r *router) verdict {
	vni := p.VNI
	switch {
	case p.Type == MACIP:
		vni = p.L3VNI
	case vni == 0:
		vni = r.vni
	}
	if v := in.checkTunnel(p, &r.instance, vni); v != fits {
		return v
	}
	switch {
	case p.overlayIndex():
		if !r.connected(p.Gateway) || p.Gateway.Is4() != p.Prefix.Addr().Is4() {
			return noGateway
		}
	case p.RouterMAC == (overlay.MAC{}):
		return noRouterMAC
	}
	return r.checkOwn(p)
}

// overlayIndex reports whether p leads to a host of a segment (RFC 9136 section 4.1).
func (p *path) overlayIndex() bool {
	return p.Type == Prefix && p.Gateway.IsValid() && !p.Gateway.IsUnspecified()
}

func (in *instances) checkUnicast(p *path) verdict {
	switch {
	case p.router == nil:
		return noUplink
	case !p.NextHop.IsValid() || p.NextHop.IsUnspecified():
		return noNextHop
	case p.NextHop.Is4() != p.Prefix.Addr().Is4():
		return mixedFamilies // RFC 8950
	case p.router.owns(p.NextHop):
		return ownNextHop
	case !p.router.connected(p.NextHop):
		return unreachable
	}
	return p.router.checkOwn(p)
}

// connected reports whether a is on a network of r.
func (r *router) connected(a netip.Addr) bool {
	return slices.ContainsFunc(r.networks, func(n netip.Prefix) bool { return n.Contains(a) })
}

func (r *router) owns(a netip.Addr) bool {
	return slices.ContainsFunc(r.uplinks, func(u uplink) bool { return slices.Contains(u.own[:], a) })
}

// hop is where p leads to in its router.
func (p *path) hop() overlay.NextHop {
	switch {
	case p.Type == Unicast:
		return overlay.NextHop{Addr: p.NextHop}
	case p.overlayIndex():
		return overlay.NextHop{Addr: p.Gateway}
	}
	return overlay.NextHop{Remote: p.remote, MAC: p.RouterMAC}
}

// tunnelled reports whether p's router needs the remote in its L3 segment.
func (p *path) tunnelled() bool { return p.Type != Unicast && !p.overlayIndex() }

// enter appends p to the list, n = 1, or takes it out.
func enter(list []*path, p *path, n int) []*path {
	if n > 0 {
		return append(list, p)
	}
	i, last := slices.Index(list, p), len(list)-1
	list[i], list[last] = list[last], nil
	return list[:last]
}
