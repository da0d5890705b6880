package host

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/overlay"
)

// routes looks up the routes of pairs.
func (h *Host) routes(pairs []overlay.Pair, present map[netip.Addr]bool, links map[int]Link) (
	routes map[overlay.Pair]Path, vias map[overlay.Pair][]overlay.Via, err error,
) {
	routes, vias = make(map[overlay.Pair]Path, len(pairs)), make(map[overlay.Pair][]overlay.Via)
	for _, pair := range pairs {
		src := pair.Local
		if !present[src] { // the kernel refuses a source that it does not have
			src = netip.Addr{}
		}
		paths, err := h.route(pair.Remote, src, links)
		if err != nil {
			return nil, nil, err
		}
		if len(paths) == 1 {
			routes[pair] = paths[0]
			continue
		}
		for _, path := range paths {
			one := overlay.Pair{Local: pair.Local, Remote: pair.Remote, Via: overlay.Via{Addr: path.Addr, Interface: path.Interface}}
			routes[one] = path
			vias[pair] = append(vias[pair], one.Via)
		}
		slices.SortFunc(vias[pair], overlay.Via.Compare)
	}
	return routes, vias, nil
}

// route asks the kernel which ways packets from src to remote go: several by a multipath route.
// An unset src leaves the choice to the kernel.
func (h *Host) route(remote, src netip.Addr, links map[int]Link) ([]Path, error) {
	r, ok, err := h.lookUp(remote, netlink.RouteGetOptions{SrcAddr: src.AsSlice()})
	if err != nil || !ok || (r.Type != unix.RTN_UNICAST && r.Type != unix.RTN_LOCAL) {
		return nil, err
	}
	if r.Type == unix.RTN_UNICAST {
		// The answer above names the one next hop of this host's own packets. This one is the route as
		// it is in the table that the rules lead to.
		entry, ok, err := h.lookUp(remote, netlink.RouteGetOptions{SrcAddr: src.AsSlice(), FIBMatch: true})
		if err != nil {
			return nil, err
		}
		if ok && len(entry.MultiPath) > 1 {
			return multipath(remote, entry, links), nil
		}
	}
	link, ok := links[r.LinkIndex]
	if !ok {
		return nil, nil
	}
	return []Path{pathOf(remote, link, r.Gw, r.Via, r)}, nil
}

// lookUp asks for one route.
func (h *Host) lookUp(remote netip.Addr, opts netlink.RouteGetOptions) (netlink.Route, bool, error) {
	routes, err := h.handle.RouteGetWithOptions(remote.AsSlice(), &opts)
	switch {
	case noRoute(err) || err == nil && len(routes) == 0:
		return netlink.Route{}, false, nil
	case err != nil:
		return netlink.Route{}, false, fmt.Errorf("look up the route to %s: %w", remote, err)
	}
	return routes[0], true, nil
}

// multipath are the paths of a route with several next hops, each once. Those of a link without
// a carrier are among them: who uses them sees that it is down.
func multipath(remote netip.Addr, r netlink.Route, links map[int]Link) (paths []Path) {
	for _, hop := range r.MultiPath {
		link, ok := links[hop.LinkIndex]
		if !ok {
			continue
		}
		p := pathOf(remote, link, hop.Gw, hop.Via, r)
		p.Weight = hop.Hops + 1 // rtnh_hops of rtnetlink(7)
		if i := slices.IndexFunc(paths, func(o Path) bool { return o.NextHop == p.NextHop }); i >= 0 {
			paths[i].Weight += p.Weight
			continue
		}
		paths = append(paths, p)
	}
	if len(paths) == 1 {
		paths[0].Weight = 0
	}
	return paths
}

func pathOf(remote netip.Addr, link Link, gw []byte, via netlink.Destination, r netlink.Route) Path {
	p := Path{
		NextHop:   NextHop{Ifindex: link.Index, Addr: remote},
		Interface: link.Name,
		Local:     r.Type == unix.RTN_LOCAL,
		MTU:       link.MTU,
		SrcMAC:    link.MAC,
	}
	if addr, ok := gateway(gw, via); ok {
		p.Addr = addr
	}
	if r.MTU > 0 {
		p.MTU = min(p.MTU, r.MTU)
	}
	return p
}

// gateway is the address of a next hop, which may be of the other family (RFC 5549).
func gateway(gw []byte, via netlink.Destination) (netip.Addr, bool) {
	if gw, ok := netip.AddrFromSlice(gw); ok && !gw.IsUnspecified() {
		return gw.Unmap(), true
	}
	if via, ok := via.(*netlink.Via); ok {
		gw, ok := netip.AddrFromSlice(via.Addr)
		return gw, ok
	}
	return netip.Addr{}, false
}

// noRoute reports whether err is the kernel's answer for an address without a
// route: none at all, unreachable, prohibited or blackholed.
func noRoute(err error) bool {
	for _, e := range []error{unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EACCES, unix.EINVAL, unix.ENETDOWN} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
