package ports

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/transit"
)

// deviceName is the target of all samples.
const deviceName = "device"

// largest is the largest frame of all, without a tag.
func largest(t Trials) int {
	most := 0
	for _, size := range t.Sizes {
		most = max(most, size)
	}
	for _, m := range t.Mixes {
		for _, share := range m.Shares {
			most = max(most, share.Frame)
		}
	}
	return most
}

// step is one sample.
type step struct {
	experiment.Step
	direction string
	stream    gen.Stream
	in, out   float64 // bytes of a frame with FCS, tag and tunnel where it goes into the device and comes out, on average
}

// wire are the bytes by which a frame that is sent loads the device in and out, and the wire that has most in one direction,
// with preamble and gap.
func (s step) wire() (in, out, most float64) {
	in, out = s.in+transit.Framing, s.out+transit.Framing
	most = max(in, out)
	if s.direction == both { // and comes back
		in, out = in+out, in+out
	}
	return in, out, most
}

// plan are the samples: in each round all sizes in each direction.
func (c *Command) plan(t Trials) []step {
	directions := []string{forward}
	if c.Reverse {
		directions = append(directions, reverse)
	}
	if c.Both {
		directions = append(directions, both)
	}
	var steps []step
	for round := 1; round <= t.Rounds; round++ {
		for _, direction := range directions {
			add := func(name string, s gen.Stream) {
				s.Flows, s.Family = t.Flows, t.Family
				in := s.MeanFrame(nil) + float64(c.tag())
				out := in
				if direction != reverse {
					in += float64(c.overhead())
				} else {
					out += float64(c.overhead())
				}
				steps = append(steps, step{
					Step:      experiment.Step{Round: round, CaseName: direction + "-" + name, Target: deviceName, Planned: t.planned()},
					direction: direction, stream: s, in: in, out: out,
				})
			}
			for _, size := range t.Sizes {
				add(strconv.Itoa(size), gen.Stream{Frame: size})
			}
			for _, m := range t.Mixes {
				add(m.Name, gen.Stream{IMIX: m.Shares, Order: m.Order})
			}
		}
	}
	return steps
}

// tag is the length of what --vlan adds.
func (c *Command) tag() int {
	if c.VLAN == 0 {
		return 0
	}
	return 4
}

// planned is about how long a sample's trials are.
func (t Trials) planned() time.Duration {
	const initial, final = 4, 6
	n := initial + final + 4*t.LatencyTrials
	return initial*t.InitialDuration + final*t.Duration + time.Duration(4*t.LatencyTrials)*t.LatencyDuration + time.Duration(n)*t.Settle
}

// measure opens the site, takes all samples and leaves the ports. With an error the result holds what was
// measured until then.
func (c *Command) measure(ctx context.Context, console *experiment.Console, began time.Time, t Trials) (r result.Result, err error) {
	steps := c.plan(t)
	progress := experiment.NewProgress(console.Err, len(steps))
	defer progress.Close()
	r = console.Blank(Name, began, c.parameters(t))
	r.Environment.Versions = map[string]string{"selvage": console.Version}
	options := place.Connection{SSH: c.SSH, Sudo: c.Sudo, Programs: c.Programs}.Options(console.Version, console.Password)
	options.Limits.Time = t.longest() + agentMargin
	site, err := c.openSite(ctx, t, options)
	if err != nil {
		return r, err
	}
	if line := site.line(); line > 0 && !c.LineRate {
		t.LineRate = line
	} else if !c.LineRate {
		t.LineRate = 0
	}
	c.describe(&r, site, t)
	pace := &experiment.Pace{First: time.Second}
	progress.Note("%s to %s, %s, about %s", &site.sides[0], &site.sides[1], result.Counted(len(steps), "sample"), experiment.About(pace.Left(experiment.Steps(steps))))
	taking := experiment.Taking[step]{
		Pace: pace, Outcome: outcome,
		Take: func(ctx context.Context, s step) (result.Sample, error) { return c.take(ctx, site, s, t), nil },
	}
	asked := c.Boxes.Start(ctx, options, began)
	err = taking.All(ctx, steps, &r, progress)
	r.Devices = asked.End()
	answered, failed := site.answered(ctx)
	if err == nil {
		err = failed
	}
	r.Parameters["neighbours_answered"] = result.Count(int(answered)).Explained("requests by ARP and neighbour discovery")
	r.Duration = time.Since(began).Seconds()
	return r, experiment.Removed(ctx, err, site.Close())
}

// agentMargin is what an agent's generator may send for beyond the longest trial: for a burst that has no duration.
const agentMargin = 10 * time.Second

// longest is the longest trial.
func (t Trials) longest() time.Duration { return max(t.Duration, t.InitialDuration, t.LatencyDuration) }

// parameters are what was asked for.
func (c *Command) parameters(t Trials) result.Parameters {
	strategy := "MLRsearch (RFC 9971)"
	if t.Binary {
		strategy = "binary"
	}
	goals := t.goals(c)
	p := result.Parameters{
		"rounds":           result.Count(t.Rounds),
		"order":            result.Words("each round has all sizes, direction by direction"),
		"sizes":            result.Counts(t.Sizes).In("bytes").Explained("with FCS, without a VLAN tag; a packet of 1500 bytes is in a frame of 1518"),
		"flows":            result.Count(t.Flows),
		"family":           result.Words("IPv" + strconv.Itoa(t.Family)),
		"routed":           result.Of(result.Bool(!c.L2)),
		"search":           result.Words(strategy),
		tolerance:          result.Of(result.Number(t.Tolerance)).In("%"),
		"goal_exceed_rate": result.Of(result.Number(c.Exceed)).Explained("share of trial time that may lose more at a rate that counts (RFC 9971: goal exceed ratio)"),
		"goal_sum":         result.Time(goals[0].Sum).Explained("RFC 9971: goal duration sum"),
		"goal_width":       result.Of(result.Number(100 * goals[0].Width)).In("%").Explained("RFC 9971: goal width"),
		"duration":         result.Time(t.Duration).Explained("RFC 9971: goal final trial duration"),
		"initial_duration": result.Time(t.InitialDuration).Explained("RFC 9971: goal initial trial duration"),
		"rates":            result.Of(result.Numbers{t.MinRate, t.MaxRate}).In("%").Explained("at least and at most, of the line rate or of %g of the generator's ceiling at these ports, whichever is less", generatorMargin),
		"retries":          result.Count(t.Retries),
		"drain":            result.Time(t.Drain).Explained("at most, less when all frames have arrived"),
		"settle":           result.Time(t.Settle),
		"warmup":           result.Words("two frames of each flow, until all of them arrive"),
		"accounts":         result.Words("what was sent and did not arrive is lost, unless a receive ring of this host was full: such a trial is void"),
		"latency_trials":   result.Count(t.LatencyTrials).Explained("of %s at each of 10, 50, 90 and 100 %% of the no-drop rate, means of them; every frame is timed", t.LatencyDuration),
	}
	if c.Both {
		p[both] = result.Words("the ports of --rx loop frames back: rates are of frames sent, each of which crosses the device twice; latency is of the way there and back")
	}
	if c.CatchUp > defaultCatchUp {
		p["catch_up"] = result.Time(c.CatchUp).Explained("delay that the generator makes up for: the load comes in bursts of up to that time")
	}
	if c.VLAN != 0 {
		p["vlan"] = result.Count(int(c.VLAN)).Explained("4 bytes more than the size")
	}
	if e := c.Encap; e.Encapsulation != "" {
		p["encap"] = result.Words(fmt.Sprintf("%s, VNI %d, to %s, %d bytes more than the size at the side of --tx", e.Encapsulation, e.VNI, e.Remote, c.overhead()))
	}
	for _, m := range t.Mixes {
		var shares []string
		for _, s := range m.Shares {
			shares = append(shares, fmt.Sprintf("%d:%d", s.Frame, s.Weight))
		}
		p[m.Name] = result.Words(strings.Join(shares, ", ")).Explained("size and weight")
		if len(m.Order) > 0 {
			p[m.Name] = p[m.Name].Explained("size and weight, of %s in its order, on each core of the generator (RFC 6985)", c.Genome)
		}
	}
	return p
}

// describe writes down how the ports are used.
func (c *Command) describe(r *result.Result, s *site, t Trials) {
	text := c.DUT
	if text == "" {
		text = "a device between " + s.sides[0].String() + " and " + s.sides[1].String()
	}
	r.Targets = []result.Target{{Name: deviceName, Description: text, InnerMTU: s.sides[0].links[0].port.MTU}}
	p := r.Parameters
	p["tx"], p["rx"] = result.Words(s.sides[0].String()), result.Words(s.sides[1].String())
	p["tx_hosts"], p["rx_hosts"] = result.Words(s.sides[0].network.String()), result.Words(s.sides[1].network.String())
	p["generator"] = result.Words("frames are made by a BPF program in the kernel (BPF_PROG_TEST_RUN with live frames) and handed to the driver by XDP's redirect, those of more than 3,396 bytes with tag and tunnel by packet sockets that bypass the queue, without AF_XDP or DPDK; its threads are real-time tasks while they send")
	p["sink"] = result.Words(fmt.Sprintf("XDP, %s mode", s.mode))
	p["generator_cores"] = result.Counts(s.sides[0].cores)
	for i, name := range []string{"tx_place", "rx_place"} {
		if d := s.sides[i]; d.place != "" {
			h := d.tester.Host()
			p[name] = result.Words(d.place).Explained("Linux %s; usable cores %v, its generator has %v", h.Kernel, h.Cores, d.cores)
		}
	}
	if !s.oneClock(forward) {
		p["clocks"] = result.Words("one at each side: latency is measured of frames that come back, with --both, and of no others")
	}
	p["line_rate"] = result.Words("not known: no driver says it, and --line-rate was not given")
	if t.LineRate > 0 {
		p["line_rate"] = result.Of(result.Number(t.LineRate)).In("Gbit/s")
	}
	r.Topology = topology(s)
	for i, role := range []string{"tx", "rx"} {
		d := s.sides[i]
		h := d.tester.Host()
		if i == 0 {
			r.Environment.Cores, r.Environment.Kernel = len(h.Cores), h.Kernel
		} else if d.place == s.sides[0].place {
			break
		}
		r.Preflight = append(r.Preflight, d.facts...)
		r.Places = append(r.Places, result.Place{Role: role, Name: d.place, Machine: h.Boot, Kernel: h.Kernel, Cores: len(h.Cores)})
	}
}

// topology is the picture of a site.
func topology(s *site) result.Topology {
	node := func(name, role string, side *side) result.Node {
		n := result.Node{Name: name, Role: role}
		for _, l := range side.links {
			n.Addrs = append(n.Addrs, l.port.String())
		}
		return n
	}
	a, b := &s.sides[0], &s.sides[1]
	return result.Topology{
		Nodes: []result.Node{node("tx", "client", a), {Name: deviceName, Role: "host"}, node("rx", "server", b)},
		Links: []result.Link{
			{A: "tx", B: deviceName, Role: "access", MTU: a.links[0].port.MTU},
			{A: deviceName, B: "rx", Role: "access", MTU: b.links[0].port.MTU},
		},
	}
}

var _ transit.Site = (*site)(nil)
