package problem

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	// mostAlike is how many problems that are alike stand each by itself.
	mostAlike = 5
	// namesShown is of how many the names stand in the one that stands for more.
	namesShown = 3
	// mostListed bounds what Fold leaves.
	mostListed = 100
	// mostText is of the text of one, in bytes: errors of thousands of entries may be one problem.
	mostText = 2000
)

// Fold makes one problem of many that are alike but for what they are about, in the place of the first, and one of what is beyond a
// list that can be read. Problems that are counted stay so.
func Fold(list []Problem) []Problem {
	type alike struct {
		severity Severity
		kind     string
	}
	groups := make(map[alike][]int)
	for i, p := range list {
		if p.kind != "" {
			groups[alike{p.Severity, p.kind}] = append(groups[alike{p.Severity, p.kind}], i)
		}
	}
	folded := make([]Problem, 0, min(len(list), mostListed))
	for i, p := range list {
		p.Text = short(p.Text)
		same := groups[alike{p.Severity, p.kind}]
		switch {
		case p.kind == "" || len(same) <= mostAlike:
			folded = append(folded, p)
		case same[0] == i:
			folded = append(folded, together(list, same))
		}
	}
	return cut(folded)
}

// together is one problem for those of a list at some places.
func together(list []Problem, at []int) Problem {
	var names []string
	for _, i := range at[:namesShown] {
		names = append(names, list[i].object)
	}
	first := list[at[0]]
	return Problem{
		Severity: first.Severity, Count: len(at),
		Text: fmt.Sprintf("%s and %s more: %s", strings.Join(names, ", "), Grouped(len(at)-namesShown), first.Text),
	}
}

// short leaves the beginning of a text.
func short(text string) string {
	if len(text) <= mostText {
		return text
	}
	return strings.ToValidUTF8(text[:mostText], "") + fmt.Sprintf("… and %s bytes more", Grouped(len(text)-mostText))
}

// cut leaves the worst of a list that is still too long, and says how many more there are.
func cut(list []Problem) []Problem {
	if len(list) <= mostListed {
		return list
	}
	kept, left := make([]Problem, 0, mostListed), make(map[Severity]int)
	room := mostListed - 3 // one for each severity
	for _, s := range []Severity{SeverityError, SeverityWarning, SeverityNote} {
		for _, p := range list {
			switch {
			case p.Severity != s:
			case len(kept) < room:
				kept = append(kept, p)
			default:
				left[s] += max(1, p.Count)
			}
		}
	}
	for _, s := range []Severity{SeverityError, SeverityWarning, SeverityNote} {
		if n := left[s]; n > 0 {
			kept = append(kept, Problem{Severity: s, Text: fmt.Sprintf("%s more problems, which find no room here: mend those above first", Grouped(n)), Count: n})
		}
	}
	return kept
}

// Grouped is a number with a comma between thousands.
func Grouped(n int) string {
	digits := strconv.Itoa(n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
