package topo

import (
	"context"
	"errors"
	"net/netip"
)

// EndOptions are of the paths without a tunnel.
type EndOptions struct {
	MTU int // of client and server, in bytes; default: the underlay's
}

func (n *TwoHosts) endMTU(o EndOptions) int {
	if o.MTU == 0 {
		return n.Options.UnderlayMTU
	}
	return o.MTU
}

// Wire joins client and server by one veth pair, without any host between: the
// limit of the machine.
func (n *TwoHosts) Wire(ctx context.Context, o EndOptions) (*Path, error) {
	p := &Path{Name: "wire", Description: "client and server on one veth pair", InnerMTU: n.endMTU(o), net: n}
	return n.start(ctx, p, func() error {
		if err := errors.Join(n.Client.clear(), n.Server.clear()); err != nil {
			return err
		}
		return n.Lab.Link(ctx, n.clientEnd(), n.serverEnd(), p.InnerMTU)
	})
}

// Plain bridges client and server onto the underlay on both hosts: no tunnel.
func (n *TwoHosts) Plain(ctx context.Context, o EndOptions) (*Path, error) {
	p := &Path{Name: "plain", Description: "Linux bridge on both hosts, no tunnel", InnerMTU: n.endMTU(o), net: n}
	return n.start(ctx, p, func() error {
		if err := n.setInnerMTU(p.InnerMTU); err != nil {
			return err
		}
		for _, host := range []*Host{n.A, n.B} {
			if err := host.Bridge(ctx, "br0", n.Options.UnderlayMTU, AccessName, UnderlayName); err != nil {
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
	// The checksum choices of VXLAN.
	NoUDPCsum, UDP6ZeroCsumTx, UDP6ZeroCsumRx bool
}

// Kernel uses a bridge and the kernel's vxlan device on both hosts.
func (n *TwoHosts) Kernel(ctx context.Context, o KernelOptions) (*Path, error) {
	return n.Build(ctx, KernelHalf(o), KernelHalf(o))
}

// KernelHalf is a bridge with the access interface and a vxlan device.
type KernelHalf KernelOptions

// Name is "kernel".
func (KernelHalf) Name() string { return "kernel" }

// Describe is one line for reports.
func (KernelHalf) Describe() string { return "Linux bridge and the kernel's vxlan device" }

// Up makes bridge br0 and device vxlan0.
func (k KernelHalf) Up(ctx context.Context, s Site) (func(context.Context) error, error) {
	err := s.Host.VXLAN(ctx, "vxlan0", VXLAN{
		VNI: vni(k.VNI), Local: s.Local, Remotes: []netip.Addr{s.Remote}, Port: k.Port, MTU: s.InnerMTU,
		NoUDPCsum: k.NoUDPCsum, UDP6ZeroCsumTx: k.UDP6ZeroCsumTx, UDP6ZeroCsumRx: k.UDP6ZeroCsumRx,
	})
	if err != nil {
		return nil, err
	}
	return nil, s.Host.Bridge(ctx, "br0", s.InnerMTU, AccessName, "vxlan0")
}

// vni is the segment of all paths unless told otherwise.
func vni(n uint32) uint32 {
	if n == 0 {
		return 100
	}
	return n
}
