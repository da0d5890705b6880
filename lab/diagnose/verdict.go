// Package diagnose reads a result as an engineer would: one sentence that
// answers the experiment's question, and findings that name cause, evidence and
// advice.
//
// Its invariant: pure, and every measured figure in its words can be found in the result
// it was given. Where the result does not carry a conclusion it refuses one and
// says why. Do not use it to judge across two machines.
package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Names of targets with a part of their own in the words below.
const (
	wire    = "wire"
	limit   = stats.Limit
	plain   = stats.Baseline
	kernel  = "kernel"
	selvage = "selvage"
)

// evidence is a result with what all findings need of it worked out once.
type evidence struct {
	result.Result
	rows []result.Row
	dut  string // the target that the verdict is about, "" for none
}

// Verdict answers what an overlay costs in r: the sentence speaks of `selvage`
// (or of the first tunnel that was measured) against `plain`. It is refused,
// with the reason as its sentence, when stats.Refuse says so; findings are
// given all the same. Other experiments have verdicts of their own: which targets
// have a black hole, how much of the machine's limit transit reaches, what the flow
// cache saves, what a firewall adds to a round trip.
func Verdict(r result.Result) result.Verdict {
	switch r.Experiment {
	case stats.MTU:
		return mtuVerdict(r)
	case stats.RFC2544:
		return transitVerdict(r)
	case stats.Cache:
		return cacheVerdict(r)
	case stats.Latency:
		return latencyVerdict(r)
	case stats.Failover:
		return failoverVerdict(r)
	case stats.Offload:
		return offloadVerdict(r)
	case stats.Egress:
		return egressVerdict(r)
	case stats.Converge:
		return convergeVerdict(r)
	case stats.Attack:
		return attackVerdict(r)
	}
	e := gather(r)
	if stats.BaselineOf(r) != plain {
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
func (e evidence) remedy() string {
	if stats.Sliced(e.Result) {
		return "Quiet the machine, or raise --rounds."
	}
	return "Quiet the machine, or raise --rounds or --duration."
}

// DUT is the target that a verdict on r is about: `selvage`, else the first
// that is neither the baseline nor the wire, "" when there is none.
func DUT(r result.Result) string {
	if r.Experiment == stats.Latency {
		return newLatencyEvidence(r).dut
	}
	if r.Experiment == stats.Egress {
		return newEgressEvidence(r).dut
	}
	if r.Experiment == stats.Converge {
		return newConvergeEvidence(r).dut
	}
	return gather(r).dut
}

// summed is the evidence without a subject.
func summed(r result.Result) evidence {
	e := evidence{Result: r, rows: r.Summary}
	if len(e.rows) == 0 {
		e.rows = stats.Summarise(r)
	}
	return e
}

func gather(r result.Result) evidence {
	e := summed(r)
	tunnels := e.tunnels()
	ours := slices.IndexFunc(tunnels, func(name string) bool { return path(name) == selvage })
	switch {
	case slices.Contains(tunnels, selvage):
		e.dut = selvage
	case ours >= 0:
		e.dut = tunnels[ours]
	case len(tunnels) > 0:
		e.dut = tunnels[0]
	}
	return e
}

// tunnels are the targets that are neither the baseline nor its limit.
func (e evidence) tunnels() []string {
	return slices.DeleteFunc(stats.Names(e.Result), func(name string) bool {
		return name == stats.BaselineOf(e.Result) || name == wire || name == limit
	})
}

// sentence is the verdict when there is one.
func (e evidence) sentence() string {
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
func (e evidence) rival(name string) string {
	if stats.Unreliable(e.Result, name) != "" {
		return e.title(name) + " gave no reliable figure"
	}
	row, _ := e.tcp(name)
	if row.Ratio > 0 && !row.Distinguishable {
		return fmt.Sprintf("%s is not distinguishable from it (%s)", e.title(name), stats.Ratio(row.Ratio))
	}
	return fmt.Sprintf("%s carries %s", e.title(name), stats.Ratio(row.Ratio))
}

func (e evidence) tcp(name string) (result.Row, bool) {
	return stats.Find(e.rows, name, stats.DecisiveCase, stats.Decisive)
}

func (e evidence) target(name string) (result.Target, bool) {
	i := slices.IndexFunc(e.Targets, func(c result.Target) bool { return c.Name == name })
	if i < 0 {
		return result.Target{}, false
	}
	return e.Targets[i], true
}

// path is the data path of a target: "selvage" of "selvage-geneve".
func path(name string) string {
	path, _, _ := strings.Cut(name, "-")
	return path
}

// tunnel is the encapsulation of the subject in words: its own, or the run's. The
// kernel's is VXLAN in every run.
func (e evidence) tunnel() string {
	_, encap, ok := strings.Cut(e.dut, "-")
	switch {
	case ok:
		return inWords(encap)
	case e.dut == kernel:
		return "VXLAN"
	}
	return inWords(e.Parameters["encapsulation"])
}

// inWords is an encapsulation as its standard writes it.
func inWords(encap string) string {
	switch encap {
	case "":
		return "VXLAN"
	case "geneve":
		return "Geneve"
	}
	return strings.ToUpper(encap)
}

// routed says whether client and server were in different subnets.
func (e evidence) routed() bool { return e.Parameters["routed"] == "true" }

// title is how a sentence speaks of a target.
func (e evidence) title(name string) string {
	_, encap, ok := strings.Cut(name, "-")
	switch path(name) {
	case wire:
		return "the bare wire"
	case limit:
		return "a bare redirect"
	case plain:
		if e.routed() {
			return "plain routing"
		}
		return "the plain bridge"
	case kernel:
		return "the kernel's vxlan"
	case selvage:
		if ok {
			return "Selvage's " + inWords(encap)
		}
		return "Selvage"
	case "ovs":
		if ok {
			return "Open vSwitch (userspace, " + inWords(encap) + ")"
		}
		return "Open vSwitch (userspace)"
	}
	return name
}

// bounds is the interval of a ratio.
func bounds(row result.Row) string {
	return fmt.Sprintf("[%.2f, %.2f]", row.RatioLo, row.RatioHi)
}

// upperFirst starts a sentence with a name of title; those are ASCII.
func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
