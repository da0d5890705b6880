package places

import (
	"context"
	"errors"
	"net/netip"

	"github.com/selvage/selvage/lab/topo"
)

// Gateway is a machine that routes from a to an address of b, and translates the source.
type Gateway struct {
	*Machine
	// Addr are what b sees then, and Target are b's addresses behind it.
	Addr, Addr6, Target, Target6 netip.Addr
	// Node are what a has towards it: what b must not see.
	Node, Node6 netip.Addr
}

// masquerade is the gateway's policy.
const masquerade = `
table inet egress {
	chain out {
		type nat hook postrouting priority srcnat
		oifname "` + Outside + `" masquerade
	}
}`

// route makes the links to the gateway and its policy. b has a way back to a's own address, so that
// what is not translated arrives and is answered.
func (b *Testbed) route(ctx context.Context, lab *topo.Lab) error {
	addr := netip.MustParseAddr
	g := b.Gateway
	g.Node, g.Node6, g.Addr, g.Addr6 = addr("10.12.0.1"), addr("fd12::1"), addr("10.13.0.254"), addr("fd13::254")
	g.Target, g.Target6 = addr("10.13.0.2"), addr("fd13::2")
	inside, inside6 := addr("10.12.0.254"), addr("fd12::254")
	end := func(m *Machine, name string, v4, v6 netip.Addr) topo.LinkEnd {
		return topo.LinkEnd{Host: m.Host, Name: name, Addrs: []netip.Prefix{netip.PrefixFrom(v4, 24), netip.PrefixFrom(v6, 64)}}
	}
	if err := lab.Link(ctx, end(b.A, Inside, g.Node, g.Node6), end(g.Machine, Inside, inside, inside6), 1500); err != nil {
		return err
	}
	if err := lab.Link(ctx, end(g.Machine, Outside, g.Addr, g.Addr6), end(b.B, Outside, g.Target, g.Target6), 1500); err != nil {
		return err
	}
	if _, err := g.Host.Forward(); err != nil { // until the test ends
		return err
	}
	if err := g.Host.Nft(ctx, "egress", masquerade); err != nil {
		return err
	}
	network := func(a netip.Addr) netip.Prefix {
		if a.Is4() {
			return netip.PrefixFrom(a, 24).Masked()
		}
		return netip.PrefixFrom(a, 64).Masked()
	}
	err := errors.Join(
		b.A.Host.AddRoute(Inside, network(g.Target), inside), b.A.Host.AddRoute(Inside, network(g.Target6), inside6),
		b.B.Host.AddRoute(Outside, network(g.Node), g.Addr), b.B.Host.AddRoute(Outside, network(g.Node6), g.Addr6),
	)
	if err != nil {
		return err
	}
	return errors.Join(b.A.Host.Reach(ctx, g.Target), b.A.Host.Reach(ctx, g.Target6))
}
