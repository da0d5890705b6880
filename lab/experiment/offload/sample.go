package offload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
)

// take takes the sample of s on b. A failure is in the sample, not beside it.
func (c *Command) take(ctx context.Context, b *switchedTestbed, s streamStep) result.Sample {
	began := time.Now()
	sample, err := c.attempt(ctx, b, s)
	return experiment.Attempted(began, sample, err)
}

func (c *Command) attempt(ctx context.Context, b *switchedTestbed, s streamStep) (result.Sample, error) {
	if err := b.enter(ctx, s.stream.State); err != nil {
		return result.Sample{}, err
	}
	busy, err := c.quiet(ctx)
	if err != nil {
		return result.Sample{}, err
	}
	before, err := readAllCounters(b.net)
	if err != nil {
		return result.Sample{}, err
	}
	runs, err := c.transfer(ctx, b.net, s.stream)
	if err != nil {
		return result.Sample{}, err
	}
	after, err := readAllCounters(b.net)
	if err != nil {
		return result.Sample{}, err
	}
	sample := streamSample(runs)
	sample.Metrics[experiment.IdleBusy] = busy
	for name, counter := range map[string]string{experiment.DSACKs: experiment.DSACKsReceived, experiment.Disordered: experiment.OutOfOrder} {
		rose, _ := after.Since(before, counter)
		sample.Metrics[name] = float64(rose)
	}
	if err := after.Damage(before, sample.Metrics); err != nil {
		return sample, fmt.Errorf("%w: the figures of this state are void until its checksums are correct", err)
	}
	return sample, nil
}

// quiet lets the last sample end, and waits as long as it was told to for others to leave the
// machine alone. It returns the share of all cores' time that was busy last.
func (c *Command) quiet(ctx context.Context) (float64, error) {
	for end := time.Now().Add(c.Patience); ; {
		busy, err := experiment.Settle(ctx, experiment.SettleTime)
		if err != nil || busy <= experiment.BusyLimit || !time.Now().Before(end) {
			return busy, err
		}
	}
}

// readAllCounters adds up the counters of all guests, and of both hosts.
func readAllCounters(n *topo.TwoHosts) (experiment.Counters, error) {
	sum := experiment.Counters{}
	for _, p := range n.Pairs { // the hosts count once a pair, which is no harm: they have to stand still
		one, err := experiment.ReadCounters(&topo.TwoHosts{Client: p.Client, A: n.A, B: n.B, Server: p.Server})
		if err != nil {
			return nil, err
		}
		for name, value := range one {
			sum[name] += value
		}
	}
	return sum, nil
}

// transfer runs iperf3 between all pairs at once, in both directions where the stream says so.
// All guests of a host are on its core: so a host is a core, as far as guests go.
func (c *Command) transfer(ctx context.Context, n *topo.TwoHosts, s Stream) ([]*measure.TCP, error) {
	forth := measure.Apart()
	back := measure.Pin{Client: forth.Server, Server: forth.Client}
	type direction struct {
		ends measure.Ends
		pin  measure.Pin
	}
	var all []direction
	for _, p := range n.Pairs {
		all = append(all, direction{measure.EndsOfPair(p, experiment.InnerFamily), forth})
		if s.BothWays {
			all = append(all, direction{measure.Ends{Client: p.Server, Server: p.Client, Addr: p.ClientAddr(experiment.InnerFamily)}, back})
		}
	}
	runs, failed := make([]*measure.TCP, len(all)), make([]error, len(all))
	var wait sync.WaitGroup
	for i, d := range all {
		wait.Go(func() {
			runs[i], failed[i] = measure.RunTCP(ctx, d.ends, measure.TCPOptions{
				Duration: c.Duration, Streams: c.Streams / c.Pairs, Length: s.Size, Pin: &d.pin, Unwatched: true,
			})
		})
	}
	wait.Wait()
	return runs, errors.Join(failed...)
}

// streamSample puts the runs of all pairs together: rates add up, and the processor's time is
// the mean of what they saw, which is nearly the same time.
func streamSample(runs []*measure.TCP) result.Sample {
	s := result.Sample{Metrics: map[string]float64{measure.Streams: 0}}
	n := float64(len(runs))
	for i, run := range runs {
		one := run.Sample()
		s.Duration = max(s.Duration, one.Duration)
		s.Metrics[Throughput] += one.Metrics[measure.TCPThroughput]
		s.Metrics[measure.Retransmits] += one.Metrics[measure.Retransmits]
		s.Metrics[measure.Streams] += float64(run.Options.Streams)
		s.Metrics[measure.CPUSteal] += one.Metrics[measure.CPUSteal] / n
		for k, core := range one.CPU {
			if i == 0 {
				s.CPU = append(s.CPU, result.CPUShare{Core: core.Core})
			}
			sum := &s.CPU[k]
			sum.User += core.User / n
			sum.System += core.System / n
			sum.SoftIRQ += core.SoftIRQ / n
			sum.Idle += core.Idle / n
		}
	}
	for _, core := range s.CPU {
		s.Metrics[Processor] += 100 * (core.User + core.System + core.SoftIRQ) / float64(len(s.CPU))
	}
	if cpu := s.Metrics[Processor]; cpu > 0 {
		s.Metrics[Efficiency] = 1000 * s.Metrics[Throughput] / cpu
	}
	return s
}

// streamOutcome is the sample in a few words.
func streamOutcome(s result.Sample) string {
	if s.Error != "" {
		return experiment.Failure(s)
	}
	words := fmt.Sprintf("%s Gbit/s, %s %% CPU, %s Mbit/s per %%", stats.Figure(s.Metrics[Throughput]),
		stats.Figure(s.Metrics[Processor]), stats.Figure(s.Metrics[Efficiency]))
	if busy := s.Metrics[experiment.IdleBusy]; busy > experiment.BusyLimit {
		words += fmt.Sprintf(", but other processes kept the machine %.0f %% busy", 100*busy)
	}
	return words
}
