package experiments

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Metrics of a sample beside measure's.
const (
	idleBusy    = "idle_busy"        // share of all cores' time that was busy just before the sample, 0 … 1
	csumErrors  = "csum_errors"      // packets with a wrong checksum or header at any host
	dsacks      = "tcp_dsacks"       // duplicate SACKs received
	disordered  = "tcp_out_of_order" // segments that waited for an earlier one
	settleTime  = 250 * time.Millisecond
	warmupTime  = 100 * time.Millisecond
	warmupBytes = 1024
)

// take takes the sample of s on n. A failure is in the sample, not beside it.
func (c *Ab) take(ctx context.Context, n *network, s step) result.Sample {
	sample, err := c.attempt(ctx, n, s)
	if sample.Metrics == nil {
		sample.Metrics = map[string]float64{}
	}
	sample.Contender, sample.Case, sample.Round = s.contender, s.kase, s.round
	if err != nil {
		sample.Error = err.Error()
	}
	return sample
}

func (c *Ab) attempt(ctx context.Context, n *network, s step) (result.Sample, error) {
	busy, err := settle(ctx, settleTime)
	if err != nil {
		return result.Sample{}, err
	}
	if err := c.warm(ctx, n); err != nil {
		return result.Sample{}, fmt.Errorf("warm-up: %w", err)
	}
	before, err := readCounters(n.net)
	if err != nil {
		return result.Sample{}, err
	}
	sample, err := c.run(ctx, n, s)
	if err != nil {
		return result.Sample{}, err
	}
	after, err := readCounters(n.net)
	if err != nil {
		return result.Sample{}, err
	}
	sample.Metrics[idleBusy] = busy
	if s.kase == stats.DecisiveCase {
		for name, counter := range map[string]string{dsacks: dsacksReceived, disordered: outOfOrder} {
			rose, _ := after.since(before, counter)
			sample.Metrics[name] = float64(rose)
		}
	}
	rose, which := after.since(before, damaged()...)
	sample.Metrics[csumErrors] = float64(rose)
	if rose > 0 {
		return sample, fmt.Errorf("%d packets arrived damaged (%s): the figures of this path count for nothing until its checksums are right",
			rose, strings.Join(which, ", "))
	}
	return sample, nil
}

// settle lets the last sample's packets and processes end, and returns the
// share of all cores' time that was busy all the same.
func settle(ctx context.Context, rest time.Duration) (float64, error) {
	before, err := measure.ReadCPU()
	if err != nil {
		return 0, err
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(rest):
	}
	after, err := measure.ReadCPU()
	if err != nil {
		return 0, err
	}
	spent, busy := after.Since(before), 0.0
	for _, core := range spent.Cores {
		busy += (core.User + core.System + core.SoftIRQ) / float64(len(spent.Cores))
	}
	return busy, nil
}

// warm makes sure that the server answers and that addresses, flows and caches
// are in place.
func (c *Ab) warm(ctx context.Context, n *network) error {
	ends := measure.EndsOf(n.net, innerFamily)
	if err := n.net.Client.Reach(ctx, ends.Addr); err != nil {
		return err
	}
	bulk, _ := c.pins()
	_, err := measure.RunRR(ctx, ends, measure.RROptions{
		Request: warmupBytes, Response: warmupBytes, Duration: warmupTime, Warmup: time.Millisecond, Pin: &bulk,
	})
	return err
}

// innerFamily is the IP version of what is measured.
const innerFamily = 4

// run runs the instrument of s.
func (c *Ab) run(ctx context.Context, n *network, s step) (result.Sample, error) {
	ends := measure.EndsOf(n.net, innerFamily)
	bulk, rr := c.pins()
	var run interface{ Sample() result.Sample }
	var err error
	began := time.Now()
	switch s.kase {
	case "tcp":
		run, err = measure.RunTCP(ctx, ends, measure.TCPOptions{Duration: s.planned, Streams: c.Streams, Pin: &bulk})
	case "udp":
		run, err = measure.RunUDP(ctx, ends, measure.UDPOptions{Duration: s.planned, Pin: &bulk})
	default:
		run, err = measure.RunRR(ctx, ends, measure.RROptions{Request: s.request, Response: s.request, Duration: s.planned, Pin: &rr})
	}
	if err != nil {
		return result.Sample{Duration: time.Since(began).Seconds()}, err
	}
	return run.Sample(), nil
}

// busyLimit is the share of busy time before a sample from which others use the
// machine so much that the figure is theirs too.
const busyLimit = 0.2

// outcome is the sample in a few words.
func outcome(s result.Sample) string {
	figure := func(name string) string { return stats.Figure(s.Metrics[name]) }
	var words string
	switch {
	case s.Error != "":
		return "FAILED: " + strings.Join(strings.Fields(s.Error), " ")
	case s.Case == "tcp":
		words = fmt.Sprintf("%s Gbit/s, %.0f retransmits, %s CPU s/GB", figure(measure.TCPThroughput), s.Metrics[measure.Retransmits], figure(measure.CPUPerGB))
	case s.Case == "udp":
		words = figure(measure.UDPRate) + " kpps received"
	default:
		words = fmt.Sprintf("p50 %s µs, p99 %s µs", figure(measure.RRP50), figure(measure.RRP99))
	}
	if busy := s.Metrics[idleBusy]; busy > busyLimit {
		words += fmt.Sprintf(", but others kept the machine %.0f %% busy", 100*busy)
	}
	return words
}
