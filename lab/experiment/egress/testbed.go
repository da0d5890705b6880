package egress

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/selvage/selvage/lab/experiment/egress/network"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
)

// exit is a target with hosts and links of its own, which stay up from the first sample
// to the last. Only the rate of its wires changes.
type exit struct {
	net  *network.Network
	path network.Path
	wire uint64 // bits a second in force, 0 for none
}

// exits are all that a run has built.
type exits struct {
	labs   []*topo.Lab
	byName map[string]*exit
}

// close removes everything.
func (all *exits) close() error {
	var errs []error
	for _, lab := range all.labs {
		errs = append(errs, lab.Close())
	}
	return errors.Join(errs...)
}

// build makes the network of a target and starts its data path.
func (c *Command) build(ctx context.Context, all *exits, name string) (*exit, error) {
	lab, err := topo.New(ctx, Name+" "+name)
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", name, err)
	}
	all.labs = append(all.labs, lab)
	e := &exit{path: c.path(name)}
	if e.net, err = network.New(ctx, lab, network.Options{UnderlayMTU: c.UnderlayMTU}); err != nil {
		return nil, fmt.Errorf("target %s: %w", name, err)
	}
	if err = e.net.Start(ctx, e.path); err != nil {
		return nil, fmt.Errorf("target %s: %w", name, err)
	}
	// Servers close first. What the kernel keeps of that is not what is measured.
	if err := e.net.Target.SysctlSet("net/ipv4/tcp_max_tw_buckets", "8192"); err != nil {
		return nil, err
	}
	all.byName[name] = e
	return e, nil
}

// path is a target's data path.
func (c *Command) path(name string) network.Path {
	off := strings.HasSuffix(name, ChecksumOff)
	switch baseOf(name) {
	case Routing:
		return network.Kernel{Plain: true}
	case stats.Kernel:
		return network.Kernel{NoChecksum: off}
	}
	return network.Selvage{Binary: c.SelvageBinary, NoChecksum: off}
}

// rate puts the rate of the wires in force.
func (e *exit) rate(ctx context.Context, bits uint64) error {
	if e.wire == bits {
		return nil
	}
	if err := e.net.Wire(ctx, bits); err != nil {
		return err
	}
	e.wire = bits
	return nil
}

// ends are who talks to whom on a stage.
func (e *exit) ends(stage string) measure.Ends {
	n := e.net
	_, gateway := n.TEPs()
	switch stage {
	case StageNode:
		return measure.Ends{Client: n.Node, Server: n.Gateway, Addr: gateway}
	case StageTunnel:
		return measure.Ends{Client: n.Node, Server: n.Gateway, Addr: n.Endpoint()}
	case StageRouted:
		return measure.Ends{Client: n.Workload, Server: n.Target, Addr: network.RoutedAddr}
	}
	return measure.Ends{Client: n.Workload, Server: n.Target, Addr: network.TranslatedAddr}
}

// prove says what is wrong with the addresses that the target sees: the workload's own
// where packets are routed, another where they are translated.
func (e *exit) prove(stage string) error {
	if stage != StageRouted && stage != StageEgress {
		return nil
	}
	from, err := e.net.SeenAs(e.ends(stage).Addr)
	switch {
	case err != nil:
		return err
	case stage == StageEgress && from == network.WorkloadAddr:
		return fmt.Errorf("the target sees the workload's own address %s: nothing translates it", from)
	case stage == StageRouted && from != network.WorkloadAddr:
		return fmt.Errorf("the target sees %s: something translates what is only to be routed", from)
	}
	return nil
}

// target describes a path, with what headers alone cost on a wire.
func (c *Command) target(name string, e *exit) result.Target {
	d := result.Target{Name: name, Description: e.path.Describe(), InnerMTU: e.net.Options.InnerMTU}
	if name != Routing {
		d.HeaderTax = stats.HeaderTax(
			stats.Path{MTU: c.UnderlayMTU, Timestamps: true},
			stats.Path{MTU: d.InnerMTU, Timestamps: true, Outer: c.UnderlayMTU - d.InnerMTU})
	}
	return d
}

// egressTopology is the picture of the network.
func egressTopology(n *network.Network) result.Topology {
	node, gateway := n.TEPs()
	return result.Topology{
		Nodes: []result.Node{
			{Name: "workload", Role: "client", Addrs: []string{network.WorkloadAddr.String()}},
			{Name: "node", Role: "host", Addrs: []string{node.String()}},
			{Name: "gateway", Role: "host", Addrs: []string{gateway.String()}},
			{Name: "target", Role: "server", Addrs: []string{network.TranslatedAddr.String(), network.RoutedAddr.String()}},
		},
		Links: []result.Link{
			{A: "workload", B: "node", Role: "access", MTU: n.Options.InnerMTU},
			{A: "node", B: "gateway", Role: "underlay", MTU: n.Options.UnderlayMTU},
			{A: "gateway", B: "target", Role: "uplink", MTU: n.Options.UnderlayMTU},
		},
	}
}
