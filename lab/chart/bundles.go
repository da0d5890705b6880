package chart

import (
	"fmt"
	"html/template"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Bundle is bars side by side over one label of the axis.
type Bundle struct {
	Label string
	Bars  []Bundled
}

// Bundled is a bar: a median with its interval; less is drawn pale.
type Bundled struct {
	Row     result.Row
	Name    string // of the target
	Words   string
	Pale    bool
	Percent bool // the row is a ratio, and what is drawn is what it is above 1
}

func (b Bundled) value(v float64) float64 {
	if b.Percent {
		return 100 * (v - 1)
	}
	return v
}

// BundleChart is bars by label.
type BundleChart struct {
	Title, Unit string
	Bundles     []Bundle
	Rule        float64 // a dashed line at this value, where not 0
}

// Figure draws it for wide pages and for phones, with the class of each target; false when it has no bar.
func (panel BundleChart) Figure(color func(name string) string) (Figure, bool) {
	bars := 0
	for _, b := range panel.Bundles {
		bars += len(b.Bars)
	}
	if bars == 0 {
		return Figure{}, false
	}
	return Figure{Title: panel.Title, Unit: panel.Unit, Wide: panel.draw(color, 528, 230, "wide"), Narrow: panel.draw(color, 360, 220, "narrow")}, true
}

// draw draws bars side by side, from 0 up or down.
func (panel BundleChart) draw(color func(name string) string, width, height float64, class string) template.HTML {
	const left, above, below, outage = 44.0, 12.0, 24.0, 10.0
	lo, hi := 0.0, panel.Rule
	for _, b := range panel.Bundles {
		for _, bar := range b.Bars {
			lo, hi = min(lo, bar.value(bar.Row.Lo)), max(hi, bar.value(bar.Row.Hi))
		}
	}
	ys := Ticks(hi, 4)
	for step := ys[1]; ys[0] > lo; {
		ys = append([]float64{ys[0] - step}, ys...)
	}
	y := Axis(ys[0], ys[len(ys)-1], height-below, above, false)
	c := NewCanvas(width, height)
	for _, t := range ys {
		c.Line(left, y(t), width, y(t), "grid")
		c.Text(left-6, y(t)+4, "tick e", fmt.Sprintf("%g", t))
	}
	if panel.Rule > 0 {
		c.Line(left, y(panel.Rule), width, y(panel.Rule), "baseline")
	}
	words := panel.Title + ". "
	pitch := (width - left) / float64(len(panel.Bundles))
	for i, b := range panel.Bundles {
		x := left + float64(i)*pitch
		c.Text(x+pitch/2, height-6, "tick m", Clip(b.Label, int(pitch/6)))
		if len(b.Bars) == 0 {
			continue
		}
		thick := min(22, (pitch-outage)/float64(len(b.Bars)))
		x += (pitch - thick*float64(len(b.Bars))) / 2
		for _, bar := range b.Bars {
			words += bar.draw(c, color(bar.Name), b.Label, x, thick, y)
			x += thick
		}
	}
	return c.SVG(class, words)
}

// draw draws a bar with its interval and returns it in words.
func (b Bundled) draw(c *Canvas, color, label string, x, thick float64, y func(float64) float64) string {
	unit := b.Row.Unit
	if b.Percent {
		unit = "%"
	}
	figure := func(value float64) string { return stats.Figure(b.value(value)) }
	words := fmt.Sprintf("%s, %s: %s %s, interval %s to %s, n = %d", label, b.Words, figure(b.Row.Median), unit, figure(b.Row.Lo), figure(b.Row.Hi), b.Row.N)
	class := "bar"
	if b.Pale {
		class = "bar light"
	}
	c.Open(color, words)
	top, zero := y(b.value(b.Row.Median)), y(0)
	if top > zero {
		top, zero = zero, top
	}
	c.Rect(x+0.5, top, thick-1, max(zero-top, 1), 1.5, class)
	mid, up, down := x+thick/2, y(b.value(b.Row.Hi)), y(b.value(b.Row.Lo))
	if down-up >= 0.5 {
		c.Line(mid, up, mid, down, "whisker")
		c.Line(mid-2.5, up, mid+2.5, up, "whisker")
		c.Line(mid-2.5, down, mid+2.5, down, "whisker")
	}
	c.Close()
	return words + ". "
}
