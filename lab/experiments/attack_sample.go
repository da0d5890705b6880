package experiments

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/selvage/selvage/lab/attack"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// attackLeast is the shortest attack, and attackRest what packets on their way have to arrive.
const (
	attackLeast = 300 * time.Millisecond
	attackRest  = 50 * time.Millisecond
)

// sample attacks a network once: quiet slices, attacked slices, and the wait until all is as before.
func (c *Attack) sample(ctx context.Context, b *attackTestbed, s *besieged, a attack.Attack) (result.Sample, error) {
	pairs, err := s.honestPairs(ctx, a)
	if err != nil {
		return result.Sample{}, err
	}
	watch, err := a.Watch(s.net)
	if err != nil {
		return result.Sample{}, err
	}
	defer watch.Close()
	busy, err := settle(ctx, settleTime/5)
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
	sample := result.Sample{Metrics: map[string]float64{idleBusy: busy}, Series: map[string][]float64{}, Duration: time.Since(began).Seconds()}
	assault.metrics(&sample, quiet, attacked)
	recovered, err := c.recover(ctx, b, s, a, quiet, ended)
	if err != nil {
		return result.Sample{}, err
	}
	sample.Metrics[stats.Recovered] = recovered.Seconds()
	for _, h := range pairs { // asked now, when nothing is in their way
		sample.Metrics[stats.LostConnections] += float64(h.held.Lost())
	}
	if recovered >= c.Recovery {
		return sample, b.drop(nameOf(b, s))
	}
	return sample, nil
}

// assault is one attack on one network.
type assault struct {
	attack.Attack
	options  *Attack
	testbed  *attackTestbed
	besieged *besieged
	pairs    []*honest
	watch    *attack.Watch

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
		err = sleep(ctx, attackLeast-time.Since(began))
	}
	lasted := time.Since(began)
	sent, failed := stop()
	o.sent = sent
	if err = errors.Join(err, failed, sleep(ctx, attackRest)); err != nil {
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
	sender, err := o.Start(ctx, o.besieged.net, attackCore)
	if err != nil {
		return nil, err
	}
	return sender.Stop, nil
}

// metrics writes what came of it: of both pairs the one that lost more, and each by itself.
func (o *assault) metrics(s *result.Sample, quiet, attacked []phase) {
	m := s.Metrics
	m[stats.Crossed], m[stats.Sent], m[stats.LostConnections] = float64(o.crossed), float64(o.sent), float64(o.lost)
	for i, h := range o.pairs {
		for _, kept := range []struct {
			metric        string
			before, after float64
			worse         func(a, b float64) float64
		}{
			{stats.KeptTCP, quiet[i].throughput(), attacked[i].throughput(), lesser},
			{stats.KeptRR, quiet[i].roundTrip(), attacked[i].roundTrip(), greater},
			{stats.KeptConnections, quiet[i].connections(), attacked[i].connections(), lesser},
		} {
			if kept.before == 0 {
				continue
			}
			ratio := kept.after / kept.before
			m[kept.metric+"_"+h.name] = ratio
			if old, ok := m[kept.metric]; ok {
				ratio = kept.worse(old, ratio)
			}
			m[kept.metric] = ratio
		}
		for name, p := range map[string]phase{"quiet": quiet[i], "attacked": attacked[i]} {
			end := "_" + name + "_" + h.name
			s.Series["tcp_gbps"+end], s.Series["rr_us"+end], s.Series["conn_rate"+end] = p.tcp, p.rr, p.conn
		}
	}
}

func lesser(a, b float64) float64  { return min(a, b) }
func greater(a, b float64) float64 { return max(a, b) }

// newcomer has a guest with a new MAC address appear, and counts what of its frames is flooded.
func (b *attackTestbed) newcomer(ctx context.Context, s *besieged, segment int) (int, error) {
	b.newcomers++
	return attack.Newcomer(ctx, s.net, segment, b.newcomers)
}

// recover waits until newcomers of both segments are learned and both pairs are what they were, from
// the end of an attack on, and returns how long that took. It gives up after --recovery; the network
// is then built anew.
func (c *Attack) recover(ctx context.Context, b *attackTestbed, s *besieged, a attack.Attack, quiet []phase, ended time.Time) (time.Duration, error) {
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

func nameOf(b *attackTestbed, s *besieged) string {
	for name, other := range b.byName {
		if other == s {
			return name
		}
	}
	return ""
}

// Of rates that are what they were: so near that slices as short as these differ by chance.
const (
	nearRate = 0.8
	nearTime = 1.25
)

// normal says whether all is as it was.
func (c *Attack) normal(ctx context.Context, b *attackTestbed, s *besieged, a attack.Attack, quiet []phase) (bool, error) {
	for segment := range pairNames() {
		if leaked, err := b.newcomer(ctx, s, segment); err != nil || leaked > 0 {
			return false, err
		}
	}
	pairs, err := s.honestPairs(ctx, a)
	if err != nil {
		return false, sleep(ctx, 10*attackRest) // what broke does not stand again yet
	}
	now, err := cycles(ctx, pairs, 1, c.Slice/4)
	if err != nil {
		return false, err
	}
	for i, p := range now {
		was := quiet[i]
		if p.lost > 0 || p.throughput() < nearRate*was.throughput() || p.connections() < nearRate*was.connections() || p.roundTrip() > nearTime*was.roundTrip() {
			return false, nil
		}
	}
	return true, nil
}
