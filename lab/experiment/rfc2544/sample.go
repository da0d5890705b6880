package rfc2544

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/search"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
)

// take takes the sample of s on b. A failure is in the sample, not beside it.
func (c *Command) take(ctx context.Context, all *transit.Testbeds, b *transit.Testbed, s transit.Step, ceiling transit.Ceiling) result.Sample {
	began := time.Now()
	m := &rateSample{Command: c, step: s, ceiling: ceiling, sample: result.Sample{
		Target: s.Target, Case: s.CaseName, Round: s.Round, Metrics: map[string]float64{}, Series: map[string][]float64{},
	}}
	if err := m.attempt(ctx, all, b); err != nil {
		m.sample.Error = err.Error()
	}
	m.sample.Duration = time.Since(began).Seconds()
	return m.sample
}

// rateSample is a sample while it is taken.
type rateSample struct {
	*Command
	step        transit.Step
	ceiling     transit.Ceiling
	sample      result.Sample
	instruments *transit.Instruments
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

func (m *rateSample) attempt(ctx context.Context, all *transit.Testbeds, b *transit.Testbed) (err error) {
	busy, err := experiment.Settle(ctx, min(experiment.SettleTime, max(m.Settle, 50*time.Millisecond)))
	if err != nil {
		return err
	}
	m.set(experiment.IdleBusy, busy)
	m.instruments, err = all.Instruments(b, transit.InstrumentOptions{Direction: m.step.Direction, Stream: m.step.Stream, Drain: m.Drain, Rest: m.Settle})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.instruments.Close()) }()
	for _, stage := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"warm-up", m.instruments.Warm}, {"highest rate", m.highest}, {"search", m.search},
		{"loss curve", m.lossCurve}, {"back to back", m.backToBack}, {"recovery", m.recovery},
		{"latency", m.latency}, {"reset", m.reset},
	} {
		if err := stage.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", stage.what, err)
		}
	}
	for name, n := range m.instruments.Dropped {
		m.set("drops: "+name, float64(n))
	}
	return nil
}

// highest sends as fast as it goes, and sees what the cores do meanwhile.
func (m *rateSample) highest(ctx context.Context) error {
	p, spent, took, err := m.watched(ctx)
	for retry := 0; err == nil && p.Void != "" && retry < m.Retries; retry++ {
		p, spent, took, err = m.watched(ctx)
	}
	if err == nil && p.Void != "" {
		err = errors.New(p.Void)
	}
	if err != nil {
		return err
	}
	b := m.instruments.Testbed
	if m.peak = p.Forwarded(b.Inline()); m.peak == 0 {
		return fmt.Errorf("none of %d frames came through (%s)", p.Sent.Frames, p.Dropped)
	}
	m.offered = m.peak * float64(p.Sent.Frames) / float64(p.Got.Frames)
	m.fast(p)
	cores := spent.Busy / took.Seconds()
	if b.Inline() { // so what others did meanwhile can be left out
		cores = p.Sent.Busy.Seconds() / p.Sent.Duration.Seconds()
	}
	m.sample.CPU = spent.Cores
	m.set(cpuShare, min(cores/float64(len(spent.Cores)), 1))
	m.set(transit.MppsPerCore, float64(p.Got.Frames)/p.Sent.Duration.Seconds()/cores/1e6)
	m.set(transit.GeneratorCeiling, m.ceiling.Rate/1e6)
	return nil
}

// watched is a passage at the generator's fastest and what the cores did meanwhile.
func (m *rateSample) watched(ctx context.Context) (p transit.Passage, spent measure.CPU, took time.Duration, err error) {
	before, err := measure.ReadCPU()
	if err != nil {
		return p, spent, 0, err
	}
	began := time.Now()
	if p, err = m.instruments.Peak(ctx, max(m.InitialDuration, min(m.Duration, time.Second))); err != nil {
		return p, spent, 0, err
	}
	took = time.Since(began)
	after, err := measure.ReadCPU()
	return p, after.Since(before), took, err
}

// reference is the rate that --min-rate and --max-rate are shares of: the line's or the
// generator's, whichever is less, of all links together.
func (m *rateSample) reference() (pps float64, generator bool) {
	line := float64(m.Scenario) * m.LineRate * 1e9 / 8 / (m.step.Size + transit.Framing)
	return min(line, m.ceiling.Rate), m.ceiling.Rate < line
}

// search looks for the rates without loss and with little.
func (m *rateSample) search(ctx context.Context) error {
	reference, generator := m.reference()
	o := search.Options{
		Goals:   search.Strict(m.InitialDuration, m.Duration, m.Tolerance/100),
		Min:     max(m.MinRate/100*reference, transit.LeastFrames/m.InitialDuration.Seconds()),
		Max:     m.MaxRate / 100 * reference,
		Retries: m.Retries, Unsent: transit.UnsentShare,
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

// slowShare is the lowest rate of a search for a device that is slow, as a share of what it
// forwards.
const slowShare = 0.02

// trial is one of the search.
func (m *rateSample) trial(ctx context.Context, pps float64, length time.Duration) (search.Outcome, error) {
	if m.top == 0 || pps < m.top {
		return m.instruments.Trial(ctx, pps, length)
	}
	if err := experiment.Sleep(ctx, m.Settle); err != nil {
		return search.Outcome{}, err
	}
	p, err := m.instruments.Peak(ctx, length)
	if err == nil && p.Void == "" {
		m.fast(p)
	}
	return search.Outcome{Sent: p.Sent.Frames, Lost: p.Lost, Void: p.Void}, err
}

// fast keeps what a passage at the generator's fastest says.
func (m *rateSample) fast(p transit.Passage) {
	rate := p.Forwarded(m.instruments.Testbed.Inline())
	m.costs = append(m.costs, transit.PerPacket(rate))
	if p.Lost == 0 {
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
	m.set(transit.NDR, noDrop/1e6)
	m.set(transit.PDR, partial/1e6)
	m.set(offeredRate, offered/1e6)
	m.set(forwardedRate, partial/1e6)
	out := m.step.Size + float64(m.overhead(m.step.Target))
	egress := partial * (out + transit.Framing) * 8 / 1e9
	m.set(frameOut, out)
	m.set(egressRate, egress)
	m.set(lineShare, egress/(m.LineRate*float64(m.Scenario)))
	m.set(limitedBy, truth(m.limited(ndr, noDrop)))
	m.set("trials", float64(len(m.found.Trials)))
	m.set("peak", m.peak/1e6)
	cost := stats.Median(m.costs).Median
	if !m.instruments.Testbed.Inline() { // overload is not what it is fastest at
		cost = transit.PerPacket(max(m.peak, partial, noDrop))
	}
	m.set(transit.NSPerPacket, cost)
	m.set(transit.DeviceNS, cost-m.ceiling.NS)
}

// generatorMargin is the share of the generator's own ceiling from which it, and not the
// device, is taken for the limit.
const generatorMargin = 0.9

// limited says whether the generator or the range of rates set a figure. On one core the
// fastest is what generator and device do together: that is the device's figure, unless it
// is about what the generator does alone.
func (m *rateSample) limited(f search.Found, rate float64) bool {
	if m.top > 0 && f.Lower >= m.top {
		return rate >= generatorMargin*m.ceiling.Rate
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
	figures, last, err := m.instruments.Latencies(ctx, transit.LatencyTrials{Rate: ndr.Lower, Duration: m.latencyDuration(), Trials: m.LatencyTrials, Retries: m.Retries, Tail: true})
	for name, value := range figures {
		m.set(name, value)
	}
	if err == nil {
		m.sample.Latency = transit.Quantiles(last, 0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1)
	}
	return err
}

// rateOutcome is the sample in a few words.
func rateOutcome(s result.Sample) string {
	if s.Error != "" {
		return experiment.Failure(s)
	}
	words := fmt.Sprintf("NDR %s, PDR %s Mpps, %s ns a packet",
		stats.Figure(s.Metrics[transit.NDR]), stats.Figure(s.Metrics[transit.PDR]), stats.Figure(s.Metrics[transit.NSPerPacket]))
	if p50, ok := s.Metrics[transit.LatencyP50]; ok {
		words += fmt.Sprintf(", latency p50 %s, p99 %s µs", stats.Figure(p50), stats.Figure(s.Metrics[transit.LatencyP99]))
	}
	if busy := s.Metrics[experiment.IdleBusy]; busy > experiment.BusyLimit {
		words += fmt.Sprintf(", but other processes kept the machine %.0f %% busy", 100*busy)
	}
	return words
}
