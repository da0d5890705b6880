package mtu

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Run measures, writes result and report and prints the summary. When ctx ends it
// keeps the samples that it has. It fails when a sample did.
func (c *Command) Run(ctx context.Context, console *experiment.Console) error {
	if c.Places.Given {
		return c.Places.Run(ctx, console, c.Rounds, c.Destination)
	}
	return experiment.Run(ctx, console, Experiment(), c.Destination, c.measure)
}

// measure goes through the settings. With an error the result holds what was
// measured until then.
func (c *Command) measure(ctx context.Context, console *experiment.Console, began time.Time) (r result.Result, err error) {
	plans := map[string][]mtuStep{}
	var all []mtuStep
	for _, setting := range c.settings() {
		plans[setting] = c.plan(setting)
		all = append(all, plans[setting]...)
	}
	run := &mtuRun{Command: c, result: c.describe(console, began), pace: &experiment.Pace{First: mtuExtra}, left: experiment.Steps(all), progress: experiment.NewProgress(console.Err, len(all))}
	guess := run.pace.Left(run.left)
	defer run.progress.Close()
	run.progress.Note("%s: %s, about %s", strings.Join(c.Targets, ", "), result.Counted(len(all), "sample"), experiment.About(guess))
	run.progress.Begin("building networks", guess)
	if run.result.Environment, run.result.Topology, err = c.environment(ctx, console.Version); err != nil {
		return run.result, run.ended(ctx, err)
	}
	for _, setting := range c.settings() {
		if len(plans[setting]) == 0 {
			continue
		}
		if err = run.take(ctx, setting, plans[setting]); err != nil {
			break
		}
	}
	run.result.Duration = time.Since(began).Seconds()
	return run.result, run.ended(ctx, err)
}

// ended is why the run ended. An interruption is known to who caused it: whatever
// else it broke it hides, but not what was left behind.
func (r *mtuRun) ended(ctx context.Context, err error) error {
	switch {
	case ctx.Err() == nil:
		return errors.Join(err, r.behind)
	case r.behind != nil:
		return r.behind
	}
	return ctx.Err()
}

// mtuRun is a run of the experiment and how far it is.
type mtuRun struct {
	*Command
	result   result.Result
	pace     *experiment.Pace
	left     []experiment.Step
	progress *experiment.Progress
	behind   error // what could not be removed
}

// take builds the networks of a setting, takes its samples and removes them again.
func (r *mtuRun) take(ctx context.Context, setting string, plan []mtuStep) error {
	all := &networks{byName: map[string]*experiment.Network{}}
	defer func() { r.behind = errors.Join(r.behind, all.Close()) }()
	for _, name := range r.targetsOf(setting) {
		if err := r.build(ctx, all, setting, name, r.passes()); err != nil {
			return err
		}
		if len(r.result.Targets) < len(r.Targets) {
			r.result.Targets = append(r.result.Targets, r.target(name, all.byName[name]))
		}
	}
	for _, s := range plan {
		r.progress.Begin(s.String(), r.pace.Left(r.left))
		began := time.Now()
		sample := r.sample(ctx, all.byName[s.Target], s)
		if err := ctx.Err(); err != nil { // the sample is half a one
			experiment.Interrupt(&r.result, "case %s, round %d", s.CaseName, s.Round)
			return err
		}
		sample.Start = began.Sub(r.result.Started).Seconds()
		result.Add(&r.result, sample)
		r.pace.Took(s.Step, time.Since(began))
		r.left = r.left[1:]
		r.progress.Ended(mtuOutcome(s, sample), r.pace.Left(r.left))
	}
	return nil
}

// passes is the largest size that was found to pass on every path and way, or what
// the tunnels leave while none was.
func (r *mtuRun) passes() int {
	least := r.UnderlayMTU - r.paths().MostOverhead()
	for _, s := range r.result.Samples {
		if size := int(s.Metrics[measure.LargestSize]); IsSize(s.Case) && s.Error == "" && size >= experiment.LeastMTU {
			least = min(least, size)
		}
	}
	return least
}

func (r *mtuRun) target(name string, n *experiment.Network) result.Target {
	d := result.Target{Name: name, Description: n.Path.Description, InnerMTU: n.Path.InnerMTU}
	if r.paths().Tunnelled(name) {
		d.HeaderTax = stats.HeaderTax(
			stats.Path{MTU: r.UnderlayMTU, Timestamps: true},
			stats.Path{MTU: r.pathMTU(name, r.UnderlayMTU), Timestamps: true, Outer: r.paths().Overhead(name)})
	}
	return d
}

// describe is a result of c before anything was measured.
func (c *Command) describe(console *experiment.Console, began time.Time) result.Result {
	p := result.Parameters{
		"cases":            result.Of(result.Texts(c.Cases)),
		"rounds":           result.Count(c.Rounds),
		"order":            result.Words("each setting has its own hosts and links; each case of a round runs all targets in balanced order; whether there is a black hole is tested once"),
		"guests":           result.Words("segmentation offload off, so that their frames are as on a wire; on in case " + OffloadCase),
		"clamp":            result.Words("guests drop too-big messages; the bridges of kernel and plain clamp SYNs with nftables, selvage does by default"),
		"messages":         result.Words("no SYN is clamped; the kernel's vxlan device has the guests' MTU, so that it, not the bridge, finds oversized packets"),
		"duration":         result.Time(c.Duration),
		"hole_duration":    result.Time(c.HoleDuration),
		"sweep_duration":   result.Time(c.SweepDuration),
		"hashes":           result.Count(c.Hashes),
		underlayMTU:        result.Count(c.UnderlayMTU).In("bytes"),
		guestMTU:           result.Count(c.GuestMTU).In("bytes"),
		"jumbo_mtu":        result.Count(c.JumboMTU).In("bytes"),
		"underlay_family":  result.Words("IPv" + strconv.Itoa(c.Family)),
		"encapsulation":    result.Words(string(c.Encap)),
		"bridge_netfilter": result.Words(string(c.BridgeNetfilter)),
		"quick":            result.Of(result.Bool(c.Quick)),
		"pinning":          result.Words("transfers: client on the first core, server on the second; sweep: none"),
	}
	for _, name := range c.Targets {
		p[pathMTUParameter(name)] = result.Count(c.pathMTU(name, c.UnderlayMTU)).In("bytes")
	}
	experiment.NoteBinary(p, c.SelvageBinary)
	return console.Blank(Name, began, p)
}
