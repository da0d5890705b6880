package converge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/converge/fabric"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
)

// Run measures, writes result and report and prints the summary. When ctx ends it
// keeps the events that it has. It fails when one could not be measured.
func (c *Command) Run(ctx context.Context, console *experiment.Console) error {
	return experiment.Run(ctx, console, Experiment(), c.Destination, c.measure)
}

// convergeExtra is about what an event takes besides watching: flows and captures that begin
// and end, and edges that come back.
const convergeExtra = 3 * time.Second

// measure builds the fabrics, has everything happen in them, and removes them again.
func (c *Command) measure(ctx context.Context, console *experiment.Console, began time.Time) (r result.Result, err error) {
	plan, pace := c.plan(), &experiment.Pace{First: convergeExtra}
	guess := pace.Left(plan)
	p := experiment.NewProgress(console.Err, len(plan))
	defer p.Close()
	p.Note("%s: %d events, about %s", strings.Join(c.Targets, ", "), len(plan), experiment.About(guess))
	p.Begin("building fabrics", guess)
	r = console.Blank(Name, began, c.parameters())
	testbed := &testbed{options: c, byName: map[string]*fabric.Fabric{}}
	if r.Environment, err = inject.Environment(ctx, console.Version); err == nil {
		err = c.takeAll(ctx, testbed, plan, pace, &r, p)
	}
	r.Duration = time.Since(began).Seconds()
	return r, experiment.RemoveAll(ctx, err, testbed.close, p)
}

// testbed is the fabrics of a run: one of each target.
type testbed struct {
	options *Command
	uplinks int // of those that are up
	labs    map[string]*topo.Lab
	byName  map[string]*fabric.Fabric
}

func (b *testbed) close() error {
	var errs []error
	for name := range b.labs {
		errs = append(errs, b.drop(name))
	}
	return errors.Join(errs...)
}

// drop removes a target's fabric.
func (b *testbed) drop(name string) error {
	lab := b.labs[name]
	delete(b.labs, name)
	delete(b.byName, name)
	if lab == nil {
		return nil
	}
	return lab.Close()
}

// provide has all targets' fabrics up that a case needs. One that an event left in a
// state that nobody knows has been dropped, and is built anew.
func (b *testbed) provide(ctx context.Context, caseName string, r *result.Result) error {
	if uplinks := uplinksOf(caseName); uplinks != b.uplinks {
		if err := b.close(); err != nil {
			return err
		}
		b.uplinks, b.labs = uplinks, map[string]*topo.Lab{}
	}
	for _, name := range b.options.Targets {
		if b.byName[name] != nil {
			continue
		}
		if err := b.build(ctx, name); err != nil {
			return errors.Join(fmt.Errorf("fabric of %s: %w", name, err), b.drop(name))
		}
		describeOnce(r, name, b.byName[name])
	}
	return nil
}

func (b *testbed) build(ctx context.Context, name string) (err error) {
	if b.labs[name], err = topo.New(ctx, "converge "+name); err != nil {
		return err
	}
	b.byName[name], err = fabric.New(ctx, b.labs[name], fabric.Options{
		Path: name, Binary: b.options.SelvageBinary, Reflectors: b.options.Reflectors, Liveness: b.options.Liveness, Uplinks: b.uplinks,
	})
	return err
}

// describeOnce adds a target to the result.
func describeOnce(r *result.Result, name string, n *fabric.Fabric) {
	for _, c := range r.Targets {
		if c.Name == name {
			return
		}
	}
	r.Targets = append(r.Targets, result.Target{Name: name, Description: n.Description})
}

// takeAll has everything happen as planned and appends to r what came of it, until ctx ends.
func (c *Command) takeAll(ctx context.Context, testbed *testbed, plan []experiment.Step, pace *experiment.Pace, r *result.Result, p *experiment.Progress) error {
	taking := experiment.Taking[experiment.Step]{
		Pace: pace, Outcome: eventOutcome,
		Take: func(ctx context.Context, s experiment.Step) (result.Sample, error) { return c.take(ctx, testbed, s, r) },
	}
	return taking.All(ctx, plan, r, p)
}

// take has one event happen. A fabric in which that failed is removed; the error is of that, or
// that there is no fabric.
func (c *Command) take(ctx context.Context, testbed *testbed, s experiment.Step, r *result.Result) (result.Sample, error) {
	began := time.Now()
	if err := testbed.provide(ctx, s.CaseName, r); err != nil {
		return experiment.Attempted(began, result.Sample{}, err), err
	}
	began = time.Now()
	fabric := testbed.byName[s.Target]
	r.Parameters[faultParameter(s.CaseName)] = result.Words(fabric.Fault(s.CaseName).Words)
	sample, err := c.event(ctx, fabric, s.CaseName)
	if err != nil && ctx.Err() == nil {
		return experiment.Attempted(began, result.Sample{}, err), testbed.drop(s.Target)
	}
	return sample, nil
}

// eventOutcome is an event in a few words.
func eventOutcome(s result.Sample) string {
	if s.Error != "" {
		return experiment.Failure(s)
	}
	return fmt.Sprintf("outage p50 %s ms, longest %s ms, %.0f packets lost in %.0f of %.0f flows",
		stats.Figure(s.Metrics[inject.OutageP50]), stats.Figure(s.Metrics[inject.OutageMax]), s.Metrics[inject.Lost], s.Metrics[inject.AffectedFlows], s.Metrics[Flows])
}
