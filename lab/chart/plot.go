package chart

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/selvage/selvage/lab/stats"
)

// PlotLine is a target's line in a plot.
type PlotLine struct {
	Name   string
	Points []Point
	Faint  bool
}

// Plot is lines over two axes; y begins at 0 unless it is logarithmic.
type Plot struct {
	Lines        []PlotLine
	LogX, LogY   bool
	Words        string
	XTick, YTick func(float64) string
}

// xs are the places of all points, ascending: they are the ticks.
func (p Plot) xs() []float64 {
	var xs []float64
	for _, l := range p.Lines {
		for _, q := range l.Points {
			xs = append(xs, q.X)
		}
	}
	slices.Sort(xs)
	return slices.Compact(xs)
}

func (p Plot) ys() []float64 {
	lo, hi := math.Inf(1), 0.0
	for _, l := range p.Lines {
		for _, q := range l.Points {
			lo, hi = min(lo, q.Y), max(hi, q.Y)
		}
	}
	if p.LogY {
		return LogTicks(lo, max(hi, lo*1.01))
	}
	return Ticks(hi, 5)
}

// Plot draws p.
func (v View) Plot(p Plot, width, height float64, class string) template.HTML {
	const left, above, below = 40, 10, 26
	right := width - 74
	xs, ys := p.xs(), p.ys()
	x := Axis(xs[0], xs[len(xs)-1], left, right, p.LogX)
	y := Axis(ys[0], ys[len(ys)-1], height-below, above, p.LogY)
	c := NewCanvas(width, height)
	for _, t := range ys {
		c.Line(left, y(t), right, y(t), "grid")
		c.Text(left-6, y(t)+4, "tick e", p.YTick(t))
	}
	last := math.Inf(-1)
	for _, t := range xs {
		if x(t)-last < 46 && t != xs[len(xs)-1] || right-x(t) < 46 && t != xs[len(xs)-1] {
			continue
		}
		last = x(t)
		c.Line(x(t), height-below, x(t), height-below+4, "axis")
		c.Text(x(t), height-8, "tick m", p.XTick(t))
	}
	words := p.Words
	var ends []Track
	for _, l := range p.Lines {
		slices.SortFunc(l.Points, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
		points := make([]Point, len(l.Points))
		for i, q := range l.Points {
			points[i] = Point{x(q.X), y(q.Y)}
			words += fmt.Sprintf("%s at %s: %s. ", l.Name, p.XTick(q.X), stats.Figure(q.Y))
		}
		c.Open(v.Color(l.Name), l.Name)
		class := "strong"
		if l.Faint {
			class = "few"
		}
		c.Polyline(points, class)
		for _, q := range points {
			c.Dot(q.X, q.Y, 2.6, "spot")
		}
		c.Close()
		if !l.Faint {
			ends = append(ends, Track{Name: l.Name, Median: []float64{l.Points[len(l.Points)-1].Y}})
		}
	}
	v.EndLabels(c, ends, y, right)
	return c.SVG(class, words)
}

// Axis maps lo … hi to from … to.
func Axis(lo, hi, from, to float64, log bool) func(float64) float64 {
	if log {
		lo, hi = math.Log(lo), math.Log(hi)
	}
	return func(value float64) float64 {
		if log {
			value = math.Log(value)
		}
		if hi == lo {
			return (from + to) / 2
		}
		return from + (value-lo)/(hi-lo)*(to-from)
	}
}

// LowerFirst begins s with a small letter.
func LowerFirst(s string) string {
	if s == "" || s[0] < 'A' || s[0] > 'Z' {
		return s
	}
	return string(s[0]+'a'-'A') + s[1:]
}

// Counted writes a number of flows or routes.
func Counted(n float64) string { return stats.In(n, "count") }
