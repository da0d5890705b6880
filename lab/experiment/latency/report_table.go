package latency

import (
	"fmt"
	"io"
	"strings"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// writeTable writes the latency experiment's summary for a terminal: each metric by case
// and target, what was added, and where the time goes.
func writeTable(w io.Writer, v view) error {
	var b strings.Builder
	title := ""
	for _, m := range v.tableMetrics() {
		for _, row := range v.Summary {
			if row.Metric != m.Name || isOtherName(row.Case) {
				continue
			}
			if title != m.Title {
				title = m.Title
				fmt.Fprintf(&b, "%-38s %9s  %-19s %3s  %s\n", m.Title+", "+m.Unit, "median", "interval", "n", "against no firewall")
			}
			b.WriteString(v.tableRow(row, m))
		}
		if title == m.Title {
			b.WriteByte('\n')
		}
	}
	v.partsTable(&b)
	return chart.WriteText(w, &b, v.Verdict)
}

// isOtherName says whether a case is there by another name too: "two-hosts-on" is rules-100.
func isOtherName(caseName string) bool {
	s, ok := Policed(caseName)
	return ok && s.Case() != caseName
}

// tableMetrics are those of the terminal's table: the page has all.
func (v view) tableMetrics() []stats.Metric {
	var metrics []stats.Metric
	for _, m := range figures() {
		switch m.Name {
		case RRP50, measure.RRP9999, RR1P50, CRRRate, ConnRate, udpRRP50, UDPRate, stats.Decisive, appP50, "app_p99":
			metrics = append(metrics, m)
		}
	}
	return metrics
}

func (v view) tableRow(row result.Row, m stats.Metric) string {
	against := "–"
	added, ok := stats.Find(v.Summary, row.Target, row.Case, map[string]string{RRP50: RRAdded, RR1P50: RR1Added}[m.Name])
	switch {
	case row.Baseline == "":
		against = "1"
	case ok:
		against = timesApart(added) + " µs"
	case row.Ratio > 0:
		against = fmt.Sprintf("%s [%.2f, %.2f]", stats.Ratio(row.Ratio), row.RatioLo, row.RatioHi)
	}
	if same := row.Baseline != "" && (ok && !added.Distinguishable || !ok && !row.Distinguishable); same {
		against += " not distinguishable"
	}
	interval := fmt.Sprintf("[%s, %s]", stats.In(row.Lo, row.Unit), stats.In(row.Hi, row.Unit))
	line := fmt.Sprintf("  %-10s %-25s %9s  %-19s %3d  %s", row.Target, row.Case, stats.In(row.Median, row.Unit), interval, row.N, against)
	return strings.TrimRight(line, " ") + "\n"
}

// partsTable is where the time goes, a breakdown a paragraph.
func (v view) partsTable(b *strings.Builder) {
	for _, broken := range v.breakdowns {
		fmt.Fprintf(b, "%s, µs\n", brokenWords(broken))
		for _, s := range shares(broken) {
			fmt.Fprintf(b, "  %-36s %9s  %7s\n", s.Words, stepTime(s.US), shareOf(s.US, broken))
		}
		fmt.Fprintf(b, "  %-36s %9s\n", "measured", stats.Figure(broken.RTT.Median))
		chart.Wrap(b, "  ", "  "+sumWords(broken))
		b.WriteByte('\n')
	}
}
