package ab

import (
	"fmt"
	"math"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// buildsVerdict compares targets with the first of them, row by row: builds of one data
// path, of which no headers and no tunnel explain a difference.
func (e evidence) buildsVerdict() result.Verdict {
	v := result.Verdict{Findings: diagnose.Collect(e.Failed, e.Stolen, e.FewRounds)}
	base := e.Baseline
	if lines := stats.Errors(e.Result); len(lines) > 0 {
		v.Refuse(fmt.Sprintf("%d samples failed", len(lines)), "Fix the cause and run again.")
		return v
	}
	if rounds := stats.Rounds(e.Result); rounds < stats.LeastPairs {
		v.Refuse(fmt.Sprintf("%s are fewer than the %d that a difference needs", result.Counted(rounds, "round"), stats.LeastPairs), "Raise --rounds.")
		return v
	}
	var sentences []string
	for _, name := range e.Tunnels() {
		sentence, findings := e.against(name, base)
		sentences, v.Findings = append(sentences, sentence), append(v.Findings, findings...)
	}
	if len(sentences) == 0 {
		v.Refuse("no target besides "+base+" was measured, so there is nothing to compare", "")
		return v
	}
	v.Headline, v.Explanation = sentences[0], strings.Join(sentences[1:], " ")
	return v
}

// against says in which rows a target differs from the baseline, and of each row what
// was found and what would have been.
func (e evidence) against(name, base string) (sentence string, findings []result.Finding) {
	rows := map[stats.Change][]string{}
	for _, m := range Metrics() {
		row, ok := stats.Find(e.Rows, name, m.Case, m.Name)
		if !ok || row.Baseline == "" {
			continue
		}
		change := stats.ChangeOf(row, m.Higher)
		words := diagnose.LowerFirst(m.Title)
		if change != stats.NoDifference && row.Ratio > 0 {
			words += " (" + stats.Ratio(row.Ratio) + " " + diagnose.Bounds(row) + ")"
		}
		rows[change] = append(rows[change], words)
		findings = append(findings, finding(name, m, row, change))
	}
	var parts []string
	for _, change := range []stats.Change{stats.Worse, stats.Better} {
		if len(rows[change]) > 0 {
			parts = append(parts, fmt.Sprintf("%s in %s", change, strings.Join(rows[change], ", ")))
		}
	}
	switch same := len(rows[stats.NoDifference]); {
	case len(parts) == 0:
		return fmt.Sprintf("%s against %s: no difference in any of %d figures.", name, base, same), findings
	case same > 0:
		parts = append(parts, fmt.Sprintf("no difference in %d others", same))
	}
	return fmt.Sprintf("%s against %s: %s.", name, base, strings.Join(parts, "; ")), findings
}

// finding is one row in words.
func finding(name string, m stats.Metric, row result.Row, change stats.Change) result.Finding {
	text := fmt.Sprintf("%s, %s", diagnose.LowerFirst(m.Title), change)
	if row.Ratio == 0 {
		switch apart := stats.In(math.Abs(row.Difference), row.Unit) + " " + row.Unit; {
		case row.Difference > 0:
			text += ", " + apart + " more than the baseline"
		case row.Difference < 0:
			text += ", " + apart + " less than the baseline"
		}
		return result.Finding{Topic: name, Text: text + "."}
	}
	text += fmt.Sprintf(", %s %s.", stats.Ratio(row.Ratio), diagnose.Bounds(row))
	if change == stats.NoDifference && row.SmallestEffect > 0 {
		text += " A run like this one finds a change of " + stats.Share(row.SmallestEffect) + " or more."
	}
	return result.Finding{Topic: name, Text: text}
}
