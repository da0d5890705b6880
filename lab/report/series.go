package report

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"

	"github.com/selvage/selvage/lab/stats"
)

// seriesName is the series of a TCP sample that holds Gbit/s a reporting
// interval (measure.TCPSeries, which a drawing need not link); with slices it is stats.Decisive.
const seriesName = "tcp_gbps"

// track is one target's throughput over time.
type track struct {
	name   string
	rounds [][]float64 // every good round
	median []float64   // the round whose throughput is the median
	step   float64     // seconds a value
}

// Series draws throughput over time: the median round of each target strong,
// its other rounds faint.
func (v view) Series() (f figure) {
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

func (v view) tracks() []track {
	series := seriesName
	if v.Sliced() {
		series = stats.Decisive
	}
	var tracks []track
	for _, name := range v.names {
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

func (v view) series(tracks []track, width, height float64, class string) template.HTML {
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
		c.open(v.color(t.name), "")
		for _, round := range t.rounds {
			c.polyline(at(round, t.step), "faint")
		}
		c.close()
	}
	for _, t := range tracks {
		c.open(v.color(t.name), t.name)
		c.polyline(at(t.median, t.step), "strong")
		c.close()
	}
	v.endLabels(c, tracks, y, right)
	return c.svg(class, "Throughput over time, "+v.seriesWords(tracks))
}

// endLabels names the lines at their right end.
func (v view) endLabels(c *canvas, tracks []track, y func(float64) float64, x float64) {
	sorted := slices.Clone(tracks)
	last := func(t track) float64 { return y(t.median[len(t.median)-1]) }
	slices.SortStableFunc(sorted, func(a, b track) int { return cmp.Compare(last(a), last(b)) })
	wanted := make([]float64, len(sorted))
	for i, t := range sorted {
		wanted[i] = last(t)
	}
	for i, place := range spread(wanted, 14, 10, c.h-30) {
		c.open(v.color(sorted[i].name), "")
		c.text(x+8, place+4, "own", brief(sorted[i].name, 9))
		c.close()
	}
}

func (v view) seriesWords(tracks []track) string {
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
