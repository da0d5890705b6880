package latency

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// policyTime is the seconds until the policy of a sample was in force on all hosts, one after
// the other, from writing its rules down.
const policyTime = "policy_s"

// rrSize is a request and a response of the NSX firewall study, in bytes.
const rrSize = 1024

// take takes the sample of s on b. A failure is in the sample, not beside it.
func (c *Command) take(ctx context.Context, b *policed, s policedStep) result.Sample {
	began := time.Now()
	sample, err := c.attempt(ctx, b, s)
	return experiment.Attempted(began, sample, err)
}

func (c *Command) attempt(ctx context.Context, b *policed, s policedStep) (result.Sample, error) {
	if err := b.police(ctx, c.Rules, s.setting.Rules); err != nil {
		return result.Sample{}, err
	}
	if err := b.prove(ctx); err != nil {
		return result.Sample{}, err
	}
	busy, err := experiment.Settle(ctx, experiment.SettleTime)
	if err != nil {
		return result.Sample{}, err
	}
	before, err := experiment.ReadCounters(b.net)
	if err != nil {
		return result.Sample{}, err
	}
	sample, err := c.run(ctx, b, s)
	if err != nil {
		return result.Sample{}, err
	}
	after, err := experiment.ReadCounters(b.net)
	if err != nil {
		return result.Sample{}, err
	}
	sample.Metrics[experiment.IdleBusy] = busy
	if b.policy != nil {
		sample.Metrics[policyTime] = b.took.Seconds()
	}
	if err := after.Damage(before, sample.Metrics); err != nil {
		return sample, err
	}
	if err := b.distinguish(); err != nil {
		return sample, fmt.Errorf("after the sample: %w", err)
	}
	return sample, nil
}

// run runs the instrument of s. Every one warms up by itself; where both ends could run on
// one core, so that no wake-up of another is in the figure, they do.
func (c *Command) run(ctx context.Context, b *policed, s policedStep) (result.Sample, error) {
	ends := measure.EndsOf(b.net, experiment.InnerFamily)
	apart := measure.Apart()
	switch s.what {
	case "rr", "rr1", "udprr", "open":
		return c.runRR(ctx, ends, s)
	case "pairs":
		return c.runPairs(ctx, b, s)
	case "crr":
		return experiment.SampleOf(measure.RunCRR(ctx, ends, measure.CRROptions{Duration: s.Planned}))
	case "conn":
		return experiment.SampleOf(measure.RunCRR(ctx, ends, measure.CRROptions{AtOnce: c.AtOnce, Duration: s.Planned, Pin: &apart}))
	case "udp":
		return experiment.SampleOf(measure.RunUDP(ctx, ends, measure.UDPOptions{Duration: s.Planned, Pin: &apart}))
	case "tcp":
		return experiment.SampleOf(measure.RunTCP(ctx, ends, measure.TCPOptions{Duration: s.Planned, Pin: &apart}))
	case "app":
		return b.loop.sample(ctx, appLoops(s.Planned, appRate)[s.loop])
	}
	return result.Sample{}, fmt.Errorf("there is no instrument %q", s.what)
}

// runRR measures transactions. A case has the distribution of those of 1024 bytes alone;
// the others' figures have names of their own.
func (c *Command) runRR(ctx context.Context, ends measure.Ends, s policedStep) (result.Sample, error) {
	o := measure.RROptions{Request: 1, Response: 1, Duration: s.Planned}
	prefix := map[string]string{"rr": "rr", "rr1": "rr1", "udprr": "udprr", "open": "open"}[s.what]
	switch s.what {
	case "rr":
		o.Request, o.Response = rrSize, rrSize
	case "open":
		o.Request, o.Response, o.Rate = rrSize, rrSize, c.Rate
	case "udprr":
		o.Network = "udp"
	}
	sample, err := experiment.SampleOf(measure.RunRR(ctx, ends, o))
	if err != nil || s.what == "rr" {
		return sample, err
	}
	sample.Latency, sample.Metrics = nil, renamed(sample.Metrics, prefix)
	return sample, nil
}

// renamed are metrics with another prefix than "rr".
func renamed(metrics map[string]float64, prefix string) map[string]float64 {
	named := map[string]float64{}
	for name, v := range metrics {
		if rest, ok := strings.CutPrefix(name, "rr_"); ok {
			name = prefix + "_" + rest
		}
		named[name] = v
	}
	return named
}

// runPairs measures transactions of all pairs at once, the pairs spread over the cores.
func (c *Command) runPairs(ctx context.Context, b *policed, s policedStep) (result.Sample, error) {
	var pairs []measure.Ends
	for _, p := range b.net.Pairs[:c.Pairs] {
		pairs = append(pairs, measure.EndsOfPair(p, experiment.InnerFamily))
	}
	runs, err := measure.RunRRs(ctx, pairs, func(i int) measure.RROptions {
		pin := measure.Spread(i)
		return measure.RROptions{Request: rrSize, Response: rrSize, Duration: s.Planned, Pin: &pin}
	})
	if err != nil {
		return result.Sample{}, err
	}
	sample := measure.Together(runs).Sample()
	sample.Metrics["pairs"] = float64(c.Pairs)
	// By rate it is of all pairs together, and so no round trip's time.
	sample.Metrics[measure.RRByRate] *= float64(c.Pairs)
	return sample, nil
}

// policedOutcome is the sample in a few words.
func policedOutcome(s result.Sample) string {
	if s.Error != "" {
		return experiment.Failure(s)
	}
	words := "measured"
	for _, figure := range []struct{ metric, format string }{
		{RRP50, "p50 %s µs"}, {RR1P50, "p50 %s µs"}, {openP50, "p50 %s µs"}, {udpRRP50, "p50 %s µs"},
		{CRRRate, "%s connections a second"}, {ConnRate, "%s connections a second"},
		{UDPRate, "%s kpps received"}, {stats.Decisive, "%s Gbit/s"},
		{appP50, "p50 %s µs"}, {"app_connect_p50", "p50 %s µs"}, {"app_rated_p50", "p50 %s µs"},
	} {
		if v, ok := s.Metrics[figure.metric]; ok {
			words = fmt.Sprintf(figure.format, stats.Figure(v))
		}
	}
	if busy := s.Metrics[experiment.IdleBusy]; busy > experiment.BusyLimit {
		words += fmt.Sprintf(", but other processes kept the machine %.0f %% busy", 100*busy)
	}
	return words
}
