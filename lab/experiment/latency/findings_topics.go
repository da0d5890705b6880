package latency

import (
	"fmt"
	"math"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Limits of what findings on latency call remarkable.
const (
	crossCheck = 0.02 // between the mean of a histogram and the time by rate
	longTail   = 2    // times the p99.99 without a firewall
	omitted    = 2    // times the closed loop's p99.99: what that left out
)

// findings goes through what the NSX firewall study asks of a latency run.
func (e evidence) findings() []result.Finding {
	return diagnose.Collect(
		e.Failed, e.noisyPolicies, e.Stolen, e.Busy, e.machine, e.FewRounds, e.crossChecked,
		e.study, e.undisturbed, e.brokenDown, e.perRule, e.connections, e.datagrams, e.bulk, e.tail, e.omission,
	)
}

// noisyPolicies speaks of targets besides the one that the verdict stands on.
func (e evidence) noisyPolicies() []result.Finding {
	var out []result.Finding
	for _, name := range e.policed() {
		if name == e.DUT || !e.some || !e.timed() {
			continue
		}
		if why := refuseAdded(e.Result, name, e.key.Case()); why != "" {
			out = append(out, result.Finding{Topic: "Noise", Text: fmt.Sprintf("%s. Do not rely on the figures of %s.", why, e.who(name))})
		}
	}
	return out
}

// machine says what the machine does that makes latency noisy.
func (e evidence) machine() []result.Finding {
	var words []string
	if governor := e.Parameters.Text(experiment.CheckGovernor); governor != "" && governor != "performance" && governor != experiment.NotVisible {
		words = append(words, "the frequency governor is "+governor+" (cpupower frequency-set -g performance)")
	}
	if e.Parameters.Bool(experiment.CheckTurbo) {
		words = append(words, "turbo changes the frequency with the load")
	}
	if e.Parameters.Bool(experiment.CheckSMT) {
		words = append(words, "cores share their hardware with a sibling (hyper-threading)")
	}
	var out []result.Finding
	if len(words) > 0 {
		out = append(out, result.Finding{Topic: "Machine", Text: strings.Join(words, "; ") + ". The NSX firewall study turned power saving off before it measured."})
	}
	if e.Parameters.Text(experiment.CheckGovernor) == experiment.NotVisible {
		out = append(out, result.Finding{Topic: "Machine", Text: "frequencies are not visible here, as on most virtual machines, so whether the physical host's power saving affects the figures is unknown. Interleaved rounds guard against it."})
	}
	return out
}

// crossChecked holds the two ways to a round trip's time against each other.
func (e evidence) crossChecked() []result.Finding {
	worst, at := 0.0, ""
	for _, s := range e.Samples {
		mean, byRate := s.Metrics[measure.RRMean], s.Metrics[measure.RRByRate]
		if s.Error != "" || mean == 0 || byRate == 0 || s.Metrics["pairs"] > 1 {
			continue
		}
		if off := math.Abs(byRate/mean - 1); off > worst {
			worst, at = off, fmt.Sprintf("%s of %s in round %d: %s µs by rate, mean %s µs", s.Case, s.Target, s.Round, stats.Figure(byRate), stats.Figure(mean))
		}
	}
	if worst <= crossCheck {
		return nil
	}
	return []result.Finding{{Topic: "Instrument", Text: fmt.Sprintf("the time by rate (10⁶ over transactions a second, netperf's way) and the histogram's mean differ by %s (%s): the instrument itself stalled between transactions. Compare medians, or quiet the machine.", stats.Share(worst), at)}}
}

// study sets the scenarios beside the NSX firewall study's.
func (e evidence) study() []result.Finding {
	var words []string
	for _, scenario := range []string{SameHost, TwoHosts} {
		s := Setting{Scenario: scenario, Rules: ScenarioRules, Pairs: 1}
		if iv := Added(e.Result, e.DUT, s.Case(), RRP50); iv.N > 0 {
			words = append(words, difference(iv)+" "+where(s))
		}
	}
	if len(words) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "Study", Text: fmt.Sprintf("the NSX firewall study's firewall added %.1f to %.1f µs with 100 rules, on other machines. %s adds %s.",
		studyAddedLeast, studyAddedMost, diagnose.UpperFirst(e.who(e.DUT)), strings.Join(words, " and "))}}
}

// undisturbed gives the differences of the fastest round trips, which say what the data path
// costs where others disturb the rest.
func (e evidence) undisturbed() []result.Finding {
	var words []string
	for _, name := range e.policed() {
		var figures []string
		for _, s := range Settings(e.Result) {
			if iv := Added(e.Result, name, s.Case(), RRP1); iv.N > 0 && s.InSweep() {
				figures = append(figures, difference(iv)+" with "+count(s.Rules))
			}
		}
		if len(figures) > 0 {
			words = append(words, e.who(name)+" adds "+strings.Join(figures, ", "))
		}
	}
	if len(words) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "Undisturbed", Text: "to the fastest 1 % of round trips, which other work on the cores hardly affects, " + strings.Join(words, "; ") + ". Where this and the median differ, the difference is noise."}}
}

// perRule is the slope over the sweep, of a connection and of a packet.
func (e evidence) perRule() []result.Finding {
	var words []string
	for _, of := range []struct{ metric, unit string }{
		{RRP50, "a round trip"}, {CRRRate, "a connection"}, {UDPRate, "a packet without a connection"},
	} {
		for _, name := range e.policed() {
			iv, rules := PerRule(e.Result, name, of.metric)
			if iv.N == 0 {
				continue
			}
			text := fmt.Sprintf("%s with %s [%s, %s]", nanoseconds(iv.Median), e.who(name), nanoseconds(iv.Lo), nanoseconds(iv.Hi))
			if iv.Lo <= 0 { // or less than nothing, which is noise
				text = "no measurable time with " + e.who(name)
			}
			words = append(words, fmt.Sprintf("%s %s (by %s)", of.unit, text, count(rules)))
		}
	}
	if len(words) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "Per rule", Text: "one more rule costs " + strings.Join(words, "; ") + ". A cost per rule is that of a list that is searched in order."}}
}

// nanoseconds writes µs, which are above 0, so that small ones keep their digits.
func nanoseconds(us float64) string {
	return stats.Figure(us*1e3) + " ns"
}

// rivals compares a rate with nftables' in each case of the sweep.
func (e evidence) rivals(topic, metric, unit string) []result.Finding {
	var words []string
	for _, s := range Settings(e.Result) {
		if !s.InSweep() || s.Rules == 1 || s.Rules == 10 {
			continue
		}
		row, ok := stats.Find(e.Rows, e.DUT, s.Case(), metric)
		if !ok {
			continue
		}
		rules := "without a firewall"
		if s.Rules > 0 {
			rules = "with " + count(s.Rules)
		}
		text := fmt.Sprintf("%s %s %s", stats.Figure(row.Median), unit, rules)
		if iv := Rival(e.Result, e.DUT, s.Case(), metric); iv.N > 0 && e.DUT != stats.Kernel {
			text += fmt.Sprintf(", %s nftables' [%.2f, %.2f]", stats.Ratio(iv.Median), iv.Lo, iv.Hi)
		} else if row.Baseline != "" {
			text += fmt.Sprintf(", %s of that without [%.2f, %.2f]", stats.Ratio(row.Ratio), row.RatioLo, row.RatioHi)
		}
		words = append(words, text)
	}
	if len(words) == 0 {
		return nil
	}
	return []result.Finding{{Topic: topic, Text: fmt.Sprintf("%s has %s.", e.who(e.DUT), strings.Join(words, "; "))}}
}

func (e evidence) connections() []result.Finding {
	return e.rivals("Connections", ConnRate, "a second, many at once,")
}

func (e evidence) datagrams() []result.Finding {
	return e.rivals("One way", UDPRate, "kpps received")
}

func (e evidence) bulk() []result.Finding {
	return e.rivals("Throughput", stats.Decisive, "Gbit/s")
}

// tail says where a firewall shows in the slowest transactions.
func (e evidence) tail() []result.Finding {
	var words []string
	for _, s := range Settings(e.Result) {
		row, ok := stats.Find(e.Rows, e.DUT, s.Case(), measure.RRP9999)
		if !ok || !row.Distinguishable || row.Ratio < longTail {
			continue
		}
		words = append(words, fmt.Sprintf("%s of the p99.99 %s (%s µs, %s)", stats.Ratio(row.Ratio), where(s), stats.Figure(row.Median), count(s.Rules)))
	}
	if len(words) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "Tail", Text: "the slowest of 10,000 transactions take longer with the firewall: " + strings.Join(words, "; ") + ". Check what runs beside the data path: log readers, garbage collection, policy changes."}}
}

// omission says what the closed loop did not see.
func (e evidence) omission() []result.Finding {
	bare := Setting{Scenario: TwoHosts, Pairs: 1}.Case()
	open, ok := stats.Find(e.Rows, e.DUT, bare, openP9999)
	closed, okClosed := stats.Find(e.Rows, e.DUT, bare, measure.RRP9999)
	if !ok || !okClosed || open.Median < omitted*closed.Median {
		return nil
	}
	return []result.Finding{{Topic: "Omission", Text: fmt.Sprintf("transactions that are due at fixed times have a p99.99 of %s µs, in a closed loop %s µs: the loop waits while the path stalls and so counts a stall once. Quote the open loop for what users experience.",
		stats.Figure(open.Median), stats.Figure(closed.Median))}}
}
