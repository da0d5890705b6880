package rfc2544

import (
	"slices"

	"github.com/selvage/selvage/lab/dut/router"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/lab/transit"
)

// options are a target's bed.
func (c *Command) options(target string) transit.Options {
	return transit.Options{
		Experiment: Name,
		Transit:    router.Options{Pairs: c.Scenario, Family: c.Family, UnderlayFamily: c.Underlay},
		Split:      isSplit(c),
		Forwarder:  c.forwarder(target),
	}
}

func (c *Command) forwarder(target string) router.Forwarder {
	switch target {
	case transit.LimitName:
		return router.Limit{}
	case transit.KernelName:
		return router.Kernel{}
	case transit.RouteName:
		return router.Kernel{Plain: true}
	case transit.OVSName:
		return router.OVS{}
	}
	mode := c.SelvageTransit
	if target == transit.TCName {
		mode = "tc"
	}
	flows := slices.Max(append(c.FlowSweep, c.Flows))
	return router.Selvage{
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
