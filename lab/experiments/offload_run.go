package experiments

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
)

// measure builds the targets, takes all samples, and sets and removes everything as it
// was. With an error the result holds what was measured until then.
func (c *Offload) measure(ctx context.Context, console *Console, began time.Time) (r result.Result, err error) {
	every := c.plan(func(string, overlay.Encapsulation) bool { return true })
	guess := offloadPace().left(unstreamed(every))
	p := newProgress(console.Err, len(every))
	defer p.close()
	p.note("%s: up to %d samples, about %s", c, len(every), about(guess))
	p.begin("building networks", guess)
	all := &switchedTestbeds{byName: map[string]*switchedTestbed{}}
	r = c.describe(console, began)
	err = c.prepare(ctx, all, &r, console.Version, p)
	if err == nil {
		err = c.takeAll(ctx, all, &r, p)
	}
	r.Duration = time.Since(began).Seconds()
	return r, removeAll(ctx, err, all, p)
}

// String is what is measured, in a line.
func (c *Offload) String() string {
	encaps := make([]string, len(c.Encap))
	for i, e := range c.Encap {
		encaps[i] = string(e)
	}
	return fmt.Sprintf("%s; %s; %s; writes of %s kB; %s", strings.Join(c.Targets, ", "), strings.Join(encaps, ", "),
		strings.Join(c.States, ", "), numbers(c.Sizes), strings.Join(c.Ways, ", "))
}

// prepare builds all targets and writes down what they are, and which encapsulations the
// kernel has no device of.
func (c *Offload) prepare(ctx context.Context, all *switchedTestbeds, r *result.Result, version string, p *progress) error {
	recorded := false
	for _, name := range c.Targets {
		d := result.Target{Name: name, InnerMTU: c.innerMTU()}
		for _, e := range c.Encap {
			b, err := c.buildTestbed(ctx, all, name, e)
			if errors.Is(err, topo.ErrNoDevice) {
				p.note("%s is not measured with %s: this kernel has no such device", name, e)
				r.Parameters[name+"_without"] = strings.TrimPrefix(r.Parameters[name+"_without"]+", "+string(e), ", ")
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
			r.Topology = topology(b.net)
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
func (c *Offload) takeAll(ctx context.Context, all *switchedTestbeds, r *result.Result, p *progress) error {
	steps := c.plan(func(name string, e overlay.Encapsulation) bool { return all.byName[streamTestbed(name, e)] != nil })
	pace, left := offloadPace(), unstreamed(steps)
	for i, s := range steps {
		p.begin(s.String(), pace.left(left[i:]))
		began := time.Now()
		b := all.byName[streamTestbed(s.target, overlay.Encapsulation(s.stream.Encapsulation))]
		sample := c.take(ctx, b, s)
		if err := ctx.Err(); err != nil { // the sample is half a one
			r.Parameters[interrupted] = fmt.Sprintf("round %d of %d", s.round, c.Rounds)
			return err
		}
		if b.state == s.stream.State {
			r.Parameters["in_force_"+s.target+"_"+s.stream.State] = forceWords(b.inForce)
		}
		sample.Start = began.Sub(r.Started).Seconds()
		r.Samples = append(r.Samples, sample)
		pace.took(s.step, time.Since(began))
		p.ended(streamOutcome(sample), pace.left(left[i+1:]))
	}
	return nil
}

// describe is a result of c before anything was measured.
func (c *Offload) describe(console *Console, began time.Time) result.Result {
	p := map[string]string{
		"rounds":       strconv.Itoa(c.Rounds),
		"sizes":        numbers(c.Sizes) + " kB (1024 bytes) a write",
		"states":       strings.Join(c.States, ", "),
		"where":        strings.Join(c.Where, ", "),
		"ways":         strings.Join(c.Ways, ", "),
		"streams":      fmt.Sprintf("%d each way, over %d pairs of end systems", c.Streams, c.Pairs),
		"writes":       "iperf3 writes and reads in this size; TCP_NODELAY is off, as iperf3 has it, so TCP may join small writes into one segment",
		"kinds":        "tso: all tx-…segmentation features, those of tunnels too; gro: rx-gro, rx-lro, rx-gro-hw; csum: tx-checksum-… and rx-checksum. Linux offloads segmentation only with checksums: tso-on has these too, and csum-off has no TSO",
		"order":        "in each round, for one size after the other, all states, and in each all targets, both in balanced order; each target has its own hosts and links from the first sample to the last, and only its offloads change",
		"duration":     c.Duration.String(),
		"rest":         settleTime.String() + " before each sample",
		"patience":     c.Patience.String() + " at most before each sample, for the machine to become quiet",
		"pinning":      "end systems of host A on the first core, of host B on the second; the kernel's packet processing is not pinned",
		"cpu":          "percent of all cores, of the whole machine: end systems, hosts and whatever else runs",
		"underlay_mtu": strconv.Itoa(c.UnderlayMTU),
		"inner_mtu":    strconv.Itoa(c.innerMTU()),
		"family":       "IPv" + strconv.Itoa(c.Family) + " underlay, IPv4 inside",
		"udp_checksum": "zero in every tunnel",
	}
	if c.SelvageBinary != "" {
		p["selvage_binary"] = c.SelvageBinary
	}
	return result.Result{
		Schema: result.Schema, Experiment: stats.Offload, Started: began.UTC(), Command: append([]string{"selvage"}, console.Args...),
		Parameters: p, Samples: []result.Sample{},
	}
}
