package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
)

// Selvage is an edge on each host with its defaults, and what the guide advises for tenants
// that do not trust each other: allowed addresses at the ports of guests, a firewall, BFD.
type Selvage struct {
	Binary string // path of selvage; default: dut.EdgeProgram
}

// Describe is one line for reports.
func (Selvage) Describe() string {
	return "Selvage edge, VXLAN; allowed addresses, firewall, BFD, defaults else"
}

// Routes is true.
func (Selvage) Routes() bool { return true }

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
	for _, h := range []*topo.Host{n.A, n.B} {
		name := dut.EdgeName(h)
		e, err := dut.StartEdge(ctx, h, o.Binary, name, o.Config(name, n, h))
		if err != nil {
			return stop, err
		}
		edges = append(edges, e)
	}
	return stop, nil
}

// Config is the configuration of a host's edge in YAML.
func (o Selvage) Config(name string, n *Network, h *topo.Host) string {
	own, remote := topo.UnderlayAddr(1, 4), topo.UnderlayAddr(2, 4)
	if h == n.B {
		own, remote = remote, own
	}
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: selvage.dev/v1alpha2\nkind: Edge\nmetadata: {name: %s}\nspec:\n", name)
	fmt.Fprintf(&b, "  underlay: {interfaces: [%s], tep: %q, bfd: {interval: 100ms}}\n  fdb: {ageing: %s}\n", topo.UnderlayName, own, n.Options.Ageing)
	if n.Options.BGP {
		fmt.Fprintf(&b, "  bgp:\n    as: %d\n    gracefulRestart: {time: 0, stale: 0}\n    neighbours:\n    - {name: stranger, address: %q, timers: {hold: 9s, keepalive: 3s, connectRetry: 1s}}\n",
			dut.AS, topo.UnderlayAddr(Stranger, 4))
	}
	b.WriteString("  segments:\n")
	for i, segment := range segments() {
		fmt.Fprintf(&b, "  - {name: %s, vni: %d, remotes: [%q]", segment, VNI(i), remote)
		if h == n.A {
			fmt.Fprintf(&b, ", gateway: {router: %s, addresses: [%q, %q]}", segment, Gateway(i, 4), Gateway(i, 6))
		}
		if n.Options.BGP {
			b.WriteString(", evpn: {}")
		}
		b.WriteString("}\n")
	}
	b.WriteString("  ports:\n")
	for _, g := range n.Behind(h) {
		o.port(&b, n, g)
	}
	if h == n.A {
		b.WriteString("  routers:\n")
		for i, segment := range segments() {
			fmt.Fprintf(&b, "  - name: %s\n    uplinks:\n    - {name: out-%s, interface: w%d, addresses: [%q], nat: {masquerade: true, required: true}}\n", segment, segment, i, uplinks()[i])
		}
	}
	if !n.Options.Bare {
		b.WriteString("  firewall: {default: allow}\n")
	}
	return b.String()
}

func (Selvage) port(b *strings.Builder, n *Network, g *Guest) {
	fmt.Fprintf(b, "  - {name: %s, interface: %s, segment: %s", g.Name, g.Port, segments()[g.Segment])
	if g.Guarded && !n.Options.Bare {
		addresses := make([]string, 0, 2)
		for _, a := range []netip.Addr{g.V4, g.V6} {
			addresses = append(addresses, fmt.Sprintf("%q", netip.PrefixFrom(a, a.BitLen())))
		}
		fmt.Fprintf(b, ", allowed: {macs: [%q], addresses: [%s]}", g.MAC, strings.Join(addresses, ", "))
	}
	b.WriteString("}\n")
}
