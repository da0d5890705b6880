package latency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/lab/breakdown"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
)

// timedTarget is Selvage with edges that take stamps. Their cost is the difference to
// Selvage's own, so both are there at a time; in the result it goes by Selvage's name.
const timedTarget = "selvage-timed"

// broken is a scenario whose round trips are broken down.
type broken struct {
	scenario    string
	bare, timed *policed
}

// breakdownOptions are of the breakdown of all scenarios.
type breakdownOptions struct {
	rounds       int
	rules        []int // of firewalls, 0 being none
	sweep        []int // see policed.police
	transactions int   // of a sample; 0 is mostTransactions
}

// mostTransactions leave each edge room for the stamps of a core that does all: of eight
// for a request, and some forty for a connection.
const mostTransactions = 10_000

// shortTransaction is one of the faster: in a short sample there are only so many.
const shortTransaction = 50 * time.Microsecond

// brokenKinds are the transactions of a breakdown.
func brokenKinds() []string { return []string{RequestKind, ConnectKind} }

// breakDown builds what else it needs among the beds, whose scenarios are there already,
// takes all samples and returns them, as far as they were taken until ctx ended. ended is
// told of each.
func (c *Command) breakDown(ctx context.Context, testbeds *policedTestbeds, started time.Time, ended func(result.Sample)) ([]result.Sample, error) {
	var all []broken
	for _, scenario := range []string{SameHost, TwoHosts} {
		bare := testbeds.byName[testbedOf("selvage", scenario)]
		if bare == nil {
			continue
		}
		timed, err := c.buildTestbed(ctx, testbeds, timedTarget, scenario)
		if err != nil {
			return nil, err
		}
		all = append(all, broken{scenario, bare, timed})
	}
	if len(all) == 0 {
		return nil, errors.New("--breakdown: it is Selvage's round trips that are broken down; add selvage to --targets")
	}
	o := breakdownOptions{
		rounds: c.Rounds, rules: []int{0, ScenarioRules}, sweep: c.Rules,
		transactions: min(mostTransactions, int(c.Sample/shortTransaction)),
	}
	return o.takeAll(ctx, all, started, ended), nil
}

// takeAll takes the samples: in each round and setting both of bare and timed, in turn
// first. Failures are in the samples, not beside them.
func (o breakdownOptions) takeAll(ctx context.Context, all []broken, started time.Time, ended func(result.Sample)) []result.Sample {
	var samples []result.Sample
	ways := map[string][]string{}
	for round := 1; round <= o.rounds; round++ {
		for _, caseName := range o.round(all, round) {
			began := time.Now()
			sample := o.take(ctx, all, caseName, round)
			if ctx.Err() != nil { // it is half a one
				return samples
			}
			sample.Round, sample.Start = round, began.Sub(started).Seconds()
			checkWay(ways, &sample)
			samples = append(samples, sample)
			ended(sample)
		}
	}
	return samples
}

// round lists a round's cases in their order.
func (o breakdownOptions) round(all []broken, round int) []Broken {
	var cases []Broken
	for _, b := range all {
		for _, rules := range o.rules {
			for _, kind := range brokenKinds() {
				for _, timed := range []bool{round%2 == 0, round%2 == 1} {
					cases = append(cases, Broken{Scenario: b.scenario, Kind: kind, Rules: rules, Timed: timed})
				}
			}
		}
	}
	return cases
}

// take takes one sample.
func (o breakdownOptions) take(ctx context.Context, all []broken, caseName Broken, round int) result.Sample {
	began := time.Now()
	at := slices.IndexFunc(all, func(b broken) bool { return b.scenario == caseName.Scenario })
	testbed := all[at].bare
	if caseName.Timed {
		testbed = all[at].timed
	}
	sample, err := o.attempt(ctx, testbed, caseName, round)
	if sample.Metrics == nil {
		sample.Metrics, sample.Duration = map[string]float64{}, time.Since(began).Seconds()
	}
	sample.Target, sample.Case = "selvage", caseName.Case()
	if err != nil {
		sample.Error = err.Error()
	}
	return sample
}

func (o breakdownOptions) attempt(ctx context.Context, testbed *policed, caseName Broken, round int) (sample result.Sample, err error) {
	if err := testbed.police(ctx, o.sweep, caseName.Rules); err != nil {
		return sample, err
	}
	if err := testbed.prove(ctx); err != nil {
		return sample, err
	}
	busy, err := experiment.Settle(ctx, experiment.SettleTime)
	if err != nil {
		return sample, err
	}
	stamps, err := openStamps(testbed, caseName)
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, stamps.close()) }()
	before, err := experiment.ReadCounters(testbed.net)
	if err != nil {
		return sample, err
	}
	run, err := measure.RunTimed(ctx, measure.EndsOf(testbed.net, experiment.InnerFamily), o.timing(caseName, round))
	if err != nil {
		return sample, err
	}
	sample = run.Sample()
	sample.Metrics[experiment.IdleBusy] = busy
	sample.Metrics[BrokenRTT], sample.Metrics[BrokenFloor] = quantile(roundTrips(run.Transactions), 0.5), quantile(roundTrips(run.Transactions), 0.1)
	if caseName.Timed {
		err = stamps.into(&sample, planOf(caseName), run.Transactions)
	}
	return sample, errors.Join(err, damageSince(before, testbed.net, &sample))
}

// Ports of the connections that clients open, below which the kernel may choose others.
const firstPort, lastPort = 2000, 32000

func (o breakdownOptions) timing(caseName Broken, round int) measure.TimedOptions {
	t := measure.TimedOptions{Transactions: cmp.Or(o.transactions, mostTransactions), Connect: caseName.Kind == ConnectKind}
	if t.Connect {
		t.Transactions = max(1, t.Transactions/5)
	}
	t.Warmup = max(1, t.Transactions/10)
	if all := t.Warmup + t.Transactions; t.Connect && all < lastPort-firstPort {
		t.FirstPort = firstPort + (round-1)%((lastPort-firstPort)/all)*all
	}
	return t
}

// damageSince is an error when packets arrived damaged since a look at the counters.
func damageSince(before experiment.Counters, n *topo.TwoHosts, sample *result.Sample) error {
	after, err := experiment.ReadCounters(n)
	if err != nil {
		return err
	}
	return after.Damage(before, sample.Metrics)
}

func roundTrips(transactions []measure.Transaction) []time.Duration {
	times := make([]time.Duration, len(transactions))
	for i, t := range transactions {
		times[i] = t.RTT()
	}
	return times
}

// quantile of times, q from 0 to 1, in µs.
func quantile(times []time.Duration, q float64) float64 {
	sorted := slices.Sorted(slices.Values(times))
	return float64(sorted[int(q*float64(len(sorted)-1)+0.5)]) / 1e3
}

func planOf(caseName Broken) breakdown.Plan {
	if caseName.Scenario == SameHost {
		return breakdown.SameHost(caseName.Kind == ConnectKind)
	}
	return breakdown.TwoHosts(caseName.Kind == ConnectKind)
}

// takenStamps are those of a path, by whose they are.
type takenStamps map[string]stampReader

// stampReader is datapath.Stamps or breakdown.Guests.
type stampReader interface {
	Clear() error
	Read() (stamps []datapath.Stamp, lost uint64, err error)
	Close() error
}

// openStamps opens and clears those of a case; there are none where none are taken.
func openStamps(testbed *policed, caseName Broken) (takenStamps, error) {
	all := takenStamps{}
	if !caseName.Timed {
		return all, nil
	}
	hosts := map[string]*topo.Host{breakdown.HostA: testbed.net.A}
	namespaces := []string{netnsOf(testbed.net.Client), netnsOf(testbed.net.Server), netnsOf(testbed.net.A)}
	if caseName.Scenario == TwoHosts {
		hosts[breakdown.HostB] = testbed.net.B
		namespaces = append(namespaces, netnsOf(testbed.net.B))
	}
	for place, host := range hosts {
		s, err := datapath.OpenStamps("", dut.EdgeName(host))
		if err != nil {
			return nil, errors.Join(err, all.close())
		}
		all[place] = s
	}
	guests, err := breakdown.WatchGuests(namespaces...)
	if err != nil {
		return nil, errors.Join(err, all.close())
	}
	all[breakdown.AllGuests] = guests
	for _, s := range all {
		if err := s.Clear(); err != nil {
			return nil, errors.Join(err, all.close())
		}
	}
	return all, nil
}

func netnsOf(h *topo.Host) string { return "/run/netns/" + h.Namespace }

func (all takenStamps) close() error {
	var errs []error
	for _, s := range all {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// into adds the steps of the transactions to their sample.
func (all takenStamps) into(sample *result.Sample, plan breakdown.Plan, transactions []measure.Transaction) error {
	stamps := map[string][]datapath.Stamp{}
	for host, s := range all {
		some, lost, err := s.Read()
		if err != nil {
			return err
		}
		if lost > 0 {
			return fmt.Errorf("%s had no room for %d stamps: use fewer transactions", host, lost)
		}
		stamps[host] = some
	}
	b, err := plan.Put(transactions, stamps)
	if err != nil {
		return err
	}
	sample.Metrics[LeftOut] = float64(b.LeftOut) / float64(len(transactions))
	within := make([]float64, len(b.Steps))
	for i, s := range b.Steps {
		sample.Metrics[StepMetric(i, s.Part, s.Place)] = quantile(s.Times, 0.5)
		within[i] = float64(s.Stamps)
	}
	sample.Series = map[string][]float64{StampsSeries: within}
	return nil
}

// checkWay makes a sample whose transactions went another way than the first of their
// case did an error: their steps are others.
func checkWay(ways map[string][]string, sample *result.Sample) {
	if len(sample.Series[StampsSeries]) == 0 || sample.Error != "" {
		return
	}
	var way []string
	for name := range sample.Metrics {
		if IsStep(name) {
			way = append(way, name)
		}
	}
	slices.Sort(way)
	way = append(way, fmt.Sprint(sample.Series[StampsSeries]))
	first, ok := ways[sample.Case]
	if !ok {
		ways[sample.Case] = way
		return
	}
	if !slices.Equal(first, way) {
		sample.Error = errors.New("the transactions took another path than in the first round: " + strings.Join(way, ", ")).Error()
	}
}

// brokenOutcome is a sample in a few words.
func brokenOutcome(s result.Sample) string {
	if s.Error != "" {
		return s.Case + ": " + experiment.Failure(s)
	}
	words := fmt.Sprintf("%s: p50 %s µs", s.Case, stats.Figure(s.Metrics[BrokenRTT]))
	if share, ok := s.Metrics[LeftOut]; ok {
		words += fmt.Sprintf(", %d steps, %.1f %% could not be followed", len(s.Series[StampsSeries]), 100*share)
	}
	return words
}
