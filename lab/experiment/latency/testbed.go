package latency

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/experiment/latency/filter"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
)

// policed is a target in a scenario, with hosts and links of its own. It stays up from
// the first sample to the last, and only its policy changes: so what differs between two
// numbers of rules is the rules.
type policed struct {
	net    *topo.TwoHosts
	path   *topo.Path
	rules  int               // of the policy in force; 0 is none
	policy *overlay.Firewall // nil is none
	marker int               // the port that only this policy lets pass
	took   time.Duration     // until it was in force on all hosts, one after the other
	loop   *app              // nil where it was not asked for
}

// policedTestbeds are all that a run has built, by target and scenario.
type policedTestbeds struct {
	labs   []*topo.Lab
	byName map[string]*policed
}

func testbedOf(target, scenario string) string { return target + " " + scenario }

func (all *policedTestbeds) close() error {
	var errs []error
	for _, b := range all.byName {
		if b.loop != nil {
			errs = append(errs, b.loop.close())
		}
	}
	for _, lab := range all.labs {
		errs = append(errs, lab.Close())
	}
	return errors.Join(errs...)
}

// buildTestbed makes the network of a target and starts its data path without a firewall.
func (c *Command) buildTestbed(ctx context.Context, all *policedTestbeds, target, scenario string) (b *policed, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("target %s, %s: %w", target, scenario, err)
		}
	}()
	lab, err := topo.New(ctx, Name+" "+target)
	if err != nil {
		return nil, err
	}
	all.labs = append(all.labs, lab)
	b = &policed{}
	b.net, err = topo.NewTwoHosts(ctx, lab, topo.TwoHostsOptions{
		UnderlayMTU: c.UnderlayMTU, BridgeNetfilter: topo.BridgeNetfilterOff, Pairs: c.guestPairs(), SameHost: scenario == SameHost,
	})
	if err != nil {
		return nil, err
	}
	if b.path, err = c.startPath(ctx, b.net, target); err != nil {
		return nil, err
	}
	for _, p := range b.net.Pairs {
		// Servers close first. What the kernel keeps of that is not what is measured.
		if err := p.Server.SysctlSet("net/ipv4/tcp_max_tw_buckets", "8192"); err != nil {
			return nil, err
		}
	}
	if c.App && scenario == TwoHosts && target != timedTarget {
		if b.loop, err = newApp(ctx, b.net); err != nil {
			return nil, err
		}
	}
	all.byName[testbedOf(target, scenario)] = b
	return b, nil
}

// guestPairs are those that a bed has.
func (c *Command) guestPairs() int {
	if c.App {
		return max(2, c.Pairs)
	}
	return c.Pairs
}

func (c *Command) startPath(ctx context.Context, n *topo.TwoHosts, target string) (*topo.Path, error) {
	var half func() topo.Half
	switch c.programs.Path(target, target) {
	case "plain":
		return dut.Plain(ctx, n, dut.EndOptions{MTU: n.Options.InnerMTU})
	case stats.Kernel:
		half = func() topo.Half { return filter.Kernel{KernelHalf: dut.KernelHalf{NoUDPCsum: true}} }
	case "ovs":
		half = func() topo.Half { return filter.NewOVS(dut.OVSOptions{}) }
	case "selvage", timedTarget:
		half = func() topo.Half {
			return filter.NewSelvage(dut.SelvageOptions{Binary: c.programs.Of(target, c.SelvageBinary), Timing: target == timedTarget})
		}
	default:
		return nil, fmt.Errorf("there is no target %q", target)
	}
	return n.Build(ctx, half(), half())
}

// unknownRules are those of a policy that could not be put in force.
const unknownRules = -1

// enforceTime is how long a policy that is loaded may take until guests notice.
const enforceTime = 30 * time.Second

// police puts the policy of a number of rules in force, none for 0, and waits until guests
// notice. sweep is the numbers of rules in their order.
func (b *policed) police(ctx context.Context, sweep []int, rules int) error {
	if b.rules == rules {
		return nil
	}
	index := slices.Index(sweep, rules)
	b.rules, b.policy, b.marker = unknownRules, nil, firstMarker+index
	if rules > 0 {
		b.policy = sweepPolicy(rules, index)
	}
	began := time.Now()
	if err := filter.Police(ctx, b.path, b.policy); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, enforceTime)
	defer cancel()
	for {
		err := b.prove(ctx) // an edge names a policy before its data path has it
		if err == nil {
			b.rules, b.took = rules, time.Since(began)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("policy of %d rules is not in force: %w: %w", rules, context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Patience with a SYN: of one that should be answered, and of one that should not.
const (
	answerTime  = 500 * time.Millisecond
	silenceTime = 40 * time.Millisecond
)

// distinguish says whether guests see the policy that should be in force: its own marker is
// answered, and what no policy lets pass is not. Without a policy all is answered.
func (b *policed) distinguish() error {
	first := b.net.Pairs[0]
	if b.policy != nil {
		answered, err := first.Client.Answers(first, b.marker, answerTime)
		if err == nil && !answered {
			err = fmt.Errorf("port %d, which this policy lets pass, is silent", b.marker)
		}
		if err != nil {
			return err
		}
	}
	patience := answerTime
	if b.policy != nil {
		patience = silenceTime
	}
	answered, err := first.Client.Answers(first, forbiddenPort, patience)
	switch {
	case err != nil:
		return err
	case answered && b.policy != nil:
		return fmt.Errorf("port %d, which no policy lets pass, answers: the firewall is off", forbiddenPort)
	case !answered && b.policy == nil:
		return fmt.Errorf("port %d is silent without a firewall", forbiddenPort)
	}
	return nil
}

// prove is distinguish, and that every firewall on the way has counted the connection.
func (b *policed) prove(ctx context.Context) error {
	if b.policy == nil {
		return b.distinguish()
	}
	if _, err := filter.Passed(ctx, b.path); err != nil {
		return err
	}
	if err := b.distinguish(); err != nil {
		return err
	}
	passed, err := filter.Passed(ctx, b.path)
	if err == nil && passed == 0 {
		err = errors.New("a connection passed, and a firewall on its way did not count it: packets go round it")
	}
	return err
}
