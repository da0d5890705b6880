package report

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Bars are the medians of the main metrics, one panel each.
func (v abView) Bars() []figure {
	var figures []figure
	for _, m := range []stats.Metric{
		metric("tcp", "tcp_throughput"), metric("tcp", "cpu_per_gb"), metric("tcp", "retransmits"),
		metric("rr-1", "rr_p50"), metric("rr-1024", "rr_p50"), metric("udp", "udp_pps"),
		metric(stats.TransitEncap, stats.NDR), metric(stats.TransitDecap, stats.NDR),
	} {
		if f, ok := v.bars(m); ok {
			figures = append(figures, f)
		}
	}
	return figures
}

// bars draws one metric: a bar a target from zero, its interval, its median
// and ratio, and a rule at the baseline's median.
func (v abView) bars(m stats.Metric) (figure, bool) {
	const width, left, right, pitch, thick = 360, 68, 228, 30, 15
	var rows []result.Row
	top := 0.0
	for _, name := range v.Names() {
		if row, ok := v.row(name, m); ok {
			rows = append(rows, row)
			top = max(top, row.Hi)
		}
	}
	if len(rows) == 0 {
		return figure{}, false
	}
	scale := func(x float64) float64 {
		if top == 0 {
			return left
		}
		return left + x/top*(right-left)
	}
	c := newCanvas(width, float64(len(rows)*pitch+6))
	if base, ok := v.row(v.Baseline(), m); ok {
		c.line(scale(base.Median), 0, scale(base.Median), c.h-4, "baseline")
	}
	var words []string
	for i, row := range rows {
		y := float64(i*pitch) + 4
		mid := y + thick/2.0 + 1
		c.open(v.Color(row.Target), describe(row))
		c.rect(0, y-4, width, pitch, 0, "hit")
		c.text(0, mid+4, "name", brief(row.Target, 8))
		c.rect(left, y+1, max(scale(row.Median)-left, 1), thick, 2, "bar")
		c.whisker(scale(row.Lo), scale(row.Hi), mid)
		c.text(289, mid+4, "value e", stats.In(row.Median, row.Unit))
		c.text(358, mid+4, ratioClass(row)+" e", ratioLabel(row))
		c.close()
		words = append(words, describe(row))
	}
	better := "lower is better"
	if m.Higher {
		better = "higher is better"
	}
	return figure{
		Title: m.Title, Unit: m.Unit + ", " + better,
		Wide: c.svg("any", m.Title+" by target. "+strings.Join(words, ". ")),
	}, true
}

// seriesName is the series of a TCP sample that holds Gbit/s a reporting
// interval (measure.TCPSeries, which a drawing need not link); with slices it is stats.Decisive.
const seriesName = "tcp_gbps"

// Series draws throughput over time: the median round of each target strong,
// its other rounds faint.
func (v abView) Series() (f figure) {
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

func (v abView) tracks() []track {
	series := seriesName
	if v.Sliced() {
		series = stats.Decisive
	}
	var tracks []track
	for _, name := range v.Names() {
		t := track{name: name}
		median := medianRound(stats.Values(v.Result, name, stats.DecisiveCase, stats.Decisive))
		for _, s := range v.Samples {
			values := s.Series[series]
			if s.Target != name || s.Case != stats.DecisiveCase || s.Error != "" || len(values) == 0 {
				continue
			}
			t.rounds = append(t.rounds, values)
			if s.Round == median {
				t.median, t.step = values, s.Duration/float64(len(values))
			}
		}
		if t.median != nil && t.step > 0 {
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

func (v abView) series(tracks []track, width, height float64, class string) template.HTML {
	const left, above, below = 32, 10, 26
	right := width - 66
	topValue, end := 0.0, 0.0
	for _, t := range tracks {
		for _, round := range t.rounds {
			topValue = max(topValue, slices.Max(round))
			end = max(end, float64(len(round))*t.step)
		}
	}
	ys := ticks(topValue, 5)
	top := ys[len(ys)-1]
	x := func(sec float64) float64 { return left + sec/end*(right-left) }
	y := func(val float64) float64 { return height - below - val/top*(height-below-above) }
	c := newCanvas(width, height)
	for _, t := range ys {
		c.line(left, y(t), right, y(t), "grid")
		c.text(left-6, y(t)+4, "tick e", fmt.Sprintf("%g", t))
	}
	for _, t := range ticks(end, int(min(10, width/60))) {
		if t <= end*1.001 {
			c.text(x(t), height-8, "tick m", fmt.Sprintf("%g s", t))
		}
	}
	at := func(values []float64, step float64) []point {
		points := make([]point, len(values))
		for i, val := range values {
			points[i] = point{x((float64(i) + 0.5) * step), y(max(val, 0))}
		}
		return points
	}
	for _, t := range tracks {
		c.open(v.Color(t.name), "")
		for _, round := range t.rounds {
			c.polyline(at(round, t.step), "faint")
		}
		c.close()
	}
	for _, t := range tracks {
		c.open(v.Color(t.name), t.name)
		c.polyline(at(t.median, t.step), "strong")
		c.close()
	}
	v.endLabels(c, tracks, y, right)
	return c.svg(class, "Throughput over time, "+v.seriesWords(tracks))
}

func (v abView) seriesWords(tracks []track) string {
	words := ""
	for i, t := range tracks {
		if i > 0 {
			words += "; "
		}
		words += fmt.Sprintf("%s between %s and %s Gbit/s in its median round", t.name,
			stats.Figure(slices.Min(t.median)), stats.Figure(slices.Max(t.median)))
	}
	return words
}

// Latency draws the distribution of each request/response case.
func (v abView) Latency() []figure {
	var figures []figure
	for _, caseName := range []struct{ name, size string }{{"rr-1", "1 B / 1 B"}, {"rr-1024", "1024 B / 1024 B"}} {
		curves := v.curves(caseName.name)
		if len(curves) == 0 {
			continue
		}
		figures = append(figures, figure{
			Title: "Latency distribution, " + caseName.size, Unit: "µs by percentile, both axes logarithmic",
			Wide: v.distribution(curves, 528, 300, "wide"), Narrow: v.distribution(curves, 360, 280, "narrow"),
		})
	}
	return figures
}
