package rfc2544

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
)

// verdict answers how much of the machine's limit a data path leaves: of the
// smallest frames that were sent into the tunnel, without loss.
func verdict(r result.Result) result.Verdict {
	e := evidence{diagnose.Gather(r, summarise, stats.Limit)}
	v := result.Verdict{Findings: e.findings()}
	switch why := e.refuse(); {
	case e.DUT == "":
		v.Refuse("nothing but the limit was measured, so there is nothing to compare", "")
	case why != "":
		v.Refuse(why, diagnose.Quieter+transit.Noisy)
	default:
		v.Headline, v.Explanation = e.answer()
	}
	return v
}

// evidence is a result of the RFC 2544 experiment.
type evidence struct{ diagnose.Evidence }

// key is the case that a verdict stands on: the smallest frames on the way into the
// tunnel, with the subject and the limit measured; else the first case of the subject.
func (e evidence) key() (Traffic, bool) {
	all := slices.DeleteFunc(Transits(e.Result), func(t Traffic) bool {
		_, ok := e.rate(e.DUT, t, transit.NDR)
		return !ok
	})
	if len(all) == 0 {
		return Traffic{}, false
	}
	for _, t := range all {
		if _, ok := e.rate(stats.Limit, t, transit.NDR); ok {
			return t, true
		}
	}
	return all[0], true
}

func (e evidence) rate(name string, t Traffic, metric string) (result.Row, bool) {
	return stats.Find(e.Rows, name, t.Case(), metric)
}

// metric is what a target is judged by in a case: its NDR, or its PDR when there is
// no rate without loss.
func (e evidence) metric(name string, t Traffic) string {
	if row, ok := e.rate(name, t, transit.NDR); ok && row.Median > 0 {
		return transit.NDR
	}
	return transit.PDR
}

// refuse says, without a final stop, why there is no verdict, "" when there is one.
func (e evidence) refuse() string {
	key, ok := e.key()
	if !ok {
		if lines := stats.Errors(e.Result); len(lines) > 0 {
			return "no rate of " + e.title(e.DUT) + " was found (" + lines[0] + ")"
		}
		return "no rate of " + e.title(e.DUT) + " was found"
	}
	metric := e.metric(e.DUT, key)
	if row, ok := e.rate(e.DUT, key, metric); !ok || row.Median == 0 {
		return e.title(e.DUT) + " forwards nothing within the tolerance, so there is no rate to compare"
	}
	return transit.RefuseRate(e.Result, key.Case(), metric, stats.Limit, e.DUT)
}

// answer is the verdict when there is one.
func (e evidence) answer() (headline, explanation string) {
	key, _ := e.key()
	metric := e.metric(e.DUT, key)
	row, _ := e.rate(e.DUT, key, metric)
	var b strings.Builder
	fmt.Fprintf(&b, "%s forwards %s Mpps of %s %s", diagnose.UpperFirst(e.title(e.DUT)), stats.Figure(row.Median), frames(key), e.way(key))
	if metric == transit.NDR {
		b.WriteString(" without loss, ")
	} else {
		fmt.Fprintf(&b, " with at most %s loss (PDR met), and at no rate without loss (NDR not met), ", e.tolerance())
	}
	fmt.Fprintf(&b, "%s the machine's limit %s", stats.Ratio(row.Ratio), diagnose.Bounds(row))
	var rivals []string
	for _, name := range e.Tunnels() {
		if other, ok := e.rate(name, key, metric); ok && name != e.DUT && other.Ratio > 0 {
			rivals = append(rivals, fmt.Sprintf("%s %s", e.title(name), stats.Ratio(other.Ratio)))
		}
	}
	if len(rivals) > 0 {
		b.WriteString("; " + strings.Join(rivals, ", "))
	}
	b.WriteString(".")
	var more []string
	if pdr, ok := e.rate(e.DUT, key, transit.PDR); ok && metric == transit.NDR {
		more = append(more, fmt.Sprintf("With up to %s loss it is %s Mpps.", e.tolerance(), stats.Figure(pdr.Median)))
	}
	return b.String(), strings.Join(append(more, e.wayBack(key)...), " ")
}

// wayBack is the same size in the other directions.
func (e evidence) wayBack(key Traffic) []string {
	var words []string
	for _, direction := range []string{transit.Encap, transit.Decap, transit.Both} {
		other := key
		other.Direction = direction
		if row, ok := e.rate(e.DUT, other, transit.NDR); ok && direction != key.Direction && row.Median > 0 && row.Ratio > 0 {
			words = append(words, fmt.Sprintf("%s %s Mpps (%s)", e.way(other), stats.Figure(row.Median), stats.Ratio(row.Ratio)))
		}
	}
	if len(words) == 0 {
		return nil
	}
	return []string{diagnose.UpperFirst(strings.Join(words, ", ")) + "."}
}

// frames says what a case sends.
func frames(t Traffic) string {
	if t.Size == 0 {
		return "an IMIX"
	}
	return fmt.Sprintf("%d-byte frames", t.Size)
}

// way says where a case sends it.
func (e evidence) way(t Traffic) string {
	ways := map[string]string{transit.Encap: "into ", transit.Decap: "out of ", transit.Both: "into and out of "}
	text := ways[t.Direction] + e.tunnel()
	if t.Pairs > 1 {
		text += fmt.Sprintf(" over %d uplinks", t.Pairs)
	}
	if t.Flows > 0 {
		text += " with " + diagnose.Flows(t.Flows)
	}
	return text
}

// tunnel is the subject's encapsulation in words.
func (e evidence) tunnel() string {
	if _, encap, ok := strings.Cut(e.DUT, "-"); ok && slices.Contains([]string{"vxlan", "geneve", "nvgre"}, encap) {
		return diagnose.InWords(encap)
	}
	if e.DUT == diagnose.Kernel {
		return "VXLAN"
	}
	return diagnose.InWords(e.Parameters.Text("encapsulation"))
}

// tolerance is the PDR's loss in words.
func (e evidence) tolerance() string { return Tolerance(e.Result) }

// title is how a sentence speaks of a target of this experiment.
func (e evidence) title(name string) string {
	switch name {
	case stats.Limit:
		return "the machine's limit"
	case diagnose.Kernel:
		return "the kernel's routing and vxlan"
	case "kernel-route":
		return "the kernel's routing without a tunnel"
	case diagnose.Selvage + "-tc":
		return "Selvage on tc"
	}
	return e.Evidence.Title(name)
}

// underTest is the target that a verdict on r is about, "" for none.
func underTest(r result.Result) string { return diagnose.Gather(r, summarise, stats.Limit).DUT }
