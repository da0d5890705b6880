package latency

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Name is the name of the experiment on what a firewall adds to a round trip.
const Name = "latency"

// Scenarios of the NSX firewall study, each without a firewall and with one of ScenarioRules rules.
const (
	SameHost = "same-host"
	TwoHosts = "two-hosts"

	ScenarioRules = 100
)

// Metrics of the latency experiment that others speak of by name. RRAdded, RRP1Added and
// RR1Added are on rows alone; Summarise computes them (see Added).
const (
	RRP50    = measure.RRP50 // µs, TCP_RR of 1024 bytes both ways
	RRP1     = measure.RRP1  // µs, of its fastest hundredth, which others' work on the cores hardly touches
	RR1P50   = "rr1_p50"     // µs, of 1 byte
	RRAdded  = "rr_added"    // µs over the same target without a firewall
	RR1Added = "rr1_added"   // µs
	// RRP1Added is the same of the fastest hundredth, in µs.
	RRP1Added = "rr_p1_added"
	CRRRate   = measure.CRRRate  // transactions a second, each over a connection of its own, one at a time
	ConnRate  = measure.ConnRate // the same, many at once
	openP50   = "open_p50"       // µs, open loop
	openP9999 = "open_p9999"
	udpRRP50  = "udprr_p50"     // µs, UDP_RR of 1 byte
	appP50    = "app_p50"       // µs, HTTP requests, one at a time
	UDPRate   = measure.UDPRate // kpps received, one way
)

// Setting is what a case of the latency experiment has.
type Setting struct {
	Scenario string // SameHost or TwoHosts
	Rules    int    // 0 is no firewall
	Pairs    int    // of client and server that are measured at once, from 1
}

// Case is the name of s's samples: "rules-N" between two hosts, "same-host-off" and
// "same-host-on" on one, and with several pairs "two-hosts-on-x4".
func (s Setting) Case() string {
	rules := "rules-" + strconv.Itoa(s.Rules)
	if s.InSweep() {
		return rules
	}
	return s.title(rules)
}

// title is the scenario's name with what it has.
func (s Setting) title(rules string) string {
	switch s.Rules {
	case 0:
		rules = "off"
	case ScenarioRules:
		rules = "on"
	}
	name := s.Scenario + "-" + rules
	if s.Pairs > 1 {
		name += "-x" + strconv.Itoa(s.Pairs)
	}
	return name
}

// InSweep says whether s is of the sweep of rules: between two hosts, by one pair.
func (s Setting) InSweep() bool { return s.Scenario == TwoHosts && s.Pairs == 1 }

// Without is the same setting without a firewall.
func (s Setting) Without() Setting {
	s.Rules = 0
	return s
}

// Policed reads a case of the latency experiment. "two-hosts-off" and "two-hosts-on" are
// other names of rules-0 and rules-100.
func Policed(caseName string) (Setting, bool) {
	s, named := Setting{Scenario: TwoHosts, Pairs: 1}, false
	for _, scenario := range []string{SameHost, TwoHosts} {
		if rest, ok := strings.CutPrefix(caseName, scenario+"-"); ok {
			s.Scenario, caseName, named = scenario, rest, true
		}
	}
	if rest, pairs, ok := strings.Cut(caseName, "-x"); ok {
		n, err := strconv.Atoi(pairs)
		if err != nil || n < 2 {
			return Setting{}, false
		}
		caseName, s.Pairs = rest, n
	}
	switch {
	case named && caseName == "off":
		return s, true
	case named && caseName == "on":
		s.Rules = ScenarioRules
		return s, true
	}
	rules, ok := strings.CutPrefix(caseName, "rules-")
	n, err := strconv.Atoi(rules)
	if !ok || err != nil || n < 0 {
		return Setting{}, false
	}
	s.Rules = n
	return s, true
}

// Settings are the cases of r: the scenarios first, each by pairs and rules, then the sweep
// of rules between two hosts.
func Settings(r result.Result) []Setting {
	var all []Setting
	for _, caseName := range stats.Cases(r) {
		if s, ok := Policed(caseName); ok && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Setting) int {
		return cmp.Or(cmp.Compare(a.Scenario, b.Scenario), cmp.Compare(a.Pairs, b.Pairs), cmp.Compare(a.Rules, b.Rules))
	})
	return all
}

// policedCases are the names of r's cases that rows have: those of Settings, and
// "two-hosts-off" and "two-hosts-on" besides when a scenario was measured.
func policedCases(r result.Result) []string {
	var scenarios, sweep []string
	for _, s := range Settings(r) {
		if !s.InSweep() {
			scenarios = append(scenarios, s.Case())
			continue
		}
		sweep = append(sweep, s.Case())
		if scenarioAsked(r, TwoHosts) && (s.Rules == 0 || s.Rules == ScenarioRules) {
			scenarios = append(scenarios, s.title(""))
		}
	}
	return append(scenarios, sweep...)
}

// scenarioAsked says whether the run was to have a scenario.
func scenarioAsked(r result.Result, scenario string) bool {
	return slices.Contains(r.Parameters.Texts("scenarios"), scenario)
}

// policedValues are Values, also by the other names of a case.
func policedValues(r result.Result, target, caseName, metric string) map[int]float64 {
	return stats.Values(r, target, sampled(caseName), metric)
}

// sampled is the name that a case's samples have.
func sampled(caseName string) string {
	if s, ok := Policed(caseName); ok {
		return s.Case()
	}
	return caseName
}

// bareName is the name of a case's like without a firewall: its other name, if caseName is one.
func bareName(caseName string) string {
	s, _ := Policed(caseName)
	if s.Case() != caseName {
		return s.Without().title("")
	}
	return s.Without().Case()
}

// latencyMetrics are the figures of every case.
func latencyMetrics(r result.Result) []stats.Metric {
	var metrics []stats.Metric
	for _, m := range figures() {
		for _, caseName := range policedCases(r) {
			m.Case = caseName
			metrics = append(metrics, m)
		}
	}
	return metrics
}

// figures are the figures of the latency experiment, without a case, in the order of
// its rows. Not every case has all.
func figures() []stats.Metric {
	metrics := []stats.Metric{
		{Case: "", Name: RRP50, Unit: "µs", Title: "TCP round trip p50, 1024 B", Higher: false},
		{Case: "", Name: RRP1, Unit: "µs", Title: "TCP round trip p1, 1024 B", Higher: false},
		{Case: "", Name: measure.RRP99, Unit: "µs", Title: "TCP round trip p99, 1024 B", Higher: false},
		{Case: "", Name: measure.RRP999, Unit: "µs", Title: "TCP round trip p99.9, 1024 B", Higher: false},
		{Case: "", Name: measure.RRP9999, Unit: "µs", Title: "TCP round trip p99.99, 1024 B", Higher: false},
		{Case: "", Name: measure.RRByRate, Unit: "µs", Title: "TCP round trip by rate, 1024 B", Higher: false},
		{Case: "", Name: measure.RRRate, Unit: "1/s", Title: "TCP transactions, 1024 B", Higher: true},
		{Case: "", Name: RR1P50, Unit: "µs", Title: "TCP round trip p50, 1 B", Higher: false},
		{Case: "", Name: "rr1_p99", Unit: "µs", Title: "TCP round trip p99, 1 B", Higher: false},
		{Case: "", Name: openP50, Unit: "µs", Title: "TCP round trip p50, open loop", Higher: false},
		{Case: "", Name: "open_p99", Unit: "µs", Title: "TCP round trip p99, open loop", Higher: false},
		{Case: "", Name: openP9999, Unit: "µs", Title: "TCP round trip p99.99, open loop", Higher: false},
		{Case: "", Name: CRRRate, Unit: "1/s", Title: "Connections, one at a time", Higher: true},
		{Case: "", Name: measure.CRRP50, Unit: "µs", Title: "Connect, ask and close p50", Higher: false},
		{Case: "", Name: measure.CRRP99, Unit: "µs", Title: "Connect, ask and close p99", Higher: false},
		{Case: "", Name: ConnRate, Unit: "1/s", Title: "Connections, many at once", Higher: true},
		{Case: "", Name: udpRRP50, Unit: "µs", Title: "UDP round trip p50, 1 B", Higher: false},
		{Case: "", Name: "udprr_p99", Unit: "µs", Title: "UDP round trip p99, 1 B", Higher: false},
		{Case: "", Name: UDPRate, Unit: "kpps", Title: "UDP packets received, one way", Higher: true},
		{Case: "", Name: stats.Decisive, Unit: "Gbit/s", Title: "TCP throughput", Higher: true},
	}
	for _, loop := range []struct{ prefix, words string }{
		{"app", ""}, {"app_connect", ", a connection each"}, {"app_rated", ", open loop"},
	} {
		for _, q := range []struct{ name, words string }{{"p50", "p50"}, {"p90", "p90"}, {"p99", "p99"}, {"p999", "p99.9"}} {
			metrics = append(metrics, stats.Metric{Case: "", Name: loop.prefix + "_" + q.name, Unit: "µs", Title: "HTTP request " + q.words + loop.words, Higher: false})
		}
		metrics = append(metrics, stats.Metric{Case: "", Name: loop.prefix + "_rate", Unit: "1/s", Title: "HTTP requests" + loop.words, Higher: true})
	}
	return metrics
}

// summarise summarise the latency experiment. A row's baseline is the same target's
// case without a firewall, as "target:case". After the metrics come the rows of
// what is added, and those of rates against Kernel in the same case.
func summarise(r result.Result) []result.Row {
	var rows []result.Row
	for _, m := range latencyMetrics(r) {
		setting, _ := Policed(m.Case)
		bare := bareName(m.Case)
		for _, name := range stats.Names(r) {
			values := policedValues(r, name, m.Case, m.Name)
			if len(values) == 0 {
				continue
			}
			iv := stats.Median(stats.ByRound(values))
			row := result.Row{Target: name, Case: m.Case, Metric: m.Name, Unit: m.Unit, Median: iv.Median, Lo: iv.Lo, Hi: iv.Hi, N: iv.N}
			if setting.Rules == 0 {
				row.Ratio, row.RatioLo, row.RatioHi = 1, 1, 1
			} else if base := policedValues(r, name, bare, m.Name); len(base) > 0 {
				row.Baseline = name + ":" + bare
				stats.Compare(&row, values, base)
			}
			rows = append(rows, row)
		}
	}
	return append(append(rows, addedRows(r)...), rivalRows(r)...)
}

// Added is what a case's metric has over the same target without a firewall, by the
// median of the differences of same rounds.
func Added(r result.Result, target, caseName, metric string) stats.Interval {
	setting, ok := Policed(caseName)
	if !ok || setting.Rules == 0 {
		return stats.Interval{}
	}
	_, differences, _ := stats.Pair(
		policedValues(r, target, caseName, metric), policedValues(r, target, setting.Without().Case(), metric))
	return stats.Median(differences)
}

func addedRows(r result.Result) []result.Row {
	var rows []result.Row
	for _, added := range []struct{ name, of string }{{RRAdded, RRP50}, {RRP1Added, RRP1}, {RR1Added, RR1P50}} {
		for _, caseName := range policedCases(r) {
			for _, name := range stats.Names(r) {
				iv := Added(r, name, caseName, added.of)
				if iv.N == 0 {
					continue
				}
				rows = append(rows, result.Row{
					Target: name, Case: caseName, Metric: added.name, Unit: "µs", Median: iv.Median, Lo: iv.Lo, Hi: iv.Hi, N: iv.N,
					Baseline: name + ":" + bareName(caseName), Distinguishable: stats.Excludes(iv, 0),
				})
			}
		}
	}
	return rows
}

// Rival is a metric as multiple of Kernel' in the same case, by the median of the ratios of
// same rounds.
func Rival(r result.Result, target, caseName, metric string) stats.Interval {
	return stats.Against(r, target, stats.Kernel, sampled(caseName), metric)
}

// rivalRows hold rates against Kernel.
func rivalRows(r result.Result) []result.Row {
	var rows []result.Row
	for _, rate := range []struct{ name, of string }{
		{"crr_vs_kernel", CRRRate}, {"conn_vs_kernel", ConnRate}, {"udp_vs_kernel", UDPRate}, {"tcp_vs_kernel", stats.Decisive},
	} {
		for _, caseName := range policedCases(r) {
			for _, name := range stats.Names(r) {
				iv := Rival(r, name, caseName, rate.of)
				if name == stats.Kernel || iv.N == 0 {
					continue
				}
				rows = append(rows, result.Row{
					Target: name, Case: caseName, Metric: rate.name, Unit: "×", Median: iv.Median, Lo: iv.Lo, Hi: iv.Hi, N: iv.N,
					Baseline: stats.Kernel + ":" + caseName, Ratio: iv.Median, RatioLo: iv.Lo, RatioHi: iv.Hi, Distinguishable: stats.Excludes(iv, 1),
				})
			}
		}
	}
	return rows
}

// PerRule is what one more rule costs in µs, between the sweep's cases with the fewest rules
// (not none: that there is a firewall at all is another cost) and with the most: of a round
// trip (RRP50), a connection (CRRRate, ConnRate) or a packet (UDPRate). most are those rules, 0
// when the sweep has no two such cases.
func PerRule(r result.Result, target, metric string) (iv stats.Interval, most int) {
	fewest := 0
	for _, s := range Settings(r) { // by rules
		if !s.InSweep() || s.Rules == 0 || len(stats.Values(r, target, s.Case(), metric)) == 0 {
			continue
		}
		if fewest == 0 {
			fewest = s.Rules
		}
		most = s.Rules
	}
	if most == fewest {
		return stats.Interval{}, 0
	}
	times := func(rules int) map[int]float64 {
		return inMicroseconds(metric, stats.Values(r, target, Setting{TwoHosts, rules, 1}.Case(), metric))
	}
	_, differences, _ := stats.Pair(times(most), times(fewest))
	for i := range differences {
		differences[i] /= float64(most - fewest)
	}
	return stats.Median(differences), most
}

// inMicroseconds turns rates into the time of one.
func inMicroseconds(metric string, values map[int]float64) map[int]float64 {
	each := map[string]float64{CRRRate: 1e6, ConnRate: 1e6, UDPRate: 1e3}[metric]
	if each == 0 {
		return values
	}
	times := map[int]float64{}
	for round, v := range values {
		if v > 0 {
			times[round] = each / v
		}
	}
	return times
}

// refuseAdded says, without a final stop, why nothing may be concluded about what a case
// adds for a target, or "" when something may.
func refuseAdded(r result.Result, target, caseName string) string {
	setting, ok := Policed(caseName)
	if !ok {
		return caseName + " is not a case of this experiment"
	}
	for _, s := range []Setting{setting.Without(), setting} {
		if why := stats.UnreliableFor(r, target, stats.Basis{CaseName: s.Case(), Metric: RRP50, Words: "round trip"}); why != "" {
			return why + " (" + s.Case() + ")"
		}
	}
	return ""
}
