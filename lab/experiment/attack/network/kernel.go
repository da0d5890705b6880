package network

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

// Kernel is Linux on both hosts as a careful operator has it: a bridge and a vxlan device
// for each segment, nftables at the bridges' ports as libvirt's filter clean-traffic has them, limits of
// broadcast, stateful filtering by br_netfilter, and a filter of the host's own input and forwarding.
type Kernel struct{}

// Describe is one line for reports.
func (Kernel) Describe() string {
	return "Linux bridge and vxlan device; nftables at the ports and on the hosts"
}

// Routes is true.
func (Kernel) Routes() bool { return true }

// Up makes both hosts. They go with their namespaces, but for FRR.
func (k Kernel) Up(ctx context.Context, n *Network) (func(context.Context) error, error) {
	for _, h := range []*topo.Host{n.A, n.B} {
		if err := k.host(ctx, n, h); err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	if err := k.router(n); err != nil {
		return nil, err
	}
	if !n.Options.BGP {
		return nil, nil
	}
	return k.bgp(ctx, n)
}

// host makes bridges, tunnels and filters.
func (k Kernel) host(ctx context.Context, n *Network, h *topo.Host) error {
	own, remote := topo.UnderlayAddr(1, 4), topo.UnderlayAddr(2, 4)
	if h == n.B {
		own, remote = remote, own
	}
	for i, segment := range segments() {
		ports := []string{}
		for _, g := range n.Behind(h) {
			if g.Segment == i {
				ports = append(ports, g.Port)
			}
		}
		bridge, tunnel := "br-"+segment, "vx-"+segment
		if err := h.VXLAN(ctx, tunnel, topo.VXLAN{VNI: VNI(i), Local: own, Remotes: []netip.Addr{remote}, MTU: 1450, NoUDPCsum: true}); err != nil {
			return err
		}
		if err := h.Bridge(ctx, bridge, 1450, append(ports, tunnel)...); err != nil {
			return err
		}
		ageing := fmt.Sprint(int(n.Options.Ageing / (10 * time.Millisecond))) // in clock ticks
		if _, err := h.Output(ctx, "ip", "link", "set", bridge, "type", "bridge", "ageing_time", ageing); err != nil {
			return err
		}
		if _, err := h.Output(ctx, "ip", "link", "set", tunnel, "type", "vxlan", "ageing", fmt.Sprint(int(n.Options.Ageing/time.Second))); err != nil {
			return err
		}
	}
	if n.Options.Bare {
		return h.Nft(ctx, "nat", natRules)
	}
	if err := h.SetBridgeNetfilter(topo.BridgeNetfilterOn); err != nil {
		return err
	}
	return h.Nft(ctx, "attack", k.Rules(n, h, remote)+natRules)
}

// router gives host A the gateways.
func (Kernel) router(n *Network) error {
	if _, err := n.A.Forward(); err != nil {
		return err
	}
	var errs []error
	for i, segment := range segments() {
		bridge := "br-" + segment
		errs = append(errs,
			n.A.SysctlSet("net/ipv6/conf/"+bridge+"/disable_ipv6", "0"),
			n.A.SetMAC(bridge, GatewayMAC()),
			n.A.AddAddr(bridge, Gateway(i, 4)), n.A.AddAddr(bridge, Gateway(i, 6)),
			n.A.AddAddr(fmt.Sprintf("w%d", i), uplinks()[i]))
	}
	return errors.Join(errs...)
}

// natRules translates what leaves, and keeps the tunnel's own packets from the tracker.
const natRules = `table ip masq {
	chain raw { type filter hook prerouting priority raw; udp dport 4789 iifname "u0" notrack; }
	chain out { type filter hook output priority raw; udp dport 4789 notrack; }
	chain post { type nat hook postrouting priority srcnat; oifname { "w0", "w1" } masquerade; }
}
`

// Storm control of all paths: frames of one port a second, each kind by itself. Those are an edge's
// defaults; kernel and ovs have no limit of the last kind.
const (
	StormBroadcast = 1000
	StormMulticast = 10_000
	StormUnknown   = 10_000
)

// Rules are the filters of a host.
func (k Kernel) Rules(n *Network, h *topo.Host, remote netip.Addr) string {
	var b strings.Builder
	b.WriteString("table bridge ports {\n\tchain in {\n\t\ttype filter hook prerouting priority -300; policy accept;\n")
	b.WriteString("\t\tether daddr 01:80:c2:00:00:00/44 drop\n")
	for _, g := range n.Behind(h) {
		fmt.Fprintf(&b, "\t\tiifname %q jump %s\n", g.Port, g.Name)
	}
	b.WriteString("\t}\n")
	for _, g := range n.Behind(h) {
		k.port(&b, g)
	}
	b.WriteString("}\n")
	fmt.Fprintf(&b, `table inet guests {
	chain forward {
		type filter hook forward priority 0; policy accept;
		icmpv6 type { 133, 134, 135, 136 } accept
		ct state established,related accept
		ct state invalid drop
		iifname "br-red" oifname { "br-blue", "w1", "u0" } drop
		iifname "br-blue" oifname { "br-red", "w0", "u0" } drop
		iifname { "w0", "w1" } oifname { "br-red", "br-blue" } drop
	}
	chain input {
		type filter hook input priority 0; policy accept;
		udp dport 4789 iifname != "u0" drop
		udp dport 4789 ip saddr != %s drop
		iifname { "br-red", "br-blue" } ip daddr { 192.0.2.0/24 } drop
		icmp type destination-unreachable icmp code frag-needed iifname "u0" limit rate over 10/second drop
	}
}
`, remote)
	return b.String()
}

// port writes what a port's guest may send.
func (Kernel) port(b *strings.Builder, g *Guest) {
	fmt.Fprintf(b, "\tchain %s {\n", g.Name)
	for _, rule := range []string{
		"ether type { 0x8100, 0x88a8 } drop",
		"icmpv6 type { 134, 137 } drop",
		"ip6 nexthdr { 0, 43, 44, 60 } drop", // what hides ND: RFC 7113
		"udp sport 67 udp dport 68 drop",
		"udp sport 547 udp dport 546 drop",
		fmt.Sprintf("ether daddr ff:ff:ff:ff:ff:ff limit rate over %d/second burst 200 packets drop", StormBroadcast),
		fmt.Sprintf("ether daddr & 01:00:00:00:00:00 == 01:00:00:00:00:00 limit rate over %d/second burst 200 packets drop", StormMulticast),
	} {
		fmt.Fprintf(b, "\t\t%s\n", rule)
	}
	if g.Guarded {
		for _, rule := range []string{
			"ether saddr != " + g.MAC.String() + " drop",
			"arp saddr ether != " + g.MAC.String() + " drop",
			"arp saddr ip != { 0.0.0.0, " + g.V4.String() + " } drop",
			"ip saddr != { 0.0.0.0, " + g.V4.String() + " } drop",
			"ip6 saddr != { ::, " + g.V6.String() + ", " + linkLocal(g.MAC).String() + " } drop",
			fmt.Sprintf("icmpv6 type 136 @th,64,128 != { 0x%x, 0x%x } drop", g.V6.As16(), linkLocal(g.MAC).As16()),
		} {
			fmt.Fprintf(b, "\t\t%s\n", rule)
		}
	}
	b.WriteString("\t}\n")
}

// linkLocal is the address that an interface makes of its MAC address (RFC 4291 appendix A).
func linkLocal(mac net.HardwareAddr) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]})
}

// bgp runs FRR on both hosts, with the stranger as its one neighbour.
func (Kernel) bgp(ctx context.Context, n *Network) (func(context.Context) error, error) {
	var running []*dut.FRR
	stop := func(ctx context.Context) error {
		var errs []error
		for _, f := range running {
			errs = append(errs, f.Stop(ctx))
		}
		return errors.Join(errs...)
	}
	for i, h := range []*topo.Host{n.A, n.B} {
		f, err := dut.StartFRR(ctx, h, dut.FRRConfig{BGP: bgpConfig(i+1, Stranger)})
		if err != nil {
			return stop, err
		}
		running = append(running, f)
	}
	return stop, nil
}
