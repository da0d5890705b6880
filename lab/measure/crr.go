package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/selvage/selvage/lab/result"
)

// CRROptions are of one run of connections, each for one transaction of one byte both
// ways (netperf's TCP_CRR). The server closes first, so it has the sockets in TIME_WAIT.
type CRROptions struct {
	AtOnce   int           // connections at a time; default 1
	Duration time.Duration // default 2 s
	Warmup   time.Duration // default 200 ms
	Port     int           // default 5304
	// Pin is both ends on the first core by default, as RROptions'.
	Pin *Pin
}

// CRR is the outcome of a run.
type CRR struct {
	Options      CRROptions // as used
	Transactions int64
	Failed       int64 // connections, which do not count otherwise
	Elapsed      time.Duration
	Latency      *hdrhistogram.Histogram // ns from connect to the end of the connection
	CPU          CPU
}

// RunCRR opens connections between two instruments in the hosts of ends.
func RunCRR(ctx context.Context, ends Ends, o CRROptions) (*CRR, error) {
	setDefault(&o.AtOnce, 1)
	setDefault(&o.Duration, 2*time.Second)
	setDefault(&o.Warmup, 200*time.Millisecond)
	setDefault(&o.Port, 5304)
	ctx, cancel := context.WithTimeout(ctx, o.Warmup+o.Duration+patience)
	defer cancel()
	pin := o.Pin.or(Spread(0))
	var report crrReport
	cpu, err := converse(ctx, "tcp", o.Port,
		part{host: ends.Server, command: "lab-crr-server", flags: flags("core", pin.Server, "addr", ends.Addr, "port", o.Port)},
		part{
			host: ends.Client, command: "lab-crr-client", what: "connections", report: &report,
			flags: flags("core", pin.Client, "addr", ends.Addr, "port", o.Port, "at-once", o.AtOnce, "warmup", o.Warmup, "duration", o.Duration),
		})
	if err != nil {
		return nil, err
	}
	return report.run(o, cpu)
}

// run is what a client reports of one.
func (r crrReport) run(o CRROptions, cpu CPU) (*CRR, error) {
	if r.Transactions == 0 {
		return nil, fmt.Errorf("connections: none was answered in %s, %d failed", o.Duration, r.Failed)
	}
	elapsed := time.Duration(r.ElapsedNS)
	latency, err := latencies("connections", r.Snapshot, elapsed, r.Transactions, r.Failed)
	return &CRR{Options: o, Transactions: r.Transactions, Failed: r.Failed, Elapsed: elapsed, Latency: latency, CPU: cpu}, err
}

// Sample is the run as a sample of case "crr", with many at once "conn".
func (c *CRR) Sample() result.Sample {
	rate := float64(c.Transactions) / c.Elapsed.Seconds()
	if c.Options.AtOnce > 1 {
		s := sample("conn", c.Elapsed, c.CPU)
		s.Metrics[ConnRate], s.Metrics[ConnFailed] = rate, float64(c.Failed)
		return s
	}
	s := sample("crr", c.Elapsed, c.CPU)
	s.Metrics[CRRRate], s.Metrics[ConnFailed] = rate, float64(c.Failed)
	s.Metrics[CRRP50] = quantile(c.Latency, 0.5)
	s.Metrics[CRRP99] = quantile(c.Latency, 0.99)
	return s
}
