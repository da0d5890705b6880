package attack

import (
	"context"
	"errors"
	"fmt"

	"github.com/selvage/selvage/lab/experiment/attack/attacker"
	"github.com/selvage/selvage/lab/experiment/attack/network"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/topo"
)

// testbed is the networks of a run, one of each target, which stay up until an attack leaves one
// in a state that is not what it was, or the next attack needs BGP.
type testbed struct {
	options *Command
	byName  map[string]*besieged
	// newcomers numbers the MAC addresses of honest newcomers: each is new.
	newcomers int
}

// besieged is a target's network.
type besieged struct {
	lab  *topo.Lab
	net  *network.Network
	path network.Path
	bgp  bool
	// pairs are the honest ones, of the same segment and of the other; outside those that go by NAT.
	pairs, outside []*honest
}

// close removes everything.
func (b *testbed) close() error {
	var errs []error
	for name := range b.byName {
		errs = append(errs, b.drop(name))
	}
	return errors.Join(errs...)
}

// drop removes a target's network.
func (b *testbed) drop(name string) error {
	s := b.byName[name]
	if s == nil {
		return nil
	}
	delete(b.byName, name)
	for _, pair := range append(s.pairs, s.outside...) {
		pair.close()
	}
	return s.lab.Close()
}

// provide is a target's network, ready for an attack.
func (b *testbed) provide(ctx context.Context, name string, a attacker.Attack) (*besieged, error) {
	if s := b.byName[name]; s != nil {
		if s.bgp == a.Routes {
			return s, nil
		}
		if err := b.drop(name); err != nil {
			return nil, err
		}
	}
	s, err := b.build(ctx, name, a.Routes)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("target %s: %w", name, err), b.drop(name))
	}
	return s, nil
}

func (b *testbed) build(ctx context.Context, name string, bgp bool) (*besieged, error) {
	lab, err := topo.New(ctx, "attack "+name)
	if err != nil {
		return nil, err
	}
	s := &besieged{lab: lab, path: b.options.path(name), bgp: bgp}
	b.byName[name] = s
	if s.net, err = network.New(ctx, lab, network.Options{Ageing: b.options.Ageing, BGP: bgp, Bare: b.options.Bare}); err != nil {
		return nil, err
	}
	if err := s.net.Start(ctx, s.path); err != nil {
		return nil, err
	}
	// Servers close first. What the kernel keeps of that is not what is measured.
	for _, h := range []*topo.Host{s.net.Outside, s.net.Guest(network.RoleSame2).Host, s.net.Guest(network.RoleOther2).Host} {
		if err := h.SysctlSet("net/ipv4/tcp_max_tw_buckets", "8192"); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// honestPairs are the pairs of an attack, with their instruments.
func (s *besieged) honestPairs(ctx context.Context, a attacker.Attack) ([]*honest, error) {
	pairs := &s.pairs
	if a.Outside {
		pairs = &s.outside
	}
	if len(*pairs) == 0 {
		for i, roles := range [][2]string{{network.RoleSame1, network.RoleSame2}, {network.RoleOther1, network.RoleOther2}} {
			h := &honest{name: pairNames()[i], number: i}
			server := s.net.Guest(roles[1])
			h.ends.Client, h.ends.Server, h.ends.Addr = s.net.Guest(roles[0]).Host, server.Host, server.V4
			if a.Outside {
				h.ends.Server, h.ends.Addr = s.net.Outside, network.Outside(i)
			}
			*pairs = append(*pairs, h)
		}
	}
	for _, h := range *pairs {
		if err := h.stand(ctx); err != nil {
			return nil, fmt.Errorf("honest pair %s: %w", h.name, err)
		}
	}
	return *pairs, nil
}

// target describes a network.
func (s *besieged) target(name string) result.Target {
	return result.Target{Name: name, Description: s.path.Describe(), InnerMTU: 1450}
}

// attackTopology is the picture of the network.
func attackTopology(n *network.Network) result.Topology {
	guest := func(role string) result.Node {
		g := n.Guest(role)
		return result.Node{Name: role, Role: "client", Addrs: []string{g.V4.String(), g.V6.String()}}
	}
	server := func(role string) result.Node {
		node := guest(role)
		node.Role = "server"
		return node
	}
	host := func(name string, number int) result.Node {
		return result.Node{Name: name, Role: "host", Addrs: []string{network.TEP(number, 4).String()}}
	}
	nodes := []result.Node{
		guest(network.RoleSame1), guest(network.RoleAttacker), guest(network.RoleOther1), host("host A", 1), host("host B", 2),
		server(network.RoleSame2), server(network.RoleOther2), host("stranger", network.Stranger),
	}
	link := func(a, b, role string, mtu int) result.Link { return result.Link{A: a, B: b, Role: role, MTU: mtu} }
	return result.Topology{Nodes: nodes, Links: []result.Link{
		link(network.RoleSame1, "host A", "access", 1450), link(network.RoleAttacker, "host A", "access", 1450), link(network.RoleOther1, "host A", "access", 1450),
		link("host A", "host B", "underlay", 1500), link("host B", network.RoleSame2, "access", 1450), link("host B", network.RoleOther2, "access", 1450),
		link("stranger", "host A", "underlay", 1500),
	}}
}
