package mtu

import (
	"fmt"
	"io"
	"strings"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/stats"
)

// writeTable writes the MTU experiment's summary for a terminal: who has a black hole,
// what arrives, throughput by case, then verdict and findings.
func writeTable(w io.Writer, v view) error {
	var b strings.Builder
	v.writeHoles(&b)
	v.writeSizes(&b)
	v.writeThroughput(&b)
	return chart.WriteText(w, &b, v.Verdict)
}

func (v view) writeHoles(b *strings.Builder) {
	fmt.Fprintf(b, "%-18s %11s  %-12s %-12s %-12s %-12s\n", "Black hole", "", "to server", "to client", "IPv6 to srv", "IPv6 to cli")
	for _, l := range v.Transfers() {
		row, ok := v.find(l.Name, HoleCase, BlackHole)
		if !ok {
			continue
		}
		fmt.Fprintf(b, "  %-16s %11s", l.Name, map[bool]string{true: "BLACK HOLE", false: "none"}[row.Median == 1])
		for _, c := range l.Cells[:4] {
			value := strings.ReplaceAll(c.Value, "\u00a0", " ")
			if c.Class == "bad" {
				value = "stalls"
			}
			fmt.Fprintf(b, "  %-11s", value)
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
}

func (v view) writeSizes(b *strings.Builder) {
	fmt.Fprintf(b, "%-18s %11s  %-12s %-12s %-12s %-12s\n", "Largest packet", "bytes", "to server", "to client", "IPv6 to srv", "IPv6 to cli")
	for _, l := range v.Largest() {
		fmt.Fprintf(b, "  %-16s %11s", l.Name, "")
		for _, c := range l.Cells[:4] {
			fmt.Fprintf(b, "  %-11s", c.Value)
		}
		b.WriteString("\n")
		fmt.Fprintf(b, "  %-16s %11s", "", "")
		for _, c := range l.Cells[:4] {
			fmt.Fprintf(b, "  %-11s", c.Note)
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
}

func (v view) writeThroughput(b *strings.Builder) {
	fmt.Fprintf(b, "%-38s %9s  %-17s %3s  %7s  %6s\n", "TCP throughput, Gbit/s", "median", "interval", "n", "× plain", "MSS")
	for _, caseName := range stats.Cases(v.Result) {
		for _, name := range v.Names() {
			row, ok := v.find(name, caseName, stats.Decisive)
			if !ok {
				continue
			}
			mss, _ := v.find(name, caseName, measure.MSS)
			ratio := stats.BareRatio(row.Ratio)
			if name == stats.Baseline {
				ratio = "1"
			}
			fmt.Fprintf(b, "  %-20s %-15s %9s  %-17s %3d  %7s  %6s\n", caseName, name, stats.Figure(row.Median),
				fmt.Sprintf("[%s, %s]", stats.Figure(row.Lo), stats.Figure(row.Hi)), row.N, ratio, stats.Figure(mss.Median))
		}
	}
	b.WriteByte('\n')
}
