package dut

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"github.com/selvage/selvage/lab/topo"
)

// GatewayMAC is that of both gateways on both hosts (anycast), as with EVPN.
var GatewayMAC = net.HardwareAddr{0x02, 0x00, 0x5e, 0x00, 0x01, 0x01}

// RouterName is the router that joins the subnets, where routers have names.
const RouterName = "tenant"

// route has the kernels of both hosts route between the subnets over the
// underlay, which needs both families for that: each packet is routed twice.
func route(n *topo.TwoHosts, p *topo.Path) error {
	subnets := n.Subnets()
	near, far := topo.UnderlayAddrs()
	for i, h := range []*topo.Host{n.A, n.B} {
		stop, err := h.Forward()
		p.OnStop(stop)
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
			if err := h.AddAddrs(topo.UnderlayName, topo.PrefixOf(mine[k])); err != nil {
				return err
			}
		}
		if err := h.AddAddrs(topo.AccessName, subnets[i].Gateways...); err != nil {
			return err
		}
		for k, network := range subnets[1-i].Networks() {
			if err := h.AddRoute(topo.UnderlayName, network, theirs[k]); err != nil {
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
func (k KernelHalf) routed(ctx context.Context, s topo.Site) (func(context.Context) error, error) {
	stop, err := s.Host.Forward()
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
			ports = append(ports, topo.AccessName)
		}
		err := errors.Join(
			s.Host.Bridge(ctx, bridge, s.InnerMTU, ports...),
			s.Host.SetLearning(tunnel, false),
			s.Host.SuppressNeighbours(tunnel),
			s.Host.SetMAC(bridge, GatewayMAC),
			s.Host.AddAddrs(bridge, subnet.Gateways...),
		)
		if err == nil && i > 0 && !k.Learned {
			err = remoteEnd(s.Host, bridge, tunnel, subnet, s.Remote)
		}
		if err != nil {
			return stop, err
		}
	}
	return stop, nil
}

// remoteEnd tells a bridge and its tunnel of an end system behind a remote TEP.
func remoteEnd(h *topo.Host, bridge, tunnel string, s topo.Subnet, remote netip.Addr) error {
	errs := []error{h.AddBridgeFDB(tunnel, s.EndMAC), h.AddFDB(tunnel, s.EndMAC, remote)}
	for _, addr := range s.End {
		errs = append(errs, h.AddNeighbour(bridge, addr, s.EndMAC))
	}
	return errors.Join(errs...)
}
