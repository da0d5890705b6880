package transit

import (
	"context"
	"fmt"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/search"
)

// Framing is the preamble and the gap of a frame on the wire, in bytes (IEEE 802.3).
const Framing = 20

// What a search takes of a generator: frames of the shortest trial, and the share of frames that may be late, or refused by
// the generator's own interface.
const (
	LeastFrames = 100
	UnsentShare = 0.005
)

// outcome is a passage as searches want it.
func outcome(p Passage) search.Outcome {
	return search.Outcome{Sent: p.Sent.Frames, Lost: p.Lost, Unsent: p.Sent.Unsent + p.Sent.Overrun, Void: p.Void}
}

// burstRepeats is how often the longest burst is looked for, by RFC 9004 section 6.4 at
// least 50 times, and quickRepeats what a quick look has time for.
const burstRepeats, quickRepeats = 50, 5

// burstTime is the longest of a burst (RFC 2544 section 26.4).
const burstTime = 2 * time.Second

// Bursts are how the longest burst without loss is looked for.
type Bursts struct {
	Rate, Throughput float64       // frames/s within a burst, and without loss
	Quick            time.Duration // the longest burst of a quick look; 0 is none
	Retries          int           // of a void burst
}

// BackToBack looks for the longest burst without loss. A device that forwards at the
// rate of the bursts has none: search.ErrNoBuffer.
func (r *Instruments) BackToBack(ctx context.Context, b Bursts) (search.Buffered, error) {
	repeat, longest := burstRepeats, burstTime
	if b.Quick > 0 {
		repeat, longest = quickRepeats, b.Quick
	}
	burst := func(ctx context.Context, frames uint64) (search.Outcome, error) {
		p, err := r.Send(ctx, gen.Load{Frames: frames, Batch: PeakBatch, Untimed: true})
		return outcome(p), err
	}
	return search.BackToBack(ctx, burst, search.Bursts{
		Least: 2, Most: uint64(max(longest.Seconds()*b.Rate, 2)), Repeat: repeat, Retries: b.Retries, Unsent: UnsentShare, MaxRate: b.Rate, Throughput: b.Throughput,
	})
}

// LatencyTrials are those of RFC 2544 section 26.2.
type LatencyTrials struct {
	Rate     float64 // frames/s: the one without loss
	Duration time.Duration
	Trials   int  // at each share of the rate
	Retries  int  // of a void trial
	Tail     bool // has the figures have LatencyP999 too
}

// Latencies times frames at a rate, and at shares of it. Figures are means over the trials by the name of the metric, in µs;
// last is the distribution of the last trial at the whole rate.
// With an error there are the figures of the shares before.
func (r *Instruments) Latencies(ctx context.Context, o LatencyTrials) (figures map[string]float64, last gen.Latency, err error) {
	if err := r.Look(gen.SinkOptions{Latency: true}); err != nil {
		return nil, last, err
	}
	plan, _, err := search.LatencyPlan(o.Rate, o.Duration, o.Trials)
	if err != nil {
		return nil, last, err
	}
	figures = map[string]float64{}
	for _, point := range plan {
		values := map[string][]float64{}
		for range point.Repeat {
			l, err := r.timed(ctx, point, o.Retries)
			if err != nil {
				return figures, last, err
			}
			if point.Share == 1 {
				last = l
			}
			for name, d := range o.figures(point.Share, l) {
				values[name] = append(values[name], micros(d))
			}
		}
		for name, list := range values {
			figures[name] = search.Mean(list)
		}
	}
	return figures, last, nil
}

// figures are those of a trial. All of them are of the whole rate alone.
func (o LatencyTrials) figures(share float64, l gen.Latency) map[string]time.Duration {
	p50, p99 := l.Quantile(0.5), l.Quantile(0.99)
	if share < 1 {
		suffix := fmt.Sprintf("_%.0f", 100*share)
		return map[string]time.Duration{LatencyP50 + suffix: p50, LatencyP99 + suffix: p99}
	}
	all := map[string]time.Duration{LatencyMin: l.Min, LatencyMean: l.Mean, Jitter: l.Jitter, LatencyP50: p50, LatencyP99: p99}
	if o.Tail {
		all[LatencyP999] = l.Quantile(0.999)
	}
	return all
}

// timed is the latencies of a trial that is not void.
func (r *Instruments) timed(ctx context.Context, point search.Point, retries int) (gen.Latency, error) {
	void := ""
	for range retries + 1 {
		if err := experiment.Sleep(ctx, r.rest); err != nil {
			return gen.Latency{}, err
		}
		p, err := r.Send(ctx, gen.Load{Rate: point.PPS, Duration: point.Length, CatchUp: r.catchUp})
		if err != nil {
			return gen.Latency{}, err
		}
		if void = p.Void; void == "" && p.Got.Latency.Count > 0 {
			return p.Got.Latency, nil
		}
	}
	return gen.Latency{}, fmt.Errorf("at %.0f frames/s no frame was timed %s", point.PPS, void)
}

// Quantiles are those of latencies, in µs.
func Quantiles(l gen.Latency, at ...float64) (list []result.Quantile) {
	for _, q := range at {
		list = append(list, result.Quantile{Q: q, US: micros(l.Quantile(q))})
	}
	return list
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
