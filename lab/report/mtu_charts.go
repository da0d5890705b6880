package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Holes draws the transfer that may fall into the hole, one panel a target with a
// scale of its own: what the sender wrote and what arrived.
func (v mtuView) Holes() []figure {
	var figures []figure
	for _, name := range v.Names() {
		s, ok := v.sample(name, stats.HoleCase)
		if !ok || len(s.Series[seriesName]) == 0 || s.Duration <= 0 {
			continue
		}
		figures = append(figures, v.holePanel(name, s))
	}
	return figures
}

// writtenName is measure.WrittenSeries.
const writtenName = "tcp_written_gbps"

func (v mtuView) holePanel(name string, s result.Sample) figure {
	const width, height, left, above, below = 360.0, 190.0, 40.0, 10.0, 24.0
	received, written := s.Series[seriesName], s.Series[writtenName]
	unit, scale := "Gbit/s", 1.0
	top := max(slices.Max(received), maximum(written))
	if top > 0 && top < 0.5 {
		unit, scale, top = "Mbit/s", 1000, top*1000
	}
	ys := ticks(top, 4)
	top = ys[len(ys)-1]
	bar := (width - left) / float64(len(received))
	y := func(value float64) float64 { return height - below - value*scale/top*(height-below-above) }
	c := newCanvas(width, height)
	for _, t := range ys {
		c.line(left, y(t/scale), width, y(t/scale), "grid")
		c.text(left-6, y(t/scale)+4, "tick e", fmt.Sprintf("%g", t))
	}
	for _, t := range ticks(s.Duration, 4) {
		if t <= s.Duration*1.001 {
			c.text(left+t/s.Duration*(width-left-10)+2, height-6, "tick m", fmt.Sprintf("%g s", t))
		}
	}
	c.open(v.Color(name), name)
	for i, value := range written {
		if value > 0 {
			c.rect(left+float64(i)*bar, y(value), bar-1, height-below-y(value), 1, "written")
		}
	}
	for i, value := range received {
		if value > 0 {
			c.rect(left+float64(i)*bar+1, y(value), bar-3, height-below-y(value), 1, "bar")
		}
	}
	c.close()
	words := fmt.Sprintf("%s: %s Gbit/s on average", name, stats.Figure(s.Metrics[stats.Decisive]))
	title := fmt.Sprintf("%s Gbit/s, MSS %s", stats.Figure(s.Metrics[stats.Decisive]), stats.Figure(s.Metrics["mss"]))
	if at, stalled := stats.Stalled(s); stalled {
		sum := 0.0
		for _, value := range written {
			sum += value / 8 * 1e6 * s.Duration / float64(len(written)) // kB
		}
		c.text((left+width)/2+20, 78, "alarm m", silence(at))
		c.text((left+width)/2+20, 97, "small m", fmt.Sprintf("%s kB written, then zero", stats.Figure(sum)))
		title = "burst, then zero: MSS stays " + stats.Figure(s.Metrics["mss"])
		words = fmt.Sprintf("%s: the sender wrote %s kB and %s", name, stats.Figure(sum), silence(at))
	}
	return figure{Title: name + ", " + unit, Unit: title, Wide: c.svg("any", words)}
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
func (v mtuView) Fixed() []figure {
	var figures []figure
	for _, name := range v.Names() {
		if name != stats.Baseline {
			if f, ok := v.fixPanel(name); ok {
				figures = append(figures, f)
			}
		}
	}
	return figures
}

func (v mtuView) fixPanel(name string) (figure, bool) {
	const width, left, right, pitch, thick = 360.0, 122.0, 256.0, 34.0, 17.0
	cases := []struct{ caseName, words string }{
		{stats.HoleCase, "without a fix"}, {"guest-mtu", "guest MTU " + v.bytes("path_mtu_"+name)}, {"clamp", "MSS clamped"}, {"messages", "too-big messages"},
	}
	top := 0.0
	for _, k := range cases {
		row, _ := v.find(name, k.caseName, stats.Decisive)
		base, _ := v.find(stats.Baseline, k.caseName, stats.Decisive)
		top = max(top, row.Hi, base.Median)
	}
	if top == 0 {
		return figure{}, false
	}
	scale := func(x float64) float64 { return left + x/top*(right-left) }
	c := newCanvas(width, float64(len(cases))*pitch+18)
	words := name + ". "
	if base, ok := v.find(stats.Baseline, "guest-mtu", stats.Decisive); ok {
		c.line(scale(base.Median), 0, scale(base.Median), float64(len(cases))*pitch, "baseline")
		c.text(scale(base.Median), float64(len(cases))*pitch+13, "tiny m", stats.Baseline)
	}
	for i, k := range cases {
		row, ok := v.find(name, k.caseName, stats.Decisive)
		y := float64(i) * pitch
		c.text(0, y+21, "name", k.words)
		if !ok {
			c.text(left, y+21, "small", "not measured")
			continue
		}
		mss, _ := v.find(name, k.caseName, "mss")
		label := fmt.Sprintf("%s: %s Gbit/s, interval %s to %s, n = %d, MSS %s", k.words, stats.Figure(row.Median), stats.Figure(row.Lo), stats.Figure(row.Hi), row.N, stats.Figure(mss.Median))
		words += label + ". "
		c.open(v.Color(name), label)
		c.rect(left, y+8, max(scale(row.Median)-left, 1), thick, 2, "bar")
		c.whisker(scale(row.Lo), scale(row.Hi), y+8+thick/2)
		if s, ok := v.sample(name, k.caseName); ok && k.caseName == stats.HoleCase {
			if _, stalled := stats.Stalled(s); stalled {
				c.text(left+8, y+21, "alarm", "black hole")
			}
		}
		c.text(right+37, y+21, "value e", stats.Figure(row.Median))
		c.text(width, y+21, "small e", "MSS "+stats.Figure(mss.Median))
		c.close()
	}
	return figure{Title: name, Unit: "Gbit/s, higher is better", Wide: c.svg("any", words)}, true
}

// Sweep draws the rate over the segment size, both logarithmic, one panel a
// target and one line a number of flows: along the steep guide packets a second
// are constant, along the level one bits are.
func (v mtuView) Sweep() []figure {
	var figures []figure
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
func (v mtuView) sweepRange() (lo, hi, least, most float64) {
	lo, least = math.Inf(1), math.Inf(1)
	for _, s := range v.Samples {
		if _, _, ok := stats.Swept(s.Case); !ok || s.Error != "" || s.Metrics["mss"] <= 0 || s.Metrics[stats.Decisive] <= 0 {
			continue
		}
		lo, hi = min(lo, s.Metrics[stats.Decisive]), max(hi, s.Metrics[stats.Decisive])
		least, most = min(least, s.Metrics["mss"]), max(most, s.Metrics["mss"])
	}
	return lo, hi, least, most
}

func (v mtuView) sweepPanel(name string, lo, hi, least, most float64) (figure, bool) {
	const width, height, left, above, below = 360.0, 230.0, 34.0, 8.0, 24.0
	right := width - 58
	ys := logTicks(lo, hi)
	bottom, top := math.Log(ys[0]), math.Log(ys[len(ys)-1])
	x := func(size float64) float64 {
		return left + 12 + math.Log(size/least)/math.Log(most/least)*(right-left-20)
	}
	y := func(rate float64) float64 {
		return height - below - (math.Log(rate)-bottom)/(top-bottom)*(height-below-above)
	}
	lines := v.sweepLines(name)
	if len(lines) == 0 {
		return figure{}, false
	}
	c := newCanvas(width, height)
	for _, t := range ys {
		c.line(left, y(t), right, y(t), "grid")
		c.text(left-6, y(t)+4, "tick e", fmt.Sprintf("%g", t))
	}
	first := lines[0].points[0]
	end := min(most, first.size*math.Exp(top)/first.rate)
	c.line(x(first.size), y(first.rate), x(end), y(first.rate*end/first.size), "guide")
	c.line(x(first.size), y(first.rate), x(most), y(first.rate), "guide")
	for _, p := range lines[0].points {
		c.text(x(p.size), height-6, "tick m", stats.Figure(p.size))
	}
	words := "Rate over segment size with " + name + ". "
	for i, l := range lines {
		points := make([]point, len(l.points))
		for k, p := range l.points {
			points[k] = point{x(p.size), y(p.rate)}
		}
		c.open(v.Color(name), fmt.Sprintf("%d flows", l.flows))
		c.polyline(points, []string{"few", "some", "strong"}[min(2, i*3/len(lines))])
		for _, p := range points {
			c.dot(p.x, p.y, 3, "spot")
		}
		c.close()
		final := l.points[len(l.points)-1]
		words += fmt.Sprintf("%d flows reach %s Gbit/s at %s bytes. ", l.flows, stats.Figure(final.rate), stats.Figure(final.size))
	}
	labelFlows(c, lines, y, right+8)
	return figure{Title: name, Unit: "Gbit/s by segment size in bytes", Wide: c.svg("any", words)}, true
}

// labelFlows names the lines at their right end.
func labelFlows(c *canvas, lines []sweepLine, y func(float64) float64, x float64) {
	end := func(l sweepLine) float64 { return y(l.points[len(l.points)-1].rate) }
	sorted := slices.SortedStableFunc(slices.Values(lines), func(a, b sweepLine) int { return cmp.Compare(end(a), end(b)) })
	wanted := make([]float64, len(sorted))
	for i, l := range sorted {
		wanted[i] = end(l)
	}
	for i, place := range spread(wanted, 14, 8, c.h-24) {
		label := fmt.Sprintf("%d flows", sorted[i].flows)
		if sorted[i].flows == 1 {
			label = "1 flow"
		}
		c.text(x, place+4, "small", label)
	}
}

// sweepLine is the medians of one number of flows, by size.
type sweepLine struct {
	flows  int
	points []struct{ size, rate float64 }
}

func (v mtuView) sweepLines(name string) []sweepLine {
	var lines []sweepLine
	for _, caseName := range stats.Cases(v.Result) {
		_, flows, ok := stats.Swept(caseName)
		rate, okRate := v.find(name, caseName, stats.Decisive)
		mss, _ := v.find(name, caseName, "mss")
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
func (v mtuView) WrittenKey() template.HTML {
	c := newCanvas(360, 16)
	c.open("k-none", "")
	c.rect(0, 3, 10, 10, 2, "written")
	c.text(16, 12, "tick", "written by the sender")
	c.rect(214, 3, 10, 10, 2, "bar")
	c.text(230, 12, "tick", "arrived")
	c.close()
	return c.svg("any", "Pale: written by the sender. Full: arrived.")
}
