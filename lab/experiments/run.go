package experiments

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/report"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
)

// Run measures, writes result and report and prints the summary. When ctx ends it
// keeps the samples that it has. It fails when a sample did.
func (c *Ab) Run(ctx context.Context, console *Console) error {
	return runExperiment(ctx, console, report.ABExperiment(), c.Results, c.Output, c.measure)
}

// runExperiment makes the directory of a run under results, measures, and writes and prints
// what came of it.
func runExperiment(ctx context.Context, console *Console, e experiment.Experiment, results, output string, measure func(context.Context, *Console, time.Time) (result.Result, error)) error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces and BPF need root: run it with sudo")
	}
	ctx, stop := withHangup(ctx)
	defer stop()
	restoreDead(ctx, console.Err)
	began := time.Now()
	dir, err := newRunDir(results, e.Name, began)
	if err != nil {
		return err
	}
	r, failed := measure(ctx, console, began)
	return finish(console, e, dir, output, r, failed)
}

// finish concludes a run, writes its files and prints it. It fails when the run did
// (failed) or a sample.
func finish(console *Console, e experiment.Experiment, dir, output string, r result.Result, failed error) error {
	if len(r.Samples) == 0 {
		return errors.Join(failed, os.Remove(dir))
	}
	conclude(e, &r)
	err := save(e, dir, r, console.Err)
	if output == "json" {
		err = errors.Join(err, result.Write(console.Out, r))
	} else {
		err = errors.Join(err, e.Table(console.Out, r))
	}
	if lines := stats.Errors(r); len(lines) > 0 {
		failed = errors.Join(failed, fmt.Errorf("%d of %d samples failed; the first: %s", len(lines), len(r.Samples), lines[0]))
	}
	return errors.Join(failed, err)
}

// withHangup ends ctx also when the terminal or the reader of the output goes
// away, which would otherwise kill this process and leave its networks behind.
func withHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	signals := []os.Signal{syscall.SIGPIPE}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup(1) has it
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(ctx, signals...)
}

// restoreDead removes what killed labs left. A failure is no reason not to
// measure: new labs have names of their own.
func restoreDead(ctx context.Context, log io.Writer) {
	ids, err := topo.Restore(ctx)
	if len(ids) > 0 {
		fmt.Fprintf(log, "removed what killed labs had left: %s\n", strings.Join(ids, ", "))
	}
	if err != nil {
		fmt.Fprintf(log, "left by killed labs and not removed: %v\n", err)
	}
}

// measure measures round by round, each with beds of its own. With an error the result holds
// the rounds until then.
func (c *Ab) measure(ctx context.Context, console *Console, began time.Time) (r result.Result, err error) {
	p := newProgress(console.Err, c.Rounds)
	defer p.close()
	pace := roundPace{planned: c.planned()}
	p.note("%s: %d rounds, about %s", strings.Join(c.Targets, ", "), c.Rounds, about(pace.left(c.Rounds)))
	p.begin("inspecting the machine", pace.left(c.Rounds))
	r = c.describe(console, began)
	if r.Environment, err = c.environment(ctx, console.Version); err != nil {
		return r, err
	}
	for i := 1; i <= c.Rounds && err == nil; i++ {
		p.begin(fmt.Sprintf("round %d", i), pace.left(c.Rounds-i+1))
		start := time.Now()
		err = c.takeRound(ctx, i, &r)
		if ctx.Err() != nil {
			r.Parameters[interrupted] = fmt.Sprintf("round %d of %d", i, c.Rounds)
		}
		if err == nil {
			pace.took(time.Since(start))
			p.ended(c.outcome(r, i), pace.left(c.Rounds-i))
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

// removeAll removes the networks of a run that ended with err, and says how it ended then.
func removeAll(ctx context.Context, err error, networks interface{ close() error }, p *progress) error {
	p.begin("removing networks", 0)
	return removed(ctx, err, networks.close())
}

// removed is how a run ended that had ended with err and then removed its networks; left is what
// of them could not be.
func removed(ctx context.Context, err, left error) error {
	if ctx.Err() != nil { // whatever else that broke
		err = ctx.Err()
	}
	switch {
	case left == nil:
		return err
	case ctx.Err() != nil:
		return left // an interruption is known to who caused it, and must not hide this
	}
	return errors.Join(err, left)
}

// describe is a result of c before anything was measured.
func (c *Ab) describe(console *Console, began time.Time) result.Result {
	return result.Result{
		Schema:     result.Schema,
		Experiment: stats.AB,
		Started:    began.UTC(),
		Command:    append([]string{"selvage"}, console.Args...),
		Parameters: c.parameters(),
		Samples:    []result.Sample{},
	}
}

func (c *Ab) parameters() map[string]string {
	pinning := "none"
	if bulk, rr := c.pins(); c.Pin {
		pinning = fmt.Sprintf("TCP and UDP: client on core %d, server on core %d; request/response: both on core %d", bulk.Client, bulk.Server, rr.Client)
	}
	offloads := make([]string, len(c.Offload))
	for i, t := range c.Offload {
		offloads[i] = t.String()
	}
	p := map[string]string{
		"rounds":           strconv.Itoa(c.Rounds),
		"bridge_netfilter": string(c.BridgeNetfilter),
		"order":            "all targets of a round are up at once, each with hosts and links of its own; slices of a case alternate between them in balanced order; everything is rebuilt for the next round",
		"cases":            strings.Join(c.Cases, ", "),
		"cycles":           strconv.Itoa(c.Cycles),
		"slice":            c.Slice.String(),
		"udp_payload":      "18",
		"streams":          strconv.Itoa(c.Streams),
		"warmup":           fmt.Sprintf("%s of rest and an uncounted cycle before each round; the first %s of each slice of tcp and rr do not count", settleTime, measure.WarmUp),
		"underlay_mtu":     strconv.Itoa(c.UnderlayMTU),
		"inner_mtu":        strconv.Itoa(c.InnerMTU),
		"plain_mtu":        strconv.Itoa(c.PlainMTU),
		"underlay_family":  "IPv" + strconv.Itoa(c.Family),
		"encapsulation":    string(c.Encap),
		"routed":           strconv.FormatBool(c.Routed),
		"control":          "static entries at every tunnel",
		"udp_checksum":     "zero in every tunnel",
		"pinning":          pinning,
	}
	if c.SelvageBinary != "" {
		p["selvage_binary"] = c.SelvageBinary
	}
	c.programs.record(p)
	if len(offloads) > 0 {
		p["offload"] = strings.Join(offloads, ", ")
	}
	return p
}

// target describes a path, with what its headers cost against plain.
func (c *Ab) target(name string, p *topo.Path, env result.Environment) result.Target {
	d := result.Target{Name: name, Description: p.Description, InnerMTU: p.InnerMTU}
	if program := c.programs[name]; program != "" {
		d.Description += ", of " + program
	}
	if name == "kernel" && c.Encap != overlay.VXLAN {
		d.Description += ", VXLAN in every run"
	}
	if c.tunnelled(name) {
		timestamps := env.Sysctls["net.ipv4.tcp_timestamps"] != "0"
		d.HeaderTax = stats.HeaderTax(
			stats.Path{MTU: c.PlainMTU, Timestamps: timestamps},
			stats.Path{MTU: p.InnerMTU, Timestamps: timestamps, Outer: c.overhead(name)})
	}
	return d
}

// topology is the picture of the standard topology.
func topology(n *topo.TwoHosts) result.Topology {
	return result.Topology{
		Nodes: []result.Node{
			{Name: "client", Role: "client", Addrs: []string{n.ClientAddr(4).String(), n.ClientAddr(6).String()}},
			{Name: "host A", Role: "host", Addrs: []string{n.TEPA.String()}},
			{Name: "host B", Role: "host", Addrs: []string{n.TEPB.String()}},
			{Name: "server", Role: "server", Addrs: []string{n.ServerAddr(4).String(), n.ServerAddr(6).String()}},
		},
		Links: []result.Link{
			{A: "client", B: "host A", Role: "access", MTU: n.Options.InnerMTU},
			{A: "host A", B: "host B", Role: "underlay", MTU: n.Options.UnderlayMTU},
			{A: "host B", B: "server", Role: "access", MTU: n.Options.InnerMTU},
		},
	}
}
