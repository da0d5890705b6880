package cache

import (
	_ "embed"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
)

// view is a result of the cache experiment prepared for drawing.
type view struct{ chart.View }

func (v view) find(name string, l Load, metric string) (result.Row, bool) {
	return stats.Find(v.Summary, name, l.Case(), metric)
}

// routes are the numbers of routes that were behind the cache.
func (v view) routes() []int {
	var all []int
	for _, l := range Loads(v.Result) {
		if len(all) == 0 || all[len(all)-1] != l.Routes {
			all = append(all, l.Routes)
		}
	}
	return all
}

func routesWords(n int) string {
	if n == 0 {
		return "no additional routes"
	}
	return chart.Counted(float64(n)) + " routes"
}

// metric is what is drawn: the device's time where that was measured.
func (v view) metric() string {
	for _, row := range v.Summary {
		if row.Metric == transit.DeviceNS {
			return transit.DeviceNS
		}
	}
	return transit.NSPerPacket
}

// Cards are what the cache saves, by routes at the fewest and the most flows.
func (v view) Cards() []chart.Card {
	var cards []chart.Card
	for _, n := range v.routes() {
		loads := v.with(n)
		for _, l := range []Load{loads[min(1, len(loads)-1)], loads[len(loads)-1]} {
			row, ok := v.find(CacheOn, l, ShareSaved)
			if !ok {
				continue
			}
			c := chart.Card{Title: fmt.Sprintf("Saved, %s flows, %s", chart.Counted(float64(l.Flows)), routesWords(n)), Value: percent(row.Median), Unit: "%", Class: "even", Note: "no difference shown"}
			on, okOn := v.find(CacheOn, l, v.metric())
			off, okOff := v.find(CacheOff, l, v.metric())
			if okOn && okOff && row.Distinguishable {
				c.Note, c.Class = fmt.Sprintf("%s ns instead of %s", stats.Figure(on.Median), stats.Figure(off.Median)), "good"
				if row.Median < 0 {
					c.Class = "bad"
				}
			}
			cards = append(cards, c)
			if len(loads) == 1 {
				break
			}
		}
	}
	return cards[:min(len(cards), 4)]
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) }

func (v view) with(routes int) []Load {
	var loads []Load
	for _, l := range Loads(v.Result) {
		if l.Routes == routes {
			loads = append(loads, l)
		}
	}
	return loads
}

// Times draws ns per packet over flows, on against off, one panel a number of routes.
func (v view) Times() []chart.Figure {
	var figures []chart.Figure
	for _, n := range v.routes() {
		var lines []chart.PlotLine
		for _, name := range v.Names() {
			l := chart.PlotLine{Name: name}
			for _, load := range v.with(n) {
				if row, ok := v.find(name, load, v.metric()); ok {
					l.Points = append(l.Points, chart.Point{X: float64(load.Flows), Y: row.Median})
				}
			}
			if len(l.Points) > 0 {
				lines = append(lines, l)
			}
		}
		if len(lines) == 0 {
			continue
		}
		p := chart.Plot{Lines: lines, LogX: true, Words: "Time per packet over flows. ", XTick: chart.Counted, YTick: func(y float64) string { return fmt.Sprintf("%g", y) }}
		unit := "ns of the device a packet over flows, lower is better"
		if v.metric() == transit.NSPerPacket {
			unit = "ns a packet over flows, generator and sink included, lower is better"
		}
		figures = append(figures, chart.Figure{Title: "With " + routesWords(n), Unit: unit, Wide: v.Plot(p, 528, 270, "wide"), Narrow: v.Plot(p, 360, 250, "narrow")})
	}
	return figures
}

// Lengths is how long a sample took.
func (v view) Lengths() string { return v.SampleTimes() }

// claimed is the best share that the NSX edge study claims to be saved.
const claimed = 0.75

// Saved draws the share of the device's time that is saved, a bar a number of flows,
// and the study's claim.
func (v view) Saved() []chart.Figure {
	const width, left, right, pitch, thick = 360.0, 84.0, 300.0, 28.0, 15.0
	var figures []chart.Figure
	for _, n := range v.routes() {
		loads := v.with(n)
		c := chart.NewCanvas(width, float64(len(loads))*pitch+22)
		x := func(share float64) float64 { return left + max(0, min(share, 1))*(right-left) }
		for _, t := range []float64{0, 0.25, 0.5, 0.75, 1} {
			c.Line(x(t), 2, x(t), float64(len(loads))*pitch+2, "grid")
			c.Text(x(t), float64(len(loads))*pitch+16, "tick m", fmt.Sprintf("%g%%", 100*t))
		}
		c.Line(x(claimed), 0, x(claimed), float64(len(loads))*pitch+4, "baseline")
		words, drawn := "Share of the device's time that the cache saves. ", false
		for i, l := range loads {
			row, ok := v.find(CacheOn, l, ShareSaved)
			if !ok {
				continue
			}
			drawn = true
			y := float64(i)*pitch + 4
			label := fmt.Sprintf("%s flows: %s %%, interval %s to %s, n = %d", chart.Counted(float64(l.Flows)), percent(row.Median), percent(row.Lo), percent(row.Hi), row.N)
			words += label + ". "
			c.Open(v.Color(CacheOn), label)
			c.Text(left-8, y+14, "name e", chart.Counted(float64(l.Flows)))
			c.Rect(left, y+2, x(row.Median)-left, thick, 2, "bar")
			c.Whisker(x(row.Lo), x(row.Hi), y+2+thick/2)
			c.Text(width, y+14, "value e", percent(row.Median)+" %")
			c.Close()
		}
		if drawn {
			figures = append(figures, chart.Figure{Title: "With " + routesWords(n), Unit: "share saved by flows; dashed: “up to 75 %” of the NSX edge study", Wide: c.SVG("any", words)})
		}
	}
	return figures
}

// cacheLine is one load of the table.
type cacheLine struct{ Flows, Routes, On, Off, Saved, Interval, Hits, Whole string }

// Lines are the table of all loads.
func (v view) Lines() []cacheLine {
	var lines []cacheLine
	value := func(name string, l Load, metric string) string {
		if row, ok := v.find(name, l, metric); ok {
			return stats.In(row.Median, row.Unit)
		}
		return "–"
	}
	for _, l := range Loads(v.Result) {
		c := cacheLine{
			Flows: chart.Counted(float64(l.Flows)), Routes: chart.Counted(float64(l.Routes)), Saved: "–", Hits: "–",
			On: value(CacheOn, l, v.metric()), Off: value(CacheOff, l, v.metric()), Whole: value(CacheOn, l, transit.NSPerPacket),
		}
		if row, ok := v.find(CacheOn, l, ShareSaved); ok {
			c.Saved, c.Interval = percent(row.Median), percent(row.Lo)+"–"+percent(row.Hi)
		}
		if row, ok := v.find(CacheOn, l, HitRate); ok {
			c.Hits = strconv.FormatFloat(100*row.Median, 'f', 2, 64)
		}
		lines = append(lines, c)
	}
	return lines
}

// writeTable writes the cache experiment's summary for a terminal.
func writeTable(w io.Writer, v view) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %8s  %9s %9s %8s  %-11s %8s\n", "Flows", "routes", "on, ns", "off, ns", "saved %", "[interval]", "hits %")
	for _, l := range v.Lines() {
		fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("  %-10s %8s  %9s %9s %8s  %-11s %8s", l.Flows, l.Routes, l.On, l.Off, l.Saved, l.Interval, l.Hits), " "))
	}
	b.WriteByte('\n')
	return chart.WriteText(w, &b, v.Verdict)
}

//go:embed page.html
var pageTemplate string

// viewOf prepares r for drawing.
func viewOf(r result.Result) view {
	v := chart.NewView(r, CacheOff, underTest(r))
	v.Colors = map[string]string{CacheOff: "k-wire", CacheOn: "k-selvage"}
	return view{v}
}

// page writes r as one self-contained page.
func page(w io.Writer, r result.Result) error { return chart.Page(w, pageTemplate, viewOf(r)) }

// table writes the summary of r for a terminal.
func table(w io.Writer, r result.Result) error { return writeTable(w, viewOf(r)) }
