package topo

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Addresses of the server in a routed TwoHosts: a subnet of its own.
var (
	RoutedServerV4 = netip.MustParseAddr("10.1.0.2")
	RoutedServerV6 = netip.MustParseAddr("fd01::2")
)

// GatewayMAC is that of both gateways on both hosts (anycast), as with EVPN.
var GatewayMAC = net.HardwareAddr{0x02, 0x00, 0x5e, 0x00, 0x01, 0x01}

// RouterName is the router that joins the subnets, where routers have names.
const RouterName = "tenant"

// Subnet is one side of a routed TwoHosts.
type Subnet struct {
	Name     string         // of its segment too
	Index    uint32         // 0 for the client's, 1 for the server's; its VNI is the first's plus this
	Gateways []netip.Prefix // of both hosts, IPv4 and IPv6
	End      []netip.Addr   // the one end system's
	EndMAC   net.HardwareAddr
}

// Networks are the subnet's prefixes.
func (s Subnet) Networks() []netip.Prefix {
	var networks []netip.Prefix
	for _, gateway := range s.Gateways {
		networks = append(networks, gateway.Masked())
	}
	return networks
}

// subnets are the client's and the server's; none in a bridged topology.
func (n *TwoHosts) subnets() []Subnet {
	if !n.Options.Routed {
		return nil
	}
	return []Subnet{
		{
			Name: "blue", Index: 0, End: []netip.Addr{ClientV4, ClientV6}, EndMAC: clientMAC,
			Gateways: []netip.Prefix{netip.MustParsePrefix("10.0.0.254/24"), netip.MustParsePrefix("fd00::fe/64")},
		},
		{
			Name: "green", Index: 1, End: []netip.Addr{RoutedServerV4, RoutedServerV6}, EndMAC: serverMAC,
			Gateways: []netip.Prefix{netip.MustParsePrefix("10.1.0.254/24"), netip.MustParsePrefix("fd01::fe/64")},
		},
	}
}

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

// defaultRoute is the network of all addresses of a's family.
func defaultRoute(a netip.Addr) netip.Prefix {
	if a.Is4() {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
}

// forward makes the host a router of both families, until stop.
func (h *Host) forward() (stop func(context.Context) error, err error) {
	keys := []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"}
	set := func(value string) error {
		return errors.Join(h.SysctlSet(keys[0], value), h.SysctlSet(keys[1], value))
	}
	return func(context.Context) error { return set("0") }, set("1")
}

// address gives an interface addresses of both families, IPv6 being off where
// links and bridges are made.
func (h *Host) address(name string, addrs ...netip.Prefix) error {
	errs := []error{h.SysctlSet("net/ipv6/conf/"+name+"/disable_ipv6", "0")}
	for _, addr := range addrs {
		errs = append(errs, h.AddAddr(name, addr))
	}
	return errors.Join(errs...)
}

// route has the kernels of both hosts route between the subnets over the
// underlay, which needs both families for that: each packet is routed twice.
func (n *TwoHosts) route(p *Path) error {
	subnets := n.subnets()
	near, far := underlayAddrs()
	for i, h := range []*Host{n.A, n.B} {
		stop, err := h.forward()
		p.onStop(stop)
		if err != nil {
			return err
		}
		mine, theirs := near, far
		if h == n.B {
			mine, theirs = far, near
		}
		for k, addr := range mine { // the TEP's own is there already
			if (addr.Is4()) == (n.Options.UnderlayFamily == 4) {
				continue
			}
			if err := h.address(UnderlayName, prefix(mine[k])); err != nil {
				return err
			}
		}
		if err := h.address(AccessName, subnets[i].Gateways...); err != nil {
			return err
		}
		for k, network := range subnets[1-i].Networks() {
			if err := h.AddRoute(UnderlayName, network, theirs[k]); err != nil {
				return err
			}
		}
	}
	return nil
}

// routed makes a bridge with a vxlan device for each subnet, with the gateways'
// addresses on both hosts, and routes between the bridges: asymmetric integrated
// routing and bridging (RFC 9135 section 4). Neighbours and MAC addresses behind
// the tunnel are permanent and not learned, as EVPN sets them up: with one MAC
// address on both hosts they could not be learned.
func (k KernelHalf) routed(ctx context.Context, s Site) (func(context.Context) error, error) {
	stop, err := s.Host.forward()
	if err != nil {
		return stop, err
	}
	for i, subnet := range s.Subnets {
		bridge, tunnel := "br-"+subnet.Name, "vxlan-"+subnet.Name
		v := k.device(s)
		v.VNI += subnet.Index
		v.NoLearning = true
		if err := s.Host.VXLAN(ctx, tunnel, v); err != nil {
			return stop, err
		}
		ports := []string{tunnel}
		if i == 0 {
			ports = append(ports, AccessName)
		}
		err := errors.Join(
			s.Host.Bridge(ctx, bridge, s.InnerMTU, ports...),
			s.Host.quietPort(tunnel),
			s.Host.change("set MAC address of", bridge, func(dev netlink.Link) error { return s.Host.nl.LinkSetHardwareAddr(dev, GatewayMAC) }),
			s.Host.address(bridge, subnet.Gateways...),
		)
		if err == nil && i > 0 && !k.Learned {
			err = s.Host.remoteEnd(bridge, tunnel, subnet, s.Remote)
		}
		if err != nil {
			return stop, err
		}
	}
	return stop, nil
}

// quietPort has a bridge learn nothing from a tunnel port and keep ARP and
// neighbour discovery for its own addresses out of it.
func (h *Host) quietPort(name string) error {
	return errors.Join(
		h.change("turn off learning on", name, func(dev netlink.Link) error { return h.nl.LinkSetLearning(dev, false) }),
		h.change("suppress neighbour discovery on", name, func(dev netlink.Link) error { return h.nl.LinkSetBrNeighSuppress(dev, true) }),
	)
}

// remoteEnd tells a bridge and its tunnel of an end system behind a remote TEP.
func (h *Host) remoteEnd(bridge, tunnel string, s Subnet, remote netip.Addr) error {
	permanent := func(flags int, ip net.IP) func(netlink.Link) error {
		return func(dev netlink.Link) error {
			return h.nl.NeighSet(&netlink.Neigh{
				LinkIndex: dev.Attrs().Index, Family: unix.AF_BRIDGE, Flags: flags,
				State: netlink.NUD_PERMANENT | netlink.NUD_NOARP, IP: ip, HardwareAddr: s.EndMAC,
			})
		}
	}
	errs := []error{
		h.change("add MAC address to the bridge of", tunnel, permanent(netlink.NTF_MASTER, nil)),
		h.change("add MAC address to", tunnel, permanent(netlink.NTF_SELF, remote.AsSlice())),
	}
	for _, addr := range s.End {
		errs = append(errs, h.change("add neighbour "+addr.String()+" to", bridge, func(dev netlink.Link) error {
			return h.nl.NeighSet(&netlink.Neigh{
				LinkIndex: dev.Attrs().Index, State: netlink.NUD_PERMANENT, IP: addr.AsSlice(), HardwareAddr: s.EndMAC,
			})
		}))
	}
	return errors.Join(errs...)
}
