package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/selvage/selvage/lab/stats"
)

// plotLine is a target's line in a plot.
type plotLine struct {
	name   string
	points []point
	faint  bool
}

// plot is lines over two axes; y begins at 0 unless it is logarithmic.
type plot struct {
	lines        []plotLine
	logX, logY   bool
	words        string
	xTick, yTick func(float64) string
}

// xs are the places of all points, ascending: they are the ticks.
func (p plot) xs() []float64 {
	var xs []float64
	for _, l := range p.lines {
		for _, q := range l.points {
			xs = append(xs, q.x)
		}
	}
	slices.Sort(xs)
	return slices.Compact(xs)
}

func (p plot) ys() []float64 {
	lo, hi := math.Inf(1), 0.0
	for _, l := range p.lines {
		for _, q := range l.points {
			lo, hi = min(lo, q.y), max(hi, q.y)
		}
	}
	if p.logY {
		return logTicks(lo, max(hi, lo*1.01))
	}
	return ticks(hi, 5)
}

func (v view) plot(p plot, width, height float64, class string) template.HTML {
	const left, above, below = 40, 10, 26
	right := width - 74
	xs, ys := p.xs(), p.ys()
	x := axis(xs[0], xs[len(xs)-1], left, right, p.logX)
	y := axis(ys[0], ys[len(ys)-1], height-below, above, p.logY)
	c := newCanvas(width, height)
	for _, t := range ys {
		c.line(left, y(t), right, y(t), "grid")
		c.text(left-6, y(t)+4, "tick e", p.yTick(t))
	}
	last := math.Inf(-1)
	for _, t := range xs {
		if x(t)-last < 46 && t != xs[len(xs)-1] || right-x(t) < 46 && t != xs[len(xs)-1] {
			continue
		}
		last = x(t)
		c.line(x(t), height-below, x(t), height-below+4, "axis")
		c.text(x(t), height-8, "tick m", p.xTick(t))
	}
	words := p.words
	var ends []track
	for _, l := range p.lines {
		slices.SortFunc(l.points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
		points := make([]point, len(l.points))
		for i, q := range l.points {
			points[i] = point{x(q.x), y(q.y)}
			words += fmt.Sprintf("%s at %s: %s. ", l.name, p.xTick(q.x), stats.Figure(q.y))
		}
		c.open(v.Color(l.name), l.name)
		class := "strong"
		if l.faint {
			class = "few"
		}
		c.polyline(points, class)
		for _, q := range points {
			c.dot(q.x, q.y, 2.6, "spot")
		}
		c.close()
		if !l.faint {
			ends = append(ends, track{name: l.name, median: []float64{l.points[len(l.points)-1].y}})
		}
	}
	v.endLabels(c, ends, y, right)
	return c.svg(class, words)
}

// axis maps lo … hi to from … to.
func axis(lo, hi, from, to float64, log bool) func(float64) float64 {
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

func lowerFirst(s string) string {
	if s == "" || s[0] < 'A' || s[0] > 'Z' {
		return s
	}
	return string(s[0]+'a'-'A') + s[1:]
}

// counted writes a number of flows or routes.
func counted(n float64) string { return stats.In(n, "count") }
