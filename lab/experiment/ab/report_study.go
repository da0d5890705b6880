package ab

import (
	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/stats"
)

// studyLine is one path of the FortiGate study or, beside it, of this run.
type studyLine struct {
	Path, Color                        string
	Sent, Received, Retransmits, Ratio string
}

// Reference is the FortiGate study's own table: facts of another machine, for their ratio.
func (v view) Reference() []studyLine {
	return []studyLine{
		{Path: "plain VLAN", Sent: "935", Received: "934", Retransmits: "109", Ratio: "1"},
		{Path: "VXLAN segment", Sent: "548", Received: "546", Retransmits: "179", Ratio: stats.Ratio(studyTunnel / studyPlain)},
	}
}

// Repeated are the study's columns of this run: plain and all tunnels.
func (v view) Repeated() []studyLine {
	median := func(name, metric string) string {
		var values []float64
		for _, value := range stats.Values(v.Result, name, stats.DecisiveCase, metric) {
			values = append(values, value)
		}
		if len(values) == 0 {
			return "–"
		}
		unit := "Gbit/s"
		if metric == measure.Retransmits {
			unit = "count"
		}
		return stats.In(stats.Median(values).Median, unit)
	}
	var lines []studyLine
	for _, name := range v.Names() {
		row, ok := v.Row(name, metric(stats.DecisiveCase, stats.Decisive))
		if !ok || name == "wire" {
			continue
		}
		lines = append(lines, studyLine{
			Path: name, Color: v.Color(name), Sent: median(name, measure.TCPSent), Received: stats.In(row.Median, row.Unit),
			Retransmits: median(name, measure.Retransmits), Ratio: chart.RatioLabel(row),
		})
	}
	return lines
}
