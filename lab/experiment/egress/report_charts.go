package egress

import (
	"fmt"
	"html/template"
	"slices"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// stageBar is one bar of a stages's picture.
type stageBar struct {
	stage         string
	ratio, lo, hi float64 // to node to node
	value         string  // Gbit/s
	left          float64 // what headers alone would leave
}

// Wired and Free draw what each stage keeps of node to node, with the wires' rate and
// without; the study's own ladders are beside the first.
func (v view) Wired() []chart.Figure {
	figures := v.ladders(Stage{})
	if len(figures) == 0 {
		return nil
	}
	var studies []chart.Figure
	for i, s := range v.Studies() {
		var bars []stageBar
		for k, stage := range studyStages() {
			bars = append(bars, stageBar{stage: stage, ratio: s.kept[stage], value: s.Lines[k].Received})
		}
		studies = append(studies, chart.Figure{Title: []string{"EgressGateway study, physical", "EgressGateway study, virtual"}[i], Unit: s.Note, Wide: stagesPanel(bars, "k-none", s.Title)})
	}
	return append(figures, studies...)
}

// Free is Wired without a rate.
func (v view) Free() []chart.Figure { return v.ladders(Stage{Free: true}) }

// Reversed is Wired towards the workload.
func (v view) Reversed() []chart.Figure { return v.ladders(Stage{Reverse: true}) }

// ladders are a panel a target, the subject's first.
func (v view) ladders(setting Stage) []chart.Figure {
	var figures []chart.Figure
	names := slices.Clone(v.Names())
	slices.SortStableFunc(names, func(a, b string) int { return v.place(a) - v.place(b) })
	for _, name := range names {
		var bars []stageBar
		for _, stage := range Stages() {
			row, ok := v.find(name, setting.At(stage), stats.Decisive)
			if !ok || row.Ratio == 0 {
				continue
			}
			bar := stageBar{stage: stage, ratio: row.Ratio, lo: row.RatioLo, hi: row.RatioHi, value: stats.Figure(row.Median)}
			if stage != StageNode && !setting.Free && name != Routing {
				bar.left = 1 - v.tax(name)
			}
			bars = append(bars, bar)
		}
		if len(bars) == 0 || len(bars) == 1 && bars[0].stage == StageNode {
			continue
		}
		figures = append(figures, chart.Figure{Title: name, Unit: "ratio to node to node, and Gbit/s", Wide: stagesPanel(bars, v.Color(name), name)})
	}
	return figures
}

// place puts the subject first, and behind its rivals the path without a tunnel and variants.
func (v view) place(name string) int {
	switch {
	case name == v.DUT:
		return 0
	case name == Routing:
		return 2
	case baseOf(name) != name:
		return 3
	}
	return 1
}

// stagesReach is how far a panel's axis goes at most, as a ratio to node to node: noise
// beyond is drawn at its end.
const stagesReach = 1.25

// stagesPanel draws stages from the lowest at the bottom to the highest at the top.
func stagesPanel(bars []stageBar, color, name string) template.HTML {
	const width, left, right, pitch, thick = 360.0, 112.0, 258.0, 32.0, 16.0
	top := 1.0
	for _, b := range bars {
		top = min(max(top, b.hi, b.ratio), stagesReach)
	}
	x := func(ratio float64) float64 { return left + min(ratio, top)/top*(right-left) }
	c := chart.NewCanvas(width, float64(len(bars))*pitch+6)
	c.Line(x(1), 0, x(1), c.Height-6, "baseline")
	var words []string
	for i, b := range slices.Backward(bars) {
		y := float64(len(bars)-1-i) * pitch
		label := fmt.Sprintf("%s, %s: %s Gbit/s, %.3f × node to node", name, stageWords(b.stage), b.value, b.ratio)
		words = append(words, label)
		c.Open(color, label)
		c.Rect(0, y, width, pitch-3, 0, "hit")
		c.Text(0, y+19, "name", stageWords(b.stage))
		shade := "bar"
		if b.stage == StageRouted {
			shade = "bar mid"
		}
		c.Rect(left, y+7, max(x(b.ratio)-left, 1), thick, 2, shade)
		c.Whisker(x(b.lo), x(b.hi), y+7+thick/2)
		if b.left > 0 {
			c.Line(x(b.left), y+3, x(b.left), y+7+thick+4, "mark")
		}
		c.Text(right+48, y+19, "value e", fmt.Sprintf("%.3f", b.ratio))
		c.Text(width, y+19, "small e", b.value)
		c.Close()
	}
	return c.SVG("any", worded(words))
}

// Costs are the other figures by stage, one panel each, the targets side by side.
func (v view) Costs() []chart.Figure {
	setting := Stage{}
	if _, ok := v.find(v.DUT, setting.At(StageNode), measure.CPUPerGB); !ok {
		setting.Free = true
	}
	var figures []chart.Figure
	for _, p := range []struct {
		metric, title, unit string
		setting             Stage
	}{
		{measure.CPUPerGB, "CPU per gigabyte", "CPU seconds of all cores, lower is better", setting},
		{RRP50, "Round trip, 1 byte", "µs, p50, lower is better", Stage{}},
		{ConnRate, "Connections", "a second, many at once, higher is better", Stage{}},
	} {
		if f, ok := v.costPanel(p.metric, p.setting); ok {
			f.Title, f.Unit = p.title, p.unit
			figures = append(figures, f)
		}
	}
	return figures
}

// costPanel draws a metric: a group a stage, a bar a target.
func (v view) costPanel(metric string, setting Stage) (chart.Figure, bool) {
	const width, left, right, pitch, outage = 360.0, 112.0, 300.0, 17.0, 10.0
	groups, top, rows := v.byStage(metric, setting)
	if rows == 0 || top == 0 {
		return chart.Figure{}, false
	}
	x := func(value float64) float64 { return left + value/top*(right-left) }
	c := chart.NewCanvas(width, float64(rows)*pitch+float64(len(groups))*outage)
	var words []string
	y := 0.0
	for _, g := range slices.Backward(groups) { // the highest stage on top
		for i, row := range g.rows {
			words = append(words, stageWords(g.stage)+", "+chart.Describe(row))
			c.Open(v.Color(row.Target), chart.Describe(row))
			if i == 0 {
				c.Text(0, y+13, "name", stageWords(g.stage))
			}
			c.Rect(left, y+3, max(x(row.Median)-left, 1), pitch-5, 2, "bar")
			c.Whisker(x(row.Lo), x(row.Hi), y+3+(pitch-5)/2)
			c.Text(width, y+13, "value e", stats.In(row.Median, row.Unit))
			c.Close()
			y += pitch
		}
		y += outage
	}
	return chart.Figure{Wide: c.SVG("any", worded(words))}, true
}

// stageGroup is the rows of one stage.
type stageGroup struct {
	stage string
	rows  []result.Row
}

// byStage are the rows of a metric from the lowest stage, the largest value and how many.
func (v view) byStage(metric string, setting Stage) (groups []stageGroup, top float64, rows int) {
	for _, stage := range Stages() {
		g := stageGroup{stage: stage}
		for _, name := range v.Names() {
			if row, ok := v.find(name, setting.At(stage), metric); ok {
				g.rows = append(g.rows, row)
				top = max(top, row.Hi)
			}
		}
		if len(g.rows) > 0 {
			groups, rows = append(groups, g), rows+len(g.rows)
		}
	}
	return groups, top, rows
}
