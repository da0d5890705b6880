package failover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// verdict answers what kills cost: how long flows were silent, what survived, and
// which step from fault to forwarding took longest.
func verdict(r result.Result) result.Verdict {
	e := newEvidence(r)
	v := result.Verdict{Findings: e.findings()}
	if why := refuse(r, e.DUT); why != "" {
		v.Refuse(why, "")
		return v
	}
	v.Headline, v.Explanation = e.answer()
	return v
}

// evidence is a result of the failover experiment.
type evidence struct {
	diagnose.Evidence
	what  string // was killed: the case of all kills
	kills []result.Sample
}

func newEvidence(r result.Result) evidence {
	e := evidence{Evidence: diagnose.Gather(r, summarise, "")}
	if cases := cases(r); len(cases) > 0 {
		e.what = cases[0]
	}
	e.kills = Kills(r, e.DUT, e.what)
	return e
}

// value is the median of a row of the summary, 0 without one.
func (e evidence) value(caseName, metric string) float64 {
	row, _ := stats.Find(e.Rows, e.DUT, caseName, metric)
	return row.Median
}

// ms writes a time of the summary.
func (e evidence) ms(caseName, metric string) string {
	return stats.Figure(e.value(caseName, metric)) + " ms"
}

// connections are how many went on, and how many there were.
func (e evidence) connections() (on, all float64) {
	for _, k := range e.kills {
		on, all = on+k.Metrics[inject.WentOn], all+k.Metrics[inject.Connections]
	}
	return on, all
}

// affected says whether any flow noticed a kill.
func (e evidence) affected() bool { return len(stats.Pooled(e.kills, inject.OutageSeries)) > 0 }

// answer is the verdict when there is one.
func (e evidence) answer() (headline, explanation string) {
	on, all := e.connections()
	survived := fmt.Sprintf("%s of %s TCP connections survived", stats.Figure(on), stats.Figure(all))
	if on == all {
		survived = fmt.Sprintf("all %s TCP connections survived", stats.Figure(all))
	}
	if !e.affected() {
		return fmt.Sprintf("%s %s; no flow was affected, no packet was lost, and %s.", killed(e.what), times(len(e.kills)), survived), ""
	}
	headline = fmt.Sprintf("%s %s; affected flows were silent for %s (p50), %s (p99), at most %s, and %s.",
		killed(e.what), times(len(e.kills)), e.ms(e.what, inject.OutageP50), e.ms(e.what, inject.OutageP99), e.ms(e.what, inject.OutageMax), survived)
	if step, row := e.slowest(); row.N > 0 {
		explanation = fmt.Sprintf("The slowest step was the time %s: %s ms of the %s until the first packet.", step.Title, stats.Figure(row.Median), e.ms(e.what, inject.Repair))
	}
	return headline, explanation
}

// killed is what was done, as a sentence begins.
func killed(what string) string {
	switch what {
	case "gateway":
		return "The active gateway was killed"
	case "tep":
		return "One of two tunnel endpoints was cut off"
	case "edge":
		return "An edge's process was killed and restarted"
	}
	return diagnose.UpperFirst(what) + " was killed"
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// repair are the steps to the first packet; what follows is not the edges' alone.
func repair() []inject.Step {
	steps := Steps()
	return steps[:len(steps)-1]
}

// slowest is the step to the first packet that took longest.
func (e evidence) slowest() (slowest inject.Step, longest result.Row) {
	for _, step := range repair() {
		if row, ok := stats.Find(e.Rows, e.DUT, e.what, step.Metric); ok && (longest.N == 0 || row.Median > longest.Median) {
			slowest, longest = step, row
		}
	}
	return slowest, longest
}

func (e evidence) findings() []result.Finding {
	var all []result.Finding
	for _, finding := range []result.Finding{e.faults(), e.steps(), e.advice(), e.aims(), e.stalls(), e.broken(), e.back(), e.held(), e.peer()} {
		if finding.Text != "" {
			all = append(all, finding)
		}
	}
	return all
}

// faults compares the ways to kill.
func (e evidence) faults() result.Finding {
	var words []string
	for _, caseName := range cases(e.Result) {
		_, how := Killed(caseName)
		kills := Kills(e.Result, e.DUT, caseName)
		switch {
		case how == "" || len(kills) == 0:
		case len(stats.Pooled(kills, inject.OutageSeries)) == 0:
			words = append(words, fmt.Sprintf("%s affected no flow", how))
		default:
			words = append(words, fmt.Sprintf("%s %s (p50), %s at most", how, e.ms(caseName, inject.OutageP50), e.ms(caseName, inject.OutageMax)))
		}
	}
	if len(words) == 0 {
		return result.Finding{}
	}
	return result.Finding{Topic: "By fault", Text: strings.Join(words, "; ") + "."}
}

// steps says where the time goes.
func (e evidence) steps() result.Finding {
	var words []string
	for _, step := range Steps() {
		if row, ok := stats.Find(e.Rows, e.DUT, e.what, step.Metric); ok {
			words = append(words, fmt.Sprintf("%s ms %s", stats.Figure(row.Median), step.Title))
		}
	}
	if len(words) == 0 {
		return result.Finding{}
	}
	found := result.Finding{Topic: "Steps", Text: "medians from fault to forwarding, in sequence: " + strings.Join(words, ", ") + "."}
	if _, ok := stats.Find(e.Rows, e.DUT, e.what, inject.StepWritten); !ok {
		found = found.And(" These edges do not report when they wrote their tables, so that time is part of the step after detection.")
	}
	return found
}

// advice is what to tune: what shortens the slowest step.
func (e evidence) advice() result.Finding {
	step, row := e.slowest()
	if row.N == 0 {
		return result.Finding{}
	}
	switch step.Metric {
	case inject.StepNoticed:
		detection := inject.InMS(inject.Detection(e.Parameters))
		if detection > 0 && row.Median > 2*detection {
			return result.Finding{Topic: "Tune", Text: fmt.Sprintf("BFD should detect the failure within %s ms (%s) and took %s. Check that the edges' processes get enough CPU time, and raise their priority (systemd: CPUWeight).",
				stats.Figure(detection), inject.LivenessWords(e.Parameters), stats.Figure(row.Median))}
		}
		return result.Finding{Topic: "Tune", Text: fmt.Sprintf("most of the time is failure detection (%s). Lower spec.underlay.bfd.interval to shorten it, at the cost of more probes, and of false alarms when an edge's process waits for a core.",
			inject.LivenessWords(e.Parameters))}
	case inject.StepWritten:
		return result.Finding{Topic: "Tune", Text: "the edges take long to write their tables; check their load, and the number of egress policies."}
	case stepAnnounced:
		return result.Finding{Topic: "Tune", Text: "the new owner takes long to announce the addresses; smaller pools take less."}
	}
	return result.Finding{Topic: "Tune", Text: "the edges finish long before packets flow. Check what learns the moved addresses behind them: switches that limit or delay gratuitous ARP, and hosts that ignore it (net.ipv4.conf.*.arp_accept matters for new entries only)."}
}

// Aims of the gateways' failover, in ms.
const (
	failoverLimit = 1000
	failoverAim   = 300
)

func (e evidence) aims() result.Finding {
	if e.what != "gateway" || !e.affected() {
		return result.Finding{}
	}
	p50, p99 := e.value(e.what, inject.OutageP50), e.value(e.what, inject.OutageP99)
	switch {
	case p99 >= failoverLimit:
		return result.Finding{Topic: "Goal", Text: fmt.Sprintf("p99 below %d ms: missed.", failoverLimit)}
	case p50 > failoverAim:
		return result.Finding{Topic: "Goal", Text: fmt.Sprintf("p99 below %d ms: reached; p50 of at most %d ms: missed.", failoverLimit, failoverAim)}
	}
	return result.Finding{Topic: "Goal", Text: fmt.Sprintf("p99 below %d ms: reached; p50 of at most %d ms: reached.", failoverLimit, failoverAim)}
}

// stalls says how TCP saw it.
func (e evidence) stalls() result.Finding {
	if !e.affected() {
		return result.Finding{}
	}
	return result.Finding{Topic: "Connections", Text: fmt.Sprintf("answers came %s (p50) and %s (p99) later than usual. TCP retransmits after 200, 400 and 800 ms, so it may use a new path well after it is up.",
		e.ms(e.what, inject.StallP50), e.ms(e.what, inject.StallP99))}
}

// broken names the kills that connections did not survive.
func (e evidence) broken() result.Finding {
	var words []string
	for _, k := range e.kills {
		if lost := k.Metrics[inject.Connections] - k.Metrics[inject.WentOn]; lost > 0 {
			words = append(words, fmt.Sprintf("%s in kill %d (%s)", stats.Figure(lost), k.Round, k.Case))
		}
	}
	if len(words) == 0 {
		return result.Finding{}
	}
	if more := len(words) - 5; more > 0 {
		words = append(words[:5], fmt.Sprintf("and in %d more", more))
	}
	return result.Finding{Topic: "Lost connections", Text: strings.Join(words, ", ") + ". Check that sessions are replicated: selvage egress on both gateways."}
}

// back says what the return of what was killed cost.
func (e evidence) back() result.Finding {
	if e.what == "edge" || len(e.kills) == 0 {
		return result.Finding{}
	}
	lost := 0.0
	for _, k := range e.kills {
		lost += k.Metrics[inject.ReturnLost]
	}
	found := result.Finding{Topic: "Return", Text: fmt.Sprintf("when it came back, %s packets were lost over all kills, and the longest outage was %s", stats.Figure(lost), e.ms(e.what, inject.ReturnMax))}
	if worst := e.value(e.what, inject.ReturnSurvived); worst < e.value(e.what, inject.Survived) {
		return found.And(fmt.Sprintf("; as few as %.1f %% of a kill's connections survived that.", 100*worst))
	}
	return found.And("; no connection was lost.")
}

// held says when the machine held up the instrument itself.
func (e evidence) held() result.Finding {
	late := stats.MetricOf(e.kills, inject.Late)
	if len(late) == 0 || slices.Max(late) < inject.HeldUp {
		return result.Finding{}
	}
	return result.Finding{Topic: "Machine", Text: fmt.Sprintf("the traffic source itself stalled for up to %s ms, which is subtracted where no packet was lost. Edges that start need the cores that they share with the traffic.", stats.Figure(slices.Max(late)))}
}

// peer says why nothing else is in the table.
func (e evidence) peer() result.Finding {
	switch e.what {
	case "gateway":
		return result.Finding{Topic: "No comparison", Text: "the kernel's vxlan and nftables have no gateway failover. VRRP and conntrackd are separate programs with timers of their own."}
	case "tep":
		return result.Finding{Topic: "No comparison", Text: "a vxlan device of the kernel has one local endpoint and no BFD."}
	}
	return result.Finding{}
}

// underTest is the target that a verdict on r is about, "" for none.
func underTest(r result.Result) string { return diagnose.Gather(r, summarise, "").DUT }
