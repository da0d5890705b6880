package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// EgressVerdict answers what each stage of the EgressGateway study's stages keeps of the lowest: with the
// wires' rate where there is one, since there each host has its own share of the work, as
// hosts of their own have.
func EgressVerdict(r result.Result) result.Verdict {
	e := newEgressEvidence(r)
	v := result.Verdict{Findings: e.findings()}
	switch why := stats.RefuseEgress(r, e.dut, e.setting); {
	case e.dut == "":
		v.Refused, v.Sentence = true, "No verdict: no tunnel was measured, so there are no stages to compare."
	case why != "":
		v.Refused, v.Sentence = true, "No verdict: "+why+". Quiet the machine, lower --wire, or raise --rounds or --duration."
	default:
		v.Sentence = e.sentence()
	}
	return v
}

// egressEvidence is a result of the egress experiment.
type egressEvidence struct {
	evidence
	setting stats.Stage // in which the verdict is given
}

func newEgressEvidence(r result.Result) egressEvidence {
	e := egressEvidence{evidence: summed(r, stats.EgressRows, "")}
	cases := stats.Cases(r)
	e.setting.Free = !slices.Contains(cases, stats.StageTunnel) && !slices.Contains(cases, stats.StageEgress)
	for _, name := range e.climbers() {
		if e.dut == "" || name == selvage {
			e.dut = name
		}
	}
	return e
}

// climbers are the targets that have all stages.
func (e egressEvidence) climbers() []string {
	return slices.DeleteFunc(stats.Names(e.Result), func(name string) bool {
		return name == stats.Routing || stats.EgressBase(name) != name
	})
}

// rivals are the climbers beside the subject.
func (e egressEvidence) rivals() []string {
	return slices.DeleteFunc(e.climbers(), func(name string) bool { return name == e.dut })
}

func (e egressEvidence) find(name string, stage stats.Stage, metric string) (result.Row, bool) {
	return stats.Find(e.rows, name, stage.Case(), metric)
}

// at is a stage in the verdict's setting, and unlimitedAt is one without the wires' rate.
func (e egressEvidence) at(name string) stats.Stage { return e.setting.At(name) }
func unlimitedAt(name string) stats.Stage           { return stats.Stage{Name: name, Free: true} }

// title is how a sentence speaks of a target.
func (e egressEvidence) title(name string) string {
	switch name {
	case stats.Routing:
		return "routing without a tunnel"
	case stats.Nftables:
		return "the kernel"
	}
	return e.evidence.title(name)
}

// wire is the wires' rate in words, "" without one.
func (e egressEvidence) wire() string {
	rate := e.Parameters["wire_gbit"]
	if e.setting.Free || rate == "" {
		return ""
	}
	return rate + " Gbit/s"
}

// sentence is the verdict when there is one.
func (e egressEvidence) sentence() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s keeps %s of node-to-node throughput through the tunnel, and %s through the gateway with NAT",
		upperFirst(e.title(e.dut)), e.kept(e.dut, stats.StageTunnel), e.kept(e.dut, stats.StageEgress))
	if wire := e.wire(); wire != "" {
		b.WriteString(", on wires of " + wire)
	}
	for _, name := range e.rivals() {
		tunnel, okTunnel := e.find(name, e.at(stats.StageTunnel), stats.Decisive)
		egress, okEgress := e.find(name, e.at(stats.StageEgress), stats.Decisive)
		if okTunnel && okEgress && stats.RefuseEgress(e.Result, name, e.setting) == "" {
			fmt.Fprintf(&b, "; %s keeps %.3f × and %.3f ×", e.title(name), tunnel.Ratio, egress.Ratio)
		}
	}
	b.WriteString(".")
	if c, ok := e.target(e.dut); ok {
		fmt.Fprintf(&b, " Headers alone would leave %.3f ×.", 1-c.HeaderTax)
	}
	return b.String() + e.unlimited() + e.opened()
}

// kept is the ratio of a stage to the lowest one with its interval.
func (e egressEvidence) kept(name, stage string) string {
	row, _ := e.find(name, e.at(stage), stats.Decisive)
	return fmt.Sprintf("%.3f × [%.3f, %.3f]", row.Ratio, row.RatioLo, row.RatioHi)
}

// unlimited is what egress carries where the cores are the limit.
func (e egressEvidence) unlimited() string {
	row, ok := e.find(e.dut, unlimitedAt(stats.StageEgress), stats.Decisive)
	if !ok {
		return ""
	}
	text := fmt.Sprintf(" Where the shared cores are the limit, egress carries %s Gbit/s", stats.Figure(row.Median))
	if rival, ok := e.find(e.dut, unlimitedAt(stats.StageEgress), stats.TCPRival); ok {
		text += fmt.Sprintf(", %s the kernel %s", stats.Ratio(rival.Ratio), bounds(rival))
	}
	if nat, ok := e.find(e.dut, unlimitedAt(stats.StageEgress), stats.NATKept); ok {
		text += fmt.Sprintf(", and NAT keeps %.3f × %s of routed throughput on the same edge", nat.Ratio, bounds(nat))
	}
	return text + "."
}

// opened is how many connections a second are translated.
func (e egressEvidence) opened() string {
	row, ok := e.find(e.dut, stats.Stage{Name: stats.StageEgress}, stats.ConnRate)
	if !ok {
		return ""
	}
	text := fmt.Sprintf(" It opens %s connections a second", stats.Figure(row.Median))
	if rival, ok := e.find(e.dut, stats.Stage{Name: stats.StageEgress}, stats.ConnRival); ok {
		text += fmt.Sprintf(", %s the kernel's masquerade %s", stats.Ratio(rival.Ratio), bounds(rival))
	}
	return text + "."
}

// EgressDUT is the target that a verdict on r is about, "" for none.
func EgressDUT(r result.Result) string { return newEgressEvidence(r).dut }
