package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/topo"
)

// Options are of all networks of faults; zero fields get their defaults.
type Options struct {
	Binary string // path of selvage; default: dut.EdgeProgram
	// Liveness is the edges' interval between two probes, and Multiplier how many may go
	// missing; default 50 ms and 3.
	Liveness   time.Duration
	Multiplier int
}

func (o *Options) fill() {
	if o.Liveness == 0 {
		o.Liveness = 50 * time.Millisecond
	}
	if o.Multiplier == 0 {
		o.Multiplier = 3
	}
}

// liveness is the configuration's line.
func (o Options) liveness() string {
	return fmt.Sprintf("bfd: {interval: %s, multiplier: %d}", o.Liveness, o.Multiplier)
}

// pathsMTU leaves room to the tunnel.
const pathsMTU = 1400

// paths is two edges with two tunnel endpoints each, which have four paths, and a
// router of the kernel between all four networks:
//
//	source --- edge1 u0 === a0 [core] b0 === u0 edge2 --- target
//	                 u1 === a1        b1 === u1
type paths struct {
	*Network
	options Options
	core    *topo.Host
	hosts   [2]*topo.Host
	pair    [2]*edge
}

// pathsOfEach is how many an edge has: from each of its endpoints to each of the other's.
const pathsOfEach = 4

// NewTEP builds edges of which one path dies at a time; all share the flows.
func NewTEP(ctx context.Context, l *topo.Lab, o Options) (*Network, error) {
	n, err := newPaths(ctx, l, o)
	if err != nil {
		return nil, err
	}
	link := inject.Ports{Host: n.core, Names: []string{"a1"}}
	dig, fill := link.BlackHole("inet")
	n.Faults = []inject.Fault{
		inject.NewFault("link-down", "the link of one of the two endpoints of an edge is cut", link.Down, link.Up),
		inject.NewFault("blackhole", "the router drops all traffic of one of the two endpoints of an edge; its link stays up", dig, fill),
	}
	n.Network.steps = n.moved
	return n.Network, nil
}

// NewEdge builds edges whose processes are killed. Their data path goes on.
func NewEdge(ctx context.Context, l *topo.Lab, o Options) (*Network, error) {
	n, err := newPaths(ctx, l, o)
	if err != nil {
		return nil, err
	}
	for i, near := range []string{"source", "target"} {
		e := n.pair[i]
		n.Faults = append(n.Faults, inject.NewFault(
			"kill-"+near, "SIGKILL to the process of the edge at the "+near+", which is then restarted",
			func(context.Context) error { return e.kill() }, n.again(e),
		))
	}
	n.Network.steps = func(context.Context, time.Time) (inject.Steps, error) { return inject.Steps{}, nil }
	return n.Network, nil
}

func newPaths(ctx context.Context, l *topo.Lab, o Options) (*paths, error) {
	o.fill()
	n := &paths{Network: newNetwork(l), options: o}
	n.Network.ready = n.allUp
	n.Description = fmt.Sprintf("Selvage edges, VXLAN, two tunnel endpoints each, flows distributed over four paths, BFD every %s × %d", o.Liveness, o.Multiplier)
	n.Addr = topo.ServerV4
	if err := n.build(ctx); err != nil {
		return nil, err
	}
	for i, h := range n.hosts {
		e, err := n.edge(h, o.Binary, n.config(i))
		if err != nil {
			return nil, err
		}
		if err := n.start(ctx, e); err != nil {
			return nil, err
		}
		n.pair[i] = e
	}
	return n, n.Ready(ctx)
}

// build makes hosts and links.
func (n *paths) build(ctx context.Context) (err error) {
	if n.core, err = n.Lab.Host("core"); err != nil {
		return err
	}
	if err := n.core.SysctlSet("net/ipv4/ip_forward", "1"); err != nil {
		return err
	}
	for i, end := range []struct {
		name  string
		addr  netip.Addr
		guest **topo.Host
	}{{"source", topo.ClientV4, &n.Source}, {"target", topo.ServerV4, &n.Target}} {
		if n.hosts[i], err = n.Lab.Host(fmt.Sprintf("edge%d", i+1)); err != nil {
			return err
		}
		if *end.guest, err = n.Lab.Host(end.name); err != nil {
			return err
		}
		guest := topo.LinkEnd{Host: *end.guest, Name: topo.EndName, Addrs: []netip.Prefix{topo.PrefixOf(end.addr)}}
		if err := n.Lab.Link(ctx, guest, topo.LinkEnd{Host: n.hosts[i], Name: topo.AccessName}, pathsMTU); err != nil {
			return err
		}
		for number := range 2 {
			if err := n.link(ctx, i, number); err != nil {
				return err
			}
		}
	}
	return nil
}

// tep is an endpoint of an edge, in a network of its own with the core's next address.
func (n *paths) tep(edge, number int) netip.Addr {
	return netip.AddrFrom4([4]byte{192, 0, 2, byte(64*(2*edge+number) + 1)})
}

// link joins an endpoint's interface to the core. What leaves from the endpoint's address
// leaves by it.
func (n *paths) link(ctx context.Context, edge, number int) error {
	h, tep, name := n.hosts[edge], n.tep(edge, number), fmt.Sprintf("u%d", number)
	end := topo.LinkEnd{Host: h, Name: name, Addrs: []netip.Prefix{netip.PrefixFrom(tep, 26)}}
	if number == 0 {
		end.Gateways = []netip.Addr{tep.Next()}
	}
	core := topo.LinkEnd{Host: n.core, Name: fmt.Sprintf("%c%d", 'a'+edge, number), Addrs: []netip.Prefix{netip.PrefixFrom(tep.Next(), 26)}}
	if err := n.Lab.Link(ctx, end, core, 1500); err != nil {
		return err
	}
	table := fmt.Sprint(10 + number)
	_, route := h.Output(ctx, "ip", "route", "add", "default", "via", tep.Next().String(), "dev", name, "table", table)
	_, rule := h.Output(ctx, "ip", "rule", "add", "from", tep.String(), "lookup", table)
	return errors.Join(route, rule)
}

func (n *paths) config(i int) string {
	return fmt.Sprintf(`apiVersion: selvage.dev/v1alpha2
kind: Edge
metadata: {name: %s}
spec:
  underlay:
    teps:
    - {name: a, address: %q, interface: u0}
    - {name: b, address: %q, interface: u1}
    teaming: flow
    %s
  remotes:
  - {name: far, addresses: [%q, %q]}
  segments:
  - {name: lab, vni: 100, remotes: [far]}
  ports:
  - {name: access, interface: %s, segment: lab}
`, dut.EdgeName(n.hosts[i]), n.tep(i, 0), n.tep(i, 1), n.options.liveness(), n.tep(1-i, 0), n.tep(1-i, 1), topo.AccessName)
}

func (n *paths) allUp(ctx context.Context) error {
	return errors.Join(n.pair[0].PathsUp(ctx, pathsOfEach), n.pair[1].PathsUp(ctx, pathsOfEach))
}

// moved is when the later of both edges took the dead paths out of use. They do not tell
// when the change of their tables was done.
func (n *paths) moved(ctx context.Context, since time.Time) (steps inject.Steps, err error) {
	for _, e := range n.pair {
		all, err := e.PathStates(ctx)
		if err != nil {
			return steps, err
		}
		now, first := time.Now(), time.Time{}
		for _, p := range all {
			at := now.Add(-time.Duration(p.Age * float64(time.Second)))
			if p.State != "up" && at.After(since) && (first.IsZero() || at.Before(first)) {
				first = at
			}
		}
		if first.After(steps.Noticed) {
			steps.Noticed = first
		}
	}
	return steps, nil
}
