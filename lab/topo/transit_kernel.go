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

// TransitKernel is the Linux kernel as a router, by default between the uplinks and a
// vxlan device. Neighbours and forwarding entries are permanent.
type TransitKernel struct {
	// Plain routes between uplinks and underlay links instead, without a tunnel.
	Plain bool
}

// Describe is one line for reports.
func (k TransitKernel) Describe() string {
	if k.Plain {
		return "Linux routes between plain interfaces, no tunnel"
	}
	return "Linux routes to the kernel's vxlan device"
}

// transitTunnelName is the kernel's vxlan device.
const transitTunnelName = "vxlan0"

// hop is a next hop of the device.
type hop struct {
	name string // interface
	addr netip.Addr
}

// Up makes the device a router.
func (k TransitKernel) Up(ctx context.Context, t *Transit) (*Forwarding, error) {
	forwarding, err := t.Device.forward()
	f := &Forwarding{stop: forwarding}
	if err != nil {
		return f, err
	}
	outside, err := t.uplinkHops()
	if err != nil {
		return f, err
	}
	var inside []hop
	if k.Plain {
		inside, err = t.plainHops()
	} else {
		f.Tunnel = t.tunnel("")
		inside, err = t.vxlanHops(ctx)
	}
	if err != nil {
		return f, err
	}
	f.stop = func(ctx context.Context) error {
		return errors.Join(forwarding(ctx), t.unroute(), t.unaddress(k.Plain))
	}
	for _, key := range []string{"net/ipv4/fib_multipath_hash_policy", "net/ipv6/fib_multipath_hash_policy"} {
		if err := t.Device.SysctlSet(key, "1"); err != nil { // addresses and ports
			return f, err
		}
	}
	return f, errors.Join(t.Device.routes(t.Outside, t.moreRoutes(t.Outside), outside), t.Device.routes(t.Inside, t.moreRoutes(t.Inside), inside))
}

// uplinkHops addresses the uplinks and returns the tester's routers there.
func (t *Transit) uplinkHops() ([]hop, error) {
	var hops []hop
	for _, k := range t.Uplinks {
		err := errors.Join(t.Device.own(k.Device, k.DeviceAddr), t.Device.neighbour(k.Device, k.TesterAddr.Addr(), k.TesterMAC))
		if err != nil {
			return nil, err
		}
		hops = append(hops, hop{k.Device, k.TesterAddr.Addr()})
	}
	return hops, nil
}

// plainHops does so with the underlay links, of the frames' family.
func (t *Transit) plainHops() ([]hop, error) {
	var hops []hop
	for i, k := range t.Underlays {
		device, tester := t.insideAddrs(i)
		if err := errors.Join(t.Device.own(k.Device, device), t.Device.neighbour(k.Device, tester, k.TesterMAC)); err != nil {
			return nil, err
		}
		hops = append(hops, hop{k.Device, tester})
	}
	return hops, nil
}

// insideAddrs are the device's and the far router's in the i-th network towards Inside.
func (t *Transit) insideAddrs(i int) (netip.Prefix, netip.Addr) {
	device, far := fmt.Sprintf("198.51.100.%d/28", 16*i+1), fmt.Sprintf("198.51.100.%d", 16*i+2)
	if t.Options.Family == 6 {
		device, far = fmt.Sprintf("2001:db8:3:%d::1/64", i), fmt.Sprintf("2001:db8:3:%d::2", i)
	}
	return netip.MustParsePrefix(device), netip.MustParseAddr(far)
}

// farMAC is the inner address of the router behind the tester's i-th endpoint. The
// kernel tells endpoints apart by it alone.
func farMAC(i int) net.HardwareAddr {
	mac := append(net.HardwareAddr(nil), farRouterMAC...)
	mac[len(mac)-1] += byte(i)
	return mac
}

// vxlanHops makes the vxlan device and returns the routers behind the tester's
// endpoints.
func (t *Transit) vxlanHops(ctx context.Context) ([]hop, error) {
	if err := t.addressUnderlays(); err != nil {
		return nil, err
	}
	h := t.Device
	err := h.VXLAN(ctx, transitTunnelName, VXLAN{
		VNI: uint32(transitSegment), Local: t.TEP, MTU: 1500, NoUDPCsum: true, UDP6ZeroCsumTx: true, UDP6ZeroCsumRx: true, NoLearning: true,
	})
	if err == nil {
		err = h.change("set MAC address of", transitTunnelName, func(dev netlink.Link) error { return h.nl.LinkSetHardwareAddr(dev, transitRouterMAC) })
	}
	if err != nil {
		return nil, err
	}
	var hops []hop
	for i, k := range t.Underlays {
		device, far := t.insideAddrs(i)
		err := errors.Join(
			h.own(transitTunnelName, device), h.neighbour(transitTunnelName, far, farMAC(i)),
			h.change("add MAC address to", transitTunnelName, func(dev netlink.Link) error {
				return h.nl.NeighSet(&netlink.Neigh{
					LinkIndex: dev.Attrs().Index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF,
					State: netlink.NUD_PERMANENT | netlink.NUD_NOARP, IP: k.TesterAddr.Addr().AsSlice(), HardwareAddr: farMAC(i),
				})
			}))
		if err != nil {
			return nil, err
		}
		hops = append(hops, hop{transitTunnelName, far})
	}
	return hops, nil
}

// routes sends a network, and what else is given, to next hops that share its flows.
func (h *Host) routes(to netip.Prefix, more []netip.Prefix, hops []hop) error {
	paths := make([]*netlink.NexthopInfo, len(hops))
	for i, k := range hops {
		index, err := h.Index(k.name)
		if err != nil {
			return err
		}
		paths[i] = &netlink.NexthopInfo{LinkIndex: index, Gw: k.addr.AsSlice()}
	}
	for _, prefix := range append([]netip.Prefix{to}, more...) {
		route := &netlink.Route{Dst: ipNet(prefix), MultiPath: paths}
		if len(paths) == 1 {
			route = &netlink.Route{Dst: ipNet(prefix), LinkIndex: paths[0].LinkIndex, Gw: paths[0].Gw}
		}
		if err := h.nl.RouteAdd(route); err != nil {
			return fmt.Errorf("add route to %s to %s: %w", prefix, h.Name, err)
		}
	}
	return nil
}

// unroute takes the routes of the frames, which outlive addresses with IPv6.
func (t *Transit) unroute() error {
	if t.Lab.isClosing() { // all of it goes
		return nil
	}
	for _, network := range []netip.Prefix{t.Outside, t.Inside} {
		for _, prefix := range append([]netip.Prefix{network}, t.moreRoutes(network)...) {
			if err := t.Device.nl.RouteDel(&netlink.Route{Dst: ipNet(prefix)}); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("delete route to %s of %s: %w", prefix, t.Device.Name, err)
			}
		}
	}
	return nil
}

// unaddress takes the addresses of the device.
func (t *Transit) unaddress(plain bool) error {
	if t.Lab.isClosing() {
		return nil
	}
	var errs []error
	for _, k := range t.Uplinks {
		errs = append(errs, t.Device.DelAddr(k.Device, k.DeviceAddr))
	}
	for i, k := range t.Underlays {
		if plain {
			addr, _ := t.insideAddrs(i)
			errs = append(errs, t.Device.DelAddr(k.Device, addr))
		} else {
			errs = append(errs, t.Device.DelAddr(k.Device, k.DeviceAddr))
		}
	}
	if !plain {
		errs = append(errs, t.Device.Delete(transitTunnelName))
	}
	return errors.Join(errs...)
}
