package mtu

import (
	"context"
	"errors"
	"fmt"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/topo"
)

// segmentation are the offloads by which a guest hands whole segments to the host.
func segmentation() []string {
	return []string{"tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-generic-segmentation"}
}

// segment turns the guests' segmentation offload on or off. Off, their frames are
// those of a wire. On, the kernel's bridge lets whole segments pass whatever size
// their packets have, so the hole does not show.
func segment(n *topo.TwoHosts, on bool) error {
	want := map[string]bool{}
	for _, feature := range segmentation() {
		want[feature] = on
	}
	_, client := n.Client.SetFeatures(topo.EndName, want)
	_, server := n.Server.SetFeatures(topo.EndName, want)
	return errors.Join(client, server)
}

// sizes are the MTUs of a target in a setting; passes is what was found to.
func (c *Command) sizes(setting string, passes int) (underlay, guest int) {
	switch setting {
	case lowerGuest:
		return c.UnderlayMTU, passes
	case jumbo:
		return c.JumboMTU, c.JumboMTU - c.paths().MostOverhead()
	}
	return c.UnderlayMTU, c.GuestMTU
}

// networks are all that a setting has built.
type networks struct {
	experiment.Labs
	byName map[string]*experiment.Network
}

// hosts makes the hosts and links of a setting, without a data path.
func (c *Command) hosts(ctx context.Context, all *networks, setting, name string, passes int) (*topo.TwoHosts, error) {
	lab, err := all.Make(ctx, "mtu "+setting+" "+name)
	if err != nil {
		return nil, err
	}
	underlay, guest := c.sizes(setting, passes)
	return topo.NewTwoHosts(ctx, lab, topo.TwoHostsOptions{
		UnderlayMTU: underlay, InnerMTU: guest, UnderlayFamily: c.Family, BridgeNetfilter: c.BridgeNetfilter,
	})
}

// build makes the network of a target in a setting.
func (c *Command) build(ctx context.Context, all *networks, setting, name string, passes int) error {
	n, err := c.hosts(ctx, all, setting, name, passes)
	if err != nil {
		return fmt.Errorf("target %s: %w", name, err)
	}
	path, err := c.start(ctx, n, setting, name)
	if err == nil {
		err = segment(n, false)
	}
	if err == nil && setting == clampMSS {
		err = c.clamp(ctx, n, name)
	}
	if err != nil {
		return fmt.Errorf("target %s, %s: %w", name, setting, err)
	}
	all.byName[name] = &experiment.Network{Net: n, Path: path}
	return nil
}

// start brings a target's data path up as the setting has it.
func (c *Command) start(ctx context.Context, n *topo.TwoHosts, setting, name string) (*topo.Path, error) {
	guest := n.Options.InnerMTU
	switch experiment.PathOf(name) {
	case "plain":
		return dut.Plain(ctx, n, dut.EndOptions{MTU: guest})
	case "kernel":
		o := dut.KernelOptions{NoUDPCsum: true, UDP6ZeroCsumTx: true, UDP6ZeroCsumRx: true}
		o.TunnelMTU = min(guest, c.pathMTU(name, n.Options.UnderlayMTU))
		if setting == tooBig {
			o.TunnelMTU = guest
		}
		return dut.Kernel(ctx, n, o)
	}
	return dut.Selvage(ctx, n, dut.SelvageOptions{
		Binary: c.SelvageBinary, Encapsulation: c.paths().Encapsulation(name), NoClamp: setting == tooBig,
	})
}

// clamp has the hosts' bridges lower the MSS, where the data path does not by
// itself, and keeps "too big" messages from the guests, so that nothing else helps.
func (c *Command) clamp(ctx context.Context, n *topo.TwoHosts, name string) error {
	errs := []error{dut.DropTooBig(ctx, n.Client), dut.DropTooBig(ctx, n.Server)}
	if experiment.PathOf(name) != "selvage" {
		mtu := c.pathMTU("kernel", n.Options.UnderlayMTU) // plain's too, for equal segments
		errs = append(errs, dut.ClampMSS(ctx, n.A, mtu), dut.ClampMSS(ctx, n.B, mtu))
	}
	return errors.Join(errs...)
}

// environment records the machine with a network as every target gets one.
func (c *Command) environment(ctx context.Context, version string) (env result.Environment, top result.Topology, err error) {
	all := &networks{}
	defer func() { err = errors.Join(err, all.Close()) }()
	n, err := c.hosts(ctx, all, asItComes, "environment", 0)
	if err != nil {
		return env, top, err
	}
	if err := segment(n, false); err != nil {
		return env, top, err
	}
	if env, err = measure.Environment(ctx, n, version); err != nil {
		return env, top, err
	}
	env.MTU = map[string]int{"underlay": c.UnderlayMTU, "guest": c.GuestMTU, "inner": c.UnderlayMTU - c.paths().MostOverhead(), "jumbo underlay": c.JumboMTU}
	return env, experiment.Topology(n), nil
}
