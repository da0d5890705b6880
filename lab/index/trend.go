package index

import (
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/result"
)

// dot is a target's figure in one run.
type dot struct {
	run           int
	value, lo, hi float64
	refused       bool
	words         string
}

// line is a target's figures.
type line struct {
	target string
	dots   []dot
}

// trend draws one figure: ratios to the baseline where targets have them, else medians; false where
// no target has two.
func (g *Group) trend(f figure, colors chart.View, changed map[int]string) (chart.Figure, bool) {
	lines, baseline, unit := g.lines(f)
	if !slices.ContainsFunc(lines, func(l line) bool { return len(l.dots) > 1 }) {
		return chart.Figure{}, false
	}
	m, _ := g.metric(f)
	title := m.Title
	if m.Case == "" && f.caseName != "" {
		title += ", " + f.caseName
	}
	t := chart.Figure{Title: title, Unit: unit}
	if baseline {
		t.Unit = "ratio to the baseline"
	}
	switch {
	case g.runs[0].Metric == nil:
	case m.Higher:
		t.Unit += ", higher is better"
	default:
		t.Unit += ", lower is better"
	}
	d := drawing{group: g, lines: lines, colors: colors, changed: changed, ratio: baseline, title: title}
	t.Wide, t.Narrow = d.svg(520, 210, "wide"), d.svg(358, 190, "narrow")
	return t, true
}

// lines are the figures by target: ratios where any target has a baseline.
func (g *Group) lines(f figure) (lines []line, ratios bool, unit string) {
	rows := func(yield func(int, result.Row) bool) {
		for i, run := range g.runs {
			for _, row := range run.Result.Summary {
				if row.Case == f.caseName && row.Metric == f.metric && !yield(i, row) {
					return
				}
			}
		}
	}
	for _, row := range rows {
		ratios = ratios || row.Baseline != "" && row.Ratio > 0
		unit = row.Unit
	}
	for i, row := range rows {
		p := dot{run: i, value: row.Median, lo: row.Lo, hi: row.Hi, refused: g.runs[i].Result.Verdict.Refused}
		if ratios {
			if row.Baseline == "" || row.Ratio <= 0 {
				continue
			}
			p.value, p.lo, p.hi = row.Ratio, row.RatioLo, row.RatioHi
		}
		p.words = g.runs[i].Result.Started.UTC().Format("2006-01-02 15:04") + ", " + chart.Describe(row)
		at := slices.IndexFunc(lines, func(l line) bool { return l.target == row.Target })
		if at < 0 {
			lines, at = append(lines, line{target: row.Target}), len(lines)
		}
		lines[at].dots = append(lines[at].dots, p)
	}
	return lines, ratios, unit
}

// drawing is a chart in the making.
type drawing struct {
	group   *Group
	lines   []line
	colors  chart.View
	changed map[int]string
	ratio   bool
	title   string
}

// bounds are the values that the axis encloses: all figures, and of intervals as much as twice
// their range, so that one wide interval does not flatten all others.
func (d drawing) bounds() (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, l := range d.lines {
		for _, p := range l.dots {
			lo, hi = min(lo, p.value), max(hi, p.value)
		}
	}
	if d.ratio {
		lo, hi = min(lo, 1), max(hi, 1)
	}
	least, most, reach := lo, hi, max(hi-lo, 0.02*math.Abs(hi))
	for _, l := range d.lines {
		for _, p := range l.dots {
			lo, hi = min(lo, max(p.lo, least-reach)), max(hi, min(p.hi, most+reach))
		}
	}
	if hi == lo {
		lo, hi = lo-1, hi+1
	}
	return lo, hi
}

// levels are about four round numbers within lo … hi.
func levels(lo, hi float64) []float64 {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/4)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if (hi-lo)/(step*factor) <= 5 {
			step *= factor
			break
		}
	}
	var all []float64
	for i := math.Ceil(lo / step); i*step <= hi; i++ {
		all = append(all, math.Round(i*step*1e9)/1e9)
	}
	return all
}

func (d drawing) svg(width, height float64, class string) template.HTML {
	const left, above, below = 46, 10, 26
	right := width - 66
	lo, hi := d.bounds()
	y := chart.Axis(lo, hi, height-below-4, above, false)
	x := chart.Axis(0, float64(len(d.group.runs)-1), left+8, right-8, false)
	c := chart.NewCanvas(width, height)
	for _, v := range levels(lo, hi) {
		c.Line(left, y(v), right, y(v), "grid")
		c.Text(left-6, y(v)+4, "tick e", fmt.Sprintf("%g", v))
	}
	if d.ratio {
		c.Line(left, y(1), right, y(1), "baseline")
	}
	d.dates(c, x, left, right, height)
	for _, i := range slices.Sorted(maps.Keys(d.changed)) {
		c.Open("change", d.changed[i])
		c.Line(x(float64(i)-0.5), above, x(float64(i)-0.5), height-below, "guide")
		c.Text(x(float64(i)-0.5), above+1, "tiny m", "▾")
		c.Close()
	}
	words := d.title + " over " + result.Counted(len(d.group.runs), "run") + ". "
	var ends []chart.Track
	inside := func(v float64) float64 { return y(max(lo, min(hi, v))) }
	for _, l := range d.lines {
		var points []chart.Point
		for _, p := range l.dots {
			points = append(points, chart.Point{X: x(float64(p.run)), Y: y(p.value)})
		}
		c.Open(d.colors.Color(l.target), "")
		c.Polyline(points, "strong")
		for _, p := range l.dots {
			at := x(float64(p.run))
			c.Open("", p.words)
			c.Line(at, inside(p.lo), at, inside(p.hi), "range")
			if p.refused {
				c.Dot(at, y(p.value), 4, "hollow")
			} else {
				c.Dot(at, y(p.value), 4, "spot")
			}
			c.Close()
			words += p.words + ". "
		}
		c.Close()
		ends = append(ends, chart.Track{Name: l.target, Median: []float64{l.dots[len(l.dots)-1].value}})
	}
	d.colors.EndLabels(c, ends, y, right)
	return c.SVG(class, words)
}

// dates labels runs, as many as there is room for, the last one always.
func (d drawing) dates(c *chart.Canvas, x func(float64) float64, left, right, height float64) {
	const room = 52
	last, final := math.Inf(-1), len(d.group.runs)-1
	for i, run := range d.group.runs {
		at := x(float64(i))
		if i != final && (at-last < room || x(float64(final))-at < room) {
			continue
		}
		last = at
		c.Line(at, height-26, at, height-22, "axis")
		c.Text(min(max(at, left+14), right-6), height-8, "tick m", run.Result.Started.UTC().Format("2 Jan"))
	}
}
