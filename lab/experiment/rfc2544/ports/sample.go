package ports

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/search"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
)

// generatorMargin is the share of the generator's ceiling that is offered at most.
const generatorMargin = 0.9

// Limiters are what set a rate: the values of the metric limiter.
const (
	limitDevice    = iota
	limitGenerator // its threads did not have their cores
	limitCore      // the cores of the generator were full
	limitPort      // the generator's interface refused frames
	limitLine
	limitRange // of --max-rate
)

// limiterWords are for people.
func limiterWords(limiter int) string {
	words := []string{"device", "generator", "core", "port", "line", "range"}
	if limiter >= 0 && limiter < len(words) {
		return words[limiter]
	}
	return "–"
}

// limitersOf are those of a case in any round, in their order.
func limitersOf(r result.Result, caseName string) []int {
	var all []int
	for _, limiter := range stats.Values(r, deviceName, caseName, limiterMetric) {
		all = append(all, int(limiter))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// limitedBy is what set the rates of a case, and whether something else than the device did in any round.
func limitedBy(r result.Result, caseName string) (words string, foreign bool) {
	var all []string
	for _, limiter := range limitersOf(r, caseName) {
		all = append(all, limiterWords(limiter))
		foreign = foreign || limiter != limitDevice
	}
	if len(all) == 0 {
		return "–", false
	}
	return strings.Join(all, " or "), foreign
}

// sample is one while it is taken.
type sample struct {
	Trials
	command     *Command
	site        *site
	step        step
	out         result.Sample
	instruments *transit.Instruments
	ceiling     float64 // frames/s of the generator at these ports
	limiter     int     // what sets that
	max         float64
	found       search.Result
}

// take takes the sample of s. A failure is in the sample, not beside it.
func (c *Command) take(ctx context.Context, at *site, s step, t Trials) result.Sample {
	began := time.Now()
	m := &sample{Trials: t, command: c, site: at, step: s, out: result.Sample{Metrics: map[string]float64{}, Series: map[string][]float64{}}}
	if err := m.attempt(ctx); err != nil {
		m.out.Error = err.Error()
	}
	m.out.Duration = time.Since(began).Seconds()
	return m.out
}

func (m *sample) set(name string, value float64) {
	if !math.IsNaN(value) && !math.IsInf(value, 0) {
		m.out.Metrics[name] = value
	}
}

func (m *sample) attempt(ctx context.Context) (err error) {
	busy, err := experiment.Settle(ctx, min(experiment.SettleTime, max(m.Settle, 50*time.Millisecond)))
	if err != nil {
		return err
	}
	m.set(experiment.IdleBusy, busy)
	if m.command.L2 {
		if err := m.site.announce(ctx); err != nil {
			return err
		}
	}
	m.instruments, err = transit.Around(m.site, transit.InstrumentOptions{Direction: m.step.direction, Stream: m.step.stream, Drain: m.Drain, Rest: m.Settle, CatchUp: m.command.CatchUp})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.instruments.Close()) }()
	for _, stage := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"warm-up", m.warm}, {"self-test of the generator", m.selfTest}, {"search", m.search},
		{"loss curve", m.lossCurve}, {"back to back", m.backToBack}, {"latency", m.latency},
	} {
		if err := stage.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", stage.what, err)
		}
	}
	return nil
}

// warm sends each flow's first frames, which devices take a decision or ask for a neighbour for.
func (m *sample) warm(ctx context.Context) error {
	err := m.instruments.Warm(ctx)
	if err == nil {
		return nil
	}
	hint := "does the device route between these networks, and back to the generator's addresses?"
	if m.command.L2 {
		hint = "does the device bridge these ports?"
	}
	for _, l := range m.site.sides[0].links {
		if l.port.Kind == "veth" {
			hint += " The other end of a veth takes frames from XDP only with an XDP program, or with GRO (ethtool -K IF gro on)."
			break
		}
	}
	return fmt.Errorf("%w: %s", err, hint)
}

// selfTest sends as fast as it goes: what the generator gets out of these ports, whatever becomes of it.
func (m *sample) selfTest(ctx context.Context) error {
	from, _ := m.site.towards(m.step.direction)
	before, err := from.tester.CPU(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	p, err := m.instruments.Unchecked(ctx, gen.Load{Duration: max(m.InitialDuration, min(m.Duration, time.Second)), Batch: transit.PeakBatch, Untimed: true}, m.Drain)
	if err != nil {
		return err
	}
	took := time.Since(began)
	after, err := from.tester.CPU(ctx)
	if err != nil {
		return err
	}
	if p.Sent.Frames == 0 {
		return fmt.Errorf("no frame of %d left: the driver takes none from XDP, or its MTU is too small", p.Sent.Offered)
	}
	spent := after.Since(before)
	m.out.CPU = spent.Cores
	m.set(cpuShare, min(spent.Busy/took.Seconds()/float64(len(spent.Cores)), 1))
	m.ceiling = p.Sent.Rate()
	m.set(transit.GeneratorCeiling, m.ceiling/1e6)
	m.set("peak", float64(p.Got.Frames)/p.Sent.Duration.Seconds()/1e6)
	m.limiter = ceilingLimiter(p.Sent, len(from.cores))
	return experiment.Sleep(ctx, m.Settle)
}

// ceilingLimiter is what kept the generator from sending more.
func ceilingLimiter(sent gen.Sent, cores int) int {
	const full = 0.95
	switch {
	case float64(sent.Overrun) > transit.UnsentShare*float64(sent.Offered):
		return limitPort
	case sent.Busy.Seconds() >= full*sent.Duration.Seconds()*float64(cores):
		return limitCore
	}
	return limitGenerator
}

// goals are those of RFC 9971.
func (t Trials) goals(c *Command) []search.Goal {
	goals := search.Strict(t.InitialDuration, t.Duration, t.Tolerance/100)
	for i := range goals {
		goals[i].ExceedRatio = c.Exceed
		if c.Sum > 0 {
			goals[i].Sum = c.Sum
		}
	}
	return goals
}

// search looks for the rates without loss and with little.
func (m *sample) search(ctx context.Context) (err error) {
	m.max = generatorMargin * m.ceiling
	generator := true
	if m.LineRate > 0 {
		_, _, most := m.step.wire()
		if line := m.LineRate * 1e9 / 8 / most; line < m.max {
			m.max, m.limiter, generator = line, limitLine, false
		}
	}
	reference := m.max
	m.max *= m.MaxRate / 100
	o := search.Options{
		Goals: m.goals(m.command), Max: m.max, Min: min(max(m.MinRate/100*reference, transit.LeastFrames/m.InitialDuration.Seconds()), m.max/2),
		Retries: m.Retries, Unsent: transit.UnsentShare, MaxIsGenerator: generator, Resolution: m.max / 1e4,
	}
	if m.Quick {
		o.Probes = []float64{}
	}
	if m.Binary {
		m.found, err = search.Binary(ctx, m.instruments.Trial, o, m.Retries)
	} else {
		m.found, err = search.MLR(ctx, m.instruments.Trial, o)
	}
	if err != nil {
		return err
	}
	m.rates()
	return nil
}

// rates writes down what the search found.
func (m *sample) rates() {
	ndr, _ := m.found.Find(search.NDR)
	pdr, _ := m.found.Find(search.PDR)
	inBytes, outBytes, most := m.step.wire()
	gbps := func(pps, bytes float64) float64 { return pps * bytes * 8 / 1e9 }
	in, out := gbps(pdr.Lower, inBytes), gbps(pdr.Throughput, outBytes)
	m.set(transit.NDR, ndr.Throughput/1e6)
	m.set(transit.PDR, pdr.Throughput/1e6)
	m.set(offeredRate, pdr.Lower/1e6)
	m.set(rateIn, in)
	m.set(rateOut, out)
	m.set(rateTotal, in+out)
	if m.LineRate > 0 {
		m.set(lineShare, gbps(pdr.Lower, most)/m.LineRate)
	}
	limiter := limitDevice
	switch {
	case ndr.Limited() && m.found.Behind:
		limiter = limitGenerator
	case ndr.Limited() && m.MaxRate < 100:
		limiter = limitRange
	case ndr.Limited():
		limiter = m.limiter
	}
	m.set(limiterMetric, float64(limiter))
	m.set("trials", float64(len(m.found.Trials)))
}

// lossCurve is the frame loss rate from the highest rate downwards.
func (m *sample) lossCurve(ctx context.Context) error {
	if !m.LossCurve {
		return nil
	}
	points, _, err := search.Losses(ctx, m.instruments.Trial, search.Curve{Max: m.found.Max, Length: m.Duration, Retries: m.Retries, Unsent: transit.UnsentShare})
	for _, p := range points {
		m.out.Series[transit.LossLoad] = append(m.out.Series[transit.LossLoad], p.Share)
		m.out.Series[transit.LossShare] = append(m.out.Series[transit.LossShare], p.Ratio)
	}
	return err
}

// backToBack looks for the longest burst without loss.
func (m *sample) backToBack(ctx context.Context) error {
	ndr, _ := m.found.Find(search.NDR)
	if !m.BackToBack || ndr.Limited() {
		return nil
	}
	bursts := transit.Bursts{Rate: m.ceiling, Throughput: ndr.Throughput, Retries: m.Retries}
	if m.Quick {
		bursts.Quick = m.Duration
	}
	buffered, err := m.instruments.BackToBack(ctx, bursts)
	if errors.Is(err, search.ErrNoBuffer) {
		return nil
	}
	if err == nil {
		m.set(backToBack, buffered.Average)
	}
	return err
}

// latency measures at the no-drop rate and at shares of it.
func (m *sample) latency(ctx context.Context) error {
	ndr, _ := m.found.Find(search.NDR)
	if m.LatencyTrials == 0 || ndr.Throughput == 0 || !m.site.oneClock(m.step.direction) {
		return nil
	}
	figures, last, err := m.instruments.Latencies(ctx, transit.LatencyTrials{Rate: ndr.Lower, Duration: m.LatencyDuration, Trials: m.LatencyTrials, Retries: m.Retries})
	for name, value := range figures {
		m.set(name, value)
	}
	if err == nil {
		m.out.Latency = transit.Quantiles(last, 0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1)
	}
	return err
}

// outcome is the sample in a few words.
func outcome(s result.Sample) string {
	if s.Error != "" {
		return experiment.Failure(s)
	}
	words := fmt.Sprintf("NDR %s, PDR %s Mpps, limited by the %s", stats.Figure(s.Metrics[transit.NDR]), stats.Figure(s.Metrics[transit.PDR]), limiterWords(int(s.Metrics[limiterMetric])))
	if p99, ok := s.Metrics[transit.LatencyP99]; ok {
		words += fmt.Sprintf(", latency p50 %s, p99 %s µs", stats.Figure(s.Metrics[transit.LatencyP50]), stats.Figure(p99))
	}
	return words
}

// cases are those of the samples, direction by direction.
func cases(r result.Result) []string {
	all := stats.Cases(r)
	slices.SortStableFunc(all, func(a, b string) int { return directionOf(a) - directionOf(b) })
	return all
}
