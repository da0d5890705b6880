package evpn

import (
	"fmt"
	"net/netip"
	"slices"
)

// nowhere are networks without a host or a route: this network, loopback, multicast, reserved and broadcast (RFC 6890), and of IPv6 also
// link-local, which no router forwards, and IPv4-mapped.
var nowhere = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("::/127"), netip.MustParsePrefix("::ffff:0:0/96"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"),
}

// isNowhere reports whether all of a prefix is in such a network. A default route is not.
func isNowhere(p netip.Prefix) bool {
	return slices.ContainsFunc(nowhere, func(n netip.Prefix) bool { return p.Bits() >= n.Bits() && n.Contains(p.Addr()) })
}

// implausible is why a route cannot be meant as it says, whoever would use it; else fits.
func implausible(p *path) verdict {
	tunnel, hop := p.Type != Unicast, p.NextHop
	switch {
	case p.Looped:
		return looped
	case hop.IsValid() && !hop.IsLinkLocalUnicast() && isNowhere(netip.PrefixFrom(hop, hop.BitLen())), tunnel && hop.IsLinkLocalUnicast():
		return badNextHop
	case p.Type == MACIP && p.Addr.IsValid() && !p.Addr.IsLinkLocalUnicast() && isNowhere(p.prefix()):
		return badPrefix
	case (p.Type == Prefix || p.Type == Unicast) && isNowhere(p.prefix()):
		return badPrefix
	case p.RouterMAC.Multicast():
		return badRouterMAC
	}
	return fits
}

// checkOwn refuses what only this edge has: its router's MAC and, for prefixes, its addresses and the ends of its networks. Those of
// hosts are checkPlace's.
func (r *router) checkOwn(p *path) verdict {
	prefix := p.prefix()
	single := prefix.IsSingleIP() && p.Type != MACIP
	switch {
	case single && slices.Contains(r.addresses, prefix.Addr()):
		return ownAddress
	case single && slices.ContainsFunc(r.networks, func(n netip.Prefix) bool { return n.Contains(prefix.Addr()) && isForNoHost(prefix.Addr(), n) }):
		return endOfNetwork
	case r.l3 != nil && p.tunnelled() && p.RouterMAC == r.l3.MAC:
		return ownRouterMAC
	}
	return fits
}

// whyImplausible is in words what implausible and checkOwn found; "" of other verdicts.
func (p *path) whyImplausible(v verdict, in *instances) (why, problem string) {
	switch v {
	case looped:
		return fmt.Sprintf("its AS path has this edge's AS %d: it passed here already (RFC 4271)", in.edge.BGP.AS), ""
	case badNextHop:
		return fmt.Sprintf("its next hop %s cannot be one", p.NextHop), "next hop that cannot be"
	case badPrefix:
		return fmt.Sprintf("%s is no network or host that a router reaches", p.prefix()), "prefix that cannot be"
	case badRouterMAC:
		return fmt.Sprintf("its router MAC address %s is a group's: packets would go to all", p.RouterMAC), "no router MAC"
	case ownAddress:
		return fmt.Sprintf("%s is an address of this edge", p.prefix().Addr()), "address of this edge"
	case endOfNetwork:
		return fmt.Sprintf("%s is the first or last address of a network here", p.prefix().Addr()), "prefix that cannot be"
	case ownRouterMAC:
		return fmt.Sprintf("its router MAC address %s is that of router %s here: give each edge's router one of its own", p.RouterMAC, p.router.name), "router MAC is this edge's"
	}
	return "", ""
}

func addresses(list []netip.Prefix) []netip.Addr {
	out := make([]netip.Addr, 0, len(list))
	for _, p := range list {
		out = append(out, p.Addr())
	}
	return out
}
