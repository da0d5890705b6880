package dut

import (
	"cmp"
	"context"
	"errors"
	"net/netip"

	"github.com/selvage/selvage/lab/topo"
)

// EndOptions are of the paths without a tunnel.
type EndOptions struct {
	MTU int // of client and server, in bytes; default: the underlay's
}

func (o EndOptions) mtu(n *topo.TwoHosts) int {
	if o.MTU == 0 {
		return n.Options.UnderlayMTU
	}
	return o.MTU
}

// Wire joins client and server by one veth pair, without any host between: the
// limit of the machine.
func Wire(ctx context.Context, n *topo.TwoHosts, o EndOptions) (*topo.Path, error) {
	p := &topo.Path{Name: "wire", Description: "client and server on one veth pair", InnerMTU: o.mtu(n)}
	if len(n.Pairs) > 1 {
		return nil, errors.New("path wire: it joins one client and one server, and there are more")
	}
	return n.StartPath(ctx, p, func() error {
		if err := errors.Join(n.Client.Clear(), n.Server.Clear()); err != nil {
			return err
		}
		client, server := n.EndLinks()
		return errors.Join(n.Lab.Link(ctx, client, server, p.InnerMTU), onLink(n))
	})
}

// onLink joins the subnets of a routed topology on the one link of Wire, which has no
// gateways.
func onLink(n *topo.TwoHosts) error {
	for i, subnet := range n.Subnets() {
		for _, network := range subnet.Networks() {
			if err := []*topo.Host{n.Server, n.Client}[i].AddRoute(topo.EndName, network, netip.Addr{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Plain bridges client and server onto the underlay on both hosts, or has both
// hosts route between them: no tunnel.
func Plain(ctx context.Context, n *topo.TwoHosts, o EndOptions) (*topo.Path, error) {
	p := &topo.Path{Name: "plain", Description: "Linux bridge on both hosts, no tunnel", InnerMTU: o.mtu(n)}
	if n.Options.Routed {
		p.Description = "Linux routes on both hosts, no tunnel"
	}
	return n.StartPath(ctx, p, func() error {
		if err := n.SetInnerMTU(p.InnerMTU); err != nil {
			return err
		}
		if n.Options.Routed {
			return route(n, p)
		}
		for _, host := range []*topo.Host{n.A, n.B} {
			_, ports := n.Behind(host)
			if err := host.Bridge(ctx, "br0", n.Options.UnderlayMTU, append(ports, topo.UnderlayName)...); err != nil {
				return err
			}
		}
		return nil
	})
}

// KernelOptions is one half's kernel vxlan device; zero fields get defaults.
type KernelOptions struct {
	VNI  uint32 // default 100
	Port uint16 // UDP; default 4789
	// TunnelMTU is the vxlan device's own, default: that of the end systems. A bridge
	// drops, without a word, what is larger than the port that it should leave by. A
	// device with more than the underlay leaves answers "too big" itself (Linux 5.9).
	TunnelMTU int
	// Learned has no remotes of its own: FRR says what is behind the other host.
	Learned bool
	// The checksum choices of VXLAN.
	NoUDPCsum, UDP6ZeroCsumTx, UDP6ZeroCsumRx bool
}

// Kernel uses a bridge and the kernel's vxlan device on both hosts.
func Kernel(ctx context.Context, n *topo.TwoHosts, o KernelOptions) (*topo.Path, error) {
	return n.Build(ctx, KernelHalf(o), KernelHalf(o))
}

// KernelHalf is a bridge with the access interface and a vxlan device.
type KernelHalf KernelOptions

// Name is "kernel".
func (KernelHalf) Name() string { return "kernel" }

// Describe is one line for reports.
func (KernelHalf) Describe() string { return "Linux bridge and the kernel's vxlan device" }

// Up makes bridge br0 and device vxlan0, or one of each for each subnet.
func (k KernelHalf) Up(ctx context.Context, s topo.Site) (func(context.Context) error, error) {
	if s.Subnets != nil {
		return k.routed(ctx, s)
	}
	if err := s.Host.VXLAN(ctx, "vxlan0", k.device(s)); err != nil {
		return nil, err
	}
	return nil, s.Host.Bridge(ctx, "br0", s.InnerMTU, append(s.Ports(), "vxlan0")...)
}

// device is the half's vxlan device.
func (k KernelHalf) device(s topo.Site) topo.VXLAN {
	remotes := []netip.Addr{s.Remote}
	if k.Learned {
		remotes = nil
	}
	return topo.VXLAN{
		VNI: vni(k.VNI), Local: s.Local, Remotes: remotes, Port: k.Port, MTU: cmp.Or(k.TunnelMTU, s.InnerMTU),
		NoUDPCsum: k.NoUDPCsum, UDP6ZeroCsumTx: k.UDP6ZeroCsumTx, UDP6ZeroCsumRx: k.UDP6ZeroCsumRx,
	}
}

// DefaultVNI is the segment of all paths unless told otherwise.
const DefaultVNI uint32 = 100

func vni(n uint32) uint32 { return cmp.Or(n, DefaultVNI) }
