package ab

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
)

// Run measures, writes result and report and prints the summary. When ctx ends it
// keeps the samples that it has. It fails when a sample did.
func (c *Command) Run(ctx context.Context, console *experiment.Console) error {
	if c.Places.Asked() {
		at := atPlaces(c)
		if err := at.Validate(); err != nil {
			return err
		}
		return at.Run(ctx, console)
	}
	if c.Gateway != "" {
		return gateway{c.Gateway, c.SelvageBinary}.run(ctx, console, atPlaces(c))
	}
	return experiment.Run(ctx, console, Experiment(), c.Destination, c.measure)
}

// measure measures round by round, each with beds of its own. With an error the result holds
// the rounds until then.
func (c *Command) measure(ctx context.Context, console *experiment.Console, began time.Time) (r result.Result, err error) {
	p := experiment.NewProgress(console.Err, c.Rounds)
	defer p.Close()
	pace := roundPace{planned: c.planned()}
	p.Note("%s: %s, about %s", strings.Join(c.Targets, ", "), result.Counted(c.Rounds, "round"), experiment.About(pace.left(c.Rounds)))
	p.Begin("inspecting the machine", pace.left(c.Rounds))
	r = console.Blank(Name, began, c.parameters())
	if r.Environment, err = c.environment(ctx, console.Version); err != nil {
		return r, err
	}
	for i := 1; i <= c.Rounds && err == nil; i++ {
		p.Begin(fmt.Sprintf("round %d", i), pace.left(c.Rounds-i+1))
		start := time.Now()
		err = c.takeRound(ctx, i, &r)
		if ctx.Err() != nil {
			experiment.Interrupt(&r, "round %d of %d", i, c.Rounds)
		}
		if err == nil {
			pace.took(time.Since(start))
			p.Ended(c.outcome(r, i), pace.left(c.Rounds-i))
		}
	}
	r.Duration = time.Since(began).Seconds()
	return r, err
}

// roundPace estimates the time of rounds.
type roundPace struct {
	planned, spent time.Duration
	n              int
}

func (p *roundPace) took(d time.Duration) { p.spent, p.n = p.spent+d, p.n+1 }

// left is the time of so many rounds: as the last ones took, or as planned.
func (p *roundPace) left(rounds int) time.Duration {
	each := p.planned
	if p.n > 0 {
		each = p.spent / time.Duration(p.n)
	}
	return time.Duration(rounds) * each
}

func (c *Command) parameters() result.Parameters {
	pinning := "none"
	if bulk, rr := c.pins(); c.Pin {
		pinning = fmt.Sprintf("TCP and UDP: client on core %d, server on core %d; request/response: both on core %d", bulk.Client, bulk.Server, rr.Client)
	}
	offloads := make(result.Texts, len(c.Offload))
	for i, t := range c.Offload {
		offloads[i] = t.String()
	}
	p := result.Parameters{
		"rounds":           result.Count(c.Rounds),
		"bridge_netfilter": result.Words(string(c.BridgeNetfilter)),
		"order":            result.Words("all targets of a round are up at once, each with hosts and links of its own; slices of a case alternate between them in balanced order; everything is rebuilt for the next round"),
		"cases":            result.Of(result.Texts(c.Cases)),
		"cycles":           result.Count(c.Cycles),
		"slice":            result.Time(c.Slice),
		"udp_payload":      result.Count(18).In("bytes"),
		"streams":          result.Count(c.Streams),
		"warmup":           result.Words(fmt.Sprintf("%s of rest and an uncounted cycle before each round; the first %s of each slice of tcp and rr do not count", experiment.SettleTime, measure.WarmUp)),
		"underlay_mtu":     result.Count(c.UnderlayMTU).In("bytes"),
		"inner_mtu":        result.Count(c.InnerMTU).In("bytes"),
		"plain_mtu":        result.Count(c.PlainMTU).In("bytes"),
		"underlay_family":  result.Words("IPv" + strconv.Itoa(c.Family)),
		"inner_family":     result.Words("IPv" + strconv.Itoa(c.InnerFamily)),
		"encapsulation":    result.Words(string(c.Encap)),
		"routed":           result.Of(result.Bool(c.Routed)),
		controlPlane:       result.Words(c.Control).Explained("static entries at every tunnel"),
		"udp_checksum":     result.Words("zero in every tunnel"),
		"pinning":          result.Words(pinning),
	}
	experiment.NoteBinary(p, c.SelvageBinary)
	c.programs.Record(p)
	if slices.Contains(c.Cases, transitCase) {
		p["flows"] = result.Count(c.Flows)
	}
	if len(c.Load) > 0 {
		p["load"] = result.Words(fmt.Sprintf("%s: %s", strings.Join(c.Load, ", "), load.Words()))
	}
	if len(offloads) > 0 {
		p["offload"] = result.Of(offloads)
	}
	return p
}

// target describes a path, with what its headers cost against plain.
func (c *Command) target(name string, p *topo.Path, env result.Environment) result.Target {
	d := result.Target{Name: name, Description: p.Description, InnerMTU: p.InnerMTU}
	if program := c.programs[name]; program != "" {
		d.Description += ", of " + program
	}
	if name == "kernel" && c.Encap != overlay.VXLAN {
		d.Description += ", VXLAN in every run"
	}
	if c.paths().Tunnelled(name) {
		timestamps := env.Sysctls["net.ipv4.tcp_timestamps"] != "0"
		d.HeaderTax = stats.HeaderTax(
			stats.Path{MTU: c.PlainMTU, Timestamps: timestamps},
			stats.Path{MTU: p.InnerMTU, Timestamps: timestamps, Outer: c.paths().Overhead(name)})
	}
	return d
}
