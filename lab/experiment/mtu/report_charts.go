package mtu

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Holes draws the transfer that may fall into the hole, one panel a target with a
// scale of its own: what the sender wrote and what arrived.
func (v view) Holes() []chart.Figure {
	var figures []chart.Figure
	for _, name := range v.Names() {
		s, ok := v.sample(name, HoleCase)
		if !ok || len(s.Series[transferSeries]) == 0 || s.Duration <= 0 {
			continue
		}
		figures = append(figures, v.holePanel(name, s))
	}
	return figures
}

// writtenName is measure.WrittenSeries.
const writtenName = "tcp_written_gbps"

func (v view) holePanel(name string, s result.Sample) chart.Figure {
	const width, height, left, above, below = 360.0, 190.0, 40.0, 10.0, 24.0
	received, written := s.Series[transferSeries], s.Series[writtenName]
	unit, scale := "Gbit/s", 1.0
	top := max(slices.Max(received), maximum(written))
	if top > 0 && top < 0.5 {
		unit, scale, top = "Mbit/s", 1000, top*1000
	}
	ys := chart.Ticks(top, 4)
	top = ys[len(ys)-1]
	bar := (width - left) / float64(len(received))
	y := func(value float64) float64 { return height - below - value*scale/top*(height-below-above) }
	c := chart.NewCanvas(width, height)
	for _, t := range ys {
		c.Line(left, y(t/scale), width, y(t/scale), "grid")
		c.Text(left-6, y(t/scale)+4, "tick e", fmt.Sprintf("%g", t))
	}
	for _, t := range chart.Ticks(s.Duration, 4) {
		if t <= s.Duration*1.001 {
			c.Text(left+t/s.Duration*(width-left-10)+2, height-6, "tick m", fmt.Sprintf("%g s", t))
		}
	}
	c.Open(v.Color(name), name)
	for i, value := range written {
		if value > 0 {
			c.Rect(left+float64(i)*bar, y(value), bar-1, height-below-y(value), 1, "written")
		}
	}
	for i, value := range received {
		if value > 0 {
			c.Rect(left+float64(i)*bar+1, y(value), bar-3, height-below-y(value), 1, "bar")
		}
	}
	c.Close()
	words := fmt.Sprintf("%s: %s Gbit/s on average", name, stats.Figure(s.Metrics[stats.Decisive]))
	title := fmt.Sprintf("%s Gbit/s, MSS %s", stats.Figure(s.Metrics[stats.Decisive]), stats.Figure(s.Metrics[measure.MSS]))
	if at, stalled := stats.Stalled(s); stalled {
		sum := 0.0
		for _, value := range written {
			sum += value / 8 * 1e6 * s.Duration / float64(len(written)) // kB
		}
		c.Text((left+width)/2+20, 78, "alarm m", silence(at))
		c.Text((left+width)/2+20, 97, "small m", fmt.Sprintf("%s kB written, then zero", stats.Figure(sum)))
		title = "burst, then zero: MSS stays " + stats.Figure(s.Metrics[measure.MSS])
		words = fmt.Sprintf("%s: the sender wrote %s kB and %s", name, stats.Figure(sum), silence(at))
	}
	return chart.Figure{Title: name + ", " + unit, Unit: title, Wide: c.SVG("any", words)}
}

// silence says when a transfer stalled.
func silence(at float64) string {
	if at == 0 {
		return "nothing arrived"
	}
	return fmt.Sprintf("nothing arrived after %.1f s", at)
}

func maximum(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	return slices.Max(xs)
}

// Fixed draws throughput before and after each fix, one panel a tunnel. The dashed
// rule is plain with the same segments.
func (v view) Fixed() []chart.Figure {
	var figures []chart.Figure
	for _, name := range v.Names() {
		if name != stats.Baseline {
			if f, ok := v.fixPanel(name); ok {
				figures = append(figures, f)
			}
		}
	}
	return figures
}

func (v view) fixPanel(name string) (chart.Figure, bool) {
	const width, left, right, pitch, thick = 360.0, 122.0, 256.0, 34.0, 17.0
	cases := []struct{ caseName, words string }{
		{HoleCase, "without a fix"}, {"guest-mtu", "guest MTU " + stats.Figure(v.Parameters.Number(pathMTUParameter(name)))}, {"clamp", "MSS clamped"}, {"messages", "too-big messages"},
	}
	top := 0.0
	for _, k := range cases {
		row, _ := v.find(name, k.caseName, stats.Decisive)
		base, _ := v.find(stats.Baseline, k.caseName, stats.Decisive)
		top = max(top, row.Hi, base.Median)
	}
	if top == 0 {
		return chart.Figure{}, false
	}
	scale := func(x float64) float64 { return left + x/top*(right-left) }
	c := chart.NewCanvas(width, float64(len(cases))*pitch+18)
	words := name + ". "
	if base, ok := v.find(stats.Baseline, "guest-mtu", stats.Decisive); ok {
		c.Line(scale(base.Median), 0, scale(base.Median), float64(len(cases))*pitch, "baseline")
		c.Text(scale(base.Median), float64(len(cases))*pitch+13, "tiny m", stats.Baseline)
	}
	for i, k := range cases {
		row, ok := v.find(name, k.caseName, stats.Decisive)
		y := float64(i) * pitch
		c.Text(0, y+21, "name", k.words)
		if !ok {
			c.Text(left, y+21, "small", "not measured")
			continue
		}
		mss, _ := v.find(name, k.caseName, measure.MSS)
		label := fmt.Sprintf("%s: %s Gbit/s, interval %s to %s, n = %d, MSS %s", k.words, stats.Figure(row.Median), stats.Figure(row.Lo), stats.Figure(row.Hi), row.N, stats.Figure(mss.Median))
		words += label + ". "
		c.Open(v.Color(name), label)
		c.Rect(left, y+8, max(scale(row.Median)-left, 1), thick, 2, "bar")
		c.Whisker(scale(row.Lo), scale(row.Hi), y+8+thick/2)
		if s, ok := v.sample(name, k.caseName); ok && k.caseName == HoleCase {
			if _, stalled := stats.Stalled(s); stalled {
				c.Text(left+8, y+21, "alarm", "black hole")
			}
		}
		c.Text(right+37, y+21, "value e", stats.Figure(row.Median))
		c.Text(width, y+21, "small e", "MSS "+stats.Figure(mss.Median))
		c.Close()
	}
	return chart.Figure{Title: name, Unit: "Gbit/s, higher is better", Wide: c.SVG("any", words)}, true
}

// Sweep draws the rate over the segment size, both logarithmic, one panel a
// target and one line a number of flows: along the steep guide packets a second
// are constant, along the level one bits are.
func (v view) Sweep() []chart.Figure {
	var figures []chart.Figure
	lo, hi, least, most := v.sweepRange()
	if least >= most || lo >= hi {
		return nil
	}
	for _, name := range v.Names() {
		if f, ok := v.sweepPanel(name, lo, hi, least, most); ok {
			figures = append(figures, f)
		}
	}
	return figures
}

// sweepRange encloses the rates and segment sizes of all targets.
func (v view) sweepRange() (lo, hi, least, most float64) {
	lo, least = math.Inf(1), math.Inf(1)
	for _, s := range v.Samples {
		if _, _, ok := Swept(s.Case); !ok || s.Error != "" || s.Metrics[measure.MSS] <= 0 || s.Metrics[stats.Decisive] <= 0 {
			continue
		}
		lo, hi = min(lo, s.Metrics[stats.Decisive]), max(hi, s.Metrics[stats.Decisive])
		least, most = min(least, s.Metrics[measure.MSS]), max(most, s.Metrics[measure.MSS])
	}
	return lo, hi, least, most
}

func (v view) sweepPanel(name string, lo, hi, least, most float64) (chart.Figure, bool) {
	const width, height, left, above, below = 360.0, 230.0, 34.0, 8.0, 24.0
	right := width - 58
	ys := chart.LogTicks(lo, hi)
	bottom, top := math.Log(ys[0]), math.Log(ys[len(ys)-1])
	x := func(size float64) float64 {
		return left + 12 + math.Log(size/least)/math.Log(most/least)*(right-left-20)
	}
	y := func(rate float64) float64 {
		return height - below - (math.Log(rate)-bottom)/(top-bottom)*(height-below-above)
	}
	lines := v.sweepLines(name)
	if len(lines) == 0 {
		return chart.Figure{}, false
	}
	c := chart.NewCanvas(width, height)
	for _, t := range ys {
		c.Line(left, y(t), right, y(t), "grid")
		c.Text(left-6, y(t)+4, "tick e", fmt.Sprintf("%g", t))
	}
	first := lines[0].points[0]
	end := min(most, first.size*math.Exp(top)/first.rate)
	c.Line(x(first.size), y(first.rate), x(end), y(first.rate*end/first.size), "guide")
	c.Line(x(first.size), y(first.rate), x(most), y(first.rate), "guide")
	for _, p := range lines[0].points {
		c.Text(x(p.size), height-6, "tick m", stats.Figure(p.size))
	}
	words := "Rate over segment size with " + name + ". "
	for i, l := range lines {
		points := make([]chart.Point, len(l.points))
		for k, p := range l.points {
			points[k] = chart.Point{X: x(p.size), Y: y(p.rate)}
		}
		c.Open(v.Color(name), fmt.Sprintf("%d flows", l.flows))
		c.Polyline(points, []string{"few", "some", "strong"}[min(2, i*3/len(lines))])
		for _, p := range points {
			c.Dot(p.X, p.Y, 3, "spot")
		}
		c.Close()
		final := l.points[len(l.points)-1]
		words += fmt.Sprintf("%d flows reach %s Gbit/s at %s bytes. ", l.flows, stats.Figure(final.rate), stats.Figure(final.size))
	}
	labelFlows(c, lines, y, right+8)
	return chart.Figure{Title: name, Unit: "Gbit/s by segment size in bytes", Wide: c.SVG("any", words)}, true
}

// labelFlows names the lines at their right end.
func labelFlows(c *chart.Canvas, lines []sweepLine, y func(float64) float64, x float64) {
	end := func(l sweepLine) float64 { return y(l.points[len(l.points)-1].rate) }
	sorted := slices.SortedStableFunc(slices.Values(lines), func(a, b sweepLine) int { return cmp.Compare(end(a), end(b)) })
	wanted := make([]float64, len(sorted))
	for i, l := range sorted {
		wanted[i] = end(l)
	}
	for i, place := range chart.Spread(wanted, 14, 8, c.Height-24) {
		label := fmt.Sprintf("%d flows", sorted[i].flows)
		if sorted[i].flows == 1 {
			label = "1 flow"
		}
		c.Text(x, place+4, "small", label)
	}
}

// sweepLine is the medians of one number of flows, by size.
type sweepLine struct {
	flows  int
	points []struct{ size, rate float64 }
}

func (v view) sweepLines(name string) []sweepLine {
	var lines []sweepLine
	for _, caseName := range stats.Cases(v.Result) {
		_, flows, ok := Swept(caseName)
		rate, okRate := v.find(name, caseName, stats.Decisive)
		mss, _ := v.find(name, caseName, measure.MSS)
		if !ok || !okRate || rate.Median <= 0 || mss.Median <= 0 {
			continue
		}
		i := slices.IndexFunc(lines, func(l sweepLine) bool { return l.flows == flows })
		if i < 0 {
			i = len(lines)
			lines = append(lines, sweepLine{flows: flows})
		}
		lines[i].points = append(lines[i].points, struct{ size, rate float64 }{mss.Median, rate.Median})
	}
	return lines
}

// WrittenKey explains the two shades of Holes.
func (v view) WrittenKey() template.HTML {
	c := chart.NewCanvas(360, 16)
	c.Open("k-none", "")
	c.Rect(0, 3, 10, 10, 2, "written")
	c.Text(16, 12, "tick", "written by the sender")
	c.Rect(214, 3, 10, 10, 2, "bar")
	c.Text(230, 12, "tick", "arrived")
	c.Close()
	return c.SVG("any", "Pale: written by the sender. Full: arrived.")
}

// transferSeries is the series of a transfer that holds Gbit/s.
const transferSeries = measure.TCPSeries
