package attack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/attack/attacker"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
)

// attackLeast is the shortest attack, and attackRest what packets on their way have to arrive.
const (
	attackLeast = 300 * time.Millisecond
	attackRest  = 50 * time.Millisecond
)

// sample attacks a network once: quiet slices, attacked slices, and the wait until all is as before.
func (c *Command) sample(ctx context.Context, b *testbed, s *besieged, a attacker.Attack) (result.Sample, error) {
	pairs, err := s.honestPairs(ctx, a)
	if err != nil {
		return result.Sample{}, err
	}
	watch, err := a.Watch(s.net)
	if err != nil {
		return result.Sample{}, err
	}
	defer watch.Close()
	busy, err := experiment.Settle(ctx, experiment.SettleTime/5)
	if err != nil {
		return result.Sample{}, err
	}
	began := time.Now()
	quiet, err := cycles(ctx, pairs, c.quietCycles(), c.Slice)
	if err != nil {
		return result.Sample{}, err
	}
	if _, err := watch.Crossed(0); err != nil { // what came before does not count
		return result.Sample{}, err
	}
	assault := &assault{Attack: a, options: c, testbed: b, besieged: s, pairs: pairs, watch: watch}
	attacked, err := assault.run(ctx)
	if err != nil {
		return result.Sample{}, err
	}
	ended := time.Now()
	sample := result.Sample{Metrics: map[string]float64{experiment.IdleBusy: busy}, Series: map[string][]float64{}, Duration: time.Since(began).Seconds()}
	recovered, err := c.recover(ctx, b, s, a, quiet, ended)
	if err != nil {
		return result.Sample{}, err
	}
	var after []phase // none where it is not quiet again
	if recovered < c.Recovery {
		if after, err = cycles(ctx, pairs, c.quietCycles(), c.Slice); err != nil {
			return result.Sample{}, err
		}
	}
	assault.metrics(&sample, quiet, attacked, after)
	sample.Metrics[Recovered] = recovered.Seconds()
	for _, h := range pairs { // asked now, when nothing is in their way
		sample.Metrics[LostConnections] += float64(h.held.Lost())
	}
	if recovered >= c.Recovery {
		return sample, b.drop(nameOf(b, s))
	}
	return sample, nil
}

// assault is one attack on one network.
type assault struct {
	attacker.Attack
	options  *Command
	testbed  *testbed
	besieged *besieged
	pairs    []*honest
	watch    *attacker.Watch

	sent, crossed, lost int
}

// run attacks while the honest pairs are measured.
func (o *assault) run(ctx context.Context) ([]phase, error) {
	began := time.Now()
	stop, err := o.start(ctx)
	if err != nil {
		return nil, err
	}
	attacked, err := cycles(ctx, o.pairs, o.options.Cycles, o.options.Slice)
	if err == nil && o.Newcomer {
		o.crossed, err = o.testbed.newcomer(ctx, o.besieged, 1)
	}
	if err == nil {
		err = experiment.Sleep(ctx, attackLeast-time.Since(began))
	}
	lasted := time.Since(began)
	sent, failed := stop()
	o.sent = sent
	if err = errors.Join(err, failed, experiment.Sleep(ctx, attackRest)); err != nil {
		return nil, err
	}
	crossed, err := o.watch.Crossed(lasted)
	o.crossed += crossed
	for i := range o.pairs {
		o.lost += attacked[i].lost
	}
	return attacked, err
}

// start begins, and returns what ends it and says how much was sent.
func (o *assault) start(ctx context.Context) (stop func() (int, error), err error) {
	if o.Routes {
		end, err := o.besieged.net.RouteFlood(ctx, o.Most)
		if err != nil {
			return nil, err
		}
		return func() (int, error) { return o.Most, end(context.WithoutCancel(ctx)) }, nil
	}
	_, core := pins()
	sender, err := o.Start(ctx, o.besieged.net, core)
	if err != nil {
		return nil, err
	}
	return sender.Stop, nil
}

// metrics writes what came of it, of each pair by itself. Unattacked slices are those before and
// after.
func (o *assault) metrics(s *result.Sample, before, attacked, after []phase) {
	m := s.Metrics
	m[Crossed], m[Sent], m[LostConnections] = float64(o.crossed), float64(o.sent), float64(o.lost)
	for i, h := range o.pairs {
		quiet, phases := before[i], map[string]phase{"quiet": before[i], "attacked": attacked[i]}
		if after != nil {
			quiet, phases["after"] = before[i].and(after[i]), after[i]
		}
		for _, kept := range []struct {
			metric, control string
			of              func(phase) float64
		}{
			{KeptTCP, ControlTCP, phase.throughput},
			{KeptRR, ControlRR, phase.roundTrip},
			{KeptConnections, ControlConnections, phase.connections},
		} {
			note := func(metric string, now, was phase) {
				if kept.of(was) > 0 {
					m[metric+"_"+h.name] = kept.of(now) / kept.of(was)
				}
			}
			note(kept.metric, attacked[i], quiet)
			if after != nil {
				note(kept.control, after[i], before[i])
			}
		}
		for name, p := range phases {
			end := "_" + name + "_" + h.name
			s.Series[measure.TCPSeries+end], s.Series["rr_us"+end], s.Series[measure.ConnRate+end] = p.tcp, p.rr, p.conn
		}
	}
}

// newcomer has a guest with a new MAC address appear, and counts what of its frames is flooded.
func (b *testbed) newcomer(ctx context.Context, s *besieged, segment int) (int, error) {
	b.newcomers++
	return attacker.Newcomer(ctx, s.net, segment, b.newcomers)
}

// recover waits until newcomers of both segments are learned and both pairs are what they were, from
// the end of an attack on, and returns how long that took. It gives up after --recovery; the network
// is then built anew.
func (c *Command) recover(ctx context.Context, b *testbed, s *besieged, a attacker.Attack, quiet []phase, ended time.Time) (time.Duration, error) {
	for {
		at := time.Since(ended)
		if at >= c.Recovery {
			return c.Recovery, ctx.Err()
		}
		normal, err := c.normal(ctx, b, s, a, quiet)
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case err != nil:
			return 0, fmt.Errorf("recovery: %w", err)
		case normal:
			return at, nil
		}
	}
}

func nameOf(b *testbed, s *besieged) string {
	for name, other := range b.byName {
		if other == s {
			return name
		}
	}
	return ""
}

// Of rates that are what they were: so near to the worst unattacked slice.
const (
	nearRate = 0.7
	nearTime = 1.4
)

// normalCycles is how often both pairs are measured for that.
const normalCycles = 2

// normal says whether all is as it was.
func (c *Command) normal(ctx context.Context, b *testbed, s *besieged, a attacker.Attack, quiet []phase) (bool, error) {
	for segment := range pairNames() {
		if leaked, err := b.newcomer(ctx, s, segment); err != nil || leaked > 0 {
			return false, err
		}
	}
	pairs, err := s.honestPairs(ctx, a)
	if err != nil {
		return false, experiment.Sleep(ctx, 10*attackRest) // what broke does not stand again yet
	}
	now, err := cycles(ctx, pairs, normalCycles, c.Slice)
	if err != nil {
		return false, err
	}
	for i, p := range now {
		if p.lost > 0 || !p.near(quiet[i]) {
			return false, nil
		}
	}
	return true, nil
}
