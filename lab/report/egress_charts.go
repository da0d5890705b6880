package report

import (
	"fmt"
	"html/template"
	"slices"

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
func (v egressView) Wired() []figure {
	figures := v.ladders(stats.Stage{})
	if len(figures) == 0 {
		return nil
	}
	var studies []figure
	for i, s := range v.Studies() {
		var bars []stageBar
		for k, stage := range studyStages() {
			bars = append(bars, stageBar{stage: stage, ratio: s.kept[stage], value: s.Lines[k].Received})
		}
		studies = append(studies, figure{Title: []string{"EgressGateway study, physical", "EgressGateway study, virtual"}[i], Unit: s.Note, Wide: stagesPanel(bars, "k-none", s.Title)})
	}
	return append(figures, studies...)
}

// Free is Wired without a rate.
func (v egressView) Free() []figure { return v.ladders(stats.Stage{Free: true}) }

// Reversed is Wired towards the workload.
func (v egressView) Reversed() []figure { return v.ladders(stats.Stage{Reverse: true}) }

// ladders are a panel a target, the subject's first.
func (v egressView) ladders(setting stats.Stage) []figure {
	var figures []figure
	names := slices.Clone(v.Names())
	slices.SortStableFunc(names, func(a, b string) int { return v.place(a) - v.place(b) })
	for _, name := range names {
		var bars []stageBar
		for _, stage := range stats.Stages() {
			row, ok := v.find(name, setting.At(stage), stats.Decisive)
			if !ok || row.Ratio == 0 {
				continue
			}
			bar := stageBar{stage: stage, ratio: row.Ratio, lo: row.RatioLo, hi: row.RatioHi, value: stats.Figure(row.Median)}
			if stage != stats.StageNode && !setting.Free && name != stats.Routing {
				bar.left = 1 - v.tax(name)
			}
			bars = append(bars, bar)
		}
		if len(bars) == 0 || len(bars) == 1 && bars[0].stage == stats.StageNode {
			continue
		}
		figures = append(figures, figure{Title: name, Unit: "ratio to node to node, and Gbit/s", Wide: stagesPanel(bars, v.Color(name), name)})
	}
	return figures
}

// place puts the subject first, and behind its rivals the path without a tunnel and variants.
func (v egressView) place(name string) int {
	switch {
	case name == v.dut:
		return 0
	case name == stats.Routing:
		return 2
	case stats.EgressBase(name) != name:
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
	c := newCanvas(width, float64(len(bars))*pitch+6)
	c.line(x(1), 0, x(1), c.h-6, "baseline")
	var words []string
	for i, b := range slices.Backward(bars) {
		y := float64(len(bars)-1-i) * pitch
		label := fmt.Sprintf("%s, %s: %s Gbit/s, %.3f × node to node", name, stageWords(b.stage), b.value, b.ratio)
		words = append(words, label)
		c.open(color, label)
		c.rect(0, y, width, pitch-3, 0, "hit")
		c.text(0, y+19, "name", stageWords(b.stage))
		shade := "bar"
		if b.stage == stats.StageRouted {
			shade = "bar mid"
		}
		c.rect(left, y+7, max(x(b.ratio)-left, 1), thick, 2, shade)
		c.whisker(x(b.lo), x(b.hi), y+7+thick/2)
		if b.left > 0 {
			c.line(x(b.left), y+3, x(b.left), y+7+thick+4, "mark")
		}
		c.text(right+48, y+19, "value e", fmt.Sprintf("%.3f", b.ratio))
		c.text(width, y+19, "small e", b.value)
		c.close()
	}
	return c.svg("any", worded(words))
}

// Costs are the other figures by stage, one panel each, the targets side by side.
func (v egressView) Costs() []figure {
	setting := stats.Stage{}
	if _, ok := v.find(v.dut, setting.At(stats.StageNode), "cpu_per_gb"); !ok {
		setting.Free = true
	}
	var figures []figure
	for _, p := range []struct {
		metric, title, unit string
		setting             stats.Stage
	}{
		{"cpu_per_gb", "CPU per gigabyte", "CPU seconds of all cores, lower is better", setting},
		{stats.RRP50, "Round trip, 1 byte", "µs, p50, lower is better", stats.Stage{}},
		{stats.ConnRate, "Connections", "a second, many at once, higher is better", stats.Stage{}},
	} {
		if f, ok := v.costPanel(p.metric, p.setting); ok {
			f.Title, f.Unit = p.title, p.unit
			figures = append(figures, f)
		}
	}
	return figures
}

// costPanel draws a metric: a group a stage, a bar a target.
func (v egressView) costPanel(metric string, setting stats.Stage) (figure, bool) {
	const width, left, right, pitch, outage = 360.0, 112.0, 300.0, 17.0, 10.0
	groups, top, rows := v.byStage(metric, setting)
	if rows == 0 || top == 0 {
		return figure{}, false
	}
	x := func(value float64) float64 { return left + value/top*(right-left) }
	c := newCanvas(width, float64(rows)*pitch+float64(len(groups))*outage)
	var words []string
	y := 0.0
	for _, g := range slices.Backward(groups) { // the highest stage on top
		for i, row := range g.rows {
			words = append(words, stageWords(g.stage)+", "+describe(row))
			c.open(v.Color(row.Target), describe(row))
			if i == 0 {
				c.text(0, y+13, "name", stageWords(g.stage))
			}
			c.rect(left, y+3, max(x(row.Median)-left, 1), pitch-5, 2, "bar")
			c.whisker(x(row.Lo), x(row.Hi), y+3+(pitch-5)/2)
			c.text(width, y+13, "value e", stats.In(row.Median, row.Unit))
			c.close()
			y += pitch
		}
		y += outage
	}
	return figure{Wide: c.svg("any", worded(words))}, true
}

// stageGroup is the rows of one stage.
type stageGroup struct {
	stage string
	rows  []result.Row
}

// byStage are the rows of a metric from the lowest stage, the largest value and how many.
func (v egressView) byStage(metric string, setting stats.Stage) (groups []stageGroup, top float64, rows int) {
	for _, stage := range stats.Stages() {
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
