// Package attack is the experiment on what others lose while a port, the underlay or a BGP session attacks a
// data path.
//
// Its invariant: an honest pair is compared with itself unattacked, in the same round.
// The attackers themselves are lab/attack.
package attack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/attack/attacker"
	"github.com/selvage/selvage/lab/experiment/attack/network"
	"github.com/selvage/selvage/lab/stats"
)

// Experiment is this one.
func Experiment() experiment.Experiment {
	return experiment.Experiment{
		Name: Name, Command: func() any { return new(commands) },
		Summarise: summarise, Metrics: figures, Verdict: verdict, Page: page, Table: table,
	}
}

// Command is the command line of the experiment on what an attacker takes from others.
type Command struct {
	Targets []string `placeholder:"NAME" default:"kernel,ovs,selvage" help:"Data paths to attack, each hardened as its operators do: ${default} by default."`
	Attacks []string `placeholder:"NAME" help:"Attacks to make; all by default, with --quick five. The reference of experiments lists them."`
	Quick   bool     `help:"In less than four minutes: five attacks, two rounds, MAC addresses that age in 5 s."`
	Rounds  int      `help:"How often each target is attacked in each way; 5 by default, with --quick 2."`

	experiment.Destination

	Slice    time.Duration `group:"Samples" default:"50ms" help:"Duration of a slice of TCP and of connections; of round trips half of it; ${default}."`
	Cycles   int           `group:"Samples" help:"How often each honest pair is measured during an attack; 16 by default, with --quick 6. Before and after it is half as often."`
	Ageing   time.Duration `group:"Samples" help:"Time after which learned MAC addresses are forgotten; 15s by default, with --quick 5s. Open vSwitch has 15s at least."`
	Recovery time.Duration `group:"Samples" help:"How long to wait for all to be as before; by default --ageing and 1s."`
	Bare     bool          `group:"Samples" help:"Leave out all hardening, as proof that captures see what crosses."`

	SelvageBinary string `group:"Samples" placeholder:"FILE" type:"existingfile" help:"Program that runs the edges; selvage of this build by default."`
}

// attackTargets are the data paths that can be attacked.
func attackTargets() []string { return []string{"kernel", "ovs", "selvage"} }

// Validate checks what belongs together and fills in what --quick means.
func (c *Command) Validate() error {
	rounds, ageing, attacks, cycles := 5, 15*time.Second, attacker.Names(), 16
	if c.Quick {
		rounds, ageing, attacks, cycles = 2, 5*time.Second, attacker.Quick(), 6
	}
	if c.Cycles == 0 {
		c.Cycles = cycles
	}
	if c.Rounds == 0 {
		c.Rounds = rounds
	}
	if c.Ageing == 0 {
		c.Ageing = ageing
	}
	if c.Recovery == 0 {
		c.Recovery = c.Ageing + time.Second
	}
	if len(c.Attacks) == 0 {
		c.Attacks = attacks
	}
	if err := experiment.CheckNames(c.Targets, attackTargets()); err != nil {
		return err
	}
	return errors.Join(c.checkAttacks(), c.checkTimes())
}

func (c *Command) checkAttacks() error {
	for i, name := range c.Attacks {
		if _, ok := attacker.Find(name); !ok {
			return fmt.Errorf("--attacks: there is no attack %q; choose from %s", name, strings.Join(attacker.Names(), ", "))
		}
		if slices.Contains(c.Attacks[:i], name) {
			return fmt.Errorf("--attacks: %s is named twice", name)
		}
	}
	return nil
}

func (c *Command) checkTimes() error {
	switch {
	case c.Rounds < 1:
		return fmt.Errorf("--rounds: %d is not 1 or more", c.Rounds)
	case c.Slice < 10*time.Millisecond || c.Slice > 10*time.Second:
		return fmt.Errorf("--slice: %s is not within 10ms … 10s", c.Slice)
	case c.Cycles < 1 || c.Cycles > 100:
		return fmt.Errorf("--cycles: %d is not within 1 … 100", c.Cycles)
	case c.Ageing < time.Second || c.Ageing%time.Second != 0:
		return fmt.Errorf("--ageing: %s is not whole seconds, 1 or more", c.Ageing)
	case c.Recovery < 100*time.Millisecond:
		return fmt.Errorf("--recovery: %s is less than 100ms", c.Recovery)
	}
	return nil
}

// Run measures, writes result and report and prints the summary. When ctx ends it keeps the samples
// that it has. It fails when a sample did.
func (c *Command) Run(ctx context.Context, console *experiment.Console) error {
	return experiment.Run(ctx, console, Experiment(), c.Destination, c.measure)
}

// plan lists the samples: in each round one attack after the other, and of each all targets in the
// round's balanced order.
func (c *Command) plan() []experiment.Step {
	var steps []experiment.Step
	for i, order := range stats.Balanced(c.Targets, c.Rounds) {
		for _, name := range c.Attacks {
			for _, target := range order {
				planned := c.planned()
				if a, _ := attacker.Find(name); lacks(target, a.Need) {
					planned = 0
				}
				steps = append(steps, experiment.Step{Round: i + 1, CaseName: name, Target: target, Planned: planned})
			}
		}
	}
	return steps
}

// planned is what a sample measures, quiet and attacked.
func (c *Command) planned() time.Duration {
	cycle := 2 * (2*c.Slice + c.Slice/2) // two pairs
	return time.Duration(2*c.quietCycles()+c.Cycles) * cycle
}

// quietCycles are those before, and those after.
func (c *Command) quietCycles() int { return max(1, c.Cycles/2) }

// lacks says whether a target has nothing that an attack with a need could be against.
func lacks(target string, need attacker.Need) bool {
	without := map[string][]attacker.Need{"kernel": {attacker.BFD}, "ovs": {attacker.Router, attacker.NAT, attacker.BGP}}
	return slices.Contains(without[target], need)
}

// path is a target's data path.
func (c *Command) path(target string) network.Path {
	switch target {
	case "kernel":
		return network.Kernel{}
	case "ovs":
		return network.OVS{}
	}
	return network.Selvage{Binary: c.SelvageBinary}
}

// commands is the command as kong reads it.
type commands struct {
	Attack Command `cmd:"" help:"Attack data paths from a port, the underlay and by BGP, and measure what others lose."`
}
