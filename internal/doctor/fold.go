package doctor

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

const (
	// mostAlike is how many findings or rows that are alike stand each by itself.
	mostAlike = 3
	// namesShown is of how many the names stand in the one that stands for more.
	namesShown = 3
)

var digits = regexp.MustCompile(`\d[\d.]*(e[-+]\d+)?`)

// kind is what a finding says, but for its subject and for numbers.
func (f Finding) kind() string {
	text := strings.Join([]string{f.Check, string(f.Severity), f.What, f.Why, fmt.Sprint(len(f.Change), len(f.Or))}, "\n")
	return digits.ReplaceAllString(strings.ReplaceAll(text, f.Subject, ""), "#")
}

// Together makes one finding of many that say the same of different subjects, in the place of the first, for people to read.
func Together(findings []Finding) (folded []Finding) {
	groups := map[string][]Finding{}
	for _, f := range findings {
		groups[f.kind()] = append(groups[f.kind()], f)
	}
	seen := map[string]bool{}
	for _, f := range findings {
		switch same := groups[f.kind()]; {
		case len(same) <= mostAlike:
			folded = append(folded, f)
		case !seen[f.kind()]:
			seen[f.kind()] = true
			folded = append(folded, oneOf(same))
		}
	}
	return folded
}

// oneOf is the first of findings that are alike, with the subjects and the commands of the others.
func oneOf(same []Finding) Finding {
	f := same[0]
	f.Change, f.Or, f.Fixes = nil, nil, nil
	var subjects []string
	for _, o := range same {
		subjects = append(subjects, o.Subject)
		f.Change, f.Or = append(f.Change, o.Change...), append(f.Or, o.Or...)
	}
	f.What = fmt.Sprintf("%s; likewise %d more", f.What, len(same)-1)
	f.Subject, f.Change, f.Or = some(subjects), begin(f.Change), begin(f.Or)
	return f
}

// begin leaves the first commands.
func begin(commands []string) []string {
	if over := len(commands) - most; over > 0 {
		return append(commands[:most:most], fmt.Sprintf("# and %d more: -o json has them", over))
	}
	return commands
}

// some joins the first names, and counts the others.
func some(names []string) string {
	if over := len(names) - namesShown; over > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namesShown], ", "), over)
	}
	return strings.Join(names, ", ")
}

// Rows writes rows of a table; an empty or zero cell is "-". Many rows that differ in some columns alone are one.
func Rows(w io.Writer, rows [][]any, differ ...int) {
	groups := map[string][][]string{}
	var order []string
	for _, cells := range rows {
		texts, alike := make([]string, len(cells)), ""
		for i, cell := range cells {
			if texts[i] = fmt.Sprint(cell); texts[i] == "" || texts[i] == "0" {
				texts[i] = "-"
			}
			if !slices.Contains(differ, i) {
				alike += texts[i] + "\t"
			}
		}
		if groups[alike] == nil {
			order = append(order, alike)
		}
		groups[alike] = append(groups[alike], texts)
	}
	for _, alike := range order {
		same := groups[alike]
		if len(same) > mostAlike {
			one := slices.Clone(same[0])
			for _, i := range differ {
				var values []string
				for _, texts := range same {
					values = append(values, texts[i])
				}
				one[i] = some(values)
			}
			same = [][]string{one}
		}
		for _, texts := range same {
			fmt.Fprintln(w, strings.Join(texts, "\t"))
		}
	}
}
