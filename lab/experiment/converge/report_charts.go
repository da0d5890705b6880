package converge

import (
	"fmt"
	"html/template"
	"math"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/stats"
)

// leastOutage is the begin of the axis of outages, in ms: less is no outage.
const leastOutage = 0.5

// outageRow is a target's outages in a case.
type outageRow struct {
	caseName, name string
	outages        []float64 // ascending
	lost           float64   // packets of all events
}

func (v view) outageRows() []outageRow {
	var rows []outageRow
	for _, caseName := range v.cases() {
		for _, name := range v.Names() {
			if outages := stats.Pooled(Affected(stats.Good(v.Result, name, caseName)), inject.OutageSeries); len(outages) > 0 {
				rows = append(rows, outageRow{caseName, name, outages, LostInAll(v.Result, name, caseName)})
			}
		}
	}
	return rows
}

// Spread draws every outage as a dot on a logarithmic axis, one row a case and target, with
// p50 and p99 marked.
func (v view) Spread() (f chart.Figure) {
	rows := v.outageRows()
	if len(rows) == 0 {
		return f
	}
	f.Title, f.Unit = "Outages of the flows", "ms, logarithmic; each dot is a flow in an event, the ticks are p50 and p99"
	f.Wide, f.Narrow = v.spread(rows, 1104, 190, "wide"), v.spread(rows, 358, 128, "narrow")
	return f
}

func (v view) spread(rows []outageRow, width, left float64, class string) template.HTML {
	const pitch, apart, above = 38.0, 14.0, 10.0
	top := leastOutage * 10
	for _, r := range rows {
		top = max(top, r.outages[len(r.outages)-1])
	}
	groups := 0
	for i, r := range rows {
		if i > 0 && r.caseName != rows[i-1].caseName {
			groups++
		}
	}
	below := above + float64(len(rows))*pitch + float64(groups)*apart
	c := chart.NewCanvas(width, below+22)
	x := outageAxis(c, top, left, width-20, above, below)
	words, y := "", above
	for i, r := range rows {
		if i > 0 && r.caseName != rows[i-1].caseName {
			y += apart
		}
		words += v.outageRow(c, r, x, y+pitch/2, i == 0 || r.caseName != rows[i-1].caseName, left) + ". "
		y += pitch
	}
	return c.SVG(class, words)
}

// outageAxis draws a logarithmic axis of ms and returns where an outage is.
func outageAxis(c *chart.Canvas, top, left, right, above, below float64) func(float64) float64 {
	end := math.Log10(top / leastOutage)
	x := func(ms float64) float64 { return left + math.Log10(max(ms, leastOutage)/leastOutage)/end*(right-left) }
	for _, t := range []float64{1, 10, 100, 1000, 10_000, 100_000} {
		if t <= top {
			c.Line(x(t), above, x(t), below, "grid")
			c.Text(x(t), below+16, "tick m", fmt.Sprintf("%g", t))
		}
	}
	return x
}

// outageRow draws a row around a height, and says what it shows.
func (v view) outageRow(c *chart.Canvas, r outageRow, x func(float64) float64, mid float64, first bool, left float64) string {
	p50, p99 := stats.Quantile(r.outages, 0.5), stats.Quantile(r.outages, 0.99)
	label := fmt.Sprintf("%s, %s: %d outages, p50 %s ms, p99 %s ms, longest %s ms, %s packets lost", r.caseName, r.name, len(r.outages),
		stats.Figure(p50), stats.Figure(p99), stats.Figure(r.outages[len(r.outages)-1]), stats.In(r.lost, "count"))
	if first {
		c.Text(0, mid+4, "name", r.caseName)
	}
	c.Open(v.Color(r.name), "")
	c.Text(left-10, mid+4, "own e", chart.Clip(r.name, 8))
	c.Close()
	c.Open(v.Color(r.name)+" cloud", label)
	for n, outage := range r.outages {
		c.Dot(x(outage), mid+float64(n*7%19-9), 2.4, "spot")
	}
	c.Close()
	c.Line(x(p50), mid-14, x(p50), mid+14, "mark")
	c.Line(x(p99), mid-14, x(p99), mid+14, "mark")
	if r.lost == 0 {
		c.Text(x(p99)+10, mid+4, "small", "no packet lost")
	}
	return label
}

// Timeline draws the median steps of each case and target, from the fault to the last
// flow that went on.
func (v view) Timeline() (f chart.Figure) {
	if len(v.stepped()) == 0 {
		return f
	}
	f.Title, f.Unit = "From the event to the last flow", "ms since the first lost packet, medians of each step"
	f.Wide, f.Narrow = v.timeline(1104, 190, 10, "wide"), v.timeline(358, 128, 4, "narrow")
	return f
}

func (v view) timeline(width, left float64, steps int, class string) template.HTML {
	const pitch, thick, above, right = 26.0, 14.0, 4.0, 60.0
	cases := v.stepped()
	below := above + float64(len(cases)*len(v.Names()))*pitch
	c := chart.NewCanvas(width, below+22)
	x := inject.TimeAxis(c, v.longestSteps(), left, width-right, above, below, steps)
	words := "Median steps. "
	y := above
	for _, caseName := range cases {
		for i, name := range v.Names() {
			if i == 0 {
				c.Text(0, y+17, "name", caseName)
			}
			c.Open(v.Color(name), "")
			c.Text(left-10, y+17, "own e", chart.Clip(name, 8))
			c.Close()
			words += fmt.Sprintf("%s, %s: ", caseName, name)
			at := 0.0
			for s, step := range Steps() {
				row, ok := v.find(name, caseName, step.Metric)
				if !ok {
					continue
				}
				label := fmt.Sprintf("%s ms %s", stats.Figure(row.Median), step.Title)
				c.Open(inject.StepColor(s), label)
				c.Rect(x(at), y+6, x(at+row.Median)-x(at), thick, 0, "bar")
				c.Close()
				at += row.Median
				words += label + ", "
			}
			c.Text(x(at)+8, y+17, "small", stats.Figure(at)+" ms")
			words += fmt.Sprintf("%s ms in all. ", stats.Figure(at))
			y += pitch
		}
	}
	return c.SVG(class, words)
}

// longestSteps is the end of the time axis, in ms.
func (v view) longestSteps() float64 {
	top := 1.0
	for _, caseName := range v.stepped() {
		for _, name := range v.Names() {
			sum := 0.0
			for _, step := range Steps() {
				row, _ := v.find(name, caseName, step.Metric)
				sum += row.Median
			}
			top = max(top, sum)
		}
	}
	return top
}
