package latency

import (
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// addedStrip is the small picture of a card: what every target's firewall adds, on one
// axis with 0.
func (v view) addedStrip(s Setting) template.HTML {
	const width, height, pad = 184.0, 46.0, 24.0
	var rows []result.Row
	reach := 0.3
	for _, name := range v.Names() {
		if row, ok := v.find(name, s, RRAdded); ok {
			rows = append(rows, row)
			reach = max(reach, math.Abs(row.Lo), math.Abs(row.Hi))
		}
	}
	if len(rows) == 0 {
		return ""
	}
	x := chart.Axis(-reach, reach, pad, width-pad, false)
	c := chart.NewCanvas(width, height)
	c.Line(0, 23, width, 23, "axis")
	c.Line(x(0), 13, x(0), 33, "baseline")
	c.Text(x(0), 44, "tiny m", "0")
	c.Text(width, 44, "tiny e", signed(reach)+" µs")
	words := "Added µs. "
	var taken []float64
	for _, row := range rows {
		label := fmt.Sprintf("%s: %s µs", row.Target, timesApart(row))
		words += label + ". "
		c.Open(v.Color(row.Target), label)
		c.Line(x(row.Lo), 23, x(row.Hi), 23, "range")
		c.Dot(x(row.Median), 23, 5, "spot")
		at := min(max(x(row.Median), 22), width-22)
		if !slices.ContainsFunc(taken, func(t float64) bool { return math.Abs(t-at) < 50 }) {
			taken = append(taken, at)
			c.Text(at, 11, "tiny m own", chart.Brief(row.Target, 8))
		}
		c.Close()
	}
	return c.SVG("strip", words)
}

// ScenarioBars draws the study's scenarios, a panel each: two bars a target, without a
// firewall pale and with one full.
func (v view) ScenarioBars() []chart.Figure {
	var figures []chart.Figure
	for _, s := range v.scenarios() {
		if f, ok := v.scenarioBars(s); ok {
			figures = append(figures, f)
		}
	}
	return figures
}

func (v view) scenarioBars(s scenario) (chart.Figure, bool) {
	const width, left, right, pitch = 360.0, 68.0, 236.0, 46.0
	var names []string
	top := 0.0
	for _, name := range v.Names() {
		on, okOn := v.find(name, s.on, RRP50)
		off, okOff := v.find(name, s.off, RRP50)
		if !okOn && !okOff {
			continue
		}
		names = append(names, name)
		top = max(top, on.Hi, off.Hi)
	}
	if len(names) == 0 || top == 0 {
		return chart.Figure{}, false
	}
	x := chart.Axis(0, top, left, right, false)
	c := chart.NewCanvas(width, float64(len(names))*pitch+4)
	words := s.Title + ", round trip p50. "
	for i, name := range names {
		y := float64(i)*pitch + 4
		words += v.scenarioPair(c, s, name, y, x)
	}
	return chart.Figure{Title: s.Title, Unit: "µs, p50; pale: no firewall, full: 100 rules; right: added", Wide: c.SVG("any", words)}, true
}

// scenarioPair draws a target's two bars from the height y, and returns them in words.
func (v view) scenarioPair(c *chart.Canvas, s scenario, name string, y float64, x func(float64) float64) string {
	const thick, value, end = 15.0, 289.0, 358.0
	label := name + ": "
	c.Open(v.Color(name), "")
	c.Rect(0, y-4, c.Width, 44, 0, "hit")
	c.Text(0, y+22, "name", chart.Brief(name, 8))
	for k, one := range []struct {
		s     Setting
		words string
		class string
	}{{s.off, "without", "bar light"}, {s.on, "with 100 rules", "bar"}} {
		row, ok := v.find(name, one.s, RRP50)
		if !ok {
			continue
		}
		top := y + float64(k)*18
		c.Rect(x(0), top, x(row.Median)-x(0), thick, 2, one.class)
		c.Whisker(x(row.Lo), x(row.Hi), top+thick/2)
		c.Text(value, top+12, []string{"small e", "value e"}[k], stats.In(row.Median, row.Unit))
		label += fmt.Sprintf("%s %s, interval %s to %s; ", one.words, stats.In(row.Median, row.Unit), stats.In(row.Lo, row.Unit), stats.In(row.Hi, row.Unit))
	}
	if row, ok := v.find(name, s.on, RRAdded); ok {
		class := "ratio e"
		added := signed(row.Median)
		if !row.Distinguishable {
			class, added = "ratio same e", "≈ "+added
		}
		c.Text(end, y+30, class, added)
		label += "added " + timesApart(row)
	}
	c.Close()
	return label + ". "
}

// sweepPlot is a metric over the number of rules.
type sweepPlot struct {
	title, unit string
	at          func(name string, s Setting) (row bounded, ok bool)
	logY        bool
	rule        float64 // a line across, NaN for none
	yTick       func(float64) string
}

// bounded is a value with its interval.
type bounded struct{ value, lo, hi float64 }

// Sweeps draws all metrics over the number of rules.
func (v view) Sweeps() []chart.Figure {
	if len(v.sweep()) < 3 {
		return nil
	}
	plain := func(y float64) string { return fmt.Sprintf("%g", y) }
	median := func(metric string) func(string, Setting) (bounded, bool) {
		return func(name string, s Setting) (bounded, bool) {
			row, ok := v.find(name, s, metric)
			return bounded{row.Median, row.Lo, row.Hi}, ok
		}
	}
	added := func(name string, s Setting) (bounded, bool) {
		if _, measured := v.find(name, s, RRP50); s.Rules == 0 {
			return bounded{}, measured
		}
		return median(RRAdded)(name, s)
	}
	ratio := func(metric string) func(string, Setting) (bounded, bool) {
		return func(name string, s Setting) (bounded, bool) {
			row, ok := v.find(name, s, metric)
			return bounded{100 * row.Ratio, 100 * row.RatioLo, 100 * row.RatioHi}, ok && row.Ratio > 0
		}
	}
	percent := func(y float64) string { return fmt.Sprintf("%g%%", y) }
	var figures []chart.Figure
	for _, p := range []sweepPlot{
		{"Added to a round trip", "µs over no firewall, 1024 B, by rules; lower is better", added, false, 0, signed},
		{"Connections, one at a time", "rate in percent of that without a firewall, by rules", ratio(CRRRate), false, 100, percent},
		{"Connections, many at once", "rate in percent of that without a firewall, by rules", ratio(ConnRate), false, 100, percent},
		{"UDP packets one way", "kpps received by rules, both axes logarithmic; higher is better", median(UDPRate), true, math.NaN(), plain},
		{"TCP throughput", "Gbit/s by rules; higher is better", median(stats.Decisive), false, math.NaN(), plain},
	} {
		if f, ok := v.sweepFigure(p); ok {
			figures = append(figures, f)
		}
	}
	return figures
}

// sweepTrack is a target's line.
type sweepTrack struct {
	name  string
	rules []float64
	at    []bounded
}

func (v view) sweepFigure(p sweepPlot) (chart.Figure, bool) {
	var tracks []sweepTrack
	for _, name := range v.Names() {
		t := sweepTrack{name: name}
		for _, s := range v.sweep() {
			if b, ok := p.at(name, s); ok && !(p.logY && b.lo <= 0) {
				t.rules, t.at = append(t.rules, float64(s.Rules)), append(t.at, b)
			}
		}
		if len(t.at) > 1 {
			tracks = append(tracks, t)
		}
	}
	if len(tracks) == 0 {
		return chart.Figure{}, false
	}
	return chart.Figure{Title: p.title, Unit: p.unit, Wide: v.sweepChart(p, tracks, 528, 260, "wide"), Narrow: v.sweepChart(p, tracks, 360, 240, "narrow")}, true
}

// rulesAxis is logarithmic, with 0 a step before the fewest rules that there are.
func (v view) rulesAxis(left, right float64) func(float64) float64 {
	least, most := math.Inf(1), 1.0
	for _, s := range v.sweep() {
		if s.Rules > 0 {
			least, most = min(least, float64(s.Rules)), max(most, float64(s.Rules))
		}
	}
	if math.IsInf(least, 1) {
		least = 1
	}
	zero := least / 10
	x := chart.Axis(zero, max(most, least*1.01), left, right, true)
	return func(rules float64) float64 { return x(max(rules, zero)) }
}

// sweepTicks are the heights of the grid.
func sweepTicks(p sweepPlot, tracks []sweepTrack) []float64 {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, t := range tracks {
		for _, b := range t.at {
			lo, hi = min(lo, b.lo), max(hi, b.hi)
		}
	}
	if p.logY {
		return chart.LogTicks(lo, max(hi, lo*1.01))
	}
	if !math.IsNaN(p.rule) {
		hi = max(hi, p.rule)
	}
	if lo >= 0 && hi > 100 && hi <= 106 && p.rule == 100 { // a little over all of it needs no tick
		return []float64{0, 20, 40, 60, 80, 100}
	}
	up := chart.Ticks(max(hi, 0.001), 5)
	if lo >= 0 {
		return up
	}
	step := up[1]
	for y := -step; ; y -= step {
		up = append([]float64{math.Round(y*1e9) / 1e9}, up...)
		if y <= lo {
			return up
		}
	}
}

func (v view) sweepChart(p sweepPlot, tracks []sweepTrack, width, height float64, class string) template.HTML {
	const left, above, below = 44.0, 10.0, 26.0
	right := width - 74
	x, ys := v.rulesAxis(left+8, right), sweepTicks(p, tracks)
	y := chart.Axis(ys[0], ys[len(ys)-1], height-below, above, p.logY)
	c := chart.NewCanvas(width, height)
	for _, t := range ys {
		c.Line(left, y(t), right, y(t), "grid")
		c.Text(left-6, y(t)+4, "tick e", p.yTick(t))
	}
	if !math.IsNaN(p.rule) {
		c.Line(left, y(p.rule), right, y(p.rule), "guide")
	}
	last := math.Inf(-1)
	for _, s := range v.sweep() {
		at := x(float64(s.Rules))
		c.Line(at, height-below, at, height-below+4, "axis")
		if at-last > 40 {
			c.Text(at, height-8, "tick m", chart.Counted(float64(s.Rules)))
			last = at
		}
	}
	words := p.title + ", " + p.unit + ". "
	var ends []chart.Track
	for i, t := range tracks {
		words += v.drawTrack(c, t, x, y, float64(i)-float64(len(tracks)-1)/2)
		ends = append(ends, chart.Track{Name: t.name, Median: []float64{t.at[len(t.at)-1].value}})
	}
	v.EndLabels(c, ends, y, right)
	return c.SVG(class, words)
}

// drawTrack draws a target's line with its intervals, these a little beside those of
// others, and returns it in words.
func (v view) drawTrack(c *chart.Canvas, t sweepTrack, x, y func(float64) float64, beside float64) string {
	points := make([]chart.Point, len(t.at))
	words := ""
	for i, b := range t.at {
		points[i] = chart.Point{X: x(t.rules[i]) + 3*beside, Y: y(b.value)}
		words += fmt.Sprintf("%s with %s: %s [%s, %s]. ", t.name, rulesWords(int(t.rules[i])), stats.Figure(b.value), stats.Figure(b.lo), stats.Figure(b.hi))
	}
	c.Open(v.Color(t.name), t.name)
	c.Polyline(points, "strong")
	for i, b := range t.at {
		if y(b.lo)-y(b.hi) > 1 {
			c.Line(points[i].X, y(b.lo), points[i].X, y(b.hi), "range")
		}
		c.Dot(points[i].X, points[i].Y, 2.8, "spot")
	}
	c.Close()
	return words
}

// tailEnd is the last quantile that is drawn: a run has too few transactions for more.
const tailEnd = 0.9999

// Distributions draws the latency by percentile without a firewall, with the study's
// rules and with the most.
func (v view) Distributions() []chart.Figure {
	settings := []Setting{v.study().Without(), v.study()}
	if most, ok := v.most(); ok && most.Rules > ScenarioRules {
		settings = append(settings, most)
	}
	var figures []chart.Figure
	for _, s := range settings {
		if curves := v.curvesUntil(s, RRP50, tailEnd); len(curves) > 0 {
			figures = append(figures, chart.Figure{
				Title: "Round trips, " + rulesWords(s.Rules), Unit: "µs by percentile, 1024 B, both axes logarithmic",
				Wide: v.Distribution(curves, 528, 260, "wide"), Narrow: v.Distribution(curves, 360, 240, "narrow"),
			})
		}
	}
	return figures
}

// AppDistributions draws the application's latency by percentile, likewise.
func (v view) AppDistributions() []chart.Figure {
	var figures []chart.Figure
	for _, s := range []Setting{v.study().Without(), v.study()} {
		if curves := v.curvesUntil(s, appP50, 0.999); len(curves) > 0 {
			figures = append(figures, chart.Figure{
				Title: "HTTP requests, " + rulesWords(s.Rules), Unit: "µs by percentile, on one connection, both axes logarithmic",
				Wide: v.Distribution(curves, 528, 240, "wide"), Narrow: v.Distribution(curves, 360, 220, "narrow"),
			})
		}
	}
	return figures
}

// curvesUntil are those of samples with a metric, up to a quantile.
func (v view) curvesUntil(s Setting, metric string, end float64) []chart.Curve {
	curves := v.CurvesOf(s.Case(), metric)
	for i := range curves {
		curves[i].Points = slices.DeleteFunc(curves[i].Points, func(q result.Quantile) bool { return q.Q > end })
	}
	return curves
}
