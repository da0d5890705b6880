package egress

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// verdict answers what each stage of the EgressGateway study's stages keeps of the lowest: with the
// wires' rate where there is one, since there each host has its own share of the work, as
// hosts of their own have.
func verdict(r result.Result) result.Verdict {
	e := newEvidence(r)
	v := result.Verdict{Findings: e.findings()}
	switch why := refuse(r, e.DUT, e.setting); {
	case e.DUT == "":
		v.Refuse("no tunnel was measured, so there are no stages to compare", "")
	case why != "":
		v.Refuse(why, "Quiet the machine, lower --wire, or raise --rounds or --duration: a stage loses a few percent on good paths, which noise hides or mimics.")
	default:
		v.Headline, v.Explanation = e.answer()
	}
	return v
}

// evidence is a result of the egress experiment.
type evidence struct {
	diagnose.Evidence
	setting Stage // in which the verdict is given
}

func newEvidence(r result.Result) evidence {
	e := evidence{Evidence: diagnose.Summed(r, summarise, "")}
	cases := stats.Cases(r)
	e.setting.Free = !slices.Contains(cases, StageTunnel) && !slices.Contains(cases, StageEgress)
	for _, name := range e.climbers() {
		if e.DUT == "" || name == diagnose.Selvage {
			e.DUT = name
		}
	}
	return e
}

// climbers are the targets that have all stages.
func (e evidence) climbers() []string {
	return slices.DeleteFunc(stats.Names(e.Result), func(name string) bool {
		return name == Routing || baseOf(name) != name
	})
}

// rivals are the climbers beside the subject.
func (e evidence) rivals() []string {
	return slices.DeleteFunc(e.climbers(), func(name string) bool { return name == e.DUT })
}

func (e evidence) find(name string, stage Stage, metric string) (result.Row, bool) {
	return stats.Find(e.Rows, name, stage.Case(), metric)
}

// at is a stage in the verdict's setting, and unlimitedAt is one without the wires' rate.
func (e evidence) at(name string) Stage { return e.setting.At(name) }
func unlimitedAt(name string) Stage     { return Stage{Name: name, Free: true} }

// title is how a sentence speaks of a target.
func (e evidence) title(name string) string {
	switch name {
	case Routing:
		return "routing without a tunnel"
	case stats.Kernel:
		return "the kernel"
	}
	return e.Evidence.Title(name)
}

// wire is the wires' rate in words, "" without one.
func (e evidence) wire() string {
	if e.setting.Free {
		return ""
	}
	return rateWords(e.Parameters)
}

// answer is the verdict when there is one.
func (e evidence) answer() (headline, explanation string) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s keeps %s of node-to-node throughput through the tunnel, and %s through the gateway with NAT",
		diagnose.UpperFirst(e.title(e.DUT)), e.kept(e.DUT, StageTunnel), e.kept(e.DUT, StageEgress))
	if wire := e.wire(); wire != "" {
		b.WriteString(", on wires of " + wire)
	}
	for _, name := range e.rivals() {
		tunnel, okTunnel := e.find(name, e.at(StageTunnel), stats.Decisive)
		egress, okEgress := e.find(name, e.at(StageEgress), stats.Decisive)
		if okTunnel && okEgress && refuse(e.Result, name, e.setting) == "" {
			fmt.Fprintf(&b, "; %s keeps %.3f × and %.3f ×", e.title(name), tunnel.Ratio, egress.Ratio)
		}
	}
	b.WriteString(".")
	var sentences []string
	if c, ok := e.Target(e.DUT); ok {
		sentences = append(sentences, fmt.Sprintf("Headers alone would leave %.3f ×.", 1-c.HeaderTax))
	}
	sentences = append(append(sentences, e.unlimited()...), e.opened()...)
	return b.String(), strings.Join(sentences, " ")
}

// kept is the ratio of a stage to the lowest one with its interval.
func (e evidence) kept(name, stage string) string {
	row, _ := e.find(name, e.at(stage), stats.Decisive)
	return fmt.Sprintf("%.3f × [%.3f, %.3f]", row.Ratio, row.RatioLo, row.RatioHi)
}

// unlimited is what egress carries where the cores are the limit.
func (e evidence) unlimited() []string {
	row, ok := e.find(e.DUT, unlimitedAt(StageEgress), stats.Decisive)
	if !ok {
		return nil
	}
	text := fmt.Sprintf("Where the shared cores are the limit, egress carries %s Gbit/s", stats.Figure(row.Median))
	if rival, ok := e.find(e.DUT, unlimitedAt(StageEgress), TCPRival); ok {
		text += fmt.Sprintf(", %s the kernel %s", stats.Ratio(rival.Ratio), diagnose.Bounds(rival))
	}
	if nat, ok := e.find(e.DUT, unlimitedAt(StageEgress), NATKept); ok {
		text += fmt.Sprintf(", and NAT keeps %.3f × %s of routed throughput on the same edge", nat.Ratio, diagnose.Bounds(nat))
	}
	return []string{text + "."}
}

// opened is how many connections a second are translated.
func (e evidence) opened() []string {
	row, ok := e.find(e.DUT, Stage{Name: StageEgress}, ConnRate)
	if !ok {
		return nil
	}
	text := fmt.Sprintf("It opens %s connections a second", stats.Figure(row.Median))
	if rival, ok := e.find(e.DUT, Stage{Name: StageEgress}, ConnRival); ok {
		text += fmt.Sprintf(", %s the kernel's masquerade %s", stats.Ratio(rival.Ratio), diagnose.Bounds(rival))
	}
	return []string{text + "."}
}

// underTest is the target that a verdict on r is about, "" for none.
func underTest(r result.Result) string { return newEvidence(r).DUT }
