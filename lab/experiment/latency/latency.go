// Package latency is the experiment on what a firewall adds to a round trip, a connection and a packet, by
// number of rules, and where in the path the time goes.
//
// Its invariant: what is added is against the same target without a firewall, in the same round.
// Do not use it for the latency of tunnels; that is package ab.
package latency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/latency/places"
	"github.com/selvage/selvage/lab/stats"
)

// Experiment is this one.
func Experiment() experiment.Experiment {
	return experiment.Experiment{
		Name: Name, Command: func() any { return new(commands) },
		Summarise: summarise, Metrics: figures, Verdict: verdict, Page: page, Table: table,
	}
}

// Command is the command line of the experiment on what a firewall adds to a round trip,
// to a connection and to a packet, by its rules.
type Command struct {
	Targets   []string `placeholder:"NAME" default:"kernel,selvage" help:"Firewalls to compare: ${default} by default; also ovs, and plain: a bridge without tunnel and firewall. NAME=PROGRAM is an edge of another build."`
	Scenarios []string `placeholder:"NAME" enum:"same-host,two-hosts" default:"same-host,two-hosts" help:"Scenarios of the NSX firewall study, each without a firewall and with one of 100 rules: ${enum}."`
	Rules     []int    `placeholder:"RULES" help:"Rules between two hosts, 0 being no firewall; 0,1,10,100,1000,10000,100000 by default, with --quick 0,100,10000."`
	Measure   []string `placeholder:"WHAT" enum:"rr,rr1,crr,conn,udprr,udp,tcp" default:"rr,rr1,crr,conn,udprr,udp,tcp" help:"What to measure: TCP_RR of 1024 bytes and of 1, a connection a transaction (one at a time, many at once), UDP_RR, UDP one way, TCP throughput. ${enum} by default."`
	Quick     bool     `help:"In a few minutes: 3 rounds of short samples with few numbers of rules."`
	Rounds    int      `help:"Samples of each target and case; 5 by default, with --quick 3."`

	experiment.Destination

	Duration time.Duration `group:"Samples" placeholder:"TIME" help:"Duration of TCP_RR of 1024 bytes in the scenarios; 120s by default, as in the NSX firewall study, with --quick 1s."`
	Sample   time.Duration `group:"Samples" placeholder:"TIME" help:"Duration of all other samples; 5s by default, with --quick 500ms. TCP throughput is measured in whole seconds."`
	Pairs    int           `group:"Samples" default:"4" help:"Pairs of guests that measure TCP_RR at once in the scenarios, besides one alone; ${default} as in the NSX firewall study, 1 leaves it out."`
	AtOnce   int           `group:"Samples" default:"64" help:"Concurrent connections, where there are many; ${default}."`
	Rate     int           `group:"Samples" placeholder:"N" help:"Also measure TCP_RR of 1024 bytes with N transactions a second at fixed times (open loop)."`

	App       bool `group:"Samples" help:"Also measure an application: HTTP requests to a web service with a database, without a firewall and with 100 rules."`
	Breakdown bool `group:"Samples" help:"Measure where the time of a round trip goes, by timestamps in the data path."`

	UnderlayMTU   int    `group:"Network" placeholder:"BYTES" default:"1500" help:"MTU between the hosts; ${default}."`
	SelvageBinary string `group:"Network" placeholder:"FILE" type:"existingfile" help:"Program that runs the edges of targets without one of their own; selvage of this build by default."`

	Places places.Command `embed:""`

	programs experiment.Builds
}

// latencyTargets are the data paths that can be measured.
func latencyTargets() []string { return []string{"plain", stats.Kernel, "ovs", "selvage"} }

// mostSweep is the most rules of a policy here: those of a Selvage edge.
const mostSweep = 131000

// placesRounds are the rounds between places: a difference needs at least stats.LeastPairs.
const placesRounds = 10

// Validate checks what belongs together and fills in what --quick means.
func (c *Command) Validate() (err error) {
	if c.Places.Given {
		c.Rounds = cmp.Or(c.Rounds, placesRounds)
		return c.Places.Check(c.Rounds)
	}
	if c.Targets, c.programs, err = experiment.ReadBuilds(c.Targets, latencyTargets()); err != nil {
		return err
	}
	rules, rounds, duration, sample := []int{0, 1, 10, 100, 1000, 10000, 100000}, 5, 120*time.Second, 5*time.Second
	if c.Quick {
		rules, rounds, duration, sample = []int{0, 100, 10000}, 3, time.Second, 500*time.Millisecond
	}
	if len(c.Rules) == 0 {
		c.Rules = rules
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
	if err := experiment.CheckNames(c.Targets, c.programs.And(latencyTargets())); err != nil {
		return err
	}
	if err := errors.Join(c.checkLists(), c.checkTimes()); err != nil {
		return err
	}
	c.Rules = c.sweep()
	return nil
}

// sweep is the numbers of rules in rising order. Differences need the case without a
// firewall, and the scenario between two hosts is a part of it.
func (c *Command) sweep() []int {
	all := append([]int{0}, c.Rules...)
	if slices.Contains(c.Scenarios, TwoHosts) {
		all = append(all, ScenarioRules)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (c *Command) checkLists() error {
	for i, n := range c.Rules {
		if slices.Contains(c.Rules[:i], n) {
			return fmt.Errorf("--rules: %d is named twice", n)
		}
		if n < 0 || n > mostSweep {
			return fmt.Errorf("--rules: %d is not within 0 … %d", n, mostSweep)
		}
	}
	for flag, names := range map[string][]string{"--scenarios": c.Scenarios, "--measure": c.Measure} {
		for i, name := range names {
			if slices.Contains(names[:i], name) {
				return fmt.Errorf("%s: %s is named twice", flag, name)
			}
		}
	}
	if len(c.Measure) == 0 {
		return errors.New("--measure: name at least one")
	}
	return nil
}

func (c *Command) checkTimes() error {
	switch {
	case c.Rounds < 1:
		return fmt.Errorf("--rounds: %d is not 1 or more", c.Rounds)
	case c.Duration < 100*time.Millisecond:
		return fmt.Errorf("--duration: %s is less than 100ms", c.Duration)
	case c.Sample < 100*time.Millisecond:
		return fmt.Errorf("--sample: %s is less than 100ms", c.Sample)
	case c.Pairs < 1 || c.Pairs > 32:
		return fmt.Errorf("--pairs: %d is not within 1 … 32", c.Pairs)
	case c.AtOnce < 2 || c.AtOnce > 4096:
		return fmt.Errorf("--at-once: %d is not within 2 … 4096", c.AtOnce)
	case c.Rate < 0 || c.Rate > 1_000_000:
		return fmt.Errorf("--rate: %d is not within 0 … 1000000 a second", c.Rate)
	case c.UnderlayMTU < experiment.LeastMTU+50 || c.UnderlayMTU > experiment.MostMTU:
		return fmt.Errorf("--underlay-mtu: %d is not within %d … %d bytes", c.UnderlayMTU, experiment.LeastMTU+50, experiment.MostMTU)
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

// String names what is compared, for the progress.
func (c *Command) String() string {
	return fmt.Sprintf("%s; rules %s; %s", strings.Join(c.Targets, ", "), experiment.Numbers(c.Rules), strings.Join(c.Scenarios, ", "))
}

// commands is the command as kong reads it.
type commands struct {
	Latency Command `cmd:"" help:"Measure what a firewall adds to a round trip, a connection and a packet, by number of rules."`
}
