// Package egress is the experiment on the way out: node to node, tunnel to tunnel, workload to gateway to
// target, with and without NAT.
//
// Its invariant: a stage adds one thing to the one below it, in the same round.
// Do not use it for gateways that fail; that is package failover.
package egress

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/egress/places"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
)

// Experiment is this one.
func Experiment() experiment.Experiment {
	return experiment.Experiment{
		Name: Name, Command: func() any { return new(commands) },
		Summarise: summarise, Metrics: figures, Verdict: verdict, Page: page, Table: table,
	}
}

// Command is the command line of the experiment on the way out of the overlay.
type Command struct {
	Targets    []string `placeholder:"NAME" default:"plain,kernel,selvage" help:"Data paths to compare: ${default} by default. kernel is vxlan and nftables' masquerade, plain routes without a tunnel. Ratios are against each one's own node-to-node stage."`
	Stages     []string `placeholder:"STAGE" enum:"node,tunnel,routed,egress" default:"node,tunnel,routed,egress" help:"Stages of the EgressGateway study, and routed: the egress path without NAT. ${enum} by default; node is always measured."`
	Measure    []string `placeholder:"WHAT" enum:"tcp,rr,conn" default:"tcp,rr,conn" help:"What to measure: TCP throughput, round trips, connections a second. ${enum} by default."`
	Directions []string `placeholder:"WAY" enum:"send,receive" help:"Directions of TCP throughput; send,receive by default, with --quick send."`
	Quick      bool     `help:"In less than two minutes: 3 rounds of short samples of kernel and selvage, to the target only."`
	Rounds     int      `help:"Samples of each target and case; 5 by default, with --quick 3, and 10 between places."`

	experiment.Destination

	Troubleshoot bool `help:"Also measure tunnels without transmit checksum offload, and say which stage loses and why, in the order of the EgressGateway study."`

	Wire        float64 `group:"Network" placeholder:"GBIT" default:"5" help:"Rate of underlay and uplink in Gbit/s; ${default}. It should be below what the slowest stage carries without a limit. 0 measures only without a limit."`
	Free        bool    `group:"Network" default:"true" negatable:"" help:"Also measure without a rate limit, where the cores that all hosts share are the limit."`
	UnderlayMTU int     `group:"Network" placeholder:"BYTES" default:"9000" help:"MTU of underlay and uplink; ${default}. With 1500, headers alone take 3.4 % of a wire."`

	Duration time.Duration `group:"Samples" placeholder:"TIME" help:"Duration of a TCP sample, in whole seconds; 3s by default, with --quick 1s."`
	Sample   time.Duration `group:"Samples" placeholder:"TIME" help:"Duration of all other samples; 2s by default, with --quick 300ms."`
	AtOnce   int           `group:"Samples" default:"64" help:"Concurrent connections where they are counted; ${default}."`

	SelvageBinary string `group:"Samples" placeholder:"FILE" type:"existingfile" help:"Program that runs the edges; selvage of this build by default."`

	Places places.Command `embed:""`
}

// placesRounds are the rounds between places: a difference needs at least stats.LeastPairs.
const placesRounds = 10

// egressTargets are the data paths that can be measured.
func egressTargets() []string {
	return []string{Routing, stats.Kernel, "selvage", stats.Kernel + ChecksumOff, "selvage" + ChecksumOff}
}

// Validate checks what belongs together and fills in what --quick and --troubleshoot mean.
func (c *Command) Validate() error {
	if !c.Places.Given {
		return c.validateNetworks()
	}
	if !c.Places.RoundsGiven {
		c.Rounds = placesRounds
	}
	return c.Places.Check(c.Rounds)
}

// validateNetworks is Validate for networks that the lab builds.
func (c *Command) validateNetworks() error {
	rounds, duration, sample, directions := 5, 3*time.Second, 2*time.Second, []string{"send", "receive"}
	if c.Quick {
		rounds, duration, sample, directions = 3, time.Second, 300*time.Millisecond, []string{"send"}
		c.Targets = slices.DeleteFunc(slices.Clone(c.Targets), func(name string) bool { return name == Routing })
	}
	if c.Rounds == 0 {
		c.Rounds = rounds
	}
	if c.Duration == 0 {
		c.Duration = duration
	}
	if c.Sample == 0 {
		c.Sample = sample
	}
	if len(c.Directions) == 0 {
		c.Directions = directions
	}
	if !slices.Contains(c.Stages, StageNode) {
		c.Stages = append([]string{StageNode}, c.Stages...)
	}
	if err := experiment.CheckNames(c.Targets, egressTargets()); err != nil {
		return err
	}
	if c.Troubleshoot {
		c.addVariants()
	}
	return errors.Join(c.checkVariants(), c.checkLists(), c.checkSizes())
}

// addVariants adds each tunnel with its checksum offload off.
func (c *Command) addVariants() {
	for _, name := range slices.Clone(c.Targets) {
		if variant := name + ChecksumOff; slices.Contains(egressTargets(), variant) && !slices.Contains(c.Targets, variant) {
			c.Targets = append(c.Targets, variant)
		}
	}
}

// checkVariants wants each variant's original, which its ratios are against.
func (c *Command) checkVariants() error {
	for _, name := range c.Targets {
		if base := baseOf(name); !slices.Contains(c.Targets, base) {
			return fmt.Errorf("--targets: %s is compared with %s: add that", name, base)
		}
	}
	return nil
}

func (c *Command) checkLists() error {
	for _, list := range []struct {
		flag  string
		names []string
	}{{"--stages", c.Stages}, {"--measure", c.Measure}, {"--directions", c.Directions}} {
		if len(list.names) == 0 {
			return fmt.Errorf("%s: name at least one", list.flag)
		}
		for i, name := range list.names {
			if slices.Contains(list.names[:i], name) {
				return fmt.Errorf("%s: %s is named twice", list.flag, name)
			}
		}
	}
	return nil
}

func (c *Command) checkSizes() error {
	overhead := overlay.VXLAN.Overhead(topo.ClientV4)
	switch {
	case c.Rounds < 1:
		return fmt.Errorf("--rounds: %d is not 1 or more", c.Rounds)
	case c.Duration < time.Second || c.Duration%time.Second != 0:
		return fmt.Errorf("--duration: %s is not whole seconds, 1 or more", c.Duration)
	case c.Sample < 100*time.Millisecond:
		return fmt.Errorf("--sample: %s is less than 100ms", c.Sample)
	case c.AtOnce < 2 || c.AtOnce > 4096:
		return fmt.Errorf("--at-once: %d is not within 2 … 4096", c.AtOnce)
	case c.Wire != 0 && (c.Wire < 0.01 || c.Wire > 100):
		return fmt.Errorf("--wire: %g is neither 0 nor within 0.01 … 100 Gbit/s", c.Wire)
	case c.Wire == 0 && !c.Free:
		return errors.New("--no-free and --wire 0 leave nothing to measure: leave one of them out")
	case c.UnderlayMTU < experiment.LeastMTU+overhead || c.UnderlayMTU > experiment.MostMTU:
		return fmt.Errorf("--underlay-mtu: %d is not within %d … %d bytes", c.UnderlayMTU, experiment.LeastMTU+overhead, experiment.MostMTU)
	}
	return nil
}

// Run measures, writes result and report and prints the summary. When ctx ends it
// keeps the samples that it has. It fails when a sample did.
func (c *Command) Run(ctx context.Context, console *experiment.Console) error {
	if c.Places.Given {
		return c.Places.Run(ctx, console, c.Rounds, c.Destination)
	}
	return experiment.Run(ctx, console, Experiment(), c.Destination, c.measure)
}

// commands is the command as kong reads it.
type commands struct {
	Egress Command `cmd:"" help:"Measure egress: node to node, tunnel to tunnel, workload to gateway to target, with and without NAT."`
}
