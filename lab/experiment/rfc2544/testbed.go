package rfc2544

import (
	"slices"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/lab/transit"
)

// options are a target's bed.
func (c *Command) options(target string) transit.Options {
	return transit.Options{
		Experiment: Name,
		Transit:    topo.TransitOptions{Pairs: c.Scenario, Family: c.Family, UnderlayFamily: c.Underlay},
		Split:      isSplit(c),
		Forwarder:  c.forwarder(target),
	}
}

func (c *Command) forwarder(target string) topo.Forwarder {
	switch target {
	case transit.LimitName:
		return topo.TransitLimit{}
	case transit.KernelName:
		return topo.TransitKernel{}
	case transit.RouteName:
		return topo.TransitKernel{Plain: true}
	case transit.OVSName:
		return topo.TransitOVS{}
	}
	mode := c.SelvageTransit
	if target == transit.TCName {
		mode = "tc"
	}
	flows := slices.Max(append(c.FlowSweep, c.Flows))
	return topo.TransitSelvage{
		Binary: c.programs.Of(target, c.SelvageBinary), Encapsulation: transitEncapsulation(target), Mode: mode, FlowCacheSize: transit.CacheSize(flows),
	}
}

// overhead is what a target's tunnel adds to a frame, in bytes.
func (c *Command) overhead(target string) int {
	e := transitEncapsulation(target)
	if e == "" {
		return 0
	}
	tep := topo.ClientV4
	if c.Underlay == 6 {
		tep = topo.ClientV6
	}
	return e.Overhead(tep)
}
