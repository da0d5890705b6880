package latency

import (
	"fmt"
	"math"
	"slices"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// What the NSX firewall study's firewall of 100 rules added to a round trip, in µs.
const studyAddedLeast, studyAddedMost = 13.3, 15.7

// verdict answers what a firewall adds to a round trip.
func verdict(r result.Result) result.Verdict {
	e := newEvidence(r)
	v := result.Verdict{Findings: e.findings()}
	if why := e.refuse(); why != "" {
		v.Refuse(why, "Quiet the machine, or raise --rounds, --duration or --sample: a firewall's part of a round trip is a few percent, which noise hides or mimics.")
		return v
	}
	v.Headline = e.headline()
	return v
}

// evidence is a result of the latency experiment.
type evidence struct {
	diagnose.Evidence
	key  Setting // that the verdict stands on
	some bool    // there is one
}

// newEvidence chooses what the verdict is about: Selvage, or else the first target
// with a firewall; between two hosts, or else on one; 100 rules, or else the fewest.
func newEvidence(r result.Result) evidence {
	e := evidence{Evidence: diagnose.Summed(r, summarise, "")}
	names := e.policed()
	if len(names) == 0 {
		return e
	}
	e.DUT = names[0]
	if slices.Contains(names, diagnose.Selvage) {
		e.DUT = diagnose.Selvage
	}
	rank := func(s Setting) (rank int) {
		if s.Scenario != TwoHosts {
			rank += 4
		}
		if s.Pairs > 1 {
			rank += 2
		}
		if s.Rules != ScenarioRules {
			rank++
		}
		return rank
	}
	for _, s := range Settings(r) {
		tried := slices.ContainsFunc(r.Samples, func(sample result.Sample) bool { // also in vain
			setting, ok := Policed(sample.Case)
			return ok && setting == s && sample.Target == e.DUT
		})
		if s.Rules > 0 && tried && (!e.some || rank(s) < rank(e.key)) {
			e.key, e.some = s, true
		}
	}
	return e
}

// policed are the targets that were measured with a firewall.
func (e evidence) policed() []string {
	return slices.DeleteFunc(stats.Names(e.Result), func(name string) bool {
		return !slices.ContainsFunc(e.Samples, func(s result.Sample) bool {
			setting, ok := Policed(s.Case)
			return ok && s.Target == name && setting.Rules > 0
		})
	})
}

func (e evidence) refuse() string {
	if !e.some {
		return "no target was measured both with a firewall and without"
	}
	if !e.timed() {
		return "no round trip was measured (--measure rr)"
	}
	return refuseAdded(e.Result, e.DUT, e.key.Case())
}

// timed reports whether there are round trips, on which the verdict stands.
func (e evidence) timed() bool {
	return slices.ContainsFunc(e.Rows, func(row result.Row) bool { return row.Metric == RRP50 })
}

// headline is the verdict when there is one.
func (e evidence) headline() string {
	bare, _ := stats.Find(e.Rows, e.DUT, e.key.Without().Case(), RRP50)
	text := fmt.Sprintf("%s adds %s to the round trip of %s µs that %s takes %s",
		diagnose.UpperFirst(firewall(e.key)), e.added(e.DUT, e.key), stats.Figure(bare.Median), e.who(e.DUT), where(e.key))
	if most := e.most(e.DUT); most.Rules > e.key.Rules {
		text += fmt.Sprintf("; %s adds %s", firewall(most), e.added(e.DUT, most))
	}
	for _, name := range e.policed() {
		if name == e.DUT || Added(e.Result, name, e.key.Case(), RRP50).N == 0 {
			continue
		}
		if refuseAdded(e.Result, name, e.key.Case()) != "" {
			text += fmt.Sprintf("; %s gave no reliable figure", e.who(name))
			continue
		}
		text += fmt.Sprintf("; %s adds %s with %s", e.who(name), e.added(name, e.key), count(e.key.Rules))
	}
	return text + "."
}

// most is the sweep's setting with the most rules that a target has a round trip for.
func (e evidence) most(name string) (most Setting) {
	for _, s := range Settings(e.Result) {
		if s.InSweep() && s.Rules > most.Rules && Added(e.Result, name, s.Case(), RRP50).N > 0 {
			most = s
		}
	}
	return most
}

// added is a difference in words: "+0.31 µs [0.10, 0.52]", or that it is not one.
func (e evidence) added(name string, s Setting) string {
	iv := Added(e.Result, name, s.Case(), RRP50)
	row, _ := stats.Find(e.Rows, name, s.Case(), RRAdded)
	words := difference(iv)
	if !row.Distinguishable {
		words += " (not distinguishable from zero)"
	}
	return words
}

// difference writes an interval of µs with the sign of its median.
func difference(iv stats.Interval) string {
	below := func(v float64) bool { return v <= -0.005 } // what is less is written as zero
	digits := func(v float64) string {
		if below(v) {
			return fmt.Sprintf("−%.2f", -v)
		}
		return fmt.Sprintf("%.2f", math.Abs(v))
	}
	sign := "+"
	if below(iv.Median) {
		sign = ""
	}
	return fmt.Sprintf("%s%s µs [%s, %s]", sign, digits(iv.Median), digits(iv.Lo), digits(iv.Hi))
}

// who is how a sentence speaks of a target of this experiment.
func (e evidence) who(name string) string {
	switch name {
	case diagnose.Kernel:
		return "nftables on the kernel's vxlan"
	case "ovs":
		return "Open vSwitch (userspace)"
	}
	return e.Title(name)
}

func count(rules int) string {
	if rules == 1 {
		return "1 rule"
	}
	return stats.Figure(float64(rules)) + " rules"
}

func firewall(s Setting) string { return "a firewall with " + count(s.Rules) }

func where(s Setting) string {
	text := "between two hosts"
	if s.Scenario == SameHost {
		text = "within one host"
	}
	if s.Pairs > 1 {
		text += fmt.Sprintf(" with %d pairs at once", s.Pairs)
	}
	return text
}

// underTest is the target that a verdict on r is about, "" for none.
func underTest(r result.Result) string { return newEvidence(r).DUT }
