package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/overlay"
)

// routerChecker checks the networks and routes of routers.
type routerChecker struct {
	file     *fileErrors
	doc      *document
	declared declared
}

func (c routerChecker) check() {
	names, complete := c.declared.routerNames()
	gateways, all := c.declared.gateways()
	for i, r := range c.doc.Spec.Routers {
		path := fmt.Sprintf("spec.routers[%d]", i)
		networks, known := c.declared.uplinks(path, r)
		networks, known = append(slices.Clip(gateways[r.Name]), networks...), known && all && r.Name != ""
		c.disjoint(networks)
		c.loopbacks(path, r, networks)
		c.routes(path, r, networks, known)
		c.leaks(path, r, names, complete)
		if r.L3 != nil && r.L3.MAC.MAC == overlay.AnycastMAC {
			c.file.problem(path+".l3.mac", fmt.Sprintf("%s is the gateways' address, the same on every edge", r.L3.MAC),
				"give each edge's router one of its own")
		}
	}
}

// disjoint checks that an address leads to one segment, and is on one only.
// In other routers the same addresses are others.
func (c routerChecker) disjoint(networks []connected) {
	own := unique[netip.Addr]{}
	for i, n := range networks {
		own.add(c.file, n.Addr(), netip.Addr{}, n.path, fmt.Sprintf("%s is already an address of the router", n.Addr()), "keep one")
		for _, other := range networks[:i] {
			if other.owner == n.owner || !other.Overlaps(n.Prefix) || other.Addr() == n.Addr() {
				continue
			}
			c.file.problem(n.path, fmt.Sprintf("%s overlaps %s of the same router (%s)", n.Masked(), other.Masked(), c.file.place(n.path, other.path)),
				"use another network, or another router: addresses of different routers may overlap")
			break
		}
	}
}

func (c routerChecker) routes(path string, r router, networks []connected, known bool) {
	prefixes := unique[netip.Prefix]{}
	for _, n := range networks {
		if prefixes[n.Masked()] == "" {
			prefixes[n.Masked()] = n.path
		}
	}
	for j, a := range r.Loopbacks {
		if a.IsValid() {
			prefixes[netip.PrefixFrom(a.Addr, a.BitLen())] = fmt.Sprintf("%s.loopbacks[%d]", path, j)
		}
	}
	for j, route := range r.Routes {
		at := fmt.Sprintf("%s.routes[%d]", path, j)
		prefixes.add(c.file, route.Prefix.Prefix, netip.Prefix{}, at+".prefix",
			fmt.Sprintf("%s already has a route", route.Prefix), "keep one; several next hops go into one via")
		_, via := c.file.seen[at+".via"]
		switch {
		case route.Type == "" || c.file.failed[at] || c.file.failed[at+".via"]: // not to be read
		case route.Type != string(overlay.Unicast) && via:
			c.file.problem(at+".via", fmt.Sprintf("a route of type %s goes nowhere", route.Type), "remove via, or the type")
		case route.Type == string(overlay.Unicast) && len(route.Via) == 0:
			c.file.problem(at+".via", "is missing", "add next hops, as in [{address: 198.51.100.1}], or a type like blackhole")
		case len(route.Via) > maxPaths:
			c.file.problem(at+".via", fmt.Sprintf("%d next hops of one route, at most %d", len(route.Via), maxPaths), "keep fewer")
		default:
			c.nextHops(at, r, route, networks, known)
		}
	}
}

func (c routerChecker) nextHops(path string, r router, route route, networks []connected, known bool) {
	listed := unique[nextHop]{}
	for j, h := range route.Via {
		at := fmt.Sprintf("%s.via[%d]", path, j)
		listed.add(c.file, nextHop{Address: h.Address, Uplink: h.Uplink, Remote: remoteRef{Addr: h.Remote.Addr}}, nextHop{}, at, "the next hop is already listed", "keep one")
		_, address := c.file.seen[at+".address"]
		_, remote := c.file.seen[at+".remote"]
		_, mac := c.file.seen[at+".mac"]
		conflict, hint := c.bothForms(at)
		switch {
		case c.file.failed[at]: // not to be read
		case conflict != "":
			c.file.problem(at, conflict, hint)
		case address && h.Address.IsValid():
			c.nextAddress(at, r, route, h, networks, known)
		case address:
		case !remote && !mac:
			c.file.problem(at, "neither address nor remote is given", "add address for a router in a connected network, remote and mac for one behind l3")
		case !remote:
			c.file.problem(at+".remote", "is missing", "add it: the remote whose router has this mac")
		case !mac:
			c.file.problem(at+".mac", "is missing", "add it: MAC address of the router at remote, l3.mac in its configuration")
		case h.Remote.IsValid():
			c.nextRemote(at+".remote", r, h.Remote)
		}
	}
}

// bothForms is what is wrong with a next hop of two forms, "" of others.
func (c routerChecker) bothForms(at string) (conflict, hint string) {
	_, address := c.file.seen[at+".address"]
	_, uplink := c.file.seen[at+".uplink"]
	_, remote := c.file.seen[at+".remote"]
	_, mac := c.file.seen[at+".mac"]
	switch {
	case !remote && !mac:
		return "", ""
	case address:
		return "both address and remote or mac are given", "keep address for a router in a connected network, remote and mac for one behind l3"
	case uplink:
		return "both uplink and remote or mac are given", "keep address and uplink for a router on the link of an uplink, remote and mac for one behind l3"
	}
	return "", ""
}

// nextAddress checks a next hop with an address.
func (c routerChecker) nextAddress(at string, r router, route route, h nextHop, networks []connected, known bool) {
	path, addr := at+".address", h.Address.Addr
	if route.Prefix.IsValid() && route.Prefix.Addr().Is4() != addr.Is4() {
		c.file.problem(path, fmt.Sprintf("%s is %s but the prefix %s is %s", addr, family(addr), route.Prefix, family(route.Prefix.Addr())),
			"use a next hop of the same family")
		return
	}
	own := slices.ContainsFunc(networks, func(n connected) bool { return n.Addr() == addr })
	connects := slices.ContainsFunc(networks, func(n connected) bool { return n.Contains(addr) })
	_, named := c.file.seen[at+".uplink"]
	switch {
	case own:
		c.file.problem(path, fmt.Sprintf("%s is the router's own address", addr), "give the address of the next router")
	case named:
		c.nextUplink(at, r, h, networks)
	case addr.Is6() && addr.IsLinkLocalUnicast():
		if known && r.uplinkOf(h) == "" {
			c.file.problem(path, fmt.Sprintf("%s is link-local, and router %q has not just one uplink with an IPv6 address", addr, r.Name),
				"add the uplink that it is behind, as in {address: fe80::1, uplink: wan}")
		}
	case !connects && known:
		c.file.problem(path, fmt.Sprintf("%s is in no network of router %q", addr, r.Name),
			"a next hop is in the network of one of the router's gateways or uplinks: "+networkList(networks)+"; for one that is on the link all the same, name its uplink beside it")
	}
}

// nextUplink checks the uplink that is named for a next hop.
func (c routerChecker) nextUplink(at string, r router, h nextHop, networks []connected) {
	i := slices.IndexFunc(r.Uplinks, func(u uplink) bool { return u.Name == h.Uplink })
	if i < 0 {
		names := each(r.Uplinks, func(u uplink) string { return string(u.Name) })
		if h.Uplink != "" && !slices.Contains(names, "") {
			c.file.problem(at+".uplink", fmt.Sprintf("router %q has no uplink %q", r.Name, h.Uplink), suggest(string(h.Uplink), names, "uplinks of the router"))
		}
		return
	}
	addr, addresses := h.Address.Addr, r.Uplinks[i].Addresses
	if len(addresses) > 0 && !slices.ContainsFunc(addresses, func(p interfacePrefix) bool { return !p.IsValid() }) && !r.Uplinks[i].speaks(addr) {
		c.file.problem(at+".uplink", fmt.Sprintf("uplink %q has no %s address to ask %s from", h.Uplink, family(addr), addr), "add one to its addresses")
	}
	for _, n := range networks {
		if n.Contains(addr) && !strings.HasSuffix(n.owner, fmt.Sprintf(".uplinks[%d]", i)) {
			c.file.problem(at+".uplink", fmt.Sprintf("%s is in %s, which is elsewhere (%s)", addr, n.Masked(), c.file.place(at, n.path)), "remove uplink, or correct the address")
			return
		}
	}
}

func networkList(networks []connected) string {
	const most = 8
	if len(networks) == 0 {
		return "there are none"
	}
	list := each(networks[:min(most, len(networks))], func(n connected) string { return n.Masked().String() })
	if len(networks) > most {
		list = append(list, "…")
	}
	return strings.Join(list, ", ")
}

func (c routerChecker) nextRemote(path string, r router, ref remoteRef) {
	at := path[:len(path)-len(".remote")]
	if r.L3 == nil {
		c.file.problem(path, fmt.Sprintf("router %q has no l3 segment to reach %s", r.Name, ref), "add l3 to the router, or use an address")
		return
	}
	for _, remote := range r.L3.Remotes {
		if !remote.IsValid() || remote.Addr == ref.Addr {
			return
		}
	}
	if !c.file.failed[at] {
		c.file.problem(path, fmt.Sprintf("%s is not a remote of the router's l3 segment", ref), "add it to l3.remotes")
	}
}

func (c routerChecker) leaks(path string, r router, names []string, complete bool) {
	from := unique[objectName]{}
	for j, l := range r.Leaks {
		at := fmt.Sprintf("%s.leaks[%d].from", path, j)
		from.add(c.file, l.From, "", at, fmt.Sprintf("router %q is already listed", l.From), "put the prefixes into one list")
		switch {
		case l.From == "":
		case l.From == r.Name:
			c.file.problem(at, "a router already has its own routes", "name another router")
		case complete && !slices.Contains(names, string(l.From)):
			c.file.problem(at, fmt.Sprintf("there is no router %q", l.From), suggest(string(l.From), names, "routers"))
		}
	}
}

// loopbacks checks that those of r are no address of a network or pool that it has.
func (c routerChecker) loopbacks(path string, r router, networks []connected) {
	known := unique[netip.Addr]{}
	for j, a := range r.Loopbacks {
		at := fmt.Sprintf("%s.loopbacks[%d]", path, j)
		known.add(c.file, a.Addr, netip.Addr{}, at, fmt.Sprintf("%s is already listed", a), "keep one")
		if a.IsLinkLocalUnicast() {
			c.file.problem(at, fmt.Sprintf("%s is valid on one link only, and a loopback is on none", a), "use an address that others can reach")
			continue
		}
		for _, n := range networks {
			if a.IsValid() && n.Contains(a.Addr) {
				c.file.problem(at, fmt.Sprintf("%s is in %s, a network of the router (%s)", a, n.Masked(), c.file.place(at, n.path)), "use an address outside those networks")
				break
			}
		}
		if pool := c.doc.Spec.Egress.poolWith(r.Name, a.Addr); pool != "" {
			c.file.problem(at, fmt.Sprintf("%s is in a pool of the router (%s)", a, c.file.place(at, pool)), "use an address outside the pools")
		}
	}
}
