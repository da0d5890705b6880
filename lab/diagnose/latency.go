package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// What the NSX firewall study's firewall of 100 rules added to a round trip, in µs.
const studyAddedLeast, studyAddedMost = 13.3, 15.7

// LatencyVerdict answers what a firewall adds to a round trip.
func LatencyVerdict(r result.Result) result.Verdict {
	e := newLatencyEvidence(r)
	v := result.Verdict{Findings: e.findings()}
	if why := e.refuse(); why != "" {
		v.Refused, v.Sentence = true, "No verdict: "+why+". Quiet the machine, or raise --rounds, --duration or --sample."
		return v
	}
	v.Sentence = e.sentence()
	return v
}

// latencyEvidence is a result of the latency experiment.
type latencyEvidence struct {
	evidence
	key  stats.Setting // that the verdict stands on
	some bool          // there is one
}

// newLatencyEvidence chooses what the verdict is about: Selvage, or else the first target
// with a firewall; between two hosts, or else on one; 100 rules, or else the fewest.
func newLatencyEvidence(r result.Result) latencyEvidence {
	e := latencyEvidence{evidence: summed(r, stats.LatencyRows, "")}
	names := e.policed()
	if len(names) == 0 {
		return e
	}
	e.dut = names[0]
	if slices.Contains(names, selvage) {
		e.dut = selvage
	}
	rank := func(s stats.Setting) (rank int) {
		if s.Scenario != stats.TwoHosts {
			rank += 4
		}
		if s.Pairs > 1 {
			rank += 2
		}
		if s.Rules != stats.ScenarioRules {
			rank++
		}
		return rank
	}
	for _, s := range stats.Settings(r) {
		tried := slices.ContainsFunc(r.Samples, func(sample result.Sample) bool { // also in vain
			setting, ok := stats.Policed(sample.Case)
			return ok && setting == s && sample.Target == e.dut
		})
		if s.Rules > 0 && tried && (!e.some || rank(s) < rank(e.key)) {
			e.key, e.some = s, true
		}
	}
	return e
}

// policed are the targets that were measured with a firewall.
func (e latencyEvidence) policed() []string {
	return slices.DeleteFunc(stats.Names(e.Result), func(name string) bool {
		return !slices.ContainsFunc(e.Samples, func(s result.Sample) bool {
			setting, ok := stats.Policed(s.Case)
			return ok && s.Target == name && setting.Rules > 0
		})
	})
}

func (e latencyEvidence) refuse() string {
	if !e.some {
		return "no target was measured both with a firewall and without"
	}
	if !e.timed() {
		return "no round trip was measured (--measure rr)"
	}
	return stats.RefuseLatency(e.Result, e.dut, e.key.Case())
}

// timed reports whether there are round trips, on which the verdict stands.
func (e latencyEvidence) timed() bool {
	return slices.ContainsFunc(e.rows, func(row result.Row) bool { return row.Metric == stats.RRP50 })
}

func (e latencyEvidence) sentence() string {
	bare, _ := stats.Find(e.rows, e.dut, e.key.Without().Case(), stats.RRP50)
	text := fmt.Sprintf("%s adds %s to the round trip of %s µs that %s takes %s",
		upperFirst(firewall(e.key)), e.added(e.dut, e.key), stats.Figure(bare.Median), e.who(e.dut), where(e.key))
	if most := e.most(e.dut); most.Rules > e.key.Rules {
		text += fmt.Sprintf("; %s adds %s", firewall(most), e.added(e.dut, most))
	}
	for _, name := range e.policed() {
		if name == e.dut || stats.Added(e.Result, name, e.key.Case(), stats.RRP50).N == 0 {
			continue
		}
		if stats.RefuseLatency(e.Result, name, e.key.Case()) != "" {
			text += fmt.Sprintf("; %s gave no reliable figure", e.who(name))
			continue
		}
		text += fmt.Sprintf("; %s adds %s with %s", e.who(name), e.added(name, e.key), count(e.key.Rules))
	}
	return text + "."
}

// most is the sweep's setting with the most rules that a target has a round trip for.
func (e latencyEvidence) most(name string) (most stats.Setting) {
	for _, s := range stats.Settings(e.Result) {
		if s.InSweep() && s.Rules > most.Rules && stats.Added(e.Result, name, s.Case(), stats.RRP50).N > 0 {
			most = s
		}
	}
	return most
}

// added is a difference in words: "+0.31 µs [0.10, 0.52]", or that it is not one.
func (e latencyEvidence) added(name string, s stats.Setting) string {
	iv := stats.Added(e.Result, name, s.Case(), stats.RRP50)
	row, _ := stats.Find(e.rows, name, s.Case(), stats.RRAdded)
	words := difference(iv)
	if !row.Distinguishable {
		words += " (not distinguishable from zero)"
	}
	return words
}

// difference writes an interval of µs with the sign of its median.
func difference(iv stats.Interval) string {
	digits := func(v float64) string {
		text := strconv.FormatFloat(math.Abs(v), 'f', 2, 64)
		if v < 0 && text != "0.00" {
			return "−" + text
		}
		return text
	}
	sign := ""
	if !strings.HasPrefix(digits(iv.Median), "−") {
		sign = "+"
	}
	return fmt.Sprintf("%s%s µs [%s, %s]", sign, digits(iv.Median), digits(iv.Lo), digits(iv.Hi))
}

// who is how a sentence speaks of a target of this experiment.
func (e latencyEvidence) who(name string) string {
	switch name {
	case kernel:
		return "nftables on the kernel's vxlan"
	case "ovs":
		return "Open vSwitch (userspace)"
	}
	return e.title(name)
}

func count(rules int) string {
	if rules == 1 {
		return "1 rule"
	}
	return stats.Figure(float64(rules)) + " rules"
}

func firewall(s stats.Setting) string { return "a firewall with " + count(s.Rules) }

func where(s stats.Setting) string {
	text := "between two hosts"
	if s.Scenario == stats.SameHost {
		text = "within one host"
	}
	if s.Pairs > 1 {
		text += fmt.Sprintf(" with %d pairs at once", s.Pairs)
	}
	return text
}

// LatencyDUT is the target that a verdict on r is about, "" for none.
func LatencyDUT(r result.Result) string { return newLatencyEvidence(r).dut }
