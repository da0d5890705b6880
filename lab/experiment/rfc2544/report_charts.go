package rfc2544

import (
	"fmt"
	"html/template"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
)

// Rates draws the rate by frame size, one panel a direction: for each size a bar a
// target as high as its no-drop rate, and a mark at its partial-drop rate.
func (v view) Rates() []chart.Figure {
	var figures []chart.Figure
	for _, direction := range v.directions() {
		f := chart.Figure{Title: wayWords(direction), Unit: "Mpps by frame size in bytes, higher is better"}
		f.Wide, f.Narrow = v.rates(direction, 528, "wide"), v.rates(direction, 360, "narrow")
		figures = append(figures, f)
	}
	return figures
}

func (v view) rates(direction string, width float64, class string) template.HTML {
	const height, left, above, below = 270.0, 34.0, 16.0, 28.0
	cases := v.sized(direction)
	ys := chart.Ticks(v.topRate(cases), 5)
	y := chart.Axis(0, ys[len(ys)-1], height-below, above, false)
	c := chart.NewCanvas(width, height)
	for _, t := range ys {
		c.Line(left, y(t), width, y(t), "grid")
		c.Text(left-6, y(t)+4, "tick e", fmt.Sprintf("%g", t))
	}
	words := wayWords(direction) + ", no-drop rates. "
	pitch := (width - left) / float64(max(1, len(cases)))
	bar := min(30, pitch*0.8/float64(max(1, len(v.Names()))))
	for i, t := range cases {
		middle := left + pitch*(float64(i)+0.5)
		c.Text(middle, height-8, "tick m", sizeWords(t))
		for k, name := range v.Names() {
			at := middle + (float64(k)-float64(len(v.Names()))/2)*bar
			words += v.rateBar(c, name, t, at, bar, y, pitch > 90)
		}
	}
	return c.SVG(class, words)
}

// topRate is the highest rate of cases.
func (v view) topRate(cases []Traffic) float64 {
	top := 0.0
	for _, t := range cases {
		for _, name := range v.Names() {
			ndr, _ := v.find(name, t, transit.NDR)
			pdr, _ := v.find(name, t, transit.PDR)
			top = max(top, ndr.Hi, pdr.Median)
		}
	}
	return top
}

// rateBar draws one target's rate at one size, and returns it in words.
func (v view) rateBar(c *chart.Canvas, name string, t Traffic, x, width float64, y func(float64) float64, roomy bool) string {
	ndr, ok := v.find(name, t, transit.NDR)
	pdr, okPDR := v.find(name, t, transit.PDR)
	if !ok && !okPDR {
		return ""
	}
	label := fmt.Sprintf("%s, %s: %s Mpps without loss, %s with %s", name, sizeWords(t), stats.Figure(ndr.Median), stats.Figure(pdr.Median), v.Tolerance())
	if ndr.Ratio > 0 && ndr.Baseline != "" {
		label += fmt.Sprintf(", %s %s", stats.Ratio(ndr.Ratio), ndr.Baseline)
	}
	c.Open(v.Color(name), label)
	c.Rect(x, 16, width, y(0)-16, 0, "hit")
	c.Rect(x+1, y(ndr.Median), width-2, y(0)-y(ndr.Median), 1.5, "bar")
	if okPDR {
		c.Line(x+1, y(pdr.Median), x+width-1, y(pdr.Median), "mark")
	}
	if ndr.Median == 0 && ok {
		c.Text(x+width/2, y(pdr.Median)-5, "alarm m", "0")
	}
	if name == v.DUT && ndr.Ratio > 0 && roomy {
		c.Text(x+width/2, y(max(ndr.Median, pdr.Median))-6, "tiny m", fmt.Sprintf("%.2f", ndr.Ratio))
	}
	c.Close()
	return label + ". "
}

// Times splits the time per packet of the smallest frames, one panel a direction, into
// that of generator and sink and that of the device.
func (v view) Times() []chart.Figure {
	var figures []chart.Figure
	for _, direction := range v.directions() {
		t, ok := v.key(direction)
		if !ok {
			continue
		}
		if f, ok := v.times(direction, t); ok {
			figures = append(figures, f)
		}
	}
	return figures
}

func (v view) times(direction string, t Traffic) (chart.Figure, bool) {
	const width, left, right, pitch, thick = 360.0, 74.0, 262.0, 30.0, 15.0
	var names []string
	top := 0.0
	for _, name := range v.Names() {
		whole, ok := v.find(name, t, transit.NSPerPacket)
		if _, okDevice := v.find(name, t, transit.DeviceNS); ok && okDevice && whole.Median > 0 {
			names = append(names, name)
			top = max(top, whole.Median)
		}
	}
	if len(names) == 0 {
		return chart.Figure{}, false
	}
	// A peer that is many times slower is cut off, or the others would vanish.
	dut, _ := v.find(v.DUT, t, transit.NSPerPacket)
	limit := min(top, 4*max(dut.Median, 1))
	x := func(ns float64) float64 { return left + min(ns, limit)/limit*(right-left) }
	c := chart.NewCanvas(width, float64(len(names))*pitch+4)
	words := wayWords(direction) + ", time per packet. "
	for i, name := range names {
		whole, _ := v.find(name, t, transit.NSPerPacket)
		device, _ := v.find(name, t, transit.DeviceNS)
		y := float64(i)*pitch + 4
		label := fmt.Sprintf("%s: %s ns a packet, %s of them the device's", name, stats.Figure(whole.Median), stats.Figure(device.Median))
		words += label + ". "
		c.Open(v.Color(name), label)
		c.Rect(0, y-4, width, pitch, 0, "hit")
		c.Text(0, y+13, "name", chart.Brief(name, 9))
		c.Rect(left, y+1, x(whole.Median)-left, thick, 2, "bar light")
		c.Rect(x(whole.Median-device.Median), y+1, x(whole.Median)-x(whole.Median-device.Median), thick, 0, "bar")
		if whole.Median > limit {
			c.Line(right-9, y-2, right-13, y+thick+4, "whisker")
			c.Line(right-5, y-2, right-9, y+thick+4, "whisker")
		}
		c.Text(312, y+13, "value e", stats.Figure(device.Median))
		c.Text(width, y+13, "small e", stats.Figure(whole.Median))
		c.Close()
	}
	return chart.Figure{
		Title: fmt.Sprintf("%s, %s bytes", wayWords(direction), sizeWords(t)), Unit: "ns of a core: the device’s (full), with generator and sink (pale)",
		Wide: c.SVG("any", words),
	}, true
}

// Losses draws the share that is lost over the rate that is offered, as curves of the
// smallest frames, one panel a direction.
func (v view) Losses() []chart.Figure {
	var figures []chart.Figure
	for _, direction := range v.directions() {
		t, ok := v.key(direction)
		if !ok {
			continue
		}
		lines := v.lossLines(t)
		if len(lines) == 0 {
			continue
		}
		p := chart.Plot{Lines: lines, Words: "Loss over the rate offered. ", XTick: func(x float64) string { return fmt.Sprintf("%g%%", x) }, YTick: func(y float64) string { return fmt.Sprintf("%g%%", y) }}
		figures = append(figures, chart.Figure{
			Title: fmt.Sprintf("%s, %s bytes", wayWords(direction), sizeWords(t)), Unit: "share lost over the share of the highest rate offered",
			Wide: v.Plot(p, 528, 260, "wide"), Narrow: v.Plot(p, 360, 240, "narrow"),
		})
	}
	return figures
}

// lossLines are the medians over the rounds, in percent.
func (v view) lossLines(t Traffic) []chart.PlotLine {
	var lines []chart.PlotLine
	for _, name := range v.Names() {
		at := map[float64][]float64{}
		for _, s := range v.Samples {
			loads, losses := s.Series[transit.LossLoad], s.Series[transit.LossShare]
			if s.Target != name || s.Case != t.Case() || s.Error != "" || len(loads) != len(losses) {
				continue
			}
			for i, load := range loads {
				at[load] = append(at[load], losses[i])
			}
		}
		l := chart.PlotLine{Name: name}
		for load, shares := range at {
			l.Points = append(l.Points, chart.Point{X: 100 * load, Y: 100 * stats.Median(shares).Median})
		}
		if len(l.Points) > 1 {
			lines = append(lines, l)
		}
	}
	return lines
}

// Loads draws latency over the load, p50 and p99, one panel a direction.
func (v view) Loads() []chart.Figure {
	var figures []chart.Figure
	for _, direction := range v.directions() {
		t, ok := v.key(direction)
		if !ok {
			continue
		}
		var lines []chart.PlotLine
		for _, name := range v.Names() {
			for _, metric := range []string{transit.LatencyP50, transit.LatencyP99} {
				l := chart.PlotLine{Name: name, Faint: metric == transit.LatencyP50}
				for _, at := range []struct {
					suffix string
					share  float64
				}{{"_10", 10}, {"_50", 50}, {"_90", 90}, {"", 100}} {
					if row, ok := v.find(name, t, metric+at.suffix); ok && row.Median > 0 {
						l.Points = append(l.Points, chart.Point{X: at.share, Y: row.Median})
					}
				}
				if len(l.Points) > 1 {
					lines = append(lines, l)
				}
			}
		}
		if len(lines) == 0 {
			continue
		}
		p := chart.Plot{Lines: lines, LogY: true, Words: "Latency over load. ", XTick: func(x float64) string { return fmt.Sprintf("%g%%", x) }, YTick: func(y float64) string { return fmt.Sprintf("%g", y) }}
		figures = append(figures, chart.Figure{
			Title: fmt.Sprintf("Latency under load, %s, %s bytes", chart.LowerFirst(wayWords(direction)), sizeWords(t)), Unit: "µs over the share of each one’s no-drop rate; p99 strong, p50 pale",
			Wide: v.Plot(p, 528, 260, "wide"), Narrow: v.Plot(p, 360, 240, "narrow"),
		})
	}
	return figures
}

// Quantiles draws the latency distributions at the no-drop rate.
func (v view) Quantiles() []chart.Figure {
	var figures []chart.Figure
	for _, direction := range v.directions() {
		t, ok := v.key(direction)
		curves := v.Curves(t.Case())
		if !ok || len(curves) == 0 {
			continue
		}
		figures = append(figures, chart.Figure{
			Title: fmt.Sprintf("Latency distribution, %s, %s bytes", chart.LowerFirst(wayWords(direction)), sizeWords(t)), Unit: "µs by percentile at the no-drop rate, both axes logarithmic",
			Wide: v.Distribution(curves, 528, 260, "wide"), Narrow: v.Distribution(curves, 360, 240, "narrow"),
		})
	}
	return figures
}

// Flows draws the rate over the number of flows.
func (v view) Flows() (f chart.Figure) {
	var lines []chart.PlotLine
	size := ""
	for _, name := range v.Names() {
		l := chart.PlotLine{Name: name}
		for _, t := range Transits(v.Result) {
			if row, ok := v.find(name, t, transit.PDR); ok && t.Flows > 0 {
				size = fmt.Sprintf("%s, %s bytes", wayWords(t.Direction), sizeWords(t))
				l.Points = append(l.Points, chart.Point{X: float64(t.Flows), Y: row.Median})
			}
		}
		if len(l.Points) > 1 {
			lines = append(lines, l)
		}
	}
	if len(lines) == 0 {
		return f
	}
	f.Title, f.Unit = "Rate over flows", size+", Mpps with "+v.Tolerance()+" loss, flows logarithmic"
	p := chart.Plot{Lines: lines, LogX: true, Words: "Rate over flows. ", XTick: chart.Counted, YTick: func(y float64) string { return fmt.Sprintf("%g", y) }}
	f.Wide, f.Narrow = v.Plot(p, 528, 260, "wide"), v.Plot(p, 360, 240, "narrow")
	return f
}
