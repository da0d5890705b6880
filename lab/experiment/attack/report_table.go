package attack

import (
	"fmt"
	"io"
	"strings"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/stats"
)

// writeTable writes all figures by attack and target, with the verdict on each.
func writeTable(w io.Writer, v view) error {
	var b strings.Builder
	heads := []any{"Attack", "target"}
	for _, head := range v.Heads() {
		heads = append(heads, head)
	}
	const format = "%-17s %-10s %6s %8s %9s %9s %10s %14s %11s %13s"
	fmt.Fprintf(&b, format+"\n", heads...)
	limits := []any{"", ""}
	for _, limit := range v.Limits() {
		limits = append(limits, limit)
	}
	b.WriteString(strings.TrimRight(fmt.Sprintf(format, limits...), " ") + "\n")
	for _, l := range v.Figures() {
		name := ""
		if l.First {
			name = l.Case
		}
		if l.Why != "" {
			fmt.Fprintf(&b, "%-17s %-10s %s\n", name, l.Target, l.Why)
			continue
		}
		cells := []any{name, l.Target}
		for _, c := range l.Cells {
			cells = append(cells, strings.ReplaceAll(c.Value, "\u00a0", " "))
		}
		fmt.Fprintf(&b, format+"  %s\n", append(cells, v.verdict(l.Target, l.Case).Word)...)
	}
	b.WriteByte('\n')
	for _, line := range stats.Errors(v.Result) {
		fmt.Fprintf(&b, "FAILED: %s\n", line)
	}
	return chart.WriteText(w, &b, v.Verdict)
}
