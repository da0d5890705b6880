package failover

import (
	"fmt"
	"io"
	"strings"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/stats"
)

// writeTable writes the failover experiment's summary for a terminal: figures by fault,
// steps, then verdict and findings.
func writeTable(w io.Writer, v view) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-13s %5s %9s %8s %8s %5s %8s %11s %8s %9s %9s\n", "Kills", "n", "outage p50", "p99", "longest", "flows", "lost", "stall p50", "p99", "survived", "return")
	for _, l := range v.Lines() {
		cells := make([]any, len(l.Cells))
		for i, c := range l.Cells {
			cells[i] = strings.ReplaceAll(c, "\u00a0", " ")
		}
		fmt.Fprintf(&b, "  %-11s %5s %9s %8s %8s %5s %8s %11s %8s %9s %9s\n", append([]any{l.Name}, cells...)...)
	}
	fmt.Fprintf(&b, "  %s\n\n", "outages, stalls and the longest outage at the return in ms; flows and lost are medians of a kill's affected flows and packets")
	inject.WriteSteps(&b, 36, v.StepCases(), v.StepLines())
	for _, line := range stats.Errors(v.Result) {
		fmt.Fprintf(&b, "FAILED: %s\n", line)
	}
	return chart.WriteText(w, &b, v.Verdict)
}
