package egress

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
)

// measure builds the targets, takes all samples and removes the targets again. With
// an error the result holds what was measured until then.
func (c *Command) measure(ctx context.Context, console *experiment.Console, began time.Time) (r result.Result, err error) {
	steps := c.plan()
	guess := egressPace().Left(experiment.Steps(steps))
	p := experiment.NewProgress(console.Err, len(steps))
	defer p.Close()
	p.Note("%s: %s, about %s", strings.Join(c.Targets, ", "), result.Counted(len(steps), "sample"), experiment.About(guess))
	p.Begin("building networks", guess)
	all := &exits{byName: map[string]*exit{}}
	r = c.describe(console, began)
	err = c.prepare(ctx, all, &r, console.Version, p)
	if err == nil {
		err = c.takeAll(ctx, all, steps, &r, p)
	}
	r.Duration = time.Since(began).Seconds()
	return r, experiment.RemoveAll(ctx, err, all.close, p)
}

// prepare looks at the machine, builds all targets and writes down what they are.
func (c *Command) prepare(ctx context.Context, all *exits, r *result.Result, version string, p *experiment.Progress) error {
	err := experiment.NoteMachine(ctx, r, p)
	if err != nil {
		return err
	}
	for _, name := range c.Targets {
		e, err := c.build(ctx, all, name)
		if err != nil {
			return err
		}
		r.Targets = append(r.Targets, c.target(name, e))
	}
	first := all.byName[c.Targets[0]]
	r.Topology = egressTopology(first.net)
	r.Environment, err = measure.Environment(ctx, first.net.Hosts(), version)
	delete(r.Environment.MTU, "plain")
	return err
}

// takeAll takes the samples of steps and appends them to r, until ctx ends.
func (c *Command) takeAll(ctx context.Context, all *exits, steps []climb, r *result.Result, p *experiment.Progress) error {
	taking := experiment.Taking[climb]{
		Pace: egressPace(), Outcome: climbOutcome,
		Take: func(ctx context.Context, s climb) (result.Sample, error) {
			return c.take(ctx, all.byName[s.Target], s), nil
		},
	}
	return taking.All(ctx, steps, r, p)
}

// describe is a result of c before anything was measured.
func (c *Command) describe(console *experiment.Console, began time.Time) result.Result {
	p := result.Parameters{
		"rounds":       result.Count(c.Rounds),
		"stages":       result.Of(result.Texts(c.Stages)),
		"measure":      result.Of(result.Texts(c.Measure)),
		"directions":   result.Of(result.Texts(c.Directions)),
		"order":        result.Words("each case of a round runs all targets in balanced order, from the lowest stage up; each has its own hosts and links from the first sample to the last, and only the rate of its wires changes"),
		"proof":        result.Words("before each sample, the target has seen the workload's own address (routed) or another one (egress)"),
		wireRate:       result.Of(result.Number(c.Wire)).In("Gbit/s"),
		"wire":         result.Words("token bucket filters on underlay and uplink, both ways; frames count with their Ethernet header; cases " + FreeWire + ", round trips and connections have no limit"),
		"underlay_mtu": result.Count(c.UnderlayMTU).In("bytes"),
		"duration":     result.Time(c.Duration).Explained("of TCP throughput"),
		"sample":       result.Time(c.Sample).Explained("of round trips and connections"),
		"at_once":      result.Count(c.AtOnce).Explained("connections"),
		"warmup":       result.Words(fmt.Sprintf("%s of rest before each sample", experiment.SettleTime)),
		"pinning":      result.Words("TCP and connections: client on core 0, server on core 1; round trips: both on core 0"),
		"udp_checksum": result.Words("zero in every tunnel"),
		"tracking":     result.Words("the kernel tracks only what it translates; both keep connections equally long (RFC 4787, 5382)"),
		"troubleshoot": result.Of(result.Bool(c.Troubleshoot)),
	}
	experiment.NoteBinary(p, c.SelvageBinary)
	return console.Blank(Name, began, p)
}
