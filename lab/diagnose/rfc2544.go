package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// RFC2544Verdict answers how much of the machine's limit a data path leaves: of the
// smallest frames that were sent into the tunnel, without loss.
func RFC2544Verdict(r result.Result) result.Verdict {
	e := transitEvidence{gather(r, stats.RFC2544Rows, stats.Limit)}
	v := result.Verdict{Findings: e.findings()}
	switch why := e.refuse(); {
	case e.dut == "":
		v.Refused, v.Sentence = true, "No verdict: nothing but the limit was measured, so there is nothing to compare."
	case why != "":
		v.Refused, v.Sentence = true, "No verdict: "+why+". Quiet the machine, or raise --rounds or --duration."
	default:
		v.Sentence = e.sentence()
	}
	return v
}

// transitEvidence is a result of the RFC 2544 experiment.
type transitEvidence struct{ evidence }

// key is the case that a verdict stands on: the smallest frames on the way into the
// tunnel, with the subject and the limit measured; else the first case of the subject.
func (e transitEvidence) key() (stats.Traffic, bool) {
	all := slices.DeleteFunc(stats.Transits(e.Result), func(t stats.Traffic) bool {
		_, ok := e.rate(e.dut, t, stats.NDR)
		return !ok
	})
	if len(all) == 0 {
		return stats.Traffic{}, false
	}
	for _, t := range all {
		if _, ok := e.rate(stats.Limit, t, stats.NDR); ok {
			return t, true
		}
	}
	return all[0], true
}

func (e transitEvidence) rate(name string, t stats.Traffic, metric string) (result.Row, bool) {
	return stats.Find(e.rows, name, t.Case(), metric)
}

// metric is what a target is judged by in a case: its NDR, or its PDR when there is
// no rate without loss.
func (e transitEvidence) metric(name string, t stats.Traffic) string {
	if row, ok := e.rate(name, t, stats.NDR); ok && row.Median > 0 {
		return stats.NDR
	}
	return stats.PDR
}

// refuse says, without a final stop, why there is no verdict, "" when there is one.
func (e transitEvidence) refuse() string {
	key, ok := e.key()
	if !ok {
		if lines := stats.Errors(e.Result); len(lines) > 0 {
			return "no rate of " + e.title(e.dut) + " was found (" + lines[0] + ")"
		}
		return "no rate of " + e.title(e.dut) + " was found"
	}
	metric := e.metric(e.dut, key)
	if row, ok := e.rate(e.dut, key, metric); !ok || row.Median == 0 {
		return e.title(e.dut) + " forwards nothing within the tolerance, so there is no rate to compare"
	}
	return stats.RefuseRate(e.Result, key.Case(), metric, stats.Limit, e.dut)
}

func (e transitEvidence) sentence() string {
	key, _ := e.key()
	metric := e.metric(e.dut, key)
	row, _ := e.rate(e.dut, key, metric)
	var b strings.Builder
	fmt.Fprintf(&b, "%s forwards %s Mpps of %s %s", upperFirst(e.title(e.dut)), stats.Figure(row.Median), frames(key), e.way(key))
	if metric == stats.NDR {
		b.WriteString(" without loss, ")
	} else {
		fmt.Fprintf(&b, " with at most %s loss (PDR met), and at no rate without loss (NDR not met), ", e.tolerance())
	}
	fmt.Fprintf(&b, "%s the machine's limit %s", stats.Ratio(row.Ratio), bounds(row))
	var rivals []string
	for _, name := range e.tunnels() {
		if other, ok := e.rate(name, key, metric); ok && name != e.dut && other.Ratio > 0 {
			rivals = append(rivals, fmt.Sprintf("%s %s", e.title(name), stats.Ratio(other.Ratio)))
		}
	}
	if len(rivals) > 0 {
		b.WriteString("; " + strings.Join(rivals, ", "))
	}
	b.WriteString(".")
	if pdr, ok := e.rate(e.dut, key, stats.PDR); ok && metric == stats.NDR {
		fmt.Fprintf(&b, " With up to %s loss it is %s Mpps.", e.tolerance(), stats.Figure(pdr.Median))
	}
	b.WriteString(e.wayBack(key))
	return b.String()
}

// wayBack is the same size in the other directions.
func (e transitEvidence) wayBack(key stats.Traffic) string {
	var words []string
	for _, direction := range []string{stats.Encap, stats.Decap, stats.Both} {
		other := key
		other.Direction = direction
		if row, ok := e.rate(e.dut, other, stats.NDR); ok && direction != key.Direction && row.Median > 0 && row.Ratio > 0 {
			words = append(words, fmt.Sprintf("%s %s Mpps (%s)", e.way(other), stats.Figure(row.Median), stats.Ratio(row.Ratio)))
		}
	}
	if len(words) == 0 {
		return ""
	}
	return " " + upperFirst(strings.Join(words, ", ")) + "."
}

// frames says what a case sends.
func frames(t stats.Traffic) string {
	if t.Size == 0 {
		return "an IMIX"
	}
	return fmt.Sprintf("%d-byte frames", t.Size)
}

// way says where a case sends it.
func (e transitEvidence) way(t stats.Traffic) string {
	ways := map[string]string{stats.Encap: "into ", stats.Decap: "out of ", stats.Both: "into and out of "}
	text := ways[t.Direction] + e.tunnel()
	if t.Pairs > 1 {
		text += fmt.Sprintf(" over %d uplinks", t.Pairs)
	}
	if t.Flows > 0 {
		text += " with " + flows(t.Flows)
	}
	return text
}

func flows(n int) string {
	if n == 1 {
		return "1 flow"
	}
	return stats.Figure(float64(n)) + " flows"
}

// tunnel is the subject's encapsulation in words.
func (e transitEvidence) tunnel() string {
	if _, encap, ok := strings.Cut(e.dut, "-"); ok && slices.Contains([]string{"vxlan", "geneve", "nvgre"}, encap) {
		return inWords(encap)
	}
	if e.dut == kernel {
		return "VXLAN"
	}
	return inWords(e.Parameters["encapsulation"])
}

// tolerance is the PDR's loss in words.
func (e transitEvidence) tolerance() string { return stats.Tolerance(e.Result) }

// title is how a sentence speaks of a target of this experiment.
func (e transitEvidence) title(name string) string {
	switch name {
	case stats.Limit:
		return "the machine's limit"
	case kernel:
		return "the kernel's routing and vxlan"
	case "kernel-route":
		return "the kernel's routing without a tunnel"
	case selvage + "-tc":
		return "Selvage on tc"
	}
	return e.evidence.title(name)
}

// RFC2544DUT is the target that a verdict on r is about, "" for none.
func RFC2544DUT(r result.Result) string { return gather(r, stats.RFC2544Rows, stats.Limit).dut }
