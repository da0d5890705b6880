package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// addedStrip is the small picture of a card: what every target's firewall adds, on one
// axis with 0.
func (v policedView) addedStrip(s stats.Setting) template.HTML {
	const width, height, pad = 184.0, 46.0, 24.0
	var rows []result.Row
	reach := 0.3
	for _, name := range v.Names() {
		if row, ok := v.find(name, s, stats.RRAdded); ok {
			rows = append(rows, row)
			reach = max(reach, math.Abs(row.Lo), math.Abs(row.Hi))
		}
	}
	if len(rows) == 0 {
		return ""
	}
	x := axis(-reach, reach, pad, width-pad, false)
	c := newCanvas(width, height)
	c.line(0, 23, width, 23, "axis")
	c.line(x(0), 13, x(0), 33, "baseline")
	c.text(x(0), 44, "tiny m", "0")
	c.text(width, 44, "tiny e", signed(reach)+" µs")
	words := "Added µs. "
	var taken []float64
	for _, row := range rows {
		label := fmt.Sprintf("%s: %s µs", row.Target, difference(row))
		words += label + ". "
		c.open(v.Color(row.Target), label)
		c.line(x(row.Lo), 23, x(row.Hi), 23, "range")
		c.dot(x(row.Median), 23, 5, "spot")
		at := min(max(x(row.Median), 22), width-22)
		if !slices.ContainsFunc(taken, func(t float64) bool { return math.Abs(t-at) < 50 }) {
			taken = append(taken, at)
			c.text(at, 11, "tiny m own", brief(row.Target, 8))
		}
		c.close()
	}
	return c.svg("strip", words)
}

// ScenarioBars draws the study's scenarios, a panel each: two bars a target, without a
// firewall pale and with one full.
func (v policedView) ScenarioBars() []figure {
	var figures []figure
	for _, s := range v.scenarios() {
		if f, ok := v.scenarioBars(s); ok {
			figures = append(figures, f)
		}
	}
	return figures
}

func (v policedView) scenarioBars(s scenario) (figure, bool) {
	const width, left, right, pitch = 360.0, 68.0, 236.0, 46.0
	var names []string
	top := 0.0
	for _, name := range v.Names() {
		on, okOn := v.find(name, s.on, stats.RRP50)
		off, okOff := v.find(name, s.off, stats.RRP50)
		if !okOn && !okOff {
			continue
		}
		names = append(names, name)
		top = max(top, on.Hi, off.Hi)
	}
	if len(names) == 0 || top == 0 {
		return figure{}, false
	}
	x := axis(0, top, left, right, false)
	c := newCanvas(width, float64(len(names))*pitch+4)
	words := s.Title + ", round trip p50. "
	for i, name := range names {
		y := float64(i)*pitch + 4
		words += v.scenarioPair(c, s, name, y, x)
	}
	return figure{Title: s.Title, Unit: "µs, p50; pale: no firewall, full: 100 rules; right: added", Wide: c.svg("any", words)}, true
}

// scenarioPair draws a target's two bars from the height y, and returns them in words.
func (v policedView) scenarioPair(c *canvas, s scenario, name string, y float64, x func(float64) float64) string {
	const thick, value, end = 15.0, 289.0, 358.0
	label := name + ": "
	c.open(v.Color(name), "")
	c.rect(0, y-4, c.w, 44, 0, "hit")
	c.text(0, y+22, "name", brief(name, 8))
	for k, one := range []struct {
		s     stats.Setting
		words string
		class string
	}{{s.off, "without", "bar light"}, {s.on, "with 100 rules", "bar"}} {
		row, ok := v.find(name, one.s, stats.RRP50)
		if !ok {
			continue
		}
		top := y + float64(k)*18
		c.rect(x(0), top, x(row.Median)-x(0), thick, 2, one.class)
		c.whisker(x(row.Lo), x(row.Hi), top+thick/2)
		c.text(value, top+12, []string{"small e", "value e"}[k], stats.In(row.Median, row.Unit))
		label += fmt.Sprintf("%s %s, interval %s to %s; ", one.words, stats.In(row.Median, row.Unit), stats.In(row.Lo, row.Unit), stats.In(row.Hi, row.Unit))
	}
	if row, ok := v.find(name, s.on, stats.RRAdded); ok {
		class := "ratio e"
		added := signed(row.Median)
		if !row.Distinguishable {
			class, added = "ratio same e", "≈ "+added
		}
		c.text(end, y+30, class, added)
		label += "added " + difference(row)
	}
	c.close()
	return label + ". "
}

// sweepPlot is a metric over the number of rules.
type sweepPlot struct {
	title, unit string
	at          func(name string, s stats.Setting) (row bounded, ok bool)
	logY        bool
	rule        float64 // a line across, NaN for none
	yTick       func(float64) string
}

// bounded is a value with its interval.
type bounded struct{ value, lo, hi float64 }

// Sweeps draws all metrics over the number of rules.
func (v policedView) Sweeps() []figure {
	if len(v.sweep()) < 3 {
		return nil
	}
	plain := func(y float64) string { return fmt.Sprintf("%g", y) }
	median := func(metric string) func(string, stats.Setting) (bounded, bool) {
		return func(name string, s stats.Setting) (bounded, bool) {
			row, ok := v.find(name, s, metric)
			return bounded{row.Median, row.Lo, row.Hi}, ok
		}
	}
	added := func(name string, s stats.Setting) (bounded, bool) {
		if _, measured := v.find(name, s, stats.RRP50); s.Rules == 0 {
			return bounded{}, measured
		}
		return median(stats.RRAdded)(name, s)
	}
	ratio := func(metric string) func(string, stats.Setting) (bounded, bool) {
		return func(name string, s stats.Setting) (bounded, bool) {
			row, ok := v.find(name, s, metric)
			return bounded{100 * row.Ratio, 100 * row.RatioLo, 100 * row.RatioHi}, ok && row.Ratio > 0
		}
	}
	percent := func(y float64) string { return fmt.Sprintf("%g%%", y) }
	var figures []figure
	for _, p := range []sweepPlot{
		{"Added to a round trip", "µs over no firewall, 1024 B, by rules; lower is better", added, false, 0, signed},
		{"Connections, one at a time", "rate in percent of that without a firewall, by rules", ratio(stats.CRRRate), false, 100, percent},
		{"Connections, many at once", "rate in percent of that without a firewall, by rules", ratio(stats.ConnRate), false, 100, percent},
		{"UDP packets one way", "kpps received by rules, both axes logarithmic; higher is better", median(stats.UDPRate), true, math.NaN(), plain},
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

func (v policedView) sweepFigure(p sweepPlot) (figure, bool) {
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
		return figure{}, false
	}
	return figure{Title: p.title, Unit: p.unit, Wide: v.sweepChart(p, tracks, 528, 260, "wide"), Narrow: v.sweepChart(p, tracks, 360, 240, "narrow")}, true
}

// rulesAxis is logarithmic, with 0 a step before the fewest rules that there are.
func (v policedView) rulesAxis(left, right float64) func(float64) float64 {
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
	x := axis(zero, max(most, least*1.01), left, right, true)
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
		return logTicks(lo, max(hi, lo*1.01))
	}
	if !math.IsNaN(p.rule) {
		hi = max(hi, p.rule)
	}
	if lo >= 0 && hi > 100 && hi <= 106 && p.rule == 100 { // a little over all of it needs no tick
		return []float64{0, 20, 40, 60, 80, 100}
	}
	up := ticks(max(hi, 0.001), 5)
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

func (v policedView) sweepChart(p sweepPlot, tracks []sweepTrack, width, height float64, class string) template.HTML {
	const left, above, below = 44.0, 10.0, 26.0
	right := width - 74
	x, ys := v.rulesAxis(left+8, right), sweepTicks(p, tracks)
	y := axis(ys[0], ys[len(ys)-1], height-below, above, p.logY)
	c := newCanvas(width, height)
	for _, t := range ys {
		c.line(left, y(t), right, y(t), "grid")
		c.text(left-6, y(t)+4, "tick e", p.yTick(t))
	}
	if !math.IsNaN(p.rule) {
		c.line(left, y(p.rule), right, y(p.rule), "guide")
	}
	last := math.Inf(-1)
	for _, s := range v.sweep() {
		at := x(float64(s.Rules))
		c.line(at, height-below, at, height-below+4, "axis")
		if at-last > 40 {
			c.text(at, height-8, "tick m", counted(float64(s.Rules)))
			last = at
		}
	}
	words := p.title + ", " + p.unit + ". "
	var ends []track
	for i, t := range tracks {
		words += v.drawTrack(c, t, x, y, float64(i)-float64(len(tracks)-1)/2)
		ends = append(ends, track{name: t.name, median: []float64{t.at[len(t.at)-1].value}})
	}
	v.endLabels(c, ends, y, right)
	return c.svg(class, words)
}

// drawTrack draws a target's line with its intervals, these a little beside those of
// others, and returns it in words.
func (v policedView) drawTrack(c *canvas, t sweepTrack, x, y func(float64) float64, beside float64) string {
	points := make([]point, len(t.at))
	words := ""
	for i, b := range t.at {
		points[i] = point{x(t.rules[i]) + 3*beside, y(b.value)}
		words += fmt.Sprintf("%s with %s: %s [%s, %s]. ", t.name, rulesWords(int(t.rules[i])), stats.Figure(b.value), stats.Figure(b.lo), stats.Figure(b.hi))
	}
	c.open(v.Color(t.name), t.name)
	c.polyline(points, "strong")
	for i, b := range t.at {
		if y(b.lo)-y(b.hi) > 1 {
			c.line(points[i].x, y(b.lo), points[i].x, y(b.hi), "range")
		}
		c.dot(points[i].x, points[i].y, 2.8, "spot")
	}
	c.close()
	return words
}

// tailEnd is the last quantile that is drawn: a run has too few transactions for more.
const tailEnd = 0.9999

// Distributions draws the latency by percentile without a firewall, with the study's
// rules and with the most.
func (v policedView) Distributions() []figure {
	settings := []stats.Setting{v.study().Without(), v.study()}
	if most, ok := v.most(); ok && most.Rules > stats.ScenarioRules {
		settings = append(settings, most)
	}
	var figures []figure
	for _, s := range settings {
		if curves := v.curvesUntil(s, stats.RRP50, tailEnd); len(curves) > 0 {
			figures = append(figures, figure{
				Title: "Round trips, " + rulesWords(s.Rules), Unit: "µs by percentile, 1024 B, both axes logarithmic",
				Wide: v.distribution(curves, 528, 260, "wide"), Narrow: v.distribution(curves, 360, 240, "narrow"),
			})
		}
	}
	return figures
}

// AppDistributions draws the application's latency by percentile, likewise.
func (v policedView) AppDistributions() []figure {
	var figures []figure
	for _, s := range []stats.Setting{v.study().Without(), v.study()} {
		if curves := v.curvesUntil(s, "app_p50", 0.999); len(curves) > 0 {
			figures = append(figures, figure{
				Title: "HTTP requests, " + rulesWords(s.Rules), Unit: "µs by percentile, on one connection, both axes logarithmic",
				Wide: v.distribution(curves, 528, 240, "wide"), Narrow: v.distribution(curves, 360, 220, "narrow"),
			})
		}
	}
	return figures
}

// curvesUntil are those of samples with a metric, up to a quantile.
func (v policedView) curvesUntil(s stats.Setting, metric string, end float64) []curve {
	curves := v.curvesOf(s.Case(), metric)
	for i := range curves {
		curves[i].points = slices.DeleteFunc(curves[i].points, func(q result.Quantile) bool { return q.Q > end })
	}
	return curves
}
