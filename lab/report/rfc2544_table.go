package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/selvage/selvage/lab/stats"
)

// transitTable writes the RFC 2544 experiment's summary for a terminal: rates by size
// and target, the flow sweep, then verdict and findings.
func transitTable(w io.Writer, v transitView) error {
	var b strings.Builder
	for _, direction := range v.directions() {
		v.writeRates(&b, wayWords(direction), v.sized(direction))
	}
	var swept []stats.Traffic
	for _, t := range stats.Transits(v.Result) {
		if t.Flows > 0 {
			swept = append(swept, t)
		}
	}
	if len(swept) > 0 {
		v.writeRates(&b, "Flows", swept)
	}
	return writeText(w, &b, v.Verdict)
}

// writeRates writes one table: a line for each case and target.
func (v transitView) writeRates(b *strings.Builder, title string, cases []stats.Traffic) {
	const columns = "%-25s %6s %6s %7s %13s %6s %7s %6s %6s %6s %6s %3s"
	for _, head := range [][]any{
		{title, "NDR", "PDR", "× limit", "[interval]", "egress", "line", "CPU", "time", "device", "p99", "n"},
		{"", "Mpps", "Mpps", "(NDR)", "", "Gbit/s", "%", "%", "ns/pkt", "ns/pkt", "µs", ""},
	} {
		fmt.Fprintln(b, strings.TrimRight(fmt.Sprintf(columns, head...), " "))
	}
	for _, t := range cases {
		what := sizeWords(t)
		if t.Flows > 0 {
			what = counted(float64(t.Flows))
		}
		for _, name := range v.Names() {
			row, ok := v.find(name, t, stats.NDR)
			if !ok {
				continue
			}
			ratio, interval := strings.TrimSuffix(ratioLabel(row), " ×"), ""
			if row.Baseline != "" && row.Ratio > 0 {
				interval = fmt.Sprintf("[%.2f, %.2f]", row.RatioLo, row.RatioHi)
			}
			fmt.Fprintf(b, "  %-9s %-13s %6s %6s %7s %13s %6s %7s %6s %6s %6s %6s %3d\n", what, clip(name, 13), stats.Figure(row.Median), v.value(name, t, stats.PDR), ratio, interval,
				v.value(name, t, "egress"), v.percent(name, t, "line_share"), v.percent(name, t, "cpu"), v.value(name, t, stats.NSPerPacket), v.value(name, t, stats.DeviceNS), v.value(name, t, stats.LatencyP99), row.N)
		}
	}
	b.WriteByte('\n')
}
