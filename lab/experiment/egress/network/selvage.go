package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
)

// Selvage is an edge on node and gateway. The node's has the workload's port, a
// router, and an egress policy for TranslatedAddr; what is for RoutedAddr goes by the
// segment between the routers as it is. The hosts' own endpoints in the overlay are behind
// a port each.
type Selvage struct {
	Binary string // path of selvage; default: dut.EdgeProgram
	// Encapsulation is vxlan (default), geneve or nvgre.
	Encapsulation overlay.Encapsulation
	// NoChecksum turns the underlay's transmit checksum offload off: the tunnel has no
	// device of its own.
	NoChecksum bool
}

// Describe is one line for reports.
func (o Selvage) Describe() string {
	if o.NoChecksum {
		return "the same with transmit checksum offload of the underlay interfaces off"
	}
	return "Selvage edge, " + dut.EncapsulationName(o.Encapsulation) + ", egress policy with one gateway"
}

// Reaches is everything.
func (o Selvage) Reaches(n *Network) (node, workload []netip.Addr) {
	return Kernel{}.Reaches(n)
}

// endpointPort is the edge's side of the host's own endpoint.
const endpointPort = "p9"

// VNIs of the edges' segments.
const (
	workloadVNI overlay.VNI = 100 + iota
	endpointVNI
	routerVNI
	policyVNI
)

// routerMACs are of node and gateway in the segment between their routers.
var routerMACs = [2]net.HardwareAddr{{2, 0, 0, 0, 0x0f, 1}, {2, 0, 0, 0, 0x0f, 2}}

// Up starts both edges.
func (o Selvage) Up(ctx context.Context, n *Network) (func(context.Context) error, error) {
	var edges []*dut.Edge
	stop := func(ctx context.Context) error {
		var errs []error
		for _, e := range edges {
			errs = append(errs, e.Stop(ctx))
		}
		return errors.Join(errs...)
	}
	for i, h := range []*topo.Host{n.Node, n.Gateway} {
		err := n.Lab.Link(ctx,
			topo.LinkEnd{Host: h, Name: EndpointName, Addrs: []netip.Prefix{endpoints[i]}}, topo.LinkEnd{Host: h, Name: endpointPort}, n.Options.InnerMTU)
		if err == nil && o.NoChecksum {
			_, err = h.SetFeatures(topo.UnderlayName, map[string]bool{"tx-checksum-ip-generic": false})
		}
		if err != nil {
			return stop, err
		}
		name := dut.EdgeName(h)
		e, err := dut.StartEdge(ctx, h, o.Binary, name, o.Config(name, n, i))
		if err != nil {
			return stop, err
		}
		edges = append(edges, e)
	}
	return stop, nil
}

// Config is the configuration of an edge in YAML: of the node's, 0, or the gateway's, 1.
func (o Selvage) Config(name string, n *Network, side int) string {
	near, far := n.TEPs()
	teps := [2]netip.Addr{near, far}
	local, remote := teps[side], teps[1-side]
	encap := cmp.Or(o.Encapsulation, overlay.VXLAN)
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: selvage.dev/v1alpha2\nkind: Edge\nmetadata: {name: %s}\nspec:\n", name)
	fmt.Fprintf(&b, "  underlay: {interfaces: [%s], tep: %q, probeMTU: false}\n", topo.UnderlayName, local)
	b.WriteString("  segments:\n")
	if side == 0 {
		fmt.Fprintf(&b, "  - {name: workloads, vni: %d, encapsulation: %s, gateway: {router: %s, addresses: [%q]}}\n",
			workloadVNI, encap, dut.RouterName, firstHop)
	}
	fmt.Fprintf(&b, "  - {name: endpoints, vni: %d, encapsulation: %s, remotes: [%q]}\n", endpointVNI, encap, remote)
	b.WriteString("  ports:\n")
	if side == 0 {
		fmt.Fprintf(&b, "  - {name: workload, interface: %s, segment: workloads}\n", topo.AccessName)
	}
	fmt.Fprintf(&b, "  - {name: endpoint, interface: %s, segment: endpoints}\n", endpointPort)
	fmt.Fprintf(&b, "  routers:\n  - name: %s\n    l3: {vni: %d, encapsulation: %s, mac: %q, remotes: [%q]}\n",
		dut.RouterName, routerVNI, encap, routerMACs[side], remote)
	to := inside
	if side == 0 {
		to = netip.PrefixFrom(RoutedAddr, RoutedAddr.BitLen())
	}
	fmt.Fprintf(&b, "    routes:\n    - {prefix: %q, via: [{remote: %q, mac: %q}]}\n", to, remote, routerMACs[1-side])
	if side == 1 {
		fmt.Fprintf(&b, "    uplinks:\n    - {name: wan, interface: %s, addresses: [%q]}\n", OutsideName, uplink)
	}
	o.policy(&b, encap, far, remote, side)
	return b.String()
}

// policy writes the egress policy, which both edges have.
func (o Selvage) policy(b *strings.Builder, encap overlay.Encapsulation, gateway, remote netip.Addr, side int) {
	t := timeouts()
	fmt.Fprintf(b, `  egress:
    timeouts: {opening: %s, established: %s, halfClosed: %s, timeWait: %s, closed: %s, udp: %s, udpReplied: %s, udpStream: %s, icmp: %s}
    gateways:
    - {name: out, members: [%q]}
    policies:
    - name: web
      router: %s
      vni: %d
      encapsulation: %s
      remotes: [%q]
      from: [%q]
      to: [%q]
      gateways: out
      pool: [%q]
`, t.Opening, t.Established, t.HalfClosed, t.TimeWait, t.Closed, t.UDP, t.UDPReplied, t.UDPStream, t.ICMP,
		gateway, dut.RouterName, policyVNI, encap, remote, inside, netip.PrefixFrom(TranslatedAddr, TranslatedAddr.BitLen()), PoolAddr)
	if side == 1 {
		b.WriteString("      uplink: wan\n")
	}
}
