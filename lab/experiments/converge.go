package experiments

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/stats"
)

// Converge is the command line of the experiment on how fast a fabric that BGP EVPN feeds
// finds its way again.
type Converge struct {
	Targets []string `placeholder:"NAME" enum:"kernel,selvage" default:"kernel,selvage" help:"Edges to compare: kernel is Linux and FRR; ${default} by default."`
	Cases   []string `placeholder:"CASE" enum:"move,edge-loss,link-loss,rr-restart,rr-loss" default:"move,edge-loss,link-loss,rr-restart,rr-loss" help:"What happens: a host moves, an edge of two dies, one of two links of an edge is cut, the route reflector is killed and started again, or killed and gone; ${default} by default."`
	Rounds  int      `default:"10" help:"Events of each target and case."`
	Quick   bool     `help:"In a few minutes: 3 rounds, each watched for a shorter time."`
	Output  string   `short:"o" enum:"table,json" default:"table" help:"Print a table or the result as JSON: ${enum}."`
	Results string   `placeholder:"DIR" default:"results" help:"Directory that gets a directory of this run; ${default}."`

	Flows    int           `group:"Traffic" default:"4" help:"UDP flows on each way, whose packets are sent back; ${default} by default, twice as many where one of two ways fails."`
	Interval time.Duration `group:"Traffic" default:"1ms" help:"Time between two packets of a flow."`

	Reflectors    int           `group:"Fabric" default:"1" help:"Route reflectors, of which a case kills all."`
	Liveness      time.Duration `group:"Fabric" default:"50ms" help:"Interval of BFD, of which three packets may go missing."`
	Watch         time.Duration `group:"Fabric" default:"2s" help:"Time between an event and its undoing, or longer until all flows go on."`
	SelvageBinary string        `group:"Fabric" placeholder:"FILE" type:"existingfile" help:"Program that runs the edges; this one by default."`
}

// Validate checks what belongs together and fills in what --quick means.
func (c *Converge) Validate() error {
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
	return checkTimes([]timeFlag{
		{"--interval", c.Interval, 200 * time.Microsecond, 100 * time.Millisecond},
		{"--liveness", c.Liveness, 10 * time.Millisecond, time.Second},
		{"--watch", c.Watch, time.Second, time.Minute},
	})
}

// uplinksOf is how many links to the underlay the edges have in a case.
func uplinksOf(caseName string) int {
	if caseName == stats.LinkLoss {
		return 2
	}
	return 1
}

// plan lists the events: fabrics with one link to the underlay first, then those with two,
// and of each in every round one case after the other of all targets in balanced order.
func (c *Converge) plan() []step {
	var steps []step
	for _, uplinks := range []int{1, 2} {
		for i, order := range stats.Balanced(c.Targets, c.Rounds) {
			for _, caseName := range c.Cases {
				if uplinksOf(caseName) != uplinks {
					continue
				}
				for _, target := range order {
					steps = append(steps, step{round: i + 1, caseName: caseName, target: target, planned: quietBefore + c.Watch + 2*quietAfter})
				}
			}
		}
	}
	return steps
}

// parameters describe the run.
func (c *Converge) parameters() map[string]string {
	p := map[string]string{
		"rounds":        fmt.Sprint(c.Rounds),
		"cases":         strings.Join(c.Cases, ", "),
		"order":         "each case of a round has an event of every target, in balanced order; each has a fabric of its own, up from its first event to its last, and of link-loss another one",
		"flows":         fmt.Sprintf("%d UDP flows on each way, %d in edge-loss and link-loss, a packet every %s in each, which the other end sends back", c.Flows, c.flowsOf(stats.EdgeLoss), c.Interval),
		"flow_interval": c.Interval.String(),
		"outage":        "the longest time without an answer in a flow, less the interval; of the flows that lost packets or were silent for " + affectedSilence.String() + ", of all flows when a guest moved or none was hit",
		"fault_time":    "when the first packet was sent that was lost",
		"reflectors":    fmt.Sprintf("%d, FRR", c.Reflectors),
		"timers":        "keepalive 3 s, hold 9 s, reconnect after 1 s",
		"liveness":      fmt.Sprintf("BFD every %s × 3: edges and reflectors, and edges of Selvage among each other", c.Liveness),
		"detection_ms":  fmt.Sprint(3 * c.Liveness.Milliseconds()),
		"duplicates":    "MAC addresses may move as often as they like, for all targets",
		"watch":         c.Watch.String() + " from the event to its undoing, or longer until all go on",
		"quiet":         quietBefore.String() + " before the event, whose longest silence is noise",
		"wire":          "tcpdump at the reflector's and edge C's link: told, passed on and written are what was heard there",
		"pinning":       "none: the edges' processes need the cores too; edges of all targets run at nice -20, the flows' ends at real-time priority",
	}
	if c.SelvageBinary != "" {
		p["selvage_binary"] = c.SelvageBinary
	}
	return p
}
