package evpn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
)

// Kernel is an edge of Linux and FRR: a bridge with a vxlan device for each segment,
// whose tables FRR's zebra fills. Bridges with gateways have their addresses (a distributed
// anycast gateway). There are no VRFs: everything is in the main table, and so is the
// segment between routers.
//
// What FRR 8.4, which Debian 12 has, cannot do: tunnel endpoints of IPv6 (as a reflector it
// even ends the session with who announces one); keep routes of EVPN for a neighbour that
// restarts, or over a restart of its own reflector, although it says so (graceful restart);
// keep a router's MAC address in the kernel when one of several prefixes by it goes, or gets
// a second next hop: prefixes of both families that never change, as those of networks, avoid
// that.
type Kernel struct {
	// Flood has bridges flood ARP and neighbour discovery instead of answering for hosts
	// that FRR knows.
	Flood bool
}

// Name is "kernel".
func (Kernel) Name() string { return "kernel" }

// Describe is one line for reports.
func (k Kernel) Describe() string {
	if k.Flood {
		return "Linux bridge and vxlan device, FRR, ARP and ND flooded"
	}
	return "Linux bridge and vxlan device, FRR, ARP and ND suppressed"
}

// Up makes the devices and starts FRR.
func (k Kernel) Up(ctx context.Context, e *Edge) (err error) {
	if !e.TEP.Is4() {
		return errors.New("no IPv6 tunnel endpoints with FRR before version 10.6: choose family 4, and IPv6 for its sessions alone")
	}
	if _, err := e.Forward(); err != nil { // it ends with the host
		return err
	}
	for _, s := range e.Segments() {
		if err := k.segment(ctx, e, s); err != nil {
			return err
		}
	}
	if e.Fabric.Options.L3VNI != 0 {
		if err := k.between(ctx, e); err != nil {
			return err
		}
	}
	e.FRR, err = dut.StartFRR(ctx, e.Host, k.config(e))
	return err
}

// Down stops FRR; the devices go with the host.
func (Kernel) Down(ctx context.Context, e *Edge) error {
	if e.FRR == nil {
		return nil
	}
	return e.FRR.Stop(ctx)
}

// BridgeOf is the bridge of a segment on an edge of Linux.
func BridgeOf(vni uint32) string { return fmt.Sprintf("br%d", vni) }

func tunnelOf(vni uint32) string { return fmt.Sprintf("vx%d", vni) }

// segment makes the bridge of a segment with its tunnel, guests and gateway.
func (k Kernel) segment(ctx context.Context, e *Edge, index int) error {
	n := e.Fabric
	s := n.Options.Segments[index]
	var ports []string
	for _, g := range e.guests() {
		if g.Segment == index {
			ports = append(ports, g.Name)
		}
	}
	if err := k.bridge(ctx, e, s.VNI, dut.GatewayMAC, ports...); err != nil {
		return err
	}
	bridge := BridgeOf(s.VNI)
	if !k.Flood {
		if err := e.SuppressNeighbours(tunnelOf(s.VNI)); err != nil {
			return err
		}
	}
	if !s.Gateway {
		return nil
	}
	return errors.Join(
		e.AddAddrs(bridge, n.gateways(index)...),
		e.SysctlSet("net/ipv4/conf/"+bridge+"/arp_accept", "1"), // hosts that only say who they are
		e.SysctlSet("net/ipv6/conf/"+bridge+"/accept_untracked_na", "1"),
	)
}

// bridge makes a bridge and the tunnel in it, which learns nothing: FRR knows.
func (Kernel) bridge(ctx context.Context, e *Edge, vni uint32, mac net.HardwareAddr, ports ...string) error {
	n, tunnel, bridge := e.Fabric, tunnelOf(vni), BridgeOf(vni)
	v := topo.VXLAN{VNI: vni, Local: e.TEP, MTU: n.innerMTU(), NoLearning: true, UDP6ZeroCsumTx: true, UDP6ZeroCsumRx: true}
	if err := e.VXLAN(ctx, tunnel, v); err != nil {
		return err
	}
	if err := e.Bridge(ctx, bridge, n.innerMTU(), append(ports, tunnel)...); err != nil {
		return err
	}
	return errors.Join(e.SetLearning(tunnel, false), e.SetMAC(bridge, mac))
}

// between makes the bridge of the segment between routers: the router's interface in it,
// with the router's MAC address and no other.
func (k Kernel) between(ctx context.Context, e *Edge) error {
	vni := e.Fabric.Options.L3VNI
	return errors.Join(
		k.bridge(ctx, e, vni, e.routerMAC()),
		e.SysctlSet("net/ipv6/conf/"+BridgeOf(vni)+"/disable_ipv6", "0"), // with a link-local address, as routes by it need
	)
}

// config is FRR's.
func (k Kernel) config(e *Edge) dut.FRRConfig {
	n := e.Fabric
	var c dut.FRRConfig
	var b strings.Builder
	var peers []netip.Addr
	for _, r := range n.Reflectors {
		peers = append(peers, r.Addr)
	}
	n.bgp(&b, e.TEP, peers)
	routed := n.Options.L3VNI != 0
	if routed {
		c.Zebra = fmt.Sprintf("vni %d\n", n.Options.L3VNI)
		k.networks(&b, e)
	}
	b.WriteString(" address-family l2vpn evpn\n  advertise-all-vni\n  advertise-default-gw\n")
	if routed {
		b.WriteString("  advertise ipv4 unicast\n  advertise ipv6 unicast\n")
	}
	for _, peer := range peers {
		fmt.Fprintf(&b, "  neighbor %s activate\n", peer)
	}
	c.BGP, c.BFD = b.String(), n.bfd(peers)
	return c
}

// networks has the edge's subnets told as prefixes, and nothing else of the main table.
func (Kernel) networks(b *strings.Builder, e *Edge) {
	for _, family := range []int{4, 6} {
		fmt.Fprintf(b, " address-family ipv%d unicast\n", family)
		for _, s := range e.Segments() {
			for _, gateway := range e.Fabric.gateways(s) {
				if gateway.Addr().Is4() == (family == 4) {
					fmt.Fprintf(b, "  network %s\n", gateway.Masked())
				}
			}
		}
		b.WriteString(" exit-address-family\n")
	}
}

// bfd is the configuration of FRR's bfdd, "" without.
func (n *Fabric) bfd(peers []netip.Addr) string {
	interval, err := time.ParseDuration(n.Options.Liveness)
	if n.Options.Liveness == "" || err != nil { // New has looked at it
		return ""
	}
	var b strings.Builder
	b.WriteString("bfd\n")
	for _, peer := range peers {
		fmt.Fprintf(&b, " peer %s\n  receive-interval %d\n  transmit-interval %d\n  detect-multiplier 3\n", peer, interval.Milliseconds(), interval.Milliseconds())
	}
	return b.String()
}
