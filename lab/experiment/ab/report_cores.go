package ab

import (
	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/stats"
)

// Cores draws how each core spent the TCP transfer.
func (v view) Cores() chart.Figure {
	var groups []chart.CoreGroup
	for _, name := range v.Names() {
		groups = append(groups, chart.CoreGroup{Name: name, Color: v.Color(name), Cores: stats.Cores(v.Result, name, stats.DecisiveCase)})
	}
	return chart.CoreBars("CPU per core during TCP", groups)
}
