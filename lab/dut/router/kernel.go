package router

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/selvage/selvage/lab/topo"
)

// Kernel is the Linux kernel as a router, by default between the uplinks and a
// vxlan device. Neighbours and forwarding entries are permanent.
type Kernel struct {
	// Plain routes between uplinks and underlay links instead, without a tunnel.
	Plain bool
}

// Describe is one line for reports.
func (k Kernel) Describe() string {
	if k.Plain {
		return "Linux routes between plain interfaces, no tunnel"
	}
	return "Linux routes to the kernel's vxlan device"
}

// tunnelName is the kernel's vxlan device.
const tunnelName = "vxlan0"

// Up makes the device a router.
func (k Kernel) Up(ctx context.Context, t *Transit) (*Forwarding, error) {
	forwarding, err := t.Device.Forward()
	f := &Forwarding{stop: forwarding}
	if err != nil {
		return f, err
	}
	outside, err := t.uplinkHops()
	if err != nil {
		return f, err
	}
	var inside []topo.NextHop
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
	return f, errors.Join(t.Device.AddRoutes(append([]netip.Prefix{t.Outside}, t.moreRoutes(t.Outside)...), outside),
		t.Device.AddRoutes(append([]netip.Prefix{t.Inside}, t.moreRoutes(t.Inside)...), inside))
}

// uplinkHops addresses the uplinks and returns the tester's routers there.
func (t *Transit) uplinkHops() ([]topo.NextHop, error) {
	var hops []topo.NextHop
	for _, k := range t.Uplinks {
		err := errors.Join(own(t.Device, k.Device, k.DeviceAddr), t.Device.AddNeighbour(k.Device, k.TesterAddr.Addr(), k.TesterMAC))
		if err != nil {
			return nil, err
		}
		hops = append(hops, topo.NextHop{Name: k.Device, Addr: k.TesterAddr.Addr()})
	}
	return hops, nil
}

// plainHops does so with the underlay links, of the frames' family.
func (t *Transit) plainHops() ([]topo.NextHop, error) {
	var hops []topo.NextHop
	for i, k := range t.Underlays {
		device, tester := t.insideAddrs(i)
		if err := errors.Join(own(t.Device, k.Device, device), t.Device.AddNeighbour(k.Device, tester, k.TesterMAC)); err != nil {
			return nil, err
		}
		hops = append(hops, topo.NextHop{Name: k.Device, Addr: tester})
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
func (t *Transit) vxlanHops(ctx context.Context) ([]topo.NextHop, error) {
	if err := t.addressUnderlays(); err != nil {
		return nil, err
	}
	h := t.Device
	err := h.VXLAN(ctx, tunnelName, topo.VXLAN{
		VNI: uint32(segment), Local: t.TEP, MTU: 1500, NoUDPCsum: true, UDP6ZeroCsumTx: true, UDP6ZeroCsumRx: true, NoLearning: true,
	})
	if err == nil {
		err = h.SetMAC(tunnelName, routerMAC)
	}
	if err != nil {
		return nil, err
	}
	var hops []topo.NextHop
	for i, k := range t.Underlays {
		device, far := t.insideAddrs(i)
		err := errors.Join(
			own(h, tunnelName, device), h.AddNeighbour(tunnelName, far, farMAC(i)),
			h.AddFDB(tunnelName, farMAC(i), k.TesterAddr.Addr()))
		if err != nil {
			return nil, err
		}
		hops = append(hops, topo.NextHop{Name: tunnelName, Addr: far})
	}
	return hops, nil
}

// unroute takes the routes of the frames, which outlive addresses with IPv6.
func (t *Transit) unroute() error {
	if t.Lab.Closing() { // all of it goes
		return nil
	}
	for _, network := range []netip.Prefix{t.Outside, t.Inside} {
		for _, prefix := range append([]netip.Prefix{network}, t.moreRoutes(network)...) {
			if err := t.Device.DelRoute(prefix); err != nil {
				return err
			}
		}
	}
	return nil
}

// unaddress takes the addresses of the device.
func (t *Transit) unaddress(plain bool) error {
	if t.Lab.Closing() {
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
		errs = append(errs, t.Device.Delete(tunnelName))
	}
	return errors.Join(errs...)
}
