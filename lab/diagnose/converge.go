package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// convergeVerdict answers how fast flows go on after a move or a failure, who of the
// contenders is slower, and which step takes the time.
func convergeVerdict(r result.Result) result.Verdict {
	e := newConvergeEvidence(r)
	v := result.Verdict{Findings: e.findings()}
	cases := e.cases(e.subject)
	if len(cases) == 0 {
		v.Refused, v.Sentence = true, "No verdict: the result holds no events."
		return v
	}
	for _, kase := range cases {
		if why := stats.RefuseConverge(r, e.subject, kase); why != "" {
			v.Refused, v.Sentence = true, "No verdict: "+why+"."
			return v
		}
	}
	v.Sentence = e.sentence()
	return v
}

// convergeEvidence is a result of the converge experiment.
type convergeEvidence struct{ evidence }

// newConvergeEvidence has the baseline as its subject where nothing else was measured.
func newConvergeEvidence(r result.Result) convergeEvidence {
	e := convergeEvidence{gather(r)}
	if e.subject == "" && len(r.Samples) > 0 {
		e.subject = stats.BaselineBGP
	}
	return e
}

// cases are those in which a contender has events, also ones that failed.
func (e convergeEvidence) cases(name string) []string {
	return slices.DeleteFunc(stats.ConvergeCases(), func(kase string) bool {
		return !slices.ContainsFunc(e.Samples, func(s result.Sample) bool { return s.Case == kase && s.Contender == name })
	})
}

func (e convergeEvidence) row(name, kase, metric string) (result.Row, bool) {
	return stats.Find(e.rows, name, kase, metric)
}

// ms writes a time of the summary.
func (e convergeEvidence) ms(name, kase, metric string) string {
	row, _ := e.row(name, kase, metric)
	return stats.Figure(row.Median) + " ms"
}

// edges is how a sentence speaks of a contender's.
func (e convergeEvidence) edges(name string) string {
	if path(name) == kernel {
		return "the kernel with FRR"
	}
	return e.title(name)
}

// happened is a case, as a sentence begins.
func happened(kase string) string {
	switch kase {
	case stats.Move:
		return "After a host's move"
	case stats.EdgeLoss:
		return "After the loss of an edge"
	case stats.LinkLoss:
		return "After the loss of a link"
	case stats.RRRestart:
		return "While the route reflector starts again"
	case stats.RRLoss:
		return "Without the route reflector"
	}
	return "After " + kase
}

// unhurt says whether a contender lost nothing in a case.
func (e convergeEvidence) unhurt(name, kase string) bool {
	return stats.LostInAll(e.Result, name, kase) == 0
}

// fate is what a case did to the flows of a contender.
func (e convergeEvidence) fate(name, kase string) string {
	if e.unhurt(name, kase) {
		return "no packet was lost"
	}
	if open, all := e.unended(name, kase); open > 0 {
		return fmt.Sprintf("flows did not go on in %d of %d events", open, all)
	}
	row, _ := e.row(name, kase, stats.GapP99)
	return fmt.Sprintf("flows went on within %s (p99, n = %d)", e.ms(name, kase, stats.GapP99), row.N)
}

func (e convergeEvidence) sentence() string {
	var sentences []string
	for _, kase := range e.cases(e.subject) {
		sentences = append(sentences, happened(kase)+" "+e.fateOf(kase))
	}
	return strings.Join(sentences, ". ") + "."
}

// fateOf is what a case did to the subject, beside what it did to the baseline.
func (e convergeEvidence) fateOf(kase string) string {
	words := fmt.Sprintf("%s with %s", e.fate(e.subject, kase), e.edges(e.subject))
	if e.subject == stats.BaselineBGP || stats.RefuseConverge(e.Result, stats.BaselineBGP, kase) != "" {
		return words
	}
	return words + fmt.Sprintf("; %s with %s", e.fate(stats.BaselineBGP, kase), e.edges(stats.BaselineBGP)) + e.against(kase)
}

// against compares the subject's gaps with the baseline's.
func (e convergeEvidence) against(kase string) string {
	row, ok := e.row(e.subject, kase, stats.GapP99)
	switch {
	case !ok || e.unhurt(e.subject, kase) || e.unhurt(stats.BaselineBGP, kase) || row.Ratio == 0:
		return ""
	case !row.Distinguishable:
		return fmt.Sprintf(" (%s, not distinguishable)", stats.Ratio(row.Ratio))
	}
	return fmt.Sprintf(" (%s %s)", stats.Ratio(row.Ratio), bounds(row))
}

func (e convergeEvidence) findings() []string {
	var all []string
	for _, of := range []func(kase string) string{e.slower, e.stuck, e.aim} {
		for _, kase := range stats.ConvergeCases() {
			if finding := of(kase); finding != "" {
				all = append(all, finding)
			}
		}
	}
	for _, name := range stats.Names(e.Result) {
		for _, kase := range e.cases(name) {
			if finding := e.steps(name, kase); finding != "" {
				all = append(all, finding)
			}
		}
	}
	for _, finding := range []string{e.reflector(), e.held(), e.few()} {
		if finding != "" {
			all = append(all, finding)
		}
	}
	return all
}

// slower names who takes longer in a case, and what to look at.
func (e convergeEvidence) slower(kase string) string {
	row, ok := e.row(e.subject, kase, stats.GapP99)
	base, both := e.row(stats.BaselineBGP, kase, stats.GapP99)
	alone := e.unhurt(e.subject, kase) != e.unhurt(stats.BaselineBGP, kase) // in being hurt
	if !ok || !both || e.subject == stats.BaselineBGP || !row.Distinguishable && !alone {
		return ""
	}
	slow, fast := e.subject, stats.BaselineBGP
	if alone && e.unhurt(slow, kase) || !alone && row.Median < base.Median {
		slow, fast = fast, slow
	}
	other := "p99 " + e.ms(slow, kase, stats.GapP99) + " against " + e.ms(fast, kase, stats.GapP99)
	if e.unhurt(fast, kase) {
		other = "p99 " + e.ms(slow, kase, stats.GapP99) + "; the other loses nothing"
	}
	text := fmt.Sprintf("Slower: in %s it is %s (%s)", kase, e.edges(slow), other)
	if step, took := e.slowest(slow, kase); took.N > 0 && len(e.known(slow, kase)) > 1 {
		text += fmt.Sprintf("; most of its time passes %s (%s ms)", step.Title, stats.Figure(took.Median))
	}
	return text + "."
}

// slowest is the longest step of a contender in a case.
func (e convergeEvidence) slowest(name, kase string) (slowest stats.FailoverStep, longest result.Row) {
	for _, step := range stats.ConvergeSteps() {
		if row, ok := e.row(name, kase, step.Metric); ok && (longest.N == 0 || row.Median > longest.Median) {
			slowest, longest = step, row
		}
	}
	return slowest, longest
}

// unended is in how many events of all flows did not go on before they were undone.
func (e convergeEvidence) unended(name, kase string) (open, all int) {
	events := stats.Events(e.Result, name, kase)
	for _, s := range events {
		if s.Metrics[stats.Open] > 0 {
			open++
		}
	}
	return open, len(events)
}

// stuck names contenders whose flows did not go on by themselves.
func (e convergeEvidence) stuck(kase string) string {
	var words []string
	for _, name := range stats.Names(e.Result) {
		if open, all := e.unended(name, kase); open > 0 {
			words = append(words, fmt.Sprintf("%s in %d of %d events", e.edges(name), open, all))
		}
	}
	if len(words) == 0 {
		return ""
	}
	return fmt.Sprintf("No end: in %s flows did not go on until it was undone: %s. Their gaps last as long as they were watched.", kase, strings.Join(words, "; "))
}

// convergeAim is the longest p99 of a case that is good enough, in ms.
func convergeAim(kase string) float64 {
	switch kase {
	case stats.Move:
		return 100
	case stats.EdgeLoss:
		return 300
	}
	return 0
}

func (e convergeEvidence) aim(kase string) string {
	if stats.RefuseConverge(e.Result, selvage, kase) != "" {
		return ""
	}
	row, _ := e.row(selvage, kase, stats.GapP99)
	aim, lost := convergeAim(kase), stats.LostInAll(e.Result, selvage, kase)
	switch {
	case aim > 0 && row.Median <= aim:
		return fmt.Sprintf("Aim: Selvage's %s is to take %g ms at most at p99, and takes %s: reached.", kase, aim, e.ms(selvage, kase, stats.GapP99))
	case aim > 0:
		return fmt.Sprintf("Aim: Selvage's %s is to take %g ms at most at p99, and takes %s: missed.", kase, aim, e.ms(selvage, kase, stats.GapP99))
	case kase == stats.LinkLoss:
		return ""
	case lost == 0:
		return fmt.Sprintf("Aim: Selvage is to lose no packet in %s, and loses none: reached.", kase)
	}
	return fmt.Sprintf("Aim: Selvage is to lose no packet in %s, and loses %s in all events: missed.", kase, stats.In(lost, "count"))
}

// steps says where the time goes, and how to shorten its longest part.
func (e convergeEvidence) steps(name, kase string) string {
	words := e.known(name, kase)
	if len(words) < 2 { // all of it is one step
		return ""
	}
	text := fmt.Sprintf("Steps: %s with %s, medians one after the other: %s.", kase, e.edges(name), strings.Join(words, ", "))
	step, _ := e.slowest(name, kase)
	return text + e.cure(step.Metric)
}

// known are the steps of which something was heard, in words.
func (e convergeEvidence) known(name, kase string) []string {
	var words []string
	for _, step := range stats.ConvergeSteps() {
		if row, ok := e.row(name, kase, step.Metric); ok {
			words = append(words, fmt.Sprintf("%s ms %s", stats.Figure(row.Median), step.Title))
		}
	}
	return words
}

// cure is what shortens a step.
func (e convergeEvidence) cure(step string) string {
	switch step {
	case "step_noticed":
		return fmt.Sprintf(" Shorten the liveness interval (%s), at the price of probes and of false alarms when processes wait for a core.", e.Parameters["liveness"])
	case "step_told":
		return " Look at how the edge hears of the host (gratuitous ARP of the hypervisor), and at delays of its speaker, like FRR's coalesce-time."
	case "step_passed":
		return " It is the reflector's: FRR gathers updates for its coalesce-time before it passes them on (router bgp: coalesce-time 0), and where an edge is gone its BFD notices first."
	case "step_written":
		return " It is the edge's own, from the update to its tables: look at its processor time."
	}
	return " Tables are right long before: look at what the flows' ends and other edges still have to learn."
}

// reflector says what becomes of routes without one.
func (e convergeEvidence) reflector() string {
	if _, ok := e.row(stats.BaselineBGP, stats.RRLoss, stats.GapP50); !ok || e.unhurt(stats.BaselineBGP, stats.RRLoss) {
		return ""
	}
	return "Reflector: FRR takes the routes of a lost session out at once, so that one reflector is one too few for it; run two (--reflectors 2 kills both), or keep stale routes as Selvage does (spec.bgp.gracefulRestart.stale)."
}

// held says when the machine held up the instrument itself.
func (e convergeEvidence) held() string {
	late := stats.OfKills(slices.DeleteFunc(slices.Clone(e.Samples), func(s result.Sample) bool { return s.Error != "" }), stats.Late)
	if len(late) == 0 || slices.Max(late) < heldUp {
		return ""
	}
	return fmt.Sprintf("Machine: the source of the flows itself was held up for up to %s ms, which is taken off where no packet was lost; all hosts share its cores.", stats.Figure(slices.Max(late)))
}

// fewGaps is how many gaps a p99 needs at least to be more than their largest.
const fewGaps = 100

// few says how far the p99 can be believed.
func (e convergeEvidence) few() string {
	var words []string
	for _, row := range e.rows {
		if row.Metric == stats.GapP99 && row.N < fewGaps {
			words = append(words, fmt.Sprintf("%s %s %d", row.Contender, row.Case, row.N))
		}
	}
	if len(words) == 0 {
		return ""
	}
	return fmt.Sprintf("Quantiles: of fewer than %d gaps the p99 is the largest (%s); raise --rounds or --flows.", fewGaps, strings.Join(words, ", "))
}
