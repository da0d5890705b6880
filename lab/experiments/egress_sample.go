package experiments

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// take takes the sample of s on e. A failure is in the sample, not beside it.
func (c *Egress) take(ctx context.Context, e *exit, s climb) result.Sample {
	began := time.Now()
	sample, err := c.attempt(ctx, e, s)
	if sample.Metrics == nil {
		sample.Metrics = map[string]float64{}
	}
	sample.Target, sample.Case, sample.Round = s.target, s.caseName, s.round
	if err != nil {
		sample.Error = err.Error()
		sample.Duration = time.Since(began).Seconds()
	}
	return sample
}

func (c *Egress) attempt(ctx context.Context, e *exit, s climb) (result.Sample, error) {
	bits := uint64(c.Wire * 1e9)
	if s.stage.Free {
		bits = 0
	}
	if err := e.rate(ctx, bits); err != nil {
		return result.Sample{}, err
	}
	busy, err := settle(ctx, settleTime)
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
	before, err := readCounters(e.net.Hosts())
	if err != nil {
		return result.Sample{}, err
	}
	sample, err := c.run(ctx, ends, s)
	if err == nil {
		err = checkFinite(sample)
	}
	if err != nil {
		return result.Sample{}, err
	}
	after, err := readCounters(e.net.Hosts())
	if err != nil {
		return result.Sample{}, err
	}
	sample.Metrics[idleBusy] = busy
	if err := after.damage(before, sample.Metrics); err != nil {
		return sample, fmt.Errorf("%w: the figures of this path are void until its checksums are correct", err)
	}
	return sample, nil
}

// checkFinite refuses what an instrument that got no time of a core measured.
func checkFinite(s result.Sample) error {
	for name, value := range s.Metrics {
		if math.IsInf(value, 0) || math.IsNaN(value) {
			return fmt.Errorf("%s is %v: the instrument got no CPU time; other processes use the machine", name, value)
		}
	}
	return nil
}

// run runs the instrument of s.
func (c *Egress) run(ctx context.Context, ends measure.Ends, s climb) (result.Sample, error) {
	apart := measure.Apart()
	switch s.what {
	case "rr":
		return sampleOf(measure.RunRR(ctx, ends, measure.RROptions{Duration: s.planned}))
	case "conn":
		return sampleOf(measure.RunCRR(ctx, ends, measure.CRROptions{AtOnce: c.AtOnce, Duration: s.planned, Pin: &apart}))
	}
	return sampleOf(measure.RunTCP(ctx, ends, measure.TCPOptions{Duration: s.planned, Reverse: s.stage.Reverse, Pin: &apart}))
}

// climbOutcome is the sample in a few words.
func climbOutcome(s result.Sample) string {
	figure := func(name string) string { return stats.Figure(s.Metrics[name]) }
	var words string
	switch {
	case s.Error != "":
		return "FAILED: " + strings.Join(strings.Fields(s.Error), " ")
	case s.Metrics[measure.ConnRate] > 0:
		words = figure(measure.ConnRate) + " connections a second"
	case s.Metrics[measure.RRP50] > 0:
		words = fmt.Sprintf("p50 %s µs, p99 %s µs", figure(measure.RRP50), figure(measure.RRP99))
	default:
		words = fmt.Sprintf("%s Gbit/s, %.0f retransmits, %s CPU s/GB", figure(measure.TCPThroughput), s.Metrics[measure.Retransmits], figure(measure.CPUPerGB))
	}
	if busy := s.Metrics[idleBusy]; busy > busyLimit {
		words += fmt.Sprintf(", but other processes kept the machine %.0f %% busy", 100*busy)
	}
	return words
}
