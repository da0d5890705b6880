package offload

import (
	"fmt"
	"html/template"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// bundle is bars side by side over one label of the axis.
type bundle struct {
	label string
	bars  []bundled
}

// bundled is a bar: a median with its interval; less is drawn pale.
type bundled struct {
	row     result.Row
	name    string // of the target
	words   string
	pale    bool
	percent bool // the row is a ratio, and what is drawn is what it is above 1
}

func (b bundled) value(v float64) float64 {
	if b.percent {
		return 100 * (v - 1)
	}
	return v
}

// bundleChart is bars by label.
type bundleChart struct {
	title, unit string
	bundles     []bundle
	rule        float64 // a dashed line at this value, where not 0
}

// charts are the study's four over the sizes of writes: throughput, gain, processor, efficiency.
func (v view) charts(s Stream) []bundleChart {
	with := func(metric string, states ...string) []bundle {
		var all []bundle
		for _, size := range Sizes(v.Result) {
			one := bundle{label: sizeLabel(size)}
			for _, name := range v.Names() {
				for _, state := range states {
					s.Size, s.State = size, state
					if row, ok := v.find(name, s, metric); ok {
						one.bars = append(one.bars, bundled{row: row, name: name, words: name + ", " + state, pale: state == AllOff})
					}
				}
			}
			all = append(all, one)
		}
		return all
	}
	gains := with(ThroughputGain, AllOn)
	for i := range gains {
		for k := range gains[i].bars {
			gains[i].bars[k].percent = true
		}
	}
	return []bundleChart{
		{title: "Throughput", unit: "Gbit/s by size of writes, higher is better; pale: all offloads off, full: all on", bundles: with(Throughput, AllOff, AllOn)},
		{title: "Gain of throughput", unit: "% of all on over all off; dashed: mean of the QLogic study at 10 Gbit/s, +19 %", bundles: gains, rule: studyGain},
		{title: "Processor time", unit: "% of all cores, lower is better", bundles: with(Processor, AllOff, AllOn)},
		{title: "Efficiency", unit: "Mbit/s per % of all cores, higher is better", bundles: with(Efficiency, AllOff, AllOn)},
	}
}

// studyGain is the QLogic study's mean gain of throughput at 10 Gbit/s, in percent.
const studyGain = 19

// Attributions draw what each offload brings, one panel an encapsulation and way.
func (v view) Attributions() []chart.Figure {
	var figures []chart.Figure
	for _, s := range v.grouped() {
		panel := bundleChart{title: "What each offload brings, " + v.group(s), unit: "% of throughput over all sizes; pale: one at a time, full: against all the others"}
		for _, kind := range allKinds() {
			s.State = kind
			one := bundle{label: KindWords(kind)}
			for _, name := range v.Names() {
				for _, metric := range []string{GainAlone, GainLeftOut} {
					if row, ok := v.find(name, s, metric); ok {
						words := map[string]string{GainAlone: "alone", GainLeftOut: "against all the others"}[metric]
						one.bars = append(one.bars, bundled{row: row, name: name, words: name + ", " + words, pale: metric == GainAlone, percent: true})
					}
				}
			}
			if len(one.bars) > 0 {
				panel.bundles = append(panel.bundles, one)
			}
		}
		if f, ok := v.drawn(panel); ok {
			figures = append(figures, f)
		}
	}
	return figures
}

// StatesChart draws every state's throughput over all sizes, one panel an encapsulation and way.
func (v view) StatesChart() []chart.Figure {
	var figures []chart.Figure
	for _, s := range v.grouped() {
		panel := bundleChart{title: "Throughput by state, " + v.group(s), unit: "Gbit/s, mean over all sizes, higher is better"}
		for _, state := range v.states() {
			s.State = state
			one := bundle{label: state}
			for _, name := range v.Names() {
				if row, ok := v.find(name, s, Throughput); ok {
					one.bars = append(one.bars, bundled{row: row, name: name, words: name + ", " + state})
				}
			}
			panel.bundles = append(panel.bundles, one)
		}
		if f, ok := v.drawn(panel); ok {
			figures = append(figures, f)
		}
	}
	return figures
}

// drawn draws a chart for wide pages and for phones; false when it has no bar.
func (v view) drawn(panel bundleChart) (chart.Figure, bool) {
	bars := 0
	for _, b := range panel.bundles {
		bars += len(b.bars)
	}
	if bars == 0 {
		return chart.Figure{}, false
	}
	return chart.Figure{Title: panel.title, Unit: panel.unit, Wide: v.bundles(panel, 528, 230, "wide"), Narrow: v.bundles(panel, 360, 220, "narrow")}, true
}

// bundles draws bars side by side, from 0 up or down.
func (v view) bundles(panel bundleChart, width, height float64, class string) template.HTML {
	const left, above, below, outage = 44.0, 12.0, 24.0, 10.0
	lo, hi := 0.0, panel.rule
	for _, b := range panel.bundles {
		for _, bar := range b.bars {
			lo, hi = min(lo, bar.value(bar.row.Lo)), max(hi, bar.value(bar.row.Hi))
		}
	}
	ys := chart.Ticks(hi, 4)
	for step := ys[1]; ys[0] > lo; {
		ys = append([]float64{ys[0] - step}, ys...)
	}
	y := chart.Axis(ys[0], ys[len(ys)-1], height-below, above, false)
	c := chart.NewCanvas(width, height)
	for _, t := range ys {
		c.Line(left, y(t), width, y(t), "grid")
		c.Text(left-6, y(t)+4, "tick e", fmt.Sprintf("%g", t))
	}
	if panel.rule > 0 {
		c.Line(left, y(panel.rule), width, y(panel.rule), "baseline")
	}
	words := panel.title + ". "
	pitch := (width - left) / float64(len(panel.bundles))
	for i, b := range panel.bundles {
		x := left + float64(i)*pitch
		c.Text(x+pitch/2, height-6, "tick m", chart.Clip(b.label, int(pitch/6)))
		if len(b.bars) == 0 {
			continue
		}
		thick := min(22, (pitch-outage)/float64(len(b.bars)))
		x += (pitch - thick*float64(len(b.bars))) / 2
		for _, bar := range b.bars {
			words += v.bundled(c, bar, b.label, x, thick, y)
			x += thick
		}
	}
	return c.SVG(class, words)
}

// bundled draws a bar with its interval and returns it in words.
func (v view) bundled(c *chart.Canvas, bar bundled, label string, x, thick float64, y func(float64) float64) string {
	unit := bar.row.Unit
	if bar.percent {
		unit = "%"
	}
	figure := func(value float64) string { return stats.Figure(bar.value(value)) }
	words := fmt.Sprintf("%s, %s: %s %s, interval %s to %s, n = %d", label, bar.words, figure(bar.row.Median), unit, figure(bar.row.Lo), figure(bar.row.Hi), bar.row.N)
	class := "bar"
	if bar.pale {
		class = "bar light"
	}
	c.Open(v.Color(bar.name), words)
	top, zero := y(bar.value(bar.row.Median)), y(0)
	if top > zero {
		top, zero = zero, top
	}
	c.Rect(x+0.5, top, thick-1, max(zero-top, 1), 1.5, class)
	mid, up, down := x+thick/2, y(bar.value(bar.row.Hi)), y(bar.value(bar.row.Lo))
	if down-up >= 0.5 {
		c.Line(mid, up, mid, down, "whisker")
		c.Line(mid-2.5, up, mid+2.5, up, "whisker")
		c.Line(mid-2.5, down, mid+2.5, down, "whisker")
	}
	c.Close()
	return words + ". "
}
