// Package offload is the experiment on what offloads gain by size of writes, in several states and data
// paths.
//
// Its invariant: a state is on every interface of a path, or the sample fails.
// Do not use it to find which offloads of a real network work; selvage offload does.
package offload

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/offload/places"
	"github.com/selvage/selvage/lab/topo"
)

// Experiment is this one.
func Experiment() experiment.Experiment {
	return experiment.Experiment{
		Name: Name, Command: func() any { return new(commands) },
		Summarise: summarise, Metrics: figures, Verdict: verdict, Page: page, Table: table,
	}
}

// Command is the command line of the experiment on offloads and the sizes of writes, which
// is the QLogic study's.
type Command struct {
	Targets []string                `placeholder:"NAME" enum:"kernel,selvage" default:"kernel,selvage" help:"Data paths to compare: ${enum}. Ratios are against kernel, in the same state."`
	Encap   []overlay.Encapsulation `placeholder:"NAME" enum:"vxlan,geneve,nvgre" default:"vxlan" help:"Encapsulations: ${enum}. The kernel is measured where it has the device."`
	Sizes   []int                   `placeholder:"KB" help:"Sizes of a write in units of 1024 bytes; 1,2,4,8,16,32,64 by default."`
	States  []string                `placeholder:"STATE" help:"States of the offloads; by default all-on, all-off, and of tso (segmentation on transmit), gro (coalescing on receive) and csum (checksums) each off alone and on alone: tso-off, tso-on, …"`
	Ways    []string                `placeholder:"WAY" help:"one-way, both-ways; both by default."`
	Where   []string                `placeholder:"ROLE" enum:"ports,underlay,tunnel" default:"ports,underlay" help:"Interfaces whose offloads are switched: ${enum}, the last being the kernel's own tunnel device and bridge; ${default} by default."`
	Quick   bool                    `help:"In less than three minutes: sizes 1, 8 and 64, states all-on, all-off, tso-off and csum-off, one way, 3 rounds."`
	Rounds  int                     `default:"5" help:"Samples of each target and case; ${default}, and 10 between places."`

	experiment.Destination

	UnderlayMTU int `group:"Network" placeholder:"BYTES" default:"1500" help:"MTU between the hosts; ${default}."`
	Family      int `group:"Network" enum:"4,6" default:"4" help:"IP version of the underlay: ${enum}."`
	Pairs       int `group:"Network" default:"4" help:"End systems on each host; the QLogic study had ${default} virtual machines."`

	Streams       int           `group:"Samples" default:"8" help:"TCP connections each way, over all end systems."`
	Duration      time.Duration `group:"Samples" default:"1s" help:"Duration of a sample, in whole seconds."`
	Patience      time.Duration `group:"Samples" default:"0s" help:"How long to wait before a sample for the machine to become quiet; by default not at all."`
	SelvageBinary string        `group:"Samples" placeholder:"FILE" type:"existingfile" help:"Program that runs the edges; selvage of this build by default."`

	Places places.Command `embed:""`
}

// placesRounds are the rounds between places: a difference needs at least stats.LeastPairs.
const placesRounds = 10

// Ways of the streams.
const (
	oneWay   = "one-way"
	bothWays = "both-ways"
)

// Validate checks what belongs together and fills in what was left to defaults.
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
	c.fill()
	if err := experiment.CheckNames(c.Targets, []string{"kernel", "selvage"}); err != nil {
		return err
	}
	for _, list := range []struct {
		flag         string
		names, known []string
	}{
		{"--states", c.States, states()},
		{"--ways", c.Ways, []string{oneWay, bothWays}},
		{"--where", c.Where, []string{rolePorts, roleUnderlay, roleTunnel}},
	} {
		if err := checkList(list.flag, list.names, list.known); err != nil {
			return err
		}
	}
	for i, e := range c.Encap {
		if slices.Contains(c.Encap[:i], e) {
			return fmt.Errorf("--encap: %s is named twice", e)
		}
	}
	for i, size := range c.Sizes {
		if size < 1 || size > 1024 || slices.Contains(c.Sizes[:i], size) {
			return fmt.Errorf("--sizes: %d is not a new size within 1 … 1024 kB", size)
		}
	}
	return c.checkNumbers()
}

func (c *Command) fill() {
	sizes, states, ways := []int{1, 2, 4, 8, 16, 32, 64}, states(), []string{oneWay, bothWays}
	if c.Quick {
		c.Rounds = 3
		sizes, ways = []int{1, 8, 64}, []string{oneWay}
		states = []string{AllOn, AllOff, Segmentation + "-off", Checksums + "-off"}
	}
	if len(c.Sizes) == 0 {
		c.Sizes = sizes
	}
	if len(c.States) == 0 {
		c.States = states
	}
	if len(c.Ways) == 0 {
		c.Ways = ways
	}
}

// checkList says what is wrong with a list of known names.
func checkList(flag string, names, known []string) error {
	if len(names) == 0 {
		return fmt.Errorf("%s: name at least one of %v", flag, known)
	}
	for i, name := range names {
		switch {
		case !slices.Contains(known, name):
			return fmt.Errorf("%s: %q is none of %v", flag, name, known)
		case slices.Contains(names[:i], name):
			return fmt.Errorf("%s: %s is named twice", flag, name)
		}
	}
	return nil
}

func (c *Command) checkNumbers() error {
	switch {
	case c.Rounds < 1:
		return fmt.Errorf("--rounds: %d is not 1 or more", c.Rounds)
	case c.Pairs < 1 || c.Pairs > 32:
		return fmt.Errorf("--pairs: %d is not within 1 … 32", c.Pairs)
	case c.Streams < c.Pairs || c.Streams%c.Pairs != 0 || c.Streams/c.Pairs > 128: // iperf3's own limit
		return fmt.Errorf("--streams: %d is not one or several (up to 128) for each of %d pairs of end systems", c.Streams, c.Pairs)
	case c.Duration < time.Second || c.Duration%time.Second != 0:
		return fmt.Errorf("--duration: %s is not whole seconds, 1 or more", c.Duration)
	case c.Patience < 0:
		return fmt.Errorf("--patience: %s is less than 0", c.Patience)
	case c.innerMTU() < experiment.LeastMTU || c.UnderlayMTU > experiment.MostMTU:
		return fmt.Errorf("--underlay-mtu: %d is not within %d … %d bytes: IPv6 needs %d inside the tunnel",
			c.UnderlayMTU, experiment.LeastMTU+c.UnderlayMTU-c.innerMTU(), experiment.MostMTU, experiment.LeastMTU)
	}
	return nil
}

// innerMTU is what the underlay leaves to the largest header: all end systems have the same.
func (c *Command) innerMTU() int {
	tep := topo.ClientV4
	if c.Family == 6 {
		tep = topo.ClientV6
	}
	most := 0
	for _, e := range c.Encap {
		most = max(most, e.Overhead(tep))
	}
	return c.UnderlayMTU - most
}

// Run measures, writes result and report and prints the summary. When ctx ends it keeps the
// samples that it has. It fails when a sample did.
func (c *Command) Run(ctx context.Context, console *experiment.Console) error {
	if c.Places.Given {
		return c.Places.Run(ctx, console, c.Rounds, c.Destination)
	}
	restoreSwitched(ctx, console.Err)
	return experiment.Run(ctx, console, Experiment(), c.Destination, c.measure)
}

// commands is the command as kong reads it.
type commands struct {
	Offload Command `cmd:"" help:"Measure what offloads gain by write size, in several states and data paths."`
}
