package report

import (
	_ "embed"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// cacheView is a result of the cache experiment prepared for drawing.
type cacheView struct{ view }

func (v cacheView) find(name string, l stats.Load, metric string) (result.Row, bool) {
	return stats.Find(v.Summary, name, l.Case(), metric)
}

// routes are the numbers of routes that were behind the cache.
func (v cacheView) routes() []int {
	var all []int
	for _, l := range stats.Loads(v.Result) {
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
	return counted(float64(n)) + " routes"
}

// metric is what is drawn: the device's time where that was measured.
func (v cacheView) metric() string {
	for _, row := range v.Summary {
		if row.Metric == stats.DeviceNS {
			return stats.DeviceNS
		}
	}
	return stats.NSPerPacket
}

// Cards are what the cache saves, by routes at the fewest and the most flows.
func (v cacheView) Cards() []card {
	var cards []card
	for _, n := range v.routes() {
		loads := v.with(n)
		for _, l := range []stats.Load{loads[min(1, len(loads)-1)], loads[len(loads)-1]} {
			row, ok := v.find(stats.CacheOn, l, stats.ShareSaved)
			if !ok {
				continue
			}
			c := card{Title: fmt.Sprintf("Saved, %s flows, %s", counted(float64(l.Flows)), routesWords(n)), Value: percent(row.Median), Unit: "%", Class: "even", Note: "no difference shown"}
			on, okOn := v.find(stats.CacheOn, l, v.metric())
			off, okOff := v.find(stats.CacheOff, l, v.metric())
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

func (v cacheView) with(routes int) []stats.Load {
	var loads []stats.Load
	for _, l := range stats.Loads(v.Result) {
		if l.Routes == routes {
			loads = append(loads, l)
		}
	}
	return loads
}

// Times draws ns per packet over flows, on against off, one panel a number of routes.
func (v cacheView) Times() []figure {
	var figures []figure
	for _, n := range v.routes() {
		var lines []plotLine
		for _, name := range v.Names() {
			l := plotLine{name: name}
			for _, load := range v.with(n) {
				if row, ok := v.find(name, load, v.metric()); ok {
					l.points = append(l.points, point{float64(load.Flows), row.Median})
				}
			}
			if len(l.points) > 0 {
				lines = append(lines, l)
			}
		}
		if len(lines) == 0 {
			continue
		}
		p := plot{lines: lines, logX: true, words: "Time per packet over flows. ", xTick: counted, yTick: func(y float64) string { return fmt.Sprintf("%g", y) }}
		unit := "ns of the device a packet over flows, lower is better"
		if v.metric() == stats.NSPerPacket {
			unit = "ns a packet over flows, generator and sink included, lower is better"
		}
		figures = append(figures, figure{Title: "With " + routesWords(n), Unit: unit, Wide: v.plot(p, 528, 270, "wide"), Narrow: v.plot(p, 360, 250, "narrow")})
	}
	return figures
}

// Lengths is how long a sample took.
func (v cacheView) Lengths() string { return v.sampleTimes() }

// claimed is the best share that the NSX edge study claims to be saved.
const claimed = 0.75

// Saved draws the share of the device's time that is saved, a bar a number of flows,
// and the study's claim.
func (v cacheView) Saved() []figure {
	const width, left, right, pitch, thick = 360.0, 84.0, 300.0, 28.0, 15.0
	var figures []figure
	for _, n := range v.routes() {
		loads := v.with(n)
		c := newCanvas(width, float64(len(loads))*pitch+22)
		x := func(share float64) float64 { return left + max(0, min(share, 1))*(right-left) }
		for _, t := range []float64{0, 0.25, 0.5, 0.75, 1} {
			c.line(x(t), 2, x(t), float64(len(loads))*pitch+2, "grid")
			c.text(x(t), float64(len(loads))*pitch+16, "tick m", fmt.Sprintf("%g%%", 100*t))
		}
		c.line(x(claimed), 0, x(claimed), float64(len(loads))*pitch+4, "baseline")
		words, drawn := "Share of the device's time that the cache saves. ", false
		for i, l := range loads {
			row, ok := v.find(stats.CacheOn, l, stats.ShareSaved)
			if !ok {
				continue
			}
			drawn = true
			y := float64(i)*pitch + 4
			label := fmt.Sprintf("%s flows: %s %%, interval %s to %s, n = %d", counted(float64(l.Flows)), percent(row.Median), percent(row.Lo), percent(row.Hi), row.N)
			words += label + ". "
			c.open(v.Color(stats.CacheOn), label)
			c.text(left-8, y+14, "name e", counted(float64(l.Flows)))
			c.rect(left, y+2, x(row.Median)-left, thick, 2, "bar")
			c.whisker(x(row.Lo), x(row.Hi), y+2+thick/2)
			c.text(width, y+14, "value e", percent(row.Median)+" %")
			c.close()
		}
		if drawn {
			figures = append(figures, figure{Title: "With " + routesWords(n), Unit: "share saved by flows; dashed: “up to 75 %” of the NSX edge study", Wide: c.svg("any", words)})
		}
	}
	return figures
}

// cacheLine is one load of the table.
type cacheLine struct{ Flows, Routes, On, Off, Saved, Interval, Hits, Whole string }

// Lines are the table of all loads.
func (v cacheView) Lines() []cacheLine {
	var lines []cacheLine
	value := func(name string, l stats.Load, metric string) string {
		if row, ok := v.find(name, l, metric); ok {
			return stats.In(row.Median, row.Unit)
		}
		return "–"
	}
	for _, l := range stats.Loads(v.Result) {
		c := cacheLine{
			Flows: counted(float64(l.Flows)), Routes: counted(float64(l.Routes)), Saved: "–", Hits: "–",
			On: value(stats.CacheOn, l, v.metric()), Off: value(stats.CacheOff, l, v.metric()), Whole: value(stats.CacheOn, l, stats.NSPerPacket),
		}
		if row, ok := v.find(stats.CacheOn, l, stats.ShareSaved); ok {
			c.Saved, c.Interval = percent(row.Median), percent(row.Lo)+"–"+percent(row.Hi)
		}
		if row, ok := v.find(stats.CacheOn, l, stats.HitRate); ok {
			c.Hits = strconv.FormatFloat(100*row.Median, 'f', 2, 64)
		}
		lines = append(lines, c)
	}
	return lines
}

// cacheTable writes the cache experiment's summary for a terminal.
func cacheTable(w io.Writer, v cacheView) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %8s  %9s %9s %8s  %-11s %8s\n", "Flows", "routes", "on, ns", "off, ns", "saved %", "[interval]", "hits %")
	for _, l := range v.Lines() {
		fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("  %-10s %8s  %9s %9s %8s  %-11s %8s", l.Flows, l.Routes, l.On, l.Off, l.Saved, l.Interval, l.Hits), " "))
	}
	b.WriteByte('\n')
	return writeText(w, &b, v.Verdict)
}

//go:embed cache.html
var cachePage string

// cacheViewOf prepares r for drawing.
func cacheViewOf(r result.Result) cacheView {
	v := newView(r, stats.CacheOff, diagnose.CacheDUT(r))
	v.colors = map[string]string{stats.CacheOff: "k-wire", stats.CacheOn: "k-selvage"}
	return cacheView{v}
}

// CachePage writes r as one self-contained page.
func CachePage(w io.Writer, r result.Result) error { return Page(w, cachePage, cacheViewOf(r)) }

// CacheTable writes the summary of r for a terminal.
func CacheTable(w io.Writer, r result.Result) error { return cacheTable(w, cacheViewOf(r)) }

// CacheExperiment is the experiment.
func CacheExperiment() experiment.Experiment {
	return experiment.Experiment{Name: stats.Cache, Summarise: stats.CacheRows, Verdict: diagnose.CacheVerdict, Page: CachePage, Table: CacheTable}
}
