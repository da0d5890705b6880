package mtu

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
)

// Metrics of a transfer of the MTU experiment beside measure's.
const (
	fragments  = "fragments"        // IP fragments made by any host
	tooBigSeen = "too_big_received" // ICMP unreachable and ICMPv6 "too big" messages that a stack took in
)

// Counters behind them.
func fragmentCounters() []string { return []string{"IpFragCreates", "Ip6FragCreates"} }
func tooBigCounters() []string   { return []string{"IcmpInDestUnreachs", "Icmp6InPktTooBigs"} }

// mtuSettle is shorter than settleTime: the samples are many and short.
const mtuSettle = 100 * time.Millisecond

// sample takes the sample of s on n. A failure is in the sample, not beside it.
func (c *Command) sample(ctx context.Context, n *experiment.Network, s mtuStep) result.Sample {
	began := time.Now()
	sample, err := c.attempt(ctx, n.Net, s)
	sample.Target, sample.Case, sample.Round = s.Target, s.CaseName, s.Round
	return experiment.Attempted(began, sample, err)
}

func (c *Command) attempt(ctx context.Context, n *topo.TwoHosts, s mtuStep) (result.Sample, error) {
	busy, err := experiment.Settle(ctx, mtuSettle)
	if err != nil {
		return result.Sample{}, err
	}
	ends := endsOf(n, s)
	if err := ends.Client.Reach(ctx, ends.Addr); err != nil {
		return result.Sample{}, err
	}
	before, err := experiment.ReadCounters(n)
	if err != nil {
		return result.Sample{}, err
	}
	sample, err := c.run(ctx, n, ends, s)
	if err != nil {
		return result.Sample{}, err
	}
	after, err := experiment.ReadCounters(n)
	if err != nil {
		return result.Sample{}, err
	}
	sample.Metrics[experiment.IdleBusy] = busy
	for name, counters := range map[string][]string{fragments: fragmentCounters(), tooBigSeen: tooBigCounters()} {
		rose, _ := after.Since(before, counters...)
		sample.Metrics[name] = float64(rose)
	}
	// What is small must have passed all the while: else the path is broken, not a hole.
	if err := ends.Client.Reach(ctx, ends.Addr); err != nil {
		return sample, fmt.Errorf("after the transfer: %w", err)
	}
	if err := after.Damage(before, sample.Metrics); err != nil {
		return sample, fmt.Errorf("%w: the figures of this path are void until its checksums are correct", err)
	}
	return sample, nil
}

// endsOf is who sends to whom.
func endsOf(n *topo.TwoHosts, s mtuStep) measure.Ends {
	ends := measure.EndsOf(n, s.family)
	if s.reverse {
		return measure.Ends{Client: n.Server, Server: n.Client, Addr: n.ClientAddr(s.family)}
	}
	return ends
}

// run runs the instrument of s.
func (c *Command) run(ctx context.Context, n *topo.TwoHosts, ends measure.Ends, s mtuStep) (sample result.Sample, err error) {
	if s.size {
		found, err := measure.RunSize(ctx, ends, measure.SizeOptions{Most: n.Options.InnerMTU, Flows: c.Hashes})
		if err != nil {
			return result.Sample{}, err
		}
		return found.Sample(), nil
	}
	if s.offload {
		if err := segment(n, true); err != nil {
			return result.Sample{}, err
		}
		defer func() { err = errors.Join(err, segment(n, false)) }()
	}
	o := measure.BulkOptions{Duration: s.Planned, Interval: seriesStep, Streams: s.flows}
	if s.segment > 0 {
		o.MSS, o.Pin = s.segment+timestamps, &measure.Pin{Client: measure.Unpinned, Server: measure.Unpinned}
	}
	bulk, err := measure.RunBulk(ctx, ends, o)
	if err != nil {
		return result.Sample{}, err
	}
	return bulk.Sample(), nil
}

// mtuOutcome is the sample in a few words.
func mtuOutcome(s mtuStep, sample result.Sample) string {
	value := func(name string) string { return stats.Figure(sample.Metrics[name]) }
	if sample.Error != "" {
		return experiment.Failure(sample)
	}
	if s.size {
		words := fmt.Sprintf("%s bytes arrive", value(measure.LargestSize))
		if best := value(measure.LargestBest); best != value(measure.LargestSize) {
			words += " (" + best + " of the best flow)"
		}
		if sample.Metrics[measure.ReportedMTU] > 0 {
			return words + ", and the sender is told " + value(measure.ReportedMTU)
		}
		return words
	}
	if at, stalled := stats.Stalled(sample); stalled {
		return fmt.Sprintf("BLACK HOLE: nothing arrived after %.1f s, MSS %s", at, value(measure.MSS))
	}
	return fmt.Sprintf("%s Gbit/s, MSS %s", value(measure.TCPThroughput), value(measure.MSS))
}
