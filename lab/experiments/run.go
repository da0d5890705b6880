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
	"github.com/selvage/selvage/lab/report"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
)

// Run measures, writes result and report and prints the summary. When ctx ends it
// keeps the samples that it has. It fails when a sample did.
func (c *Ab) Run(ctx context.Context, console *Console) error {
	return conduct(ctx, console, "ab", c.Results, c.Output, c.measure)
}

// conduct makes the directory of a run under results, measures, and writes and prints
// what came of it.
func conduct(ctx context.Context, console *Console, experiment, results, output string, measure func(context.Context, *Console, time.Time) (result.Result, error)) error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces and BPF need root: run it with sudo")
	}
	ctx, stop := withHangup(ctx)
	defer stop()
	restoreDead(ctx, console.Err)
	began := time.Now()
	dir, err := newRunDir(results, experiment, began)
	if err != nil {
		return err
	}
	r, failed := measure(ctx, console, began)
	return finish(console, dir, output, r, failed)
}

// finish concludes a run, writes its files and prints it. It fails when the run did
// (failed) or a sample.
func finish(console *Console, dir, output string, r result.Result, failed error) error {
	if len(r.Samples) == 0 {
		return errors.Join(failed, os.Remove(dir))
	}
	conclude(&r)
	err := save(dir, r, console.Err)
	if output == "json" {
		err = errors.Join(err, result.Write(console.Out, r))
	} else {
		err = errors.Join(err, report.Table(console.Out, r))
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
		fmt.Fprintf(log, "left by killed labs and still there: %v\n", err)
	}
}

// measure builds the contenders, takes all samples and removes the contenders
// again. With an error the result holds what was measured until then.
func (c *Ab) measure(ctx context.Context, console *Console, began time.Time) (r result.Result, err error) {
	steps := c.plan()
	guess := new(pace).left(steps)
	p := newProgress(console.Err, len(steps))
	defer p.close()
	p.note("%s: %d samples, about %s", strings.Join(c.Contenders, ", "), len(steps), about(guess))
	p.begin("building networks", guess)
	all := &networks{byName: map[string]*network{}}
	r = c.describe(console, began)
	err = c.prepare(ctx, all, &r, console.Version)
	if err == nil {
		err = c.takeAll(ctx, all, steps, &r, p)
	}
	r.Duration = time.Since(began).Seconds()
	return r, removeAll(ctx, err, all, p)
}

// removeAll removes the networks of a run that ended with err, and says how it ended then.
func removeAll(ctx context.Context, err error, networks interface{ close() error }, p *progress) error {
	if ctx.Err() != nil { // whatever else that broke
		err = ctx.Err()
	}
	p.begin("removing networks", 0)
	left := networks.close()
	switch {
	case left == nil:
		return err
	case ctx.Err() != nil:
		return left // an interruption is known to who caused it, and must not hide this
	}
	return errors.Join(err, left)
}

// prepare builds all contenders and writes down what they are.
func (c *Ab) prepare(ctx context.Context, all *networks, r *result.Result, version string) (err error) {
	if r.Environment, err = c.environment(ctx, all, version); err != nil {
		return err
	}
	for _, name := range c.Contenders {
		n, err := c.build(ctx, all, name)
		if err != nil {
			return err
		}
		r.Contenders = append(r.Contenders, c.contender(name, n.path, r.Environment))
		if n.control != nil {
			r.Parameters["control"] = n.control.Said
		}
		r.Topology = topology(n.net)
	}
	return nil
}

// takeAll takes the samples of steps and appends them to r, until ctx ends.
func (c *Ab) takeAll(ctx context.Context, all *networks, steps []step, r *result.Result, p *progress) error {
	pace := new(pace)
	for i, s := range steps {
		p.begin(s.String(), pace.left(steps[i:]))
		began := time.Now()
		sample := c.take(ctx, all.byName[s.contender], s)
		if err := ctx.Err(); err != nil { // the sample is half a one
			r.Parameters[interrupted] = fmt.Sprintf("round %d of %d", s.round, c.Rounds)
			return err
		}
		sample.Start = began.Sub(r.Started).Seconds()
		r.Samples = append(r.Samples, sample)
		pace.took(s, time.Since(began))
		p.ended(outcome(sample), pace.left(steps[i+1:]))
	}
	return nil
}

// describe is a result of c before anything was measured.
func (c *Ab) describe(console *Console, began time.Time) result.Result {
	return result.Result{
		Schema:     result.Schema,
		Experiment: "ab",
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
		"order":            "each case of a round runs all contenders in balanced order; each has hosts and links of its own, up from the first sample to the last",
		"cases":            strings.Join(c.Cases, ", "),
		"duration":         c.Duration.String(),
		"rr_duration":      c.RRDuration.String(),
		"udp_duration":     c.UDPDuration.String(),
		"udp_payload":      "18",
		"streams":          strconv.Itoa(c.Streams),
		"warmup":           fmt.Sprintf("before each sample %s of rest, then %s of request/response", settleTime, warmupTime),
		"underlay_mtu":     strconv.Itoa(c.UnderlayMTU),
		"inner_mtu":        strconv.Itoa(c.InnerMTU),
		"plain_mtu":        strconv.Itoa(c.PlainMTU),
		"underlay_family":  "IPv" + strconv.Itoa(c.Family),
		"encapsulation":    string(c.Encap),
		"routed":           strconv.FormatBool(c.Routed),
		"control":          "static entries at every tunnel",
		"udp_checksum":     "zero from every tunnel",
		"pinning":          pinning,
	}
	if c.SelvageBinary != "" {
		p["selvage_binary"] = c.SelvageBinary
	}
	if len(offloads) > 0 {
		p["offload"] = strings.Join(offloads, ", ")
	}
	return p
}

// contender describes a path, with what its headers cost against plain.
func (c *Ab) contender(name string, p *topo.Path, env result.Environment) result.Contender {
	d := result.Contender{Name: name, Description: p.Description, InnerMTU: p.InnerMTU}
	if name == "kernel" && c.Encap != overlay.VXLAN {
		d.Description += ", VXLAN in every run"
	}
	if tunnelled(name) {
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
