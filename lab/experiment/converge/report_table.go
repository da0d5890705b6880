package converge

import (
	"fmt"
	"io"
	"strings"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/stats"
)

// writeTable writes the converge experiment's summary for a terminal: outages by case and
// target, steps, then verdict and findings.
func writeTable(w io.Writer, v view) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %-9s %7s %6s %9s %9s %9s %6s %9s %9s\n", "Outages, ms", "", "events", "outages", "p50", "p99", "longest", "flows", "lost", "× kernel")
	for _, block := range v.Blocks() {
		for i, l := range block.Lines {
			caseName := ""
			if i == 0 {
				caseName = block.Case
			}
			cells := []any{caseName, l.Target}
			for _, c := range l.Cells[:len(l.Cells)-1] {
				cells = append(cells, c)
			}
			cells = append(cells, l.Ratio)
			fmt.Fprintf(&b, "  %-10s %-9s %7s %6s %9s %9s %9s %6s %9s %9s\n", cells...)
		}
	}
	fmt.Fprintf(&b, "  %s\n\n", "flows is the median number of affected flows of an event; lost are packets of all events")
	inject.WriteSteps(&b, 32, v.StepHeads(), v.StepLines())
	for _, line := range stats.Errors(v.Result) {
		fmt.Fprintf(&b, "FAILED: %s\n", line)
	}
	return chart.WriteText(w, &b, v.Verdict)
}
