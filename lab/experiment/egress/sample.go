package egress

import (
	"context"
	"fmt"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// take takes the sample of s on e. A failure is in the sample, not beside it.
func (c *Command) take(ctx context.Context, e *exit, s climb) result.Sample {
	began := time.Now()
	sample, err := c.attempt(ctx, e, s)
	return experiment.Attempted(began, sample, err)
}

func (c *Command) attempt(ctx context.Context, e *exit, s climb) (result.Sample, error) {
	bits := uint64(c.Wire * 1e9)
	if s.stage.Free {
		bits = 0
	}
	if err := e.rate(ctx, bits); err != nil {
		return result.Sample{}, err
	}
	busy, err := experiment.Settle(ctx, experiment.SettleTime)
	if err != nil {
		return result.Sample{}, err
	}
	ends := e.ends(s.stage.Name)
	if err := ends.Client.Reach(ctx, ends.Addr); err != nil {
		return result.Sample{}, err
	}
	if err := e.prove(s.stage.Name); err != nil {
		return result.Sample{}, err
	}
	before, err := experiment.ReadCounters(e.net.Hosts())
	if err != nil {
		return result.Sample{}, err
	}
	sample, err := c.run(ctx, ends, s)
	if err != nil {
		return result.Sample{}, err
	}
	after, err := experiment.ReadCounters(e.net.Hosts())
	if err != nil {
		return result.Sample{}, err
	}
	sample.Metrics[experiment.IdleBusy] = busy
	if err := after.Damage(before, sample.Metrics); err != nil {
		return sample, fmt.Errorf("%w: the figures of this path are void until its checksums are correct", err)
	}
	return sample, nil
}

// run runs the instrument of s.
func (c *Command) run(ctx context.Context, ends measure.Ends, s climb) (result.Sample, error) {
	apart := measure.Apart()
	switch s.what {
	case "rr":
		return experiment.SampleOf(measure.RunRR(ctx, ends, measure.RROptions{Duration: s.Planned}))
	case "conn":
		return experiment.SampleOf(measure.RunCRR(ctx, ends, measure.CRROptions{AtOnce: c.AtOnce, Duration: s.Planned, Pin: &apart}))
	}
	return experiment.SampleOf(measure.RunTCP(ctx, ends, measure.TCPOptions{Duration: s.Planned, Reverse: s.stage.Reverse, Pin: &apart}))
}

// climbOutcome is the sample in a few words.
func climbOutcome(s result.Sample) string {
	figure := func(name string) string { return stats.Figure(s.Metrics[name]) }
	var words string
	switch {
	case s.Error != "":
		return experiment.Failure(s)
	case s.Metrics[measure.ConnRate] > 0:
		words = figure(measure.ConnRate) + " connections a second"
	case s.Metrics[measure.RRP50] > 0:
		words = fmt.Sprintf("p50 %s µs, p99 %s µs", figure(measure.RRP50), figure(measure.RRP99))
	default:
		words = fmt.Sprintf("%s Gbit/s, %.0f retransmits, %s CPU s/GB", figure(measure.TCPThroughput), s.Metrics[measure.Retransmits], figure(measure.CPUPerGB))
	}
	if busy := s.Metrics[experiment.IdleBusy]; busy > experiment.BusyLimit {
		words += fmt.Sprintf(", but other processes kept the machine %.0f %% busy", 100*busy)
	}
	return words
}
