package converge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// verdict answers how fast flows go on after a move or a failure, who of the
// targets is slower, and which step takes the time.
func verdict(r result.Result) result.Verdict {
	e := newEvidence(r)
	v := result.Verdict{Findings: e.findings()}
	cases := e.cases(e.DUT)
	if len(cases) == 0 {
		v.Refuse("the result holds no events", "")
		return v
	}
	for _, caseName := range cases {
		if why := refuse(r, e.DUT, caseName); why != "" {
			v.Refuse(why, "")
			return v
		}
	}
	v.Headline, v.Explanation = e.answer()
	return v
}

// evidence is a result of the converge experiment.
type evidence struct{ diagnose.Evidence }

// newEvidence has the baseline as its subject where nothing else was measured.
func newEvidence(r result.Result) evidence {
	e := evidence{diagnose.Gather(r, summarise, baseline)}
	if e.DUT == "" && len(r.Samples) > 0 {
		e.DUT = baseline
	}
	return e
}

// cases are those in which a target has events, also ones that failed.
func (e evidence) cases(name string) []string {
	return slices.DeleteFunc(Cases(), func(caseName string) bool {
		return !slices.ContainsFunc(e.Samples, func(s result.Sample) bool { return s.Case == caseName && s.Target == name })
	})
}

func (e evidence) row(name, caseName, metric string) (result.Row, bool) {
	return stats.Find(e.Rows, name, caseName, metric)
}

// ms writes a time of the summary.
func (e evidence) ms(name, caseName, metric string) string {
	row, _ := e.row(name, caseName, metric)
	return stats.Figure(row.Median) + " ms"
}

// edges is how a sentence speaks of a target's.
func (e evidence) edges(name string) string {
	if diagnose.Path(name) == diagnose.Kernel {
		return "the kernel and FRR"
	}
	return e.Title(name)
}

// happened is a case, as a sentence begins.
func happened(caseName string) string {
	switch caseName {
	case Move:
		return "After a host moved,"
	case EdgeLoss:
		return "After an edge failed,"
	case LinkLoss:
		return "After a link failed,"
	case RRRestart:
		return "While the route reflector restarted,"
	case RRLoss:
		return "Without the route reflector,"
	}
	return "After " + caseName + ","
}

// unhurt says whether a target lost nothing in a case.
func (e evidence) unhurt(name, caseName string) bool {
	return LostInAll(e.Result, name, caseName) == 0
}

// flowResult is what a case did to the flows of a target.
func (e evidence) flowResult(name, caseName string) string {
	if e.unhurt(name, caseName) {
		return "no packet was lost"
	}
	if open, all := e.unended(name, caseName); open > 0 {
		return fmt.Sprintf("flows did not resume in %d of %d events", open, all)
	}
	row, _ := e.row(name, caseName, inject.OutageP99)
	return fmt.Sprintf("flows resumed within %s (p99, n = %d)", e.ms(name, caseName, inject.OutageP99), row.N)
}

// answer is the verdict when there is one: its headline is on the first case.
func (e evidence) answer() (headline, explanation string) {
	var sentences []string
	for _, caseName := range e.cases(e.DUT) {
		sentences = append(sentences, happened(caseName)+" "+e.flowResultOf(caseName)+".")
	}
	return sentences[0], strings.Join(sentences[1:], " ")
}

// flowResultOf is what a case did to the subject, beside what it did to the baseline.
func (e evidence) flowResultOf(caseName string) string {
	words := fmt.Sprintf("%s with %s", e.flowResult(e.DUT, caseName), e.edges(e.DUT))
	if e.DUT == baseline || refuse(e.Result, baseline, caseName) != "" {
		return words
	}
	return words + fmt.Sprintf("; %s with %s", e.flowResult(baseline, caseName), e.edges(baseline)) + e.against(caseName)
}

// against compares the subject's outages with the baseline's.
func (e evidence) against(caseName string) string {
	row, ok := e.row(e.DUT, caseName, inject.OutageP99)
	switch {
	case !ok || e.unhurt(e.DUT, caseName) || e.unhurt(baseline, caseName) || row.Ratio == 0:
		return ""
	case !row.Distinguishable:
		return fmt.Sprintf(" (%s, not distinguishable)", stats.Ratio(row.Ratio))
	}
	return fmt.Sprintf(" (%s %s)", stats.Ratio(row.Ratio), diagnose.Bounds(row))
}

func (e evidence) findings() []result.Finding {
	var all []result.Finding
	for _, of := range []func(caseName string) result.Finding{e.slower, e.stuck, e.aim} {
		for _, caseName := range Cases() {
			if finding := of(caseName); finding.Text != "" {
				all = append(all, finding)
			}
		}
	}
	for _, name := range stats.Names(e.Result) {
		for _, caseName := range e.cases(name) {
			if finding := e.steps(name, caseName); finding.Text != "" {
				all = append(all, finding)
			}
		}
	}
	for _, finding := range []result.Finding{e.reflector(), e.held(), e.few()} {
		if finding.Text != "" {
			all = append(all, finding)
		}
	}
	return all
}

// slower names who takes longer in a case, and what to look at.
func (e evidence) slower(caseName string) result.Finding {
	row, ok := e.row(e.DUT, caseName, inject.OutageP99)
	base, both := e.row(baseline, caseName, inject.OutageP99)
	alone := e.unhurt(e.DUT, caseName) != e.unhurt(baseline, caseName) // in being hurt
	if !ok || !both || e.DUT == baseline || !row.Distinguishable && !alone {
		return result.Finding{}
	}
	slow, fast := e.DUT, baseline
	if alone && e.unhurt(slow, caseName) || !alone && row.Median < base.Median {
		slow, fast = fast, slow
	}
	other := "p99 " + e.ms(slow, caseName, inject.OutageP99) + " against " + e.ms(fast, caseName, inject.OutageP99)
	if e.unhurt(fast, caseName) {
		other = "p99 " + e.ms(slow, caseName, inject.OutageP99) + "; the other target lost nothing"
	}
	found := result.Finding{Topic: "Slower", Text: fmt.Sprintf("%s in %s (%s)", e.edges(slow), caseName, other)}
	if step, took := e.slowest(slow, caseName); took.N > 0 && len(e.known(slow, caseName)) > 1 {
		found = found.And(fmt.Sprintf("; most of that time passed %s (%s ms)", step.Title, stats.Figure(took.Median)))
	}
	return found.And(".")
}

// slowest is the longest step of a target in a case.
func (e evidence) slowest(name, caseName string) (slowest inject.Step, longest result.Row) {
	for _, step := range Steps() {
		if row, ok := e.row(name, caseName, step.Metric); ok && (longest.N == 0 || row.Median > longest.Median) {
			slowest, longest = step, row
		}
	}
	return slowest, longest
}

// unended is in how many events of all flows did not go on before they were undone.
func (e evidence) unended(name, caseName string) (open, all int) {
	events := stats.Good(e.Result, name, caseName)
	for _, s := range events {
		if s.Metrics[Open] > 0 {
			open++
		}
	}
	return open, len(events)
}

// stuck names targets whose flows did not go on by themselves.
func (e evidence) stuck(caseName string) result.Finding {
	var words []string
	for _, name := range stats.Names(e.Result) {
		if open, all := e.unended(name, caseName); open > 0 {
			words = append(words, fmt.Sprintf("%s in %d of %d events", e.edges(name), open, all))
		}
	}
	if len(words) == 0 {
		return result.Finding{}
	}
	return result.Finding{Topic: "No recovery", Text: fmt.Sprintf("in %s, flows did not resume until the fault was undone: %s. Their outages are as long as they were watched.", caseName, strings.Join(words, "; "))}
}

// convergeAim is the longest p99 of a case that is good enough, in ms.
func convergeAim(caseName string) float64 {
	switch caseName {
	case Move:
		return 100
	case EdgeLoss:
		return 300
	}
	return 0
}

func (e evidence) aim(caseName string) result.Finding {
	if refuse(e.Result, diagnose.Selvage, caseName) != "" {
		return result.Finding{}
	}
	row, _ := e.row(diagnose.Selvage, caseName, inject.OutageP99)
	aim, lost := convergeAim(caseName), LostInAll(e.Result, diagnose.Selvage, caseName)
	switch {
	case aim > 0 && row.Median <= aim:
		return result.Finding{Topic: "Goal", Text: fmt.Sprintf("Selvage's outage in %s should be at most %g ms (p99), and was %s: reached.", caseName, aim, e.ms(diagnose.Selvage, caseName, inject.OutageP99))}
	case aim > 0:
		return result.Finding{Topic: "Goal", Text: fmt.Sprintf("Selvage's outage in %s should be at most %g ms (p99), and was %s: missed.", caseName, aim, e.ms(diagnose.Selvage, caseName, inject.OutageP99))}
	case caseName == LinkLoss:
		return result.Finding{}
	case lost == 0:
		return result.Finding{Topic: "Goal", Text: fmt.Sprintf("Selvage should lose no packet in %s, and lost none: reached.", caseName)}
	}
	return result.Finding{Topic: "Goal", Text: fmt.Sprintf("Selvage should lose no packet in %s, and lost %s in all events: missed.", caseName, stats.In(lost, "count"))}
}

// steps says where the time goes, and how to shorten its longest part.
func (e evidence) steps(name, caseName string) result.Finding {
	words := e.known(name, caseName)
	if len(words) < 2 { // all of it is one step
		return result.Finding{}
	}
	found := result.Finding{Topic: "Steps", Text: fmt.Sprintf("%s with %s, medians in sequence: %s.", caseName, e.edges(name), strings.Join(words, ", "))}
	step, _ := e.slowest(name, caseName)
	return found.And(e.fix(step.Metric))
}

// known are the steps of which something was heard, in words.
func (e evidence) known(name, caseName string) []string {
	var words []string
	for _, step := range Steps() {
		if row, ok := e.row(name, caseName, step.Metric); ok {
			words = append(words, fmt.Sprintf("%s ms %s", stats.Figure(row.Median), step.Title))
		}
	}
	return words
}

// fix is what shortens a step.
func (e evidence) fix(step string) string {
	switch step {
	case inject.StepNoticed:
		return fmt.Sprintf(" Shorten the detection time (%s), at the cost of more probes, and of false alarms when processes wait for a core.", inject.LivenessWords(e.Parameters))
	case stepAdvertised:
		return " Check how the edge learns of the host (gratuitous ARP of the hypervisor), and delays in its BGP speaker, such as FRR's coalesce-time."
	case stepPassed:
		return " That is the reflector: FRR batches updates for its coalesce-time (router bgp: coalesce-time 0). When an edge fails, the reflector's BFD has to detect that first."
	case inject.StepWritten:
		return " That is the edge itself, from the update to its tables: check its CPU time."
	}
	return " The tables are correct long before: check what the end systems and other edges still have to learn."
}

// reflector says what becomes of routes without one.
func (e evidence) reflector() result.Finding {
	if _, ok := e.row(baseline, RRLoss, inject.OutageP50); !ok || e.unhurt(baseline, RRLoss) {
		return result.Finding{}
	}
	return result.Finding{Topic: "Reflector", Text: "FRR removes the routes of a lost session at once, so it needs more than one reflector. Run two (--reflectors 2 kills both), or keep stale routes, as Selvage does (spec.bgp.gracefulRestart.stale)."}
}

// held says when the machine held up the instrument itself.
func (e evidence) held() result.Finding {
	late := stats.MetricOf(slices.DeleteFunc(slices.Clone(e.Samples), func(s result.Sample) bool { return s.Error != "" }), inject.Late)
	if len(late) == 0 || slices.Max(late) < inject.HeldUp {
		return result.Finding{}
	}
	return result.Finding{Topic: "Machine", Text: fmt.Sprintf("the traffic source itself stalled for up to %s ms, which is subtracted where no packet was lost; all hosts share its cores.", stats.Figure(slices.Max(late)))}
}

// fewOutages is how many outages a p99 needs at least to be more than their largest.
const fewOutages = 100

// few says how far the p99 can be believed.
func (e evidence) few() result.Finding {
	var words []string
	for _, row := range e.Rows {
		if row.Metric == inject.OutageP99 && row.N < fewOutages {
			words = append(words, fmt.Sprintf("%s %s %d", row.Target, row.Case, row.N))
		}
	}
	if len(words) == 0 {
		return result.Finding{}
	}
	return result.Finding{Topic: "Quantiles", Text: fmt.Sprintf("with fewer than %d outages, the p99 is the largest one (%s). Raise --rounds or --flows.", fewOutages, strings.Join(words, ", "))}
}

// underTest is the target that a verdict on r is about, "" for none.
func underTest(r result.Result) string { return newEvidence(r).DUT }
