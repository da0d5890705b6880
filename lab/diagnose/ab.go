package diagnose

import (
	"fmt"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// abEvidence is a result of the A/B experiment.
type abEvidence struct{ evidence }

func newABEvidence(r result.Result) abEvidence {
	return abEvidence{gather(r, stats.ABRows, stats.ABBaseline(r))}
}

// ABVerdict answers what an overlay costs in r: the sentence speaks of `selvage`
// (or of the first tunnel that was measured) against `plain`. It is refused,
// with the reason as its sentence, when stats.Refuse says so; findings are
// given all the same.
func ABVerdict(r result.Result) result.Verdict {
	e := newABEvidence(r)
	if e.baseline != plain {
		return e.buildsVerdict()
	}
	v := result.Verdict{Findings: e.findings()}
	if e.dut == "" {
		v.Refused = true
		v.Sentence = "No verdict: no target besides the baseline and the wire was measured, so there is nothing to compare."
		return v
	}
	if why := stats.Refuse(r, e.dut); why != "" {
		v.Refused = true
		v.Sentence = "No verdict: " + why + ". " + e.remedy()
		return v
	}
	v.Sentence = e.sentence()
	return v
}

// remedy is what to do against noise.
func (e abEvidence) remedy() string {
	if stats.Sliced(e.Result) {
		return "Quiet the machine, or raise --rounds."
	}
	return "Quiet the machine, or raise --rounds or --duration."
}

// ABDUT is the target that a verdict on r is about.
func ABDUT(r result.Result) string { return newABEvidence(r).dut }

// sentence is the verdict when there is one.
func (e abEvidence) sentence() string {
	row, _ := e.tcp(e.dut)
	var b strings.Builder
	fmt.Fprintf(&b, "%s carries %s Gbit/s through %s, ", upperFirst(e.title(e.dut)), stats.Figure(row.Median), e.tunnel())
	if row.Distinguishable {
		fmt.Fprintf(&b, "%s %s %s", stats.Ratio(row.Ratio), e.title(plain), bounds(row))
	} else {
		fmt.Fprintf(&b, "not distinguishable from %s (%s %s)", e.title(plain), stats.Ratio(row.Ratio), bounds(row))
	}
	for _, name := range e.tunnels() {
		if name == e.dut {
			continue
		}
		b.WriteString("; " + e.rival(name))
	}
	b.WriteString(".")
	if c, ok := e.target(e.dut); ok {
		fmt.Fprintf(&b, " Expected header tax %s, measured %s against plain.", stats.Percent(-c.HeaderTax), stats.Percent(row.Ratio-1))
	}
	return b.String()
}

// rival is the sentence's clause on another tunnel.
func (e abEvidence) rival(name string) string {
	if stats.Unreliable(e.Result, name) != "" {
		return e.title(name) + " gave no reliable figure"
	}
	row, _ := e.tcp(name)
	if row.Ratio > 0 && !row.Distinguishable {
		return fmt.Sprintf("%s is not distinguishable from it (%s)", e.title(name), stats.Ratio(row.Ratio))
	}
	return fmt.Sprintf("%s carries %s", e.title(name), stats.Ratio(row.Ratio))
}

func (e abEvidence) tcp(name string) (result.Row, bool) {
	return stats.Find(e.rows, name, stats.DecisiveCase, stats.Decisive)
}

// tunnel is the encapsulation of the subject in words: its own, or the run's. The
// kernel's is VXLAN in every run.
func (e abEvidence) tunnel() string {
	_, encap, ok := strings.Cut(e.dut, "-")
	switch {
	case ok:
		return inWords(encap)
	case e.dut == kernel:
		return "VXLAN"
	}
	return inWords(e.Parameters["encapsulation"])
}
