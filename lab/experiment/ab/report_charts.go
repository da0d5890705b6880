package ab

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
)

// Bars are the medians of the main metrics, one panel each.
func (v view) Bars() []chart.Figure {
	var figures []chart.Figure
	for _, m := range []stats.Metric{
		metric("tcp", measure.TCPThroughput), metric("tcp", measure.CPUPerGB), metric("tcp", measure.Retransmits),
		metric("rr-1", measure.RRP50), metric("rr-1024", measure.RRP50), metric("udp", measure.UDPRate),
		metric(TransitEncap, transit.NDR), metric(TransitDecap, transit.NDR),
	} {
		if f, ok := v.bars(m); ok {
			figures = append(figures, f)
		}
	}
	return figures
}

// bars draws one metric: a bar a target from zero, its interval, its median
// and ratio, and a rule at the baseline's median.
func (v view) bars(m stats.Metric) (chart.Figure, bool) {
	const width, left, right, pitch, thick = 360, 68, 228, 30, 15
	var rows []result.Row
	top := 0.0
	for _, name := range v.Names() {
		if row, ok := v.Row(name, m); ok {
			rows = append(rows, row)
			top = max(top, row.Hi)
		}
	}
	if len(rows) == 0 {
		return chart.Figure{}, false
	}
	scale := func(x float64) float64 {
		if top == 0 {
			return left
		}
		return left + x/top*(right-left)
	}
	c := chart.NewCanvas(width, float64(len(rows)*pitch+6))
	if base, ok := v.Row(v.Baseline(), m); ok {
		c.Line(scale(base.Median), 0, scale(base.Median), c.Height-4, "baseline")
	}
	var words []string
	for i, row := range rows {
		y := float64(i*pitch) + 4
		mid := y + thick/2.0 + 1
		c.Open(v.Color(row.Target), chart.Describe(row))
		c.Rect(0, y-4, width, pitch, 0, "hit")
		c.Text(0, mid+4, "name", chart.Brief(row.Target, 8))
		c.Rect(left, y+1, max(scale(row.Median)-left, 1), thick, 2, "bar")
		c.Whisker(scale(row.Lo), scale(row.Hi), mid)
		c.Text(289, mid+4, "value e", stats.In(row.Median, row.Unit))
		c.Text(358, mid+4, chart.RatioClass(row)+" e", chart.RatioLabel(row))
		c.Close()
		words = append(words, chart.Describe(row))
	}
	better := "lower is better"
	if m.Higher {
		better = "higher is better"
	}
	return chart.Figure{
		Title: m.Title, Unit: m.Unit + ", " + better,
		Wide: c.SVG("any", m.Title+" by target. "+strings.Join(words, ". ")),
	}, true
}

// seriesName is the series of a TCP sample that holds Gbit/s a reporting
// interval (measure.TCPSeries, which a drawing need not link); with slices it is stats.Decisive.
const seriesName = measure.TCPSeries

// Series draws throughput over time: the median round of each target strong,
// its other rounds faint.
func (v view) Series() (f chart.Figure) {
	tracks := v.tracks()
	if len(tracks) == 0 {
		return f
	}
	f.Title, f.Unit = "TCP throughput over time", "Gbit/s; strong: the median round, faint: the others"
	if v.Sliced() {
		f.Title = "TCP throughput by slice"
	}
	f.Wide = v.series(tracks, 1104, 280, "wide")
	f.Narrow = v.series(tracks, 360, 280, "narrow")
	return f
}

func (v view) tracks() []chart.Track {
	series := seriesName
	if v.Sliced() {
		series = stats.Decisive
	}
	var tracks []chart.Track
	for _, name := range v.Names() {
		t := chart.Track{Name: name}
		median := medianRound(stats.Values(v.Result, name, stats.DecisiveCase, stats.Decisive))
		for _, s := range v.Samples {
			values := s.Series[series]
			if s.Target != name || s.Case != stats.DecisiveCase || s.Error != "" || len(values) == 0 {
				continue
			}
			t.Rounds = append(t.Rounds, values)
			if s.Round == median {
				t.Median, t.Step = values, s.Duration/float64(len(values))
			}
		}
		if t.Median != nil && t.Step > 0 {
			tracks = append(tracks, t)
		}
	}
	return tracks
}

// medianRound is the round in the middle, the lower one of two.
func medianRound(values map[int]float64) int {
	rounds := make([]int, 0, len(values))
	for round := range values {
		rounds = append(rounds, round)
	}
	if len(rounds) == 0 {
		return 0
	}
	slices.SortFunc(rounds, func(a, b int) int {
		return cmp.Or(cmp.Compare(values[a], values[b]), cmp.Compare(a, b))
	})
	return rounds[(len(rounds)-1)/2]
}

func (v view) series(tracks []chart.Track, width, height float64, class string) template.HTML {
	const left, above, below = 32, 10, 26
	right := width - 66
	topValue, end := 0.0, 0.0
	for _, t := range tracks {
		for _, round := range t.Rounds {
			topValue = max(topValue, slices.Max(round))
			end = max(end, float64(len(round))*t.Step)
		}
	}
	ys := chart.Ticks(topValue, 5)
	top := ys[len(ys)-1]
	x := func(sec float64) float64 { return left + sec/end*(right-left) }
	y := func(val float64) float64 { return height - below - val/top*(height-below-above) }
	c := chart.NewCanvas(width, height)
	for _, t := range ys {
		c.Line(left, y(t), right, y(t), "grid")
		c.Text(left-6, y(t)+4, "tick e", fmt.Sprintf("%g", t))
	}
	for _, t := range chart.Ticks(end, int(min(10, width/60))) {
		if t <= end*1.001 {
			c.Text(x(t), height-8, "tick m", fmt.Sprintf("%g s", t))
		}
	}
	at := func(values []float64, step float64) []chart.Point {
		points := make([]chart.Point, len(values))
		for i, val := range values {
			points[i] = chart.Point{X: x((float64(i) + 0.5) * step), Y: y(max(val, 0))}
		}
		return points
	}
	for _, t := range tracks {
		c.Open(v.Color(t.Name), "")
		for _, round := range t.Rounds {
			c.Polyline(at(round, t.Step), "faint")
		}
		c.Close()
	}
	for _, t := range tracks {
		c.Open(v.Color(t.Name), t.Name)
		c.Polyline(at(t.Median, t.Step), "strong")
		c.Close()
	}
	v.EndLabels(c, tracks, y, right)
	return c.SVG(class, "Throughput over time, "+v.seriesWords(tracks))
}

func (v view) seriesWords(tracks []chart.Track) string {
	words := ""
	for i, t := range tracks {
		if i > 0 {
			words += "; "
		}
		words += fmt.Sprintf("%s between %s and %s Gbit/s in its median round", t.Name,
			stats.Figure(slices.Min(t.Median)), stats.Figure(slices.Max(t.Median)))
	}
	return words
}

// Latency draws the distribution of each request/response case.
func (v view) Latency() []chart.Figure {
	var figures []chart.Figure
	for _, caseName := range []struct{ name, size string }{{"rr-1", "1 B / 1 B"}, {"rr-1024", "1024 B / 1024 B"}} {
		curves := v.Curves(caseName.name)
		if len(curves) == 0 {
			continue
		}
		figures = append(figures, chart.Figure{
			Title: "Latency distribution, " + caseName.size, Unit: "µs by percentile, both axes logarithmic",
			Wide: v.Distribution(curves, 528, 300, "wide"), Narrow: v.Distribution(curves, 360, 280, "narrow"),
		})
	}
	return figures
}
