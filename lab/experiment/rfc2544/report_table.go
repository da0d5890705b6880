package rfc2544

import (
	"fmt"
	"io"
	"strings"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
)

// writeTable writes the RFC 2544 experiment's summary for a terminal: rates by size
// and target, the flow sweep, then verdict and findings.
func writeTable(w io.Writer, v view) error {
	var b strings.Builder
	for _, direction := range v.directions() {
		v.writeRates(&b, wayWords(direction), v.sized(direction))
	}
	var swept []Traffic
	for _, t := range Transits(v.Result) {
		if t.Flows > 0 {
			swept = append(swept, t)
		}
	}
	if len(swept) > 0 {
		v.writeRates(&b, "Flows", swept)
	}
	return chart.WriteText(w, &b, v.Verdict)
}

// writeRates writes one table: a line for each case and target.
func (v view) writeRates(b *strings.Builder, title string, cases []Traffic) {
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
			what = chart.Counted(float64(t.Flows))
		}
		for _, name := range v.Names() {
			row, ok := v.find(name, t, transit.NDR)
			if !ok {
				continue
			}
			ratio, interval := chart.BareRatioLabel(row), ""
			if row.Baseline != "" && row.Ratio > 0 {
				interval = fmt.Sprintf("[%.2f, %.2f]", row.RatioLo, row.RatioHi)
			}
			fmt.Fprintf(b, "  %-9s %-13s %6s %6s %7s %13s %6s %7s %6s %6s %6s %6s %3d\n", what, chart.Clip(name, 13), stats.Figure(row.Median), v.value(name, t, transit.PDR), ratio, interval,
				v.value(name, t, egressRate), v.percent(name, t, lineShare), v.percent(name, t, cpuShare), v.value(name, t, transit.NSPerPacket), v.value(name, t, transit.DeviceNS), v.value(name, t, transit.LatencyP99), row.N)
		}
	}
	b.WriteByte('\n')
}
