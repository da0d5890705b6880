package experiments

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/search"
	"github.com/selvage/selvage/lab/stats"
)

// take takes the sample of s on b. A failure is in the sample, not beside it.
func (c *Rfc2544) take(ctx context.Context, all *testbeds, b *testbed, s transitStep, ceiling ceiling) result.Sample {
	began := time.Now()
	m := &rateSample{Rfc2544: c, step: s, ceiling: ceiling, sample: result.Sample{
		Target: s.target, Case: s.caseName, Round: s.round, Metrics: map[string]float64{}, Series: map[string][]float64{},
	}}
	if err := m.attempt(ctx, all, b); err != nil {
		m.sample.Error = err.Error()
	}
	m.sample.Duration = time.Since(began).Seconds()
	return m.sample
}

// rateSample is a sample while it is taken.
type rateSample struct {
	*Rfc2544
	step        transitStep
	ceiling     ceiling
	sample      result.Sample
	instruments *instruments
	peak        float64   // frames/s that went through at the generator's fastest
	offered     float64   // frames/s that the generator sent meanwhile
	top         float64   // rate of the search that stands for the generator's fastest; 0 is none
	tops        []float64 // frames/s that came through when it was asked for
	costs       []float64 // ns of a core for a frame then
	found       search.Result
}

func (m *rateSample) set(name string, value float64) {
	if !math.IsNaN(value) && !math.IsInf(value, 0) {
		m.sample.Metrics[name] = value
	}
}

func (m *rateSample) attempt(ctx context.Context, all *testbeds, b *testbed) (err error) {
	busy, err := settle(ctx, min(settleTime, max(m.Settle, 50*time.Millisecond)))
	if err != nil {
		return err
	}
	m.set(idleBusy, busy)
	m.instruments, err = all.instruments(b, instrumentsOptions{direction: m.step.direction, stream: m.step.stream, drain: m.Drain, rest: m.Settle})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.instruments.close()) }()
	for _, stage := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"warm-up", m.instruments.warm}, {"highest rate", m.highest}, {"search", m.search},
		{"loss curve", m.lossCurve}, {"back to back", m.backToBack}, {"recovery", m.recovery},
		{"latency", m.latency}, {"reset", m.reset},
	} {
		if err := stage.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", stage.what, err)
		}
	}
	for name, n := range m.instruments.dropped {
		m.set("drops: "+name, float64(n))
	}
	return nil
}

// highest sends as fast as it goes, and sees what the cores do meanwhile.
func (m *rateSample) highest(ctx context.Context) error {
	p, spent, took, err := m.watched(ctx)
	for retry := 0; err == nil && p.void != "" && retry < m.Retries; retry++ {
		p, spent, took, err = m.watched(ctx)
	}
	if err == nil && p.void != "" {
		err = errors.New(p.void)
	}
	if err != nil {
		return err
	}
	b := m.instruments.testbed
	if m.peak = p.forwarded(b.inline()); m.peak == 0 {
		return fmt.Errorf("none of %d frames came through (%s)", p.sent.Frames, p.dropped)
	}
	m.offered = m.peak * float64(p.sent.Frames) / float64(p.got.Frames)
	m.fast(p)
	cores := spent.Busy / took.Seconds()
	if b.inline() { // so what others did meanwhile can be left out
		cores = p.sent.Busy.Seconds() / p.sent.Duration.Seconds()
	}
	m.sample.CPU = spent.Cores
	m.set("cpu", min(cores/float64(len(spent.Cores)), 1))
	m.set(stats.MppsPerCore, float64(p.got.Frames)/p.sent.Duration.Seconds()/cores/1e6)
	m.set(stats.Ceiling, m.ceiling.rate/1e6)
	return nil
}

// watched is a passage at the generator's fastest and what the cores did meanwhile.
func (m *rateSample) watched(ctx context.Context) (p passage, spent measure.CPU, took time.Duration, err error) {
	before, err := measure.ReadCPU()
	if err != nil {
		return p, spent, 0, err
	}
	began := time.Now()
	if p, err = m.instruments.peak(ctx, max(m.InitialDuration, min(m.Duration, time.Second))); err != nil {
		return p, spent, 0, err
	}
	took = time.Since(began)
	after, err := measure.ReadCPU()
	return p, after.Since(before), took, err
}

// reference is the rate that --min-rate and --max-rate are shares of: the line's or the
// generator's, whichever is less, of all links together.
func (m *rateSample) reference() (pps float64, generator bool) {
	line := float64(m.Scenario) * m.LineRate * 1e9 / 8 / (m.step.size + framing)
	return min(line, m.ceiling.rate), m.ceiling.rate < line
}

// framing is the preamble and the outage of a frame on the wire, in bytes (IEEE 802.3).
const framing = 20

// search looks for the rates without loss and with little.
func (m *rateSample) search(ctx context.Context) error {
	reference, generator := m.reference()
	o := search.Options{
		Goals:   search.Strict(m.InitialDuration, m.Duration, m.Tolerance/100),
		Min:     max(m.MinRate/100*reference, leastFrames/m.InitialDuration.Seconds()),
		Max:     m.MaxRate / 100 * reference,
		Retries: m.Retries, Unsent: unsentShare,
	}
	// The clock of a paced generator is late at its very peak. So the highest rate is a
	// trial without a clock, which tells the rate itself.
	if m.offered < o.Max {
		o.Max, m.top, generator = m.offered, m.offered, true
	}
	o.Min = min(o.Min, slowShare*m.peak, o.Max/2)
	o.MaxIsGenerator = generator
	o.Resolution = o.Max / 1e4
	if m.Quick {
		o.Probes = []float64{}
	}
	var err error
	if m.Search == "binary" {
		m.found, err = search.Binary(ctx, m.trial, o, m.Retries)
	} else {
		m.found, err = search.MLR(ctx, m.trial, o)
	}
	if err != nil {
		return err
	}
	m.rates()
	return nil
}

// What a search takes of a generator: frames of the shortest trial, the share of frames
// that may be late, and the lowest rate for a device that is slow, as a share of what it
// forwards.
const (
	leastFrames = 100
	unsentShare = 0.005
	slowShare   = 0.02
)

// trial is one of the search.
func (m *rateSample) trial(ctx context.Context, pps float64, length time.Duration) (search.Outcome, error) {
	if m.top == 0 || pps < m.top {
		return m.instruments.trial(ctx, pps, length)
	}
	if err := sleep(ctx, m.Settle); err != nil {
		return search.Outcome{}, err
	}
	p, err := m.instruments.peak(ctx, length)
	if err == nil && p.void == "" {
		m.fast(p)
	}
	return search.Outcome{Sent: p.sent.Frames, Lost: p.lost, Void: p.void}, err
}

// fast keeps what a passage at the generator's fastest says.
func (m *rateSample) fast(p passage) {
	rate := p.forwarded(m.instruments.testbed.inline())
	m.costs = append(m.costs, perPacket(rate))
	if p.lost == 0 {
		m.tops = append(m.tops, rate)
	}
}

// through is the rate that came through with what was found. Where that is the generator's
// fastest, it is the fastest of the trials that lost nothing (RFC 2544 section 26.1).
func (m *rateSample) through(f search.Found) float64 {
	if m.top == 0 || f.Lower < m.top || len(m.tops) == 0 {
		return f.Throughput
	}
	return slices.Max(m.tops)
}

// rates writes down what the search found.
func (m *rateSample) rates() {
	ndr, _ := m.found.Find(search.NDR)
	pdr, _ := m.found.Find(search.PDR)
	noDrop, partial := m.through(ndr), m.through(pdr)
	offered := pdr.Lower
	if partial > pdr.Throughput {
		offered = partial / (1 - pdr.LossRatio)
	}
	m.set(stats.NDR, noDrop/1e6)
	m.set(stats.PDR, partial/1e6)
	m.set("offered", offered/1e6)
	m.set("forwarded", partial/1e6)
	out := m.step.size + float64(m.overhead(m.step.target))
	egress := partial * (out + framing) * 8 / 1e9
	m.set("frame_out", out)
	m.set("egress", egress)
	m.set("line_share", egress/(m.LineRate*float64(m.Scenario)))
	m.set("limited", truth(m.limited(ndr, noDrop)))
	m.set("trials", float64(len(m.found.Trials)))
	m.set("peak", m.peak/1e6)
	cost := stats.Median(m.costs).Median
	if !m.instruments.testbed.inline() { // overload is not what it is fastest at
		cost = perPacket(max(m.peak, partial, noDrop))
	}
	m.set(stats.NSPerPacket, cost)
	m.set(stats.DeviceNS, cost-m.ceiling.ns)
}

// generatorMargin is the share of the generator's own ceiling from which it, and not the
// device, is taken for the limit.
const generatorMargin = 0.9

// limited says whether the generator or the range of rates set a figure. On one core the
// fastest is what generator and device do together: that is the device's figure, unless it
// is about what the generator does alone.
func (m *rateSample) limited(f search.Found, rate float64) bool {
	if m.top > 0 && f.Lower >= m.top {
		return rate >= generatorMargin*m.ceiling.rate
	}
	return f.Limited()
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// latency measures at the no-drop rate and at shares of it.
func (m *rateSample) latency(ctx context.Context) error {
	ndr, _ := m.found.Find(search.NDR)
	if m.LatencyTrials == 0 || ndr.Throughput == 0 {
		return nil
	}
	if err := m.instruments.look(gen.SinkOptions{Latency: true}); err != nil {
		return err
	}
	plan, _, err := search.LatencyPlan(ndr.Lower, m.latencyDuration(), m.LatencyTrials)
	if err != nil {
		return err
	}
	for _, point := range plan {
		figures := map[string][]float64{}
		for range point.Repeat {
			if err := m.timed(ctx, point, figures); err != nil {
				return err
			}
		}
		for name, values := range figures {
			m.set(name, search.Mean(values))
		}
	}
	return nil
}

// timed is one latency trial. Full figures are of the no-drop rate alone.
func (m *rateSample) timed(ctx context.Context, point search.Point, figures map[string][]float64) error {
	var l gen.Latency
	for retry := 0; l.Count == 0; retry++ {
		if err := sleep(ctx, m.Settle); err != nil {
			return err
		}
		p, err := m.instruments.send(ctx, gen.Load{Rate: point.PPS, Duration: point.Length})
		switch {
		case err != nil:
			return err
		case p.void == "":
			l = p.got.Latency
		}
		if l.Count == 0 && retry >= m.Retries {
			return fmt.Errorf("at %.0f frames/s no frame was timed %s", point.PPS, p.void)
		}
	}
	add := func(name string, d time.Duration) { figures[name] = append(figures[name], us(d)) }
	if point.Share < 1 {
		suffix := fmt.Sprintf("_%.0f", 100*point.Share)
		add("latency_p50"+suffix, l.Quantile(0.5))
		add("latency_p99"+suffix, l.Quantile(0.99))
		return nil
	}
	add("latency_min", l.Min)
	add("latency_mean", l.Mean)
	add("jitter", l.Jitter)
	add(stats.LatencyP50, l.Quantile(0.5))
	add(stats.LatencyP99, l.Quantile(0.99))
	add("latency_p999", l.Quantile(0.999))
	m.sample.Latency = m.sample.Latency[:0]
	for _, q := range []float64{0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1} {
		m.sample.Latency = append(m.sample.Latency, result.Quantile{Q: q, US: us(l.Quantile(q))})
	}
	return nil
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// rateOutcome is the sample in a few words.
func rateOutcome(s result.Sample) string {
	if s.Error != "" {
		return "FAILED: " + strings.Join(strings.Fields(s.Error), " ")
	}
	words := fmt.Sprintf("NDR %s, PDR %s Mpps, %s ns a packet",
		stats.Figure(s.Metrics[stats.NDR]), stats.Figure(s.Metrics[stats.PDR]), stats.Figure(s.Metrics[stats.NSPerPacket]))
	if p50, ok := s.Metrics[stats.LatencyP50]; ok {
		words += fmt.Sprintf(", latency p50 %s, p99 %s µs", stats.Figure(p50), stats.Figure(s.Metrics[stats.LatencyP99]))
	}
	if busy := s.Metrics[idleBusy]; busy > busyLimit {
		words += fmt.Sprintf(", but other processes kept the machine %.0f %% busy", 100*busy)
	}
	return words
}
