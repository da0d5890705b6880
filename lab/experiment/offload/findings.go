package offload

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// aim is how many times the kernel's throughput Selvage is to carry in every state of
// the offloads.
const aim = 1.1

// evidence is a result of the offload experiment.
type evidence struct{ diagnose.Evidence }

// verdict answers whether Selvage carries more than the kernel whatever offloads there
// are. It stands on the means over all sizes.
func verdict(r result.Result) result.Verdict {
	e := evidence{diagnose.Gather(r, summarise, baseline)}
	v := result.Verdict{Findings: e.findings()}
	if why := e.refuse(); why != "" {
		v.Refuse(why, diagnose.Quieter+"the aim is a difference of a tenth, and noise above that could hide or mimic it.")
		return v
	}
	v.Headline, v.Explanation = e.answer()
	return v
}

// refuse says why no verdict is possible: there is nothing to compare, or the state on which
// it would stand, the worst, carries no conclusion.
func (e evidence) refuse() string {
	if e.DUT == "" {
		return "no target besides the kernel was measured, so there is nothing to compare"
	}
	states := WorstStates(e.Rows, e.DUT)
	if len(states) == 0 {
		return fmt.Sprintf("%s and the kernel have no complete round of any state in common", e.DUT)
	}
	for _, row := range states {
		s, _ := Streamed(row.Case)
		if why := refuse(e.Result, e.DUT, s); why != "" {
			return why
		}
	}
	return ""
}

// answer counts the states in which the aim is reached, missed, or neither can be told.
func (e evidence) answer() (headline, explanation string) {
	states := WorstStates(e.Rows, e.DUT)
	var reached, missed, open int
	for _, row := range states {
		switch {
		case row.RatioLo >= aim:
			reached++
		case row.RatioHi < aim:
			missed++
		default:
			open++
		}
	}
	worst, best := states[0], states[len(states)-1]
	least := fmt.Sprintf("least %s, %s %s", e.state(worst), stats.Ratio(worst.Ratio), diagnose.Bounds(worst))
	if len(states) > 1 {
		least += fmt.Sprintf("; most %s, %s %s", e.state(best), stats.Ratio(best.Ratio), diagnose.Bounds(best))
	}
	all := result.Counted(len(states), "state") + " of the offloads"
	name, explanation := diagnose.UpperFirst(e.Title(e.DUT)), "All are means over the sizes of writes."
	if reached == len(states) {
		return fmt.Sprintf("%s carries at least %s what the kernel does in every one of %s: %s.", name, stats.Ratio(aim), all, least), explanation
	}
	var rest []string
	if missed > 0 {
		rest = append(rest, fmt.Sprintf("misses that in %d", missed))
	}
	if open > 0 {
		rest = append(rest, fmt.Sprintf("cannot be told from it in %d", open))
	}
	return fmt.Sprintf("%s carries at least %s what the kernel does in %d of %s and %s: %s.",
		name, stats.Ratio(aim), reached, all, strings.Join(rest, " and "), least), explanation
}

// state names the state of a row.
func (e evidence) state(row result.Row) string {
	s, _ := Streamed(row.Case)
	return e.place(s)
}

// place is a stream in words: with all on, VXLAN one way. What there is one of in the whole
// result is left out.
func (e evidence) place(s Stream) string {
	words := words(s.State)
	if s.Size > 0 {
		words += " and writes of " + SizeWords(s.Size) + "B"
	}
	several := func(differs func(a, b Stream) bool) bool {
		return slices.ContainsFunc(Streams(e.Result), func(o Stream) bool { return differs(o, s) })
	}
	if several(func(a, b Stream) bool { return a.Encapsulation != b.Encapsulation }) {
		words += " in " + diagnose.InWords(s.Encapsulation)
	}
	if several(func(a, b Stream) bool { return a.BothWays != b.BothWays }) {
		words += ", " + waysWords(s.BothWays)
	}
	return words
}

func waysWords(both bool) string {
	if both {
		return "both ways"
	}
	return "one way"
}

// words is a state of the offloads in words, to follow a figure: "with all on".
func words(state string) string {
	switch state {
	case AllOn:
		return "with all on"
	case AllOff:
		return "with all off"
	}
	kind, on, _ := strings.Cut(state, "-")
	if on == "on" {
		return "with " + KindWords(kind) + " alone"
	}
	return "without " + KindWords(kind)
}

// KindWords is a kind of offload in words.
func KindWords(kind string) string {
	switch kind {
	case Segmentation:
		return "segmentation"
	case Coalescing:
		return "coalescing"
	case Checksums:
		return "checksums"
	}
	return kind
}

// underTest is the target that a verdict on r is about, "" for none.
func underTest(r result.Result) string {
	return diagnose.Gather(r, summarise, baseline).DUT
}
