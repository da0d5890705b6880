package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/selvage/selvage/lab/result"
)

// RROptions are of one request/response run over one TCP connection, or one UDP socket
// on either side, with one transaction outstanding (netperf's TCP_RR and UDP_RR).
//
// Without a rate that is a closed loop: a transaction begins when the last one has ended, so
// the latency is the time of service, and a stall is one slow transaction, though many that
// should have begun meanwhile would have waited too (coordinated omission). With a rate
// transactions are due at fixed times, and the latency counts from when they were due.
type RROptions struct {
	Network           string        // "tcp" (default) or "udp"
	Request, Response int           // bytes; default 1
	Rate              int           // transactions a second; 0 is a closed loop
	Duration          time.Duration // default 2 s
	Warmup            time.Duration // default 200 ms
	Port              int           // default 5301
	// Pin is both ends on the first core by default, so that no wake-up of
	// another core is part of the latency.
	Pin *Pin
}

func (o *RROptions) fill() {
	setDefault(&o.Network, "tcp")
	setDefault(&o.Request, 1)
	setDefault(&o.Response, 1)
	setDefault(&o.Duration, 2*time.Second)
	setDefault(&o.Warmup, 200*time.Millisecond)
	setDefault(&o.Port, 5301)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// RR is the outcome of a run.
type RR struct {
	Options      RROptions // as used
	Transactions int64
	Elapsed      time.Duration
	Latency      *hdrhistogram.Histogram // nanoseconds
	CPU          CPU
}

// RunRR measures transactions between two instruments in the hosts of ends.
func RunRR(ctx context.Context, ends Ends, o RROptions) (*RR, error) {
	o.fill()
	ctx, cancel := context.WithTimeout(ctx, o.Warmup+o.Duration+patience)
	defer cancel()
	pin := o.Pin.or(Spread(0))
	common := flags("addr", ends.Addr, "port", o.Port, "network", o.Network, "request", o.Request, "response", o.Response)
	var report rrReport
	cpu, err := converse(ctx, o.Network, o.Port,
		part{host: ends.Server, command: "lab-rr-server", flags: append(flags("core", pin.Server), common...)},
		part{
			host: ends.Client, command: "lab-rr-client", what: "request/response", report: &report,
			flags: append(flags("core", pin.Client, "warmup", o.Warmup, "duration", o.Duration, "rate", o.Rate), common...),
		})
	if err != nil {
		return nil, err
	}
	return report.run(o, cpu)
}

// run is what a client reports of one.
func (r rrReport) run(o RROptions, cpu CPU) (*RR, error) {
	if r.Transactions == 0 {
		return nil, fmt.Errorf("request/response: no transaction in %s", o.Duration)
	}
	elapsed := time.Duration(r.ElapsedNS)
	latency, err := latencies("request/response", r.Snapshot, elapsed, r.Transactions)
	return &RR{Options: o, Transactions: r.Transactions, Elapsed: elapsed, Latency: latency, CPU: cpu}, err
}

// latencies are the distribution of a report, unless that cannot be.
func latencies(what string, s *hdrhistogram.Snapshot, took time.Duration, counts ...int64) (*hdrhistogram.Histogram, error) {
	if s == nil || s.LowestTrackableValue != 1 || s.SignificantFigures != rrDigits {
		return nil, fmt.Errorf("%s: its report has no latencies", what)
	}
	if err := judge(what, took, slices.Concat(s.Counts, counts, []int64{s.HighestTrackableValue})...); err != nil {
		return nil, err
	}
	return hdrhistogram.Import(s), nil
}

// judge refuses counts that no instrument can have: of an end that got no time of a core, or of one that says what cannot be.
func judge(what string, took time.Duration, counts ...int64) error {
	if took <= 0 {
		return fmt.Errorf("%s: it took %s", what, took)
	}
	if i := slices.IndexFunc(counts, func(n int64) bool { return n < 0 }); i >= 0 {
		return fmt.Errorf("%s: it counted %d", what, counts[i])
	}
	return nil
}

// Quantile returns a quantile of the latency, q from 0 to 1, in microseconds.
func (r *RR) Quantile(q float64) float64 { return quantile(r.Latency, q) }

// Sample is the run as a sample of case "rr-REQUEST".
func (r *RR) Sample() result.Sample {
	s := sample("rr-"+strconv.Itoa(r.Options.Request), r.Elapsed, r.CPU)
	s.Metrics[RRP1] = r.Quantile(0.01)
	s.Metrics[RRP50] = r.Quantile(0.5)
	s.Metrics[RRP99] = r.Quantile(0.99)
	s.Metrics[RRP999] = r.Quantile(0.999)
	s.Metrics[RRP9999] = r.Quantile(0.9999)
	s.Metrics[RRMean] = r.Latency.Mean() / 1e3
	s.Metrics[RRRate] = float64(r.Transactions) / r.Elapsed.Seconds()
	s.Metrics[RRByRate] = 1e6 / s.Metrics[RRRate]
	s.Latency = quantiles(r.Latency)
	return s
}

// RunRRs measures between several pairs at once.
func RunRRs(ctx context.Context, pairs []Ends, o func(index int) RROptions) ([]*RR, error) {
	runs, errs := make([]*RR, len(pairs)), make([]error, len(pairs))
	var wait sync.WaitGroup
	for i, ends := range pairs {
		wait.Go(func() { runs[i], errs[i] = RunRR(ctx, ends, o(i)) })
	}
	wait.Wait()
	return runs, errors.Join(errs...)
}

// Together is several runs at once as one: their transactions, over the time of the longest.
func Together(runs []*RR) *RR {
	all := *runs[0]
	all.Latency = hdrhistogram.New(1, runs[0].Latency.HighestTrackableValue(), rrDigits)
	all.Transactions = 0
	for _, r := range runs {
		all.Latency.Merge(r.Latency)
		all.Transactions += r.Transactions
		all.Elapsed = max(all.Elapsed, r.Elapsed)
	}
	return &all
}

// quantile of a histogram of nanoseconds, q from 0 to 1, in microseconds.
func quantile(h *hdrhistogram.Histogram, q float64) float64 {
	return float64(h.ValueAtQuantile(q*100)) / 1e3
}

// quantiles are those of a histogram of nanoseconds that are drawn.
func quantiles(h *hdrhistogram.Histogram) []result.Quantile {
	var all []result.Quantile
	for _, q := range drawn() {
		all = append(all, result.Quantile{Q: q, US: quantile(h, q)})
	}
	return all
}

// drawn are the quantiles that make a curve: even steps and then the tail.
func drawn() []float64 {
	qs := []float64{0, 0.001, 0.01}
	for i := 1; i < 20; i++ {
		qs = append(qs, float64(i)/20)
	}
	return append(qs, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999, 0.99999, 1)
}
