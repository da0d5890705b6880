package ab

import (
	"fmt"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// evidence is a result of the A/B experiment.
type evidence struct{ diagnose.Evidence }

func newEvidence(r result.Result) evidence {
	return evidence{diagnose.Gather(r, summarise, baselineOf(r))}
}

// verdict answers what an overlay costs in r: the sentence speaks of `selvage`
// (or of the first tunnel that was measured) against `plain`. It is refused,
// with the reason, when stats.Refuse says so; findings are
// given all the same.
func verdict(r result.Result) result.Verdict {
	e := newEvidence(r)
	if e.Baseline != diagnose.Plain {
		return e.buildsVerdict()
	}
	v := result.Verdict{Findings: e.findings()}
	if e.DUT == "" {
		v.Refuse("no target besides the baseline and the wire was measured, so there is nothing to compare", "")
		return v
	}
	if why := stats.Refuse(r, e.DUT); why != "" {
		v.Refuse(why, e.remedy())
		return v
	}
	v.Headline, v.Explanation = e.answer()
	return v
}

// remedy is what to do against noise, and why.
func (e evidence) remedy() string {
	const why = "the kernel's own tunnel costs about 18 %, and noise above half of that could hide or mimic such a cost."
	if stats.Sliced(e.Result) {
		return "Quiet the machine, or raise --rounds: " + why
	}
	return diagnose.Quieter + why
}

// underTest is the target that a verdict on r is about.
func underTest(r result.Result) string { return newEvidence(r).DUT }

// answer is the verdict when there is one.
func (e evidence) answer() (headline, explanation string) {
	row, _ := e.tcp(e.DUT)
	var b strings.Builder
	fmt.Fprintf(&b, "%s carries %s Gbit/s through %s, ", diagnose.UpperFirst(e.Title(e.DUT)), stats.Figure(row.Median), e.tunnel())
	if row.Distinguishable {
		fmt.Fprintf(&b, "%s %s %s", stats.Ratio(row.Ratio), e.Title(diagnose.Plain), diagnose.Bounds(row))
	} else {
		fmt.Fprintf(&b, "not distinguishable from %s (%s %s)", e.Title(diagnose.Plain), stats.Ratio(row.Ratio), diagnose.Bounds(row))
	}
	for _, name := range e.Tunnels() {
		if name == e.DUT {
			continue
		}
		b.WriteString("; " + e.rival(name))
	}
	b.WriteString(".")
	if c, ok := e.Target(e.DUT); ok {
		explanation = fmt.Sprintf("Expected header tax %s, measured %s against plain.", stats.Percent(-c.HeaderTax), stats.Percent(row.Ratio-1))
	}
	return b.String(), explanation
}

// rival is the sentence's clause on another tunnel.
func (e evidence) rival(name string) string {
	if stats.Unreliable(e.Result, name) != "" {
		return e.Title(name) + " gave no reliable figure"
	}
	row, _ := e.tcp(name)
	if row.Ratio > 0 && !row.Distinguishable {
		return fmt.Sprintf("%s is not distinguishable from it (%s)", e.Title(name), stats.Ratio(row.Ratio))
	}
	return fmt.Sprintf("%s carries %s", e.Title(name), stats.Ratio(row.Ratio))
}

func (e evidence) tcp(name string) (result.Row, bool) {
	return stats.Find(e.Rows, name, stats.DecisiveCase, stats.Decisive)
}

// tunnel is the encapsulation of the subject in words: its own, or the run's. The
// kernel's is VXLAN in every run.
func (e evidence) tunnel() string {
	_, encap, ok := strings.Cut(e.DUT, "-")
	switch {
	case ok:
		return diagnose.InWords(encap)
	case e.DUT == diagnose.Kernel:
		return "VXLAN"
	}
	return diagnose.InWords(e.Parameters.Text("encapsulation"))
}
