package mtu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// verdict answers where packets that do not fit disappear: which targets have
// a black hole, and what those that have none carry as they come.
func verdict(r result.Result) result.Verdict {
	e := evidence{diagnose.Gather(r, summarise, stats.Baseline)}
	v := result.Verdict{Findings: e.findings()}
	if why := e.refuse(); why != "" {
		v.Refuse(why, "")
		return v
	}
	v.Headline, v.Explanation = e.answer()
	return v
}

// evidence is a result of the MTU experiment.
type evidence struct{ diagnose.Evidence }

// hole says whether a target has a black hole, and whether that is known.
func (e evidence) hole(name string) (has, known bool) {
	row, ok := stats.Find(e.Rows, name, HoleCase, BlackHole)
	return row.Median == 1, ok
}

// split are the tunnels with a black hole and those without.
func (e evidence) split() (holed, whole []string) {
	for _, name := range e.Tunnels() {
		switch has, known := e.hole(name); {
		case known && has:
			holed = append(holed, name)
		case known:
			whole = append(whole, name)
		}
	}
	return holed, whole
}

// refuse says, without a final stop, why there is no verdict, "" when there is one.
func (e evidence) refuse() string {
	for _, s := range e.Samples {
		if IsHole(s.Case) && s.Error != "" {
			return fmt.Sprintf("%s of %s has an error (%s)", s.Case, s.Target, strings.TrimSpace(s.Error))
		}
	}
	if has, _ := e.hole(diagnose.Plain); has {
		return "even the plain path stalls, so the stall is not the tunnels'"
	}
	holed, whole := e.split()
	switch {
	case len(e.Tunnels()) == 0:
		return "no tunnel was measured"
	case len(holed)+len(whole) == 0:
		return "no transfer was made that could fall into a black hole"
	}
	return ""
}

// answer is the verdict when there is one.
func (e evidence) answer() (headline, explanation string) {
	holed, whole := e.split()
	guest, path := e.bytes(guestMTU), e.bytes(pathMTUParameter(append(holed, whole...)[0]))
	if len(holed) == 0 {
		return fmt.Sprintf("No black hole: with guests that assume %s bytes on a path of %s, the throughput is %s.", guest, path, e.come(whole)), ""
	}
	text := fmt.Sprintf("%s %s an MTU black hole: guests assume %s bytes, only %s pass, and no ICMP error tells them",
		diagnose.UpperFirst(e.list(holed)), has(holed), guest, path)
	if len(whole) > 0 {
		text += fmt.Sprintf("; %s %s none, and carries %s", e.list(whole), has(whole), e.come(whole))
	}
	return text + ".", e.fixed()
}

// come is what targets carry as they come.
func (e evidence) come(names []string) string {
	var words []string
	for _, name := range names {
		row, _ := stats.Find(e.Rows, name, HoleCase, stats.Decisive)
		mss, _ := stats.Find(e.Rows, name, HoleCase, measure.MSS)
		text := fmt.Sprintf("%s Gbit/s with an MSS of %s bytes", stats.Figure(row.Median), stats.Figure(mss.Median))
		if len(names) > 1 {
			text = e.Title(name) + ": " + text
		}
		words = append(words, text)
	}
	return strings.Join(words, ", ")
}

// fixed is what the fixes give to the first target that has a hole.
func (e evidence) fixed() string {
	holed, _ := e.split()
	if len(holed) == 0 {
		return ""
	}
	var words []string
	for _, fix := range Fixes(e.Result) {
		if row, ok := stats.Find(e.Rows, holed[0], fix.Case, stats.Decisive); ok {
			unit := ""
			if len(words) == 0 {
				unit = " Gbit/s"
			}
			words = append(words, fmt.Sprintf("%s%s with %s", stats.Figure(row.Median), unit, fix.Short))
		}
	}
	if len(words) == 0 {
		return ""
	}
	return fmt.Sprintf("Fixed, %s carries %s.", e.Title(holed[0]), strings.Join(words, ", "))
}

// bytes is a size among the parameters, for people.
func (e evidence) bytes(parameter string) string {
	return stats.Figure(e.Parameters.Number(parameter))
}

func (e evidence) list(names []string) string {
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = e.Title(name)
	}
	if last := len(words) - 1; last > 0 {
		return strings.Join(words[:last], ", ") + " and " + words[last]
	}
	return strings.Join(words, "")
}

func has(names []string) string {
	if len(names) > 1 {
		return "have"
	}
	return "has"
}

// samples are the good ones of a target's case, by round.
func (e evidence) samples(name, caseName string) []result.Sample {
	var found []result.Sample
	for _, s := range e.Samples {
		if s.Target == name && s.Case == caseName && s.Error == "" {
			found = append(found, s)
		}
	}
	slices.SortStableFunc(found, func(a, b result.Sample) int { return a.Round - b.Round })
	return found
}

// underTest is the target that a verdict on r is about, "" for none.
func underTest(r result.Result) string { return diagnose.Gather(r, summarise, stats.Baseline).DUT }
