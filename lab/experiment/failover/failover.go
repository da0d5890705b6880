// Package failover is the experiment on what flows lose when gateways, tunnel endpoints or edges are killed.
//
// Its invariant: each kill is undone, and the next one finds the network whole.
// Do not use it for faults of an EVPN fabric; that is package converge.
package failover

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/inject"
)

// Experiment is this one.
func Experiment() experiment.Experiment {
	return experiment.Experiment{
		Name: Name, Command: func() any { return new(commands) },
		Summarise: summarise, Metrics: figures, Verdict: verdict, Page: page, Table: table,
	}
}

// Command is the command line of the experiment on what kills cost.
type Command struct {
	What   string   `enum:"gateway,tep,edge" default:"gateway" help:"What is killed: an egress gateway, one of the tunnel endpoints of an edge, or the process of an edge: ${enum}."`
	Kills  int      `default:"20" help:"Number of kills."`
	Faults []string `placeholder:"FAULT" help:"Faults, in turn. Gateway: link-down, blackhole, death (of the host: links, process and data path), kill (only the process). TEP: link-down, blackhole. Edge: kill-source, kill-target. All by default."`
	Quick  bool     `help:"In a minute and a half: 5 kills, each watched for a shorter time."`

	experiment.Destination

	Flows        int           `group:"Traffic" default:"16" help:"UDP flows, whose packets are sent back; ${default} by default."`
	Interval     time.Duration `group:"Traffic" default:"1ms" help:"Time between two packets of a flow."`
	Connections  int           `group:"Traffic" default:"100" help:"Established TCP connections, whose lines are sent back; ${default} by default."`
	LineInterval time.Duration `group:"Traffic" default:"100ms" help:"Time between two lines of a connection."`

	Liveness      time.Duration `group:"Edges" default:"50ms" help:"BFD interval of the edges."`
	Multiplier    int           `group:"Edges" default:"3" help:"BFD detect multiplier: lost probes after which an edge counts as dead."`
	Watch         time.Duration `group:"Edges" default:"3s" help:"Time between a kill and its undoing; longer until all flows have resumed."`
	SelvageBinary string        `group:"Edges" placeholder:"FILE" type:"existingfile" help:"Program that runs the edges; selvage of this build by default."`
}

// waysToKill are the faults of each thing that can be killed.
func waysToKill(what string) []string {
	switch what {
	case "tep":
		return []string{"link-down", "blackhole"}
	case "edge":
		return []string{"kill-source", "kill-target"}
	}
	return []string{"link-down", "blackhole", "death", "kill"}
}

// Validate checks what belongs together and fills in what --quick means.
func (c *Command) Validate() error {
	if c.Quick {
		c.Kills, c.Watch = 5, 1500*time.Millisecond
	}
	known := waysToKill(c.What)
	if len(c.Faults) == 0 {
		c.Faults = known
	}
	for i, fault := range c.Faults {
		switch {
		case !slices.Contains(known, fault):
			return fmt.Errorf("--faults: there is no %s of %s %s; choose from %s", fault, article(c.What), c.What, strings.Join(known, ", "))
		case slices.Contains(c.Faults[:i], fault):
			return fmt.Errorf("--faults: %s is named twice", fault)
		}
	}
	switch {
	case c.Kills < 1 || c.Kills > 10_000:
		return fmt.Errorf("--kills: %d is not within 1 … 10000", c.Kills)
	case c.Flows < 1 || c.Flows > 1000:
		return fmt.Errorf("--flows: %d is not within 1 … 1000", c.Flows)
	case c.Connections < 1 || c.Connections > 10_000:
		return fmt.Errorf("--connections: %d is not within 1 … 10000", c.Connections)
	case c.Multiplier < 2 || c.Multiplier > 255:
		return fmt.Errorf("--multiplier: %d is not within 2 … 255", c.Multiplier)
	}
	return c.checkTimes()
}

func article(what string) string {
	if what == "edge" {
		return "an"
	}
	return "a"
}

func (c *Command) checkTimes() error {
	return inject.CheckTimes([]inject.TimeFlag{
		{Flag: "--interval", Time: c.Interval, Least: 200 * time.Microsecond, Most: 100 * time.Millisecond},
		{Flag: "--line-interval", Time: c.LineInterval, Least: 10 * time.Millisecond, Most: time.Second},
		{Flag: "--liveness", Time: c.Liveness, Least: 10 * time.Millisecond, Most: 10 * time.Second},
		{Flag: "--watch", Time: c.Watch, Least: time.Second, Most: time.Minute},
	})
}

// killStep is one kill.
type killStep struct {
	experiment.Step
	fault string
}

// plan lists the kills: all ways in turn.
func (c *Command) plan() []killStep {
	steps := make([]killStep, c.Kills)
	for i := range steps {
		fault := c.Faults[i%len(c.Faults)]
		steps[i] = killStep{
			Step:  experiment.Step{Round: i + 1, CaseName: c.What + "/" + fault, Target: "selvage", Planned: inject.QuietBefore + c.Watch + inject.QuietAfter},
			fault: fault,
		}
	}
	return steps
}

// String names the kill in a progress line.
func (s killStep) String() string { return fmt.Sprintf("kill %d: %s", s.Round, s.CaseName) }

// commands is the command as kong reads it.
type commands struct {
	Failover Command `cmd:"" help:"Kill gateways, tunnel endpoints or edges, and measure what flows lose."`
}
