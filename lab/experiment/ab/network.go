package ab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/topo"
)

// build makes the network of a target and starts its data path.
func (c *Command) build(ctx context.Context, all *experiment.Labs, name string) (*experiment.Network, error) {
	n, err := c.hosts(ctx, all, name)
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", name, err)
	}
	path, control, err := c.startBy(ctx, n, name)
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", name, err)
	}
	return &experiment.Network{Net: n, Path: path, Control: control}, nil
}

// startBy starts a target's data path by the control plane that was asked for. Without
// a tunnel there is nothing to tell.
func (c *Command) startBy(ctx context.Context, n *topo.TwoHosts, name string) (*topo.Path, *dut.Control, error) {
	if c.Control == evpn {
		switch c.path(name) {
		case "kernel":
			return dut.KernelEVPN(ctx, n, kernelOptions())
		case "selvage":
			return dut.SelvageEVPN(ctx, n, c.selvageOptions(name))
		}
	}
	path, err := c.start(ctx, n, name)
	return path, nil, err
}

func kernelOptions() dut.KernelOptions {
	return dut.KernelOptions{NoUDPCsum: true, UDP6ZeroCsumTx: true, UDP6ZeroCsumRx: true}
}

func (c *Command) selvageOptions(name string) dut.SelvageOptions {
	o := dut.SelvageOptions{Binary: c.programs.Of(name, c.SelvageBinary), Encapsulation: c.encapsulation(name)}
	if slices.Contains(c.Load, name) {
		o.Load = &load
	}
	return o
}

// load is what a target of --load carries besides.
var load = dut.Load{Flows: 100_000, FDB: 10_000, Scrape: 5 * time.Second}

// checkLoad says which targets cannot carry a load.
func checkLoad(c *Command) error {
	for _, name := range c.Load {
		switch {
		case !slices.Contains(c.Targets, name) || c.path(name) != "selvage":
			return fmt.Errorf("--load: %s is no edge among --targets", name)
		case c.Routed:
			return errors.New("--load: the flows that it adds are bridged; leave out --routed and --control evpn")
		}
	}
	return nil
}

// hosts makes hosts and links with their offloads, without a data path.
func (c *Command) hosts(ctx context.Context, all *experiment.Labs, name string) (*topo.TwoHosts, error) {
	lab, err := all.Make(ctx, "ab "+name)
	if err != nil {
		return nil, err
	}
	n, err := topo.NewTwoHosts(ctx, lab, topo.TwoHostsOptions{
		UnderlayMTU: c.UnderlayMTU, InnerMTU: c.InnerMTU, UnderlayFamily: c.Family, BridgeNetfilter: c.BridgeNetfilter, Routed: c.Routed,
	})
	if err != nil {
		return nil, err
	}
	return n, experiment.SetFeatures(n, c.Offload, experiment.Roles()...)
}

// start brings a target's data path up and waits until it carries traffic. All
// tunnels send the same bytes: UDP checksum zero (RFC 7348 section 5, RFC 6935).
func (c *Command) start(ctx context.Context, n *topo.TwoHosts, name string) (*topo.Path, error) {
	switch c.path(name) {
	case "wire":
		path, err := dut.Wire(ctx, n, dut.EndOptions{MTU: c.PlainMTU})
		if err != nil {
			return nil, err
		}
		return path, experiment.SetFeatures(n, c.Offload, "client", "server") // it has a link of its own
	case "plain":
		return dut.Plain(ctx, n, dut.EndOptions{MTU: c.PlainMTU})
	case "limit":
		return dut.Limit(ctx, n, dut.LimitOptions{EndOptions: dut.EndOptions{MTU: c.PlainMTU}, Encapsulation: c.encapsulation(name)})
	case "kernel":
		return dut.Kernel(ctx, n, kernelOptions())
	case "ovs":
		return dut.OVS(ctx, n, dut.OVSOptions{Encapsulation: c.encapsulation(name)})
	case "selvage":
		return dut.Selvage(ctx, n, c.selvageOptions(name))
	}
	return nil, fmt.Errorf("there is no target %q", name)
}

// environment records the machine with a network as every target gets one,
// before a data path changes anything in it.
func (c *Command) environment(ctx context.Context, version string) (env result.Environment, err error) {
	var all experiment.Labs
	defer func() { err = experiment.Removed(ctx, err, all.Close()) }()
	n, err := c.hosts(ctx, &all, "environment")
	if err != nil {
		return env, err
	}
	if env, err = measure.Environment(ctx, n, version); err == nil {
		env.MTU["plain"] = c.PlainMTU
	}
	return env, err
}
