package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/overlay"
)

// connected is a network of a router: the prefix of a gateway or an uplink.
type connected struct {
	netip.Prefix        // with the router's own address
	owner        string // path of the segment or uplink
	path         string // of the prefix
}

func (c checker) routers() {
	names, complete := c.routerNames()
	gateways, all := c.gateways()
	for i, r := range c.doc.Spec.Routers {
		path := fmt.Sprintf("spec.routers[%d]", i)
		networks, known := c.uplinks(path, r)
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

// gateways lists the networks of gateways by router, and says whether they are
// all that the file has.
func (c checker) gateways() (byRouter map[objectName][]connected, complete bool) {
	byRouter, complete = map[objectName][]connected{}, !c.file.failed["spec.segments"]
	for i, s := range c.doc.Spec.Segments {
		path := fmt.Sprintf("spec.segments[%d]", i)
		complete = complete && !c.file.failed[path] && !c.file.failed[path+".gateway"]
		if s.Gateway == nil {
			continue
		}
		list, good := networks(path+".gateway", s.Gateway.Addresses)
		if complete = complete && good && s.Gateway.Router != ""; s.Gateway.Router != "" {
			byRouter[s.Gateway.Router] = append(byRouter[s.Gateway.Router], list...)
		}
	}
	return byRouter, complete
}

// uplinks lists the networks of the uplinks of r likewise.
func (c checker) uplinks(path string, r router) (list []connected, complete bool) {
	complete = !c.file.failed[path+".uplinks"]
	for j, u := range r.Uplinks {
		more, good := networks(fmt.Sprintf("%s.uplinks[%d]", path, j), u.Addresses)
		list, complete = append(list, more...), complete && good
	}
	return list, complete
}

func networks(owner string, addresses []interfacePrefix) (list []connected, complete bool) {
	complete = len(addresses) > 0
	for j, a := range addresses {
		if complete = complete && a.IsValid(); a.IsValid() {
			list = append(list, connected{a.Prefix, owner, fmt.Sprintf("%s.addresses[%d]", owner, j)})
		}
	}
	return list, complete
}

// disjoint checks that an address leads to one segment, and is on one only.
// In other routers the same addresses are others.
func (c checker) disjoint(networks []connected) {
	own := unique[netip.Addr]{}
	for i, n := range networks {
		own.add(c.file, n.Addr(), netip.Addr{}, n.path, fmt.Sprintf("%s is already an address of the router", n.Addr()), "keep one")
		for _, other := range networks[:i] {
			if other.owner == n.owner || !other.Overlaps(n.Prefix) || other.Addr() == n.Addr() {
				continue
			}
			c.file.problem(n.path, fmt.Sprintf("%s overlaps %s of the same router (%s, line %d)", n.Masked(), other.Masked(), other.path, c.file.at(other.path).Line),
				"use another network, or another router: addresses of different routers may overlap")
			break
		}
	}
}

func (c checker) routes(path string, r router, networks []connected, known bool) {
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

func (c checker) nextHops(path string, r router, route route, networks []connected, known bool) {
	listed := unique[nextHop]{}
	for j, h := range route.Via {
		at := fmt.Sprintf("%s.via[%d]", path, j)
		listed.add(c.file, nextHop{Address: h.Address, Remote: remoteRef{Addr: h.Remote.Addr}}, nextHop{}, at, "the next hop is already listed", "keep one")
		_, address := c.file.seen[at+".address"]
		_, remote := c.file.seen[at+".remote"]
		_, mac := c.file.seen[at+".mac"]
		switch {
		case c.file.failed[at]: // not to be read
		case address && (remote || mac):
			c.file.problem(at, "both address and remote or mac are given", "keep address for a router in a connected network, remote and mac for one behind l3")
		case address && h.Address.IsValid():
			c.nextAddress(at+".address", r, route, h.Address.Addr, networks, known)
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

func (c checker) nextAddress(path string, r router, route route, addr netip.Addr, networks []connected, known bool) {
	if route.Prefix.IsValid() && route.Prefix.Addr().Is4() != addr.Is4() {
		c.file.problem(path, fmt.Sprintf("%s is %s but the prefix %s is %s", addr, family(addr), route.Prefix, family(route.Prefix.Addr())),
			"use a next hop of the same family")
		return
	}
	connects := slices.ContainsFunc(networks, func(n connected) bool { return n.Contains(addr) })
	own := slices.ContainsFunc(networks, func(n connected) bool { return n.Addr() == addr })
	switch {
	case own:
		c.file.problem(path, fmt.Sprintf("%s is the router's own address", addr), "give the address of the next router")
	case !connects && known:
		c.file.problem(path, fmt.Sprintf("%s is in no network of router %q", addr, r.Name),
			"a next hop is in the network of one of the router's gateways or uplinks: "+networkList(networks))
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

func (c checker) nextRemote(path string, r router, ref remoteRef) {
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

func (c checker) leaks(path string, r router, names []string, complete bool) {
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
