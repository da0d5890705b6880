package egress

import (
	"fmt"
	"io"
	"strings"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/stats"
)

// writeTable writes the ladders of all settings, what else was measured by stage, and the
// verdict.
func writeTable(w io.Writer, v view) error {
	var b strings.Builder
	for _, t := range v.Tables() {
		fmt.Fprintf(&b, "%s (%s)\n", t.Title, t.Note)
		fmt.Fprintf(&b, "  %-18s %-8s %8s %8s  %7s  %8s  %-20s %8s %9s %8s\n",
			"", "stage", "sent", "received", "× node", "lost", "interval", "headers", "CPU s/GB", "retrans")
		for _, l := range t.Lines {
			line := fmt.Sprintf("  %-18s %-8s %8s %8s  %7s  %8s  %-20s %8s %9s %8s", l.Name, l.Stage, l.Sent, l.Received, l.Node, l.Loss, l.Interval, l.Header, l.CPU, l.Retransmits)
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
		b.WriteByte('\n')
	}
	for _, m := range []struct{ metric, title string }{
		{RRP50, "Round trip p50, 1 byte, µs"}, {ConnRate, "Connections a second"},
		{NATKept, "Throughput, NAT against routed, ×"}, {TCPRival, "Throughput against the kernel, ×"},
		{ConnRival, "Connections against the kernel, ×"}, {HopsRival, "Throughput against plain over as many hops, ×"},
		{ConnAdded, "A connection beyond node to node, µs"},
	} {
		head := false
		for _, row := range v.Summary {
			if row.Metric != m.metric {
				continue
			}
			if !head {
				fmt.Fprintf(&b, "%-46s %9s  %-17s %3s  %s\n", m.title, "median", "interval", "n", "against")
				head = true
			}
			against := ""
			if row.Baseline != "" && row.Ratio > 0 {
				against = fmt.Sprintf("%.2f × %s", row.Ratio, row.Baseline)
				if !row.Distinguishable {
					against += ", not distinguishable"
				}
			}
			line := fmt.Sprintf("  %-18s %-25s %9s  %-17s %3d  %s", row.Target, row.Case, stats.In(row.Median, row.Unit),
				fmt.Sprintf("[%s, %s]", stats.In(row.Lo, row.Unit), stats.In(row.Hi, row.Unit)), row.N, against)
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
		if head {
			b.WriteByte('\n')
		}
	}
	return chart.WriteText(w, &b, v.Verdict)
}
