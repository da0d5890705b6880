package mtu

import (
	"context"
	"errors"
	"fmt"
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
	run := &mtuRun{Command: c, result: c.describe(console, began), pace: &experiment.Pace{First: mtuExtra}, left: steps(all), progress: experiment.NewProgress(console.Err, len(all))}
	guess := run.pace.Left(run.left)
	defer run.progress.Close()
	run.progress.Note("%s: %d samples, about %s", strings.Join(c.Targets, ", "), len(all), experiment.About(guess))
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
			r.result.Parameters[experiment.Interrupted] = fmt.Sprintf("case %s, round %d", s.CaseName, s.Round)
			return err
		}
		sample.Start = began.Sub(r.result.Started).Seconds()
		r.result.Samples = append(r.result.Samples, sample)
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
	p := map[string]string{
		"cases":            strings.Join(c.Cases, ", "),
		"rounds":           strconv.Itoa(c.Rounds),
		"order":            "each setting has its own hosts and links; each case of a round runs all targets in balanced order; whether there is a black hole is tested once",
		"guests":           "segmentation offload off, so that their frames are as on a wire; on in case " + OffloadCase,
		"clamp":            "guests drop too-big messages; the bridges of kernel and plain clamp SYNs with nftables, selvage does by default",
		"messages":         "no SYN is clamped; the kernel's vxlan device has the guests' MTU, so that it, not the bridge, finds oversized packets",
		"duration":         c.Duration.String(),
		"hole_duration":    c.HoleDuration.String(),
		"sweep_duration":   c.SweepDuration.String(),
		"hashes":           strconv.Itoa(c.Hashes),
		"underlay_mtu":     strconv.Itoa(c.UnderlayMTU),
		"guest_mtu":        strconv.Itoa(c.GuestMTU),
		"jumbo_mtu":        strconv.Itoa(c.JumboMTU),
		"underlay_family":  "IPv" + strconv.Itoa(c.Family),
		"encapsulation":    string(c.Encap),
		"bridge_netfilter": string(c.BridgeNetfilter),
		"quick":            strconv.FormatBool(c.Quick),
		"pinning":          "transfers: client on the first core, server on the second; sweep: none",
	}
	for _, name := range c.Targets {
		p["path_mtu_"+name] = strconv.Itoa(c.pathMTU(name, c.UnderlayMTU))
	}
	if c.SelvageBinary != "" {
		p["selvage_binary"] = c.SelvageBinary
	}
	return result.Result{
		Schema:     result.Schema,
		Experiment: Name,
		Started:    began.UTC(),
		Command:    append([]string{"selvage"}, console.Args...),
		Parameters: p,
		Samples:    []result.Sample{},
	}
}
