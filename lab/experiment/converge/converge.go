// Package converge is the experiment on when packets flow again in an EVPN fabric in which hosts move, and
// edges, links and route reflectors fail.
//
// Its invariant: each event is undone, and the next one finds the fabric whole.
// Do not use it for gateways; that is package failover.
package converge

import (
	"fmt"
	"slices"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Experiment is this one.
func Experiment() experiment.Experiment {
	return experiment.Experiment{
		Name: Name, Command: func() any { return new(commands) },
		Summarise: summarise, Metrics: figures, Verdict: verdict, Page: page, Table: table,
	}
}

// Command is the command line of the experiment on how fast a fabric that BGP EVPN feeds
// finds its way again.
type Command struct {
	Targets []string `placeholder:"NAME" enum:"kernel,selvage" default:"kernel,selvage" help:"Edges to compare: kernel is Linux and FRR; ${default} by default."`
	Cases   []string `placeholder:"CASE" enum:"move,edge-loss,link-loss,rr-restart,rr-loss" default:"move,edge-loss,link-loss,rr-restart,rr-loss" help:"What happens: a host moves, one of two edges dies, one of an edge's two links is cut, the route reflector is killed and restarted, or killed for good; ${default} by default."`
	Rounds  int      `default:"10" help:"Events of each target and case."`
	Quick   bool     `help:"In a few minutes: 3 rounds, each watched for a shorter time."`

	experiment.Destination

	Flows    int           `group:"Traffic" default:"4" help:"UDP flows on each path, whose packets are sent back; ${default} by default, twice as many where one of two paths fails."`
	Interval time.Duration `group:"Traffic" default:"1ms" help:"Time between two packets of a flow."`

	Reflectors    int           `group:"Fabric" default:"1" help:"Route reflectors; a case kills all of them."`
	Liveness      time.Duration `group:"Fabric" default:"50ms" help:"BFD interval; the multiplier is 3."`
	Watch         time.Duration `group:"Fabric" default:"2s" help:"Time between an event and its undoing; longer until all flows have resumed."`
	SelvageBinary string        `group:"Fabric" placeholder:"FILE" type:"existingfile" help:"Program that runs the edges; selvage of this build by default."`
}

// Validate checks what belongs together and fills in what --quick means.
func (c *Command) Validate() error {
	if c.Quick {
		c.Rounds, c.Watch = 3, 1500*time.Millisecond
	}
	for flag, names := range map[string][]string{"--targets": c.Targets, "--cases": c.Cases} {
		for i, name := range names {
			if slices.Contains(names[:i], name) {
				return fmt.Errorf("%s: %s is named twice", flag, name)
			}
		}
	}
	switch {
	case c.Rounds < 1 || c.Rounds > 1000:
		return fmt.Errorf("--rounds: %d is not within 1 … 1000", c.Rounds)
	case c.Flows < 1 || c.Flows > 100:
		return fmt.Errorf("--flows: %d is not within 1 … 100", c.Flows)
	case c.Reflectors < 1 || c.Reflectors > 4:
		return fmt.Errorf("--reflectors: %d is not within 1 … 4", c.Reflectors)
	}
	return inject.CheckTimes([]inject.TimeFlag{
		{Flag: "--interval", Time: c.Interval, Least: 200 * time.Microsecond, Most: 100 * time.Millisecond},
		{Flag: "--liveness", Time: c.Liveness, Least: 10 * time.Millisecond, Most: time.Second},
		{Flag: "--watch", Time: c.Watch, Least: time.Second, Most: time.Minute},
	})
}

// uplinksOf is how many links to the underlay the edges have in a case.
func uplinksOf(caseName string) int {
	if caseName == LinkLoss {
		return 2
	}
	return 1
}

// plan lists the events: fabrics with one link to the underlay first, then those with two,
// and of each in every round one case after the other of all targets in balanced order.
func (c *Command) plan() []experiment.Step {
	var steps []experiment.Step
	for _, uplinks := range []int{1, 2} {
		for i, order := range stats.Balanced(c.Targets, c.Rounds) {
			for _, caseName := range c.Cases {
				if uplinksOf(caseName) != uplinks {
					continue
				}
				for _, target := range order {
					steps = append(steps, experiment.Step{Round: i + 1, CaseName: caseName, Target: target, Planned: inject.QuietBefore + c.Watch + 2*inject.QuietAfter})
				}
			}
		}
	}
	return steps
}

// faultParameter is the name of the parameter that says what happened in a case.
func faultParameter(caseName string) string { return "fault_" + caseName }

// detectMultiplier is how many lost probes of BFD are a failure, at all edges and reflectors.
const detectMultiplier = 3

// parameters describe the run.
func (c *Command) parameters() result.Parameters {
	p := result.Parameters{
		"rounds":        result.Count(c.Rounds),
		"cases":         result.Of(result.Texts(c.Cases)),
		"order":         result.Words("each case of a round has an event of every target, in balanced order; each has its own fabric from its first event to its last, and another one for link-loss"),
		"flows":         result.Count(c.Flows).Explained("UDP flows on each path, %d in edge-loss and link-loss, each with a packet every %s, which the other end sends back", c.flowsOf(EdgeLoss), c.Interval),
		"flow_interval": result.Time(c.Interval),
		"outage":        result.Words("the longest time without an answer in a flow, less the interval; of the flows that lost packets or were silent for " + inject.AffectedSilence.String() + ", of all flows when a guest moved or none was affected"),
		"fault_time":    result.Words("when the first lost packet was sent"),
		"reflectors":    result.Count(c.Reflectors).Explained("of FRR"),
		"timers":        result.Words("keepalive 3 s, hold 9 s, reconnect after 1 s"),
		"duplicates":    result.Words("duplicate MAC detection is off for all targets"),
		"watch":         result.Time(c.Watch).Explained("from the event to its undoing, longer until all flows have resumed"),
		"quiet":         result.Time(inject.QuietBefore).Explained("before the event; the longest silence in it is noise"),
		"wire":          result.Words("tcpdump on the links of the reflector and of edge C: the steps told, passed and written are what it captured"),
		"pinning":       result.Words("none: the edges' processes need the cores too; edges of all targets run at nice -20, the ends of the flows at real-time priority"),
	}
	inject.NoteLiveness(p, c.Liveness, detectMultiplier, "edges and reflectors, and edges of Selvage among each other")
	experiment.NoteBinary(p, c.SelvageBinary)
	return p
}

// commands is the command as kong reads it.
type commands struct {
	Converge Command `cmd:"" help:"Move hosts and fail edges, links and route reflectors in an EVPN fabric, and measure when packets flow again."`
}
