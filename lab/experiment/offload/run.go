package offload

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
)

// measure builds the targets, takes all samples, and sets and removes everything as it
// was. With an error the result holds what was measured until then.
func (c *Command) measure(ctx context.Context, console *experiment.Console, began time.Time) (r result.Result, err error) {
	every := c.plan(func(string, overlay.Encapsulation) bool { return true })
	guess := offloadPace().Left(experiment.Steps(every))
	p := experiment.NewProgress(console.Err, len(every))
	defer p.Close()
	p.Note("%s: up to %d samples, about %s", c, len(every), experiment.About(guess))
	p.Begin("building networks", guess)
	all := &switchedTestbeds{byName: map[string]*switchedTestbed{}}
	r = c.describe(console, began)
	err = c.prepare(ctx, all, &r, console.Version, p)
	if err == nil {
		err = c.takeAll(ctx, all, &r, p)
	}
	r.Duration = time.Since(began).Seconds()
	return r, experiment.RemoveAll(ctx, err, all.close, p)
}

// String is what is measured, in a line.
func (c *Command) String() string {
	encaps := make([]string, len(c.Encap))
	for i, e := range c.Encap {
		encaps[i] = string(e)
	}
	return fmt.Sprintf("%s; %s; %s; writes of %s kB; %s", strings.Join(c.Targets, ", "), strings.Join(encaps, ", "),
		strings.Join(c.States, ", "), experiment.Numbers(c.Sizes), strings.Join(c.Ways, ", "))
}

// prepare builds all targets and writes down what they are, and which encapsulations the
// kernel has no device of.
func (c *Command) prepare(ctx context.Context, all *switchedTestbeds, r *result.Result, version string, p *experiment.Progress) error {
	recorded := false
	for _, name := range c.Targets {
		d := result.Target{Name: name, InnerMTU: c.innerMTU()}
		for _, e := range c.Encap {
			b, err := c.buildTestbed(ctx, all, name, e)
			if errors.Is(err, dut.ErrNoDevice) {
				p.Note("%s is not measured with %s: this kernel has no such device", name, e)
				r.Parameters[withoutParameter(name)] = result.Of(result.Texts(append(r.Parameters.Texts(withoutParameter(name)), string(e))))
				continue
			}
			if err != nil {
				return err
			}
			d.Description = strings.TrimPrefix(d.Description+"; "+b.path.Description, "; ")
			if recorded {
				continue
			}
			recorded = true
			r.Topology = experiment.Topology(b.net)
			if r.Environment, err = measure.Environment(ctx, b.net, version); err != nil {
				return err
			}
		}
		if d.Description != "" {
			r.Targets = append(r.Targets, d)
		}
	}
	if !recorded {
		return fmt.Errorf("--targets, --encap: this kernel has no device for any of %s", c)
	}
	return nil
}

// takeAll takes all samples and appends them to r, until ctx ends.
func (c *Command) takeAll(ctx context.Context, all *switchedTestbeds, r *result.Result, p *experiment.Progress) error {
	steps := c.plan(func(name string, e overlay.Encapsulation) bool { return all.byName[streamTestbed(name, e)] != nil })
	taking := experiment.Taking[streamStep]{
		Pace: offloadPace(), Outcome: streamOutcome,
		Take: func(ctx context.Context, s streamStep) (result.Sample, error) {
			b := all.byName[streamTestbed(s.Target, overlay.Encapsulation(s.stream.Encapsulation))]
			sample := c.take(ctx, b, s)
			if b.state == s.stream.State {
				noteForce(r.Parameters, s.Target, s.stream.State, b.inForce)
			}
			return sample, nil
		},
	}
	return taking.All(ctx, steps, r, p)
}

// describe is a result of c before anything was measured.
func (c *Command) describe(console *experiment.Console, began time.Time) result.Result {
	p := result.Parameters{
		"rounds":       result.Count(c.Rounds),
		"sizes":        result.Counts(c.Sizes).In("kB").Explained("of 1024 bytes a write"),
		"states":       result.Of(result.Texts(c.States)),
		"where":        result.Of(result.Texts(c.Where)),
		"ways":         result.Of(result.Texts(c.Ways)),
		"streams":      result.Count(c.Streams).Explained("each way, over %d pairs of end systems", c.Pairs),
		"writes":       result.Words("iperf3 writes and reads in this size; TCP_NODELAY is off, as iperf3 has it, so TCP may join small writes into one segment"),
		"kinds":        result.Words("tso: all tx-…segmentation features, those of tunnels too; gro: rx-gro, rx-lro, rx-gro-hw; csum: tx-checksum-… and rx-checksum. Linux offloads segmentation only with checksums: tso-on has these too, and csum-off has no TSO"),
		"order":        result.Words("in each round, for one size after the other, all states, and in each all targets, both in balanced order; each target has its own hosts and links from the first sample to the last, and only its offloads change"),
		"duration":     result.Time(c.Duration),
		"rest":         result.Time(experiment.SettleTime).Explained("before each sample"),
		"patience":     result.Time(c.Patience).Explained("at most before each sample, for the machine to become quiet"),
		"pinning":      result.Words("end systems of host A on the first core, of host B on the second; the kernel's packet processing is not pinned"),
		"cpu":          result.Words("percent of all cores, of the whole machine: end systems, hosts and whatever else runs"),
		"underlay_mtu": result.Count(c.UnderlayMTU).In("bytes"),
		"inner_mtu":    result.Count(c.innerMTU()).In("bytes"),
		"family":       result.Words("IPv" + strconv.Itoa(c.Family) + " underlay, IPv4 inside"),
		"udp_checksum": result.Words("zero in every tunnel"),
	}
	experiment.NoteBinary(p, c.SelvageBinary)
	return console.Blank(Name, began, p)
}
