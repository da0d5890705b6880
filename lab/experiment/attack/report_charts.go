package attack

import (
	"fmt"
	"html/template"
	"strconv"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/stats"
)

// Kept draws what each target keeps of each ratio, by attack.
func (v view) Kept() []chart.Figure {
	var figures []chart.Figure
	for _, limit := range Limits(v.Result) {
		if limit.Unit != "×" {
			continue
		}
		unit := "of unattacked; the dashed rule is what must be kept"
		if limit.Metric == KeptRR {
			unit = "× unattacked; the dashed rule is what it may take; more than 2 × is at the edge"
		}
		f := chart.Figure{Title: limit.Title, Unit: unit}
		wide, drawn := v.kept(limit, 360, 120, "any")
		if !drawn {
			continue
		}
		f.Wide = wide
		figures = append(figures, f)
	}
	return figures
}

// keptEdge is where the axis of ratios ends.
const keptEdge = 2.0

// kept is a line of dots for each attack, from 0 to keptEdge.
func (v view) kept(limit Limit, width, left float64, class string) (template.HTML, bool) {
	const pitch, above, below = 24.0, 8.0, 24.0
	cases := stats.Cases(v.Result)
	c := chart.NewCanvas(width, above+pitch*float64(len(cases))+below)
	x := chart.Axis(0, keptEdge, left, width-14, false)
	bottom := above + pitch*float64(len(cases))
	for _, t := range []float64{0, 0.5, 1, 1.5, keptEdge} {
		c.Line(x(t), above, x(t), bottom, "grid")
		c.Text(x(t), bottom+16, "tick m", strconv.FormatFloat(t, 'g', -1, 64))
	}
	c.Line(x(limit.Limit), above, x(limit.Limit), bottom, "baseline")
	words, drawn := limit.Title+". ", false
	for i, caseName := range cases {
		y := above + pitch*(float64(i)+0.5)
		c.Text(left-10, y+4, "small e", caseName)
		for k, name := range v.Names() {
			row, ok := stats.Find(v.Summary, name, caseName, limit.Metric)
			if !ok {
				continue
			}
			drawn = true
			title := fmt.Sprintf("%s, %s: %s ×", name, caseName, stats.Figure(row.Median))
			words += title + ". "
			at := y + 5*(float64(k)-float64(len(v.Names())-1)/2)
			c.Open(v.Color(name), title)
			c.Line(x(min(row.Lo, keptEdge)), at, x(min(row.Hi, keptEdge)), at, "range")
			c.Dot(x(min(row.Median, keptEdge)), at, 3.6, "spot")
			c.Close()
		}
	}
	return c.SVG(class, words), drawn
}
