package attack

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/cores"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/attack/attacker"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/topo"
)

// attackExtra is about what a sample takes besides measuring.
const attackExtra = 2500 * time.Millisecond

// measure builds the networks, attacks them, and removes them again. With an error the result holds
// what was measured until then.
func (c *Command) measure(ctx context.Context, console *experiment.Console, began time.Time) (r result.Result, err error) {
	_, core := pins()
	if len(cores.Usable()) < 2 {
		return r, fmt.Errorf("the lab may use core %d alone: an attack needs one of its own, beside that of the honest pairs", core)
	}
	if err := topo.Pin(os.Getpid(), core); err != nil { // and all that is started from now on, but the honest pairs
		return r, err
	}
	plan, pace := c.plan(), &experiment.Pace{First: attackExtra}
	guess := pace.Left(plan)
	p := experiment.NewProgress(console.Err, len(plan))
	defer p.Close()
	p.Note("%s: %s, about %s", strings.Join(c.Targets, ", "), result.Counted(len(plan), "attack"), experiment.About(guess))
	p.Begin("building networks", guess)
	r = c.describe(console, began)
	testbed := &testbed{options: c, byName: map[string]*besieged{}}
	if err = c.prepare(ctx, testbed, &r, console.Version, p); err == nil {
		err = c.takeAll(ctx, testbed, plan, pace, &r, p)
	}
	r.Duration = time.Since(began).Seconds()
	return r, experiment.RemoveAll(ctx, err, testbed.close, p)
}

// prepare looks at the machine, builds all targets and writes down what they are.
func (c *Command) prepare(ctx context.Context, b *testbed, r *result.Result, version string, p *experiment.Progress) error {
	err := experiment.NoteMachine(ctx, r, p)
	if err != nil {
		return err
	}
	for _, name := range c.Targets {
		s, err := b.provide(ctx, name, attacker.Attack{})
		if err != nil {
			return err
		}
		r.Targets = append(r.Targets, s.target(name))
	}
	first := b.byName[c.Targets[0]].net
	r.Topology = attackTopology(first)
	r.Environment, err = measure.Environment(ctx, first.Hosts(), version)
	delete(r.Environment.MTU, "plain")
	return err
}

// takeAll takes the samples of a plan and appends them to r, until ctx ends.
func (c *Command) takeAll(ctx context.Context, b *testbed, plan []experiment.Step, pace *experiment.Pace, r *result.Result, p *experiment.Progress) error {
	taking := experiment.Taking[experiment.Step]{
		Pace: pace, Outcome: attackOutcome,
		Take: func(ctx context.Context, s experiment.Step) (result.Sample, error) { return c.take(ctx, b, s, r) },
	}
	return taking.All(ctx, plan, r, p)
}

// take takes one sample. A failure is in the sample, not beside it, and its network is removed; the
// error is of that alone.
func (c *Command) take(ctx context.Context, b *testbed, s experiment.Step, r *result.Result) (result.Sample, error) {
	a, _ := attacker.Find(s.CaseName) // Validate has looked
	if lacks(s.Target, a.Need) {
		r.Parameters[whyNotParameter(s.Target, a.Name)] = result.Words("it has no " + string(a.Need))
		return result.Sample{Metrics: map[string]float64{NotApplicable: 1}}, nil
	}
	began := time.Now()
	var sample result.Sample
	besieged, err := b.provide(ctx, s.Target, a)
	if err == nil {
		sample, err = c.sample(ctx, b, besieged, a)
	}
	if err != nil {
		return experiment.Attempted(began, result.Sample{}, err), b.drop(s.Target)
	}
	return sample, nil
}

// attackOutcome is the sample in a few words.
func attackOutcome(s result.Sample) string {
	if s.Error != "" {
		return experiment.Failure(s)
	}
	m := s.Metrics
	if m[NotApplicable] > 0 {
		return "not applicable"
	}
	words := fmt.Sprintf("%.0f of %.0f packets crossed, TCP %s, round trip %s, connections %s, recovered in %.1f s",
		m[Crossed], m[Sent], ofPairs(m, KeptTCP), ofPairs(m, KeptRR), ofPairs(m, KeptConnections), m[Recovered])
	if lost := m[LostConnections]; lost > 0 {
		words += fmt.Sprintf(", %.0f connections lost", lost)
	}
	if busy := m[experiment.IdleBusy]; busy > experiment.BusyLimit {
		words += fmt.Sprintf(", but other processes kept the machine %.0f %% busy", 100*busy)
	}
	return words
}

// ofPairs are a ratio's figures of both pairs.
func ofPairs(m map[string]float64, metric string) string {
	return fmt.Sprintf("× %.2f and %.2f", m[metric+"_"+SamePair], m[metric+"_"+OtherPair])
}

// describe is a result of c before anything was measured.
func (c *Command) describe(console *experiment.Console, began time.Time) result.Result {
	honestCore, attackCore := pins()
	p := result.Parameters{
		"rounds":      result.Count(c.Rounds),
		"attacks":     result.Of(result.Texts(c.Attacks)),
		"slice":       result.Time(c.Slice).Explained("of TCP and of connections, half of it of round trips"),
		"cycles":      result.Count(c.Cycles).Explained("attacked, and %d unattacked before and after: TCP, round trips, connections of the one pair, then of the other", c.quietCycles()),
		ageing:        result.Time(c.Ageing),
		recovery:      result.Time(c.Recovery),
		"bare":        result.Of(result.Bool(c.Bare)),
		"pinning":     result.Words(fmt.Sprintf("honest pairs: client and server on core %d; attacker, control planes and the lab on core %d; Open vSwitch's process on any; a veth's softirq runs where was sent", honestCore, attackCore)),
		"order":       result.Words("in each round one attack after the other, of each all targets in balanced order"),
		"capture":     result.Words("a packet socket at each victim, which the kernel's filter counts"),
		"connections": result.Words("of each pair one of TCP, one of round trips and 16 idle ones are established before an attack"),
	}
	for _, name := range c.Attacks {
		a, _ := attacker.Find(name) // Validate has looked
		p[titleParameter(name)] = result.Words(a.Title + ", by a " + a.From)
	}
	experiment.NoteBinary(p, c.SelvageBinary)
	return console.Blank(Name, began, p)
}
