package dut

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
)

// ErrNoDevice says that the running kernel has no device of an encapsulation.
var ErrNoDevice = errors.New("this kernel has no such device")

// TunnelName is the kernel's tunnel device in a host of KernelTunnel.
const TunnelName = "tunnel0"

// KernelTunnel is a bridge with the access interfaces and the kernel's device of an
// encapsulation: vxlan, geneve, or for NVGRE gretap with the VSID in the upper 24 bits of its
// key (RFC 7637 section 3.2). Checksums of outer UDP headers are zero over IPv4.
type KernelTunnel struct {
	Encapsulation overlay.Encapsulation // default vxlan
	VNI           uint32                // default 100
}

// Name is "kernel".
func (KernelTunnel) Name() string { return "kernel" }

// Describe is one line for reports.
func (k KernelTunnel) Describe() string {
	return "Linux bridge and the kernel's " + k.device() + " device"
}

func (k KernelTunnel) device() string {
	if k.Encapsulation == overlay.NVGRE {
		return "gretap"
	}
	return string(cmp.Or(k.Encapsulation, overlay.VXLAN))
}

// Up makes bridge br0 and device tunnel0. The error is ErrNoDevice where the kernel has none.
func (k KernelTunnel) Up(ctx context.Context, s topo.Site) (func(context.Context) error, error) {
	if s.Subnets != nil {
		return nil, errors.New("no routing by this half, it only bridges: use KernelHalf where the topology is routed")
	}
	if k.device() == "vxlan" {
		v := KernelHalf{VNI: k.VNI, NoUDPCsum: true, UDP6ZeroCsumTx: true, UDP6ZeroCsumRx: true}.device(s)
		if err := s.Host.VXLAN(ctx, TunnelName, v); err != nil {
			return nil, err
		}
		return nil, s.Host.Bridge(ctx, "br0", s.InnerMTU, append(s.Ports(), TunnelName)...)
	}
	if _, err := s.Host.Output(ctx, k.add(s)...); err != nil {
		if strings.Contains(err.Error(), "Unknown device type") || strings.Contains(err.Error(), "not supported") {
			err = ErrNoDevice
		}
		return nil, fmt.Errorf("add %s device %s to %s: %w", k.device(), TunnelName, s.Host.Name, err)
	}
	if err := s.Host.DisableIPv6(TunnelName); err != nil {
		return nil, err
	}
	if err := s.Host.Up(TunnelName); err != nil {
		return nil, err
	}
	return nil, s.Host.Bridge(ctx, "br0", s.InnerMTU, append(s.Ports(), TunnelName)...)
}

// add is the command that makes the device.
func (k KernelTunnel) add(s topo.Site) []string {
	argv := []string{"ip", "link", "add", TunnelName, "mtu", strconv.Itoa(s.InnerMTU), "type"}
	if k.Encapsulation == overlay.NVGRE {
		kind := "gretap"
		if s.Local.Is6() {
			kind = "ip6gretap"
		}
		return append(argv, kind, "local", s.Local.String(), "remote", s.Remote.String(), "key", strconv.FormatUint(uint64(vni(k.VNI))<<8, 10))
	}
	argv = append(argv, "geneve", "id", strconv.FormatUint(uint64(vni(k.VNI)), 10), "remote", s.Remote.String())
	if s.Local.Is6() {
		return append(argv, "udp6zerocsumtx", "udp6zerocsumrx")
	}
	return append(argv, "noudpcsum")
}
