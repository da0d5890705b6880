package topo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// AddRoute sends what is for a network through an interface to a gateway, or
// straight to the destination when via is not valid.
func (h *Host) AddRoute(name string, to netip.Prefix, via netip.Addr) error {
	return h.change("add route to "+to.String()+" by", name, func(dev netlink.Link) error {
		route := &netlink.Route{LinkIndex: dev.Attrs().Index, Dst: ipNet(to), Scope: netlink.SCOPE_LINK}
		if via.IsValid() {
			route.Gw, route.Scope = via.AsSlice(), netlink.SCOPE_UNIVERSE
		}
		return h.nl.RouteAdd(route)
	})
}

// NextHop is where a route leads: an address by an interface.
type NextHop struct {
	Name string // interface
	Addr netip.Addr
}

// AddRoutes sends networks to next hops that share their flows.
func (h *Host) AddRoutes(networks []netip.Prefix, hops []NextHop) error {
	paths := make([]*netlink.NexthopInfo, len(hops))
	for i, k := range hops {
		index, err := h.Index(k.Name)
		if err != nil {
			return err
		}
		paths[i] = &netlink.NexthopInfo{LinkIndex: index, Gw: k.Addr.AsSlice()}
	}
	for _, network := range networks {
		route := &netlink.Route{Dst: ipNet(network), MultiPath: paths}
		if len(paths) == 1 {
			route = &netlink.Route{Dst: ipNet(network), LinkIndex: paths[0].LinkIndex, Gw: paths[0].Gw}
		}
		if err := h.nl.RouteAdd(route); err != nil {
			return fmt.Errorf("add route to %s to %s: %w", network, h.Name, err)
		}
	}
	return nil
}

// DelRoute takes the route to a network, if there is one.
func (h *Host) DelRoute(to netip.Prefix) error {
	if err := h.nl.RouteDel(&netlink.Route{Dst: ipNet(to)}); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("delete route to %s of %s: %w", to, h.Name, err)
	}
	return nil
}

// defaultRoute is the network of all addresses of a's family.
func defaultRoute(a netip.Addr) netip.Prefix {
	if a.Is4() {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
}

// Forward makes the host a router of both families, until stop.
func (h *Host) Forward() (stop func(context.Context) error, err error) {
	keys := []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"}
	set := func(value string) error {
		return errors.Join(h.SysctlSet(keys[0], value), h.SysctlSet(keys[1], value))
	}
	return func(context.Context) error { return set("0") }, set("1")
}

// AddAddrs gives an interface addresses of both families, IPv6 being off where
// links and bridges are made.
func (h *Host) AddAddrs(name string, addrs ...netip.Prefix) error {
	errs := []error{h.SysctlSet("net/ipv6/conf/"+name+"/disable_ipv6", "0")}
	for _, addr := range addrs {
		errs = append(errs, h.AddAddr(name, addr))
	}
	return errors.Join(errs...)
}

// AddNeighbour makes an address of an interface known for ever.
func (h *Host) AddNeighbour(name string, addr netip.Addr, mac net.HardwareAddr) error {
	return h.change("add neighbour "+addr.String()+" to", name, func(dev netlink.Link) error {
		return h.nl.NeighSet(&netlink.Neigh{LinkIndex: dev.Attrs().Index, State: netlink.NUD_PERMANENT, IP: addr.AsSlice(), HardwareAddr: mac})
	})
}

// DelNeighbour removes a neighbour of an interface, if it is known.
func (h *Host) DelNeighbour(name string, addr netip.Addr) error {
	return h.change("delete neighbour "+addr.String()+" of", name, func(dev netlink.Link) error {
		err := h.nl.NeighDel(&netlink.Neigh{LinkIndex: dev.Attrs().Index, IP: addr.AsSlice()})
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return err
	})
}
