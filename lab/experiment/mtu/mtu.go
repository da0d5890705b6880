// Package mtu is the experiment on packets that do not fit: where they disappear, what fixes that, and
// what limits the rate.
//
// Its invariant: guests send segments of a wire's size, so a hole shows as it does on one.
// Do not use it to compare rates of data paths; that is package ab.
package mtu

import (
	"fmt"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/mtu/places"
	"github.com/selvage/selvage/lab/topo"
)

// Experiment is this one.
func Experiment() experiment.Experiment {
	return experiment.Experiment{
		Name: Name, Command: func() any { return new(commands) },
		Summarise: summarise, Metrics: figures, Verdict: verdict, Page: page, Table: table,
	}
}

// Command is the command line of the experiment on packets that do not fit.
type Command struct {
	Targets []string `placeholder:"NAME" default:"plain,kernel,selvage" help:"Data paths to compare: ${default} by default; also selvage-geneve and selvage-nvgre."`
	Cases   []string `placeholder:"CASE" enum:"hole,fixes,jumbo,sweep" default:"hole,fixes,jumbo,sweep" help:"What to measure: ${enum}."`
	Quick   bool     `help:"In about a minute: 1 round, shorter transfers and a smaller sweep that says nothing about the ceiling."`
	Rounds  int      `default:"3" help:"Samples of each transfer after the black hole; ${default}, and 10 between places."`

	experiment.Destination

	UnderlayMTU int                   `group:"Network" placeholder:"BYTES" default:"1500" help:"MTU between the hosts; ${default}."`
	GuestMTU    int                   `group:"Network" placeholder:"BYTES" default:"1500" help:"MTU that client and server assume; ${default}."`
	JumboMTU    int                   `group:"Network" placeholder:"BYTES" default:"9000" help:"MTU between the hosts in the jumbo case; guests get what that leaves; ${default}."`
	Family      int                   `group:"Network" enum:"4,6" default:"4" help:"IP version of the underlay: ${enum}."`
	Encap       overlay.Encapsulation `group:"Network" enum:"vxlan,geneve,nvgre" default:"vxlan" help:"Encapsulation of selvage: ${enum}. The kernel's devices are vxlan in every run."`

	BridgeNetfilter topo.BridgeNetfilter `group:"Network" enum:"default,on,off" default:"off" help:"Whether the bridges of the hosts pass frames to netfilter: ${enum}."`

	Duration      time.Duration `group:"Samples" default:"1s" help:"Duration of a transfer with a fix or with jumbo packets."`
	HoleDuration  time.Duration `group:"Samples" default:"3s" help:"Duration of a transfer that may fall into the hole."`
	SweepDuration time.Duration `group:"Samples" default:"500ms" help:"Duration of a transfer of the sweep over sizes and flows."`
	Hashes        int           `group:"Samples" default:"16" help:"Source ports from which the largest size is searched."`
	SelvageBinary string        `group:"Samples" placeholder:"FILE" type:"existingfile" help:"Program that runs the edges; selvage of this build by default."`

	Places places.Command `embed:""`
}

// placesRounds are the rounds between places: a difference needs at least stats.LeastPairs.
const placesRounds = 10

// Validate checks what belongs together and fills in what --quick means.
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
	if c.Quick {
		c.Rounds, c.HoleDuration, c.Duration, c.SweepDuration = 1, 2*time.Second, 500*time.Millisecond, 300*time.Millisecond
	}
	known := []string{"plain", "kernel", "selvage", "selvage-geneve", "selvage-nvgre"}
	paths := c.paths()
	if err := paths.Check(known); err != nil {
		return err
	}
	for i, name := range c.Cases {
		if slices.Contains(c.Cases[:i], name) {
			return fmt.Errorf("--cases: %s is named twice", name)
		}
	}
	switch {
	case c.Rounds < 1:
		return fmt.Errorf("--rounds: %d is not 1 or more", c.Rounds)
	case c.UnderlayMTU < experiment.LeastMTU+paths.MostOverhead() || c.UnderlayMTU > experiment.MostMTU:
		return fmt.Errorf("--underlay-mtu: %d is not within %d … %d bytes: IPv6 needs %d inside the tunnel", c.UnderlayMTU, experiment.LeastMTU+paths.MostOverhead(), experiment.MostMTU, experiment.LeastMTU)
	case c.GuestMTU < experiment.LeastMTU || c.GuestMTU > c.UnderlayMTU:
		return fmt.Errorf("--guest-mtu: %d is not within %d … %d bytes: larger ones would not fit without a tunnel either", c.GuestMTU, experiment.LeastMTU, c.UnderlayMTU)
	case c.JumboMTU <= c.UnderlayMTU || c.JumboMTU > experiment.MostMTU:
		return fmt.Errorf("--jumbo-mtu: %d is not within %d … %d bytes", c.JumboMTU, c.UnderlayMTU+1, experiment.MostMTU)
	case c.Hashes < 1 || c.Hashes > 256:
		return fmt.Errorf("--hashes: %d is not within 1 … 256", c.Hashes)
	}
	return c.checkTimes()
}

func (c *Command) checkTimes() error {
	for _, t := range []struct {
		flag  string
		time  time.Duration
		least time.Duration
	}{
		{"--duration", c.Duration, 200 * time.Millisecond},
		{"--hole-duration", c.HoleDuration, time.Second},
		{"--sweep-duration", c.SweepDuration, 200 * time.Millisecond},
	} {
		if t.time < t.least || t.time%seriesStep != 0 {
			return fmt.Errorf("%s: %s is not a multiple of %s, %s or more", t.flag, t.time, seriesStep, t.least)
		}
	}
	return nil
}

// seriesStep is the interval of a transfer's series.
const seriesStep = 100 * time.Millisecond

// paths are the targets and their tunnels.
func (c *Command) paths() experiment.Paths {
	return experiment.Paths{Targets: c.Targets, Family: c.Family, Encap: c.Encap}
}

// pathMTU is what the underlay leaves to a target's inner packets.
func (c *Command) pathMTU(target string, underlay int) int {
	return underlay - c.paths().Overhead(target)
}

// commands is the command as kong reads it.
type commands struct {
	Mtu Command `cmd:"" help:"Find where oversized packets disappear, what fixes it, and what limits the rate."`
}
