package compare

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Table writes a report for a terminal: each metric by target, what was allowed and the notes, and
// how many rows have which verdict.
func (r Report) Table(w io.Writer) error {
	var b strings.Builder
	for _, run := range []struct {
		name string
		Run
	}{{"old", r.Old}, {"new", r.New}} {
		fmt.Fprintf(&b, "%s  %s, %s", run.name, run.Name, run.Started.UTC().Format(time.DateTime))
		if run.Version != "" {
			fmt.Fprintf(&b, ", selvage %s", run.Version)
		}
		b.WriteByte('\n')
	}
	for _, d := range r.Allowed {
		fmt.Fprintf(&b, "allowed  %s\n", d)
	}
	head, skipped := "", map[string]int{}
	for _, row := range r.Rows {
		if row.Verdict == NotCompared && row.Ratio == 0 && row.Difference == 0 && row.Why != "" {
			skipped[row.Why]++
			continue
		}
		if title := row.Metric + ", " + row.Case; title != head {
			head = title
			fmt.Fprintf(&b, "\n%-38s %9s %9s  %7s  %s\n", chart.Clip(title+", "+row.Unit, 38), "old", "new", "new/old", "interval")
		}
		b.WriteString(row.text())
	}
	b.WriteByte('\n')
	for _, why := range slices.Sorted(maps.Keys(skipped)) {
		chart.Wrap(&b, "  ", fmt.Sprintf("%s not compared: %s.", result.Counted(skipped[why], "row"), why))
	}
	for _, note := range r.Notes {
		chart.Wrap(&b, "  ", "Note: "+strings.TrimSuffix(note, ".")+".")
	}
	chart.Wrap(&b, "  ", r.Sentence())
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// text is a row's line.
func (row Row) text() string {
	ratio, interval := "–", ""
	switch {
	case row.Ratio > 0:
		ratio, interval = stats.BareRatio(row.Ratio), fmt.Sprintf("[%.3f, %.3f]", row.RatioLo, row.RatioHi)
	case row.Verdict != NotCompared || row.Difference != 0:
		interval = fmt.Sprintf("%+.3g [%.3g, %.3g] %s", row.Difference, row.DifferenceLo, row.DifferenceHi, row.Unit)
	}
	if row.Baseline != "" {
		interval += " of ratios to " + row.Baseline
	}
	verdict := row.Verdict
	switch {
	case row.Why != "":
		verdict += ": " + row.Why
	case row.Verdict == NoDifference && row.Ratio > 0:
		verdict += ", sees " + stats.Share(row.SmallestEffect)
	case row.Verdict == NoDifference:
		verdict += fmt.Sprintf(", sees %.3g %s", row.SmallestEffect, row.Unit)
	}
	return fmt.Sprintf("  %-36s %9s %9s  %7s  %s, %s\n", chart.Clip(row.Target, 36), stats.In(row.Old.Median, row.Unit), stats.In(row.New.Median, row.Unit), ratio, interval, verdict)
}

// Sentence counts the verdicts.
func (r Report) Sentence() string {
	var words []string
	for _, verdict := range []string{Worse, Better, Lower, Higher, NoDifference, NotCompared} {
		if n := len(r.Of(verdict)); n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, verdict))
		}
	}
	return fmt.Sprintf("Of %d rows: %s. Intervals are Wilcoxon's of rank sums with %.2g %% confidence, so one row in a hundred differs by chance; “sees” is the smallest change that nine of ten comparisons like this one would find.",
		len(r.Rows), strings.Join(words, ", "), 100*stats.PairedConfidence)
}
