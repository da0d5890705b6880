package stats

import (
	"slices"
	"strconv"

	"github.com/selvage/selvage/lab/result"
)

// Baseline is the target that ratios are against in most experiments.
const Baseline = "plain"

// BaselineOf is the target that ratios of r are against; in the A/B experiment plain, or
// the first where that was not measured.
func BaselineOf(r result.Result) string {
	switch r.Experiment {
	case RFC2544:
		return Limit
	case Cache:
		return CacheOff
	case Latency, Egress: // of another of its cases
		return ""
	case Failover, Attack: // nothing else is killed; each is compared with itself unattacked
		return ""
	case Offload:
		return OffloadBaseline
	case Converge:
		return BaselineBGP
	case AB:
		if names := Names(r); Sliced(r) && len(names) > 0 && !slices.Contains(names, Baseline) {
			return names[0]
		}
	}
	return Baseline
}

// AB is the name of the A/B experiment.
const AB = "ab"

// Decisive is the metric, and DecisiveCase its case, that a verdict stands on.
const (
	Decisive     = "tcp_throughput"
	DecisiveCase = "tcp"
)

// Cases of the A/B experiment that are transit: frames of 64 bytes between an uplink and the
// underlay.
const (
	TransitEncap = "transit-encap"
	TransitDecap = "transit-decap"
)

// minPairs is the number of same-round pairs from which a difference may be
// called one: with three, equal paths look different in one of four experiments
// (2·½³), with five in one of sixteen, with two in every other one.
const minPairs = 3

// Metric describes one figure of the summary.
type Metric struct {
	Case   string
	Name   string
	Unit   string
	Title  string // for people, without the unit
	Higher bool   // higher is better
}

// metrics lists what Summarise computes for r.
func metrics(r result.Result) []Metric {
	switch r.Experiment {
	case MTU:
		return mtuMetrics(r)
	case RFC2544:
		return transitMetrics(r)
	case Cache:
		return cacheMetrics(r)
	}
	return Metrics()
}

// Metrics lists what Summarise computes for the A/B experiment, in the order of its
// rows.
func Metrics() []Metric {
	metrics := []Metric{
		{DecisiveCase, Decisive, "Gbit/s", "TCP throughput", true},
		{"tcp", "cpu_per_gb", "CPU s/GB", "CPU per gigabyte", false},
		{"tcp", "retransmits", "count", "TCP retransmits", false},
	}
	for _, c := range []struct{ name, size string }{{"rr-1", "1 B"}, {"rr-1024", "1024 B"}} {
		metrics = append(metrics,
			Metric{c.name, "rr_p50", "µs", "Request/response p50, " + c.size, false},
			Metric{c.name, "rr_p99", "µs", "Request/response p99, " + c.size, false},
			Metric{c.name, "rr_rate", "1/s", "Request/response rate, " + c.size, true})
	}
	return append(metrics,
		Metric{"udp", "udp_pps", "kpps", "UDP packets received", true},
		Metric{"udp", "udp_loss_ppm", "ppm", "UDP packets lost, of a million", false},
		Metric{TransitEncap, NDR, "Mpps", "Transit into a tunnel without loss (NDR)", true},
		Metric{TransitDecap, NDR, "Mpps", "Transit out of a tunnel without loss (NDR)", true})
}

// Names returns the targets of r in its own order, then those that only
// samples name.
func Names(r result.Result) []string {
	var names []string
	for _, c := range r.Targets {
		names = append(names, c.Name)
	}
	for _, s := range r.Samples {
		if !slices.Contains(names, s.Target) {
			names = append(names, s.Target)
		}
	}
	return names
}

// Rounds is how many rounds r was meant to have: its parameter "rounds", or the
// last round that was sampled, whichever is larger.
func Rounds(r result.Result) int {
	rounds, _ := strconv.Atoi(r.Parameters["rounds"])
	for _, s := range r.Samples {
		rounds = max(rounds, s.Round)
	}
	return rounds
}

// Values returns one metric of one target by round. Samples with an error,
// without the metric or with a value that is not finite are left out; of two
// samples of one round the later counts.
func Values(r result.Result, target, caseName, metric string) map[int]float64 {
	values := map[int]float64{}
	for round, s := range samplesOf(r, target, caseName, metric) {
		values[round] = s.Metrics[metric]
	}
	return values
}

// samplesOf are the samples that Values takes its values from, by round.
func samplesOf(r result.Result, target, caseName, metric string) map[int]result.Sample {
	samples := map[int]result.Sample{}
	for _, s := range r.Samples {
		v, ok := s.Metrics[metric]
		if s.Target != target || s.Case != caseName || s.Error != "" || !ok || len(finite([]float64{v})) == 0 {
			continue
		}
		samples[s.Round] = s
	}
	return samples
}

// Summarise computes the summary of r from its samples, by metric in the order
// of Metrics and then by target. There is no row where there is no value.
//
// Ratios are medians over same-round pairs; of slices see compareSliced. A row has
// none (0, 0, 0) when the baseline was not measured or was 0 in any paired round: a
// median over the remaining rounds would leave out exactly those in which the baseline
// did best. Distinguishable then rests on the paired differences. It is never true for
// fewer than three pairs, of slices for fewer than LeastPairs.
//
// The MTU experiment's rows begin with BlackHole of each target, the cache
// experiment's end with ShareSaved. The latency experiment's baselines are cases (see
// latencyRows).
func Summarise(r result.Result) []result.Row {
	var rows []result.Row
	switch r.Experiment {
	case Latency:
		return latencyRows(r)
	case Egress:
		return egressRows(r)
	case Failover:
		return failoverRows(r)
	case Offload:
		return offloadRows(r)
	case Converge:
		return convergeRows(r)
	case Attack:
		return attackRows(r)
	case MTU:
		rows = holeRows(r)
	}
	baseline := BaselineOf(r)
	for _, m := range metrics(r) {
		base := Values(r, baseline, m.Case, m.Name)
		for _, name := range Names(r) {
			values := Values(r, name, m.Case, m.Name)
			if len(values) == 0 {
				continue
			}
			iv := Median(list(values))
			row := result.Row{
				Target: name, Case: m.Case, Metric: m.Name, Unit: m.Unit,
				Median: iv.Median, Lo: iv.Lo, Hi: iv.Hi, N: iv.N,
			}
			switch {
			case name == baseline:
				row.Ratio, row.RatioLo, row.RatioHi = 1, 1, 1
			case len(base) > 0:
				row.Baseline = baseline
				compareRow(&row, r, m)
			}
			rows = append(rows, row)
		}
	}
	if r.Experiment == Cache {
		rows = append(rows, savedRows(r)...)
	}
	return rows
}

// compareRow fills what row shows against its baseline, in the way that r was measured.
func compareRow(row *result.Row, r result.Result, m Metric) {
	if Sliced(r) {
		compareSliced(row, r, m)
		return
	}
	compare(row, Values(r, row.Target, m.Case, m.Name), Values(r, row.Baseline, m.Case, m.Name))
}

// compare fills the ratio of row from the rounds that both sides have.
func compare(row *result.Row, values, base map[int]float64) {
	ratios, differences, divisible := pair(values, base)
	if len(differences) == 0 {
		return
	}
	if !divisible {
		row.Distinguishable = apart(Median(differences), 0)
		return
	}
	iv := Median(ratios)
	row.Ratio, row.RatioLo, row.RatioHi = iv.Median, iv.Lo, iv.Hi
	row.Distinguishable = apart(iv, 1)
}

// apart says whether an interval of pairs excludes a value.
func apart(iv Interval, value float64) bool {
	return iv.N >= minPairs && (iv.Lo > value || iv.Hi < value)
}

// pair returns value/base and value-base of each common round; divisible is
// false when one of the bases is 0.
func pair(values, base map[int]float64) (ratios, differences []float64, divisible bool) {
	divisible = true
	for _, round := range sortedRounds(values) {
		b, ok := base[round]
		if !ok {
			continue
		}
		differences = append(differences, values[round]-b)
		if b == 0 {
			divisible = false
			continue
		}
		ratios = append(ratios, values[round]/b)
	}
	return ratios, differences, divisible
}

// Find returns the row of one target's metric.
func Find(rows []result.Row, target, caseName, metric string) (result.Row, bool) {
	i := slices.IndexFunc(rows, func(row result.Row) bool {
		return row.Target == target && row.Case == caseName && row.Metric == metric
	})
	if i < 0 {
		return result.Row{}, false
	}
	return rows[i], true
}

func sortedRounds(values map[int]float64) []int {
	rounds := make([]int, 0, len(values))
	for round := range values {
		rounds = append(rounds, round)
	}
	slices.Sort(rounds)
	return rounds
}

func list(values map[int]float64) []float64 {
	xs := make([]float64, 0, len(values))
	for _, round := range sortedRounds(values) {
		xs = append(xs, values[round])
	}
	return xs
}
