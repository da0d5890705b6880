package chart

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"

	"github.com/selvage/selvage/lab/stats"
)

// Track is one target's throughput over time.
type Track struct {
	Name   string
	Rounds [][]float64 // every good round
	Median []float64   // the round whose throughput is the median
	Step   float64     // seconds a value
}

// EndLabels names the lines at their right end.
func (v View) EndLabels(c *Canvas, tracks []Track, y func(float64) float64, x float64) {
	sorted := slices.Clone(tracks)
	last := func(t Track) float64 { return y(t.Median[len(t.Median)-1]) }
	slices.SortStableFunc(sorted, func(a, b Track) int { return cmp.Compare(last(a), last(b)) })
	wanted := make([]float64, len(sorted))
	for i, t := range sorted {
		wanted[i] = last(t)
	}
	for i, place := range Spread(wanted, 14, 10, c.Height-30) {
		c.Open(v.Color(sorted[i].Name), "")
		c.Text(x+8, place+4, "own", Brief(sorted[i].Name, 9))
		c.Close()
	}
}

// OverTime draws throughput (Gbit/s) over time: the median round of each target strong, its other
// rounds faint.
func OverTime(v View, tracks []Track, width, height float64, class string) template.HTML {
	const left, above, below = 32, 10, 26
	right := width - 66
	topValue, end := 0.0, 0.0
	for _, t := range tracks {
		for _, round := range t.Rounds {
			topValue = max(topValue, slices.Max(round))
			end = max(end, float64(len(round))*t.Step)
		}
	}
	ys := Ticks(topValue, 5)
	top := ys[len(ys)-1]
	x := func(sec float64) float64 { return left + sec/end*(right-left) }
	y := func(val float64) float64 { return height - below - val/top*(height-below-above) }
	c := NewCanvas(width, height)
	for _, t := range ys {
		c.Line(left, y(t), right, y(t), "grid")
		c.Text(left-6, y(t)+4, "tick e", fmt.Sprintf("%g", t))
	}
	for _, t := range Ticks(end, int(min(10, width/60))) {
		if t <= end*1.001 {
			c.Text(x(t), height-8, "tick m", fmt.Sprintf("%g s", t))
		}
	}
	at := func(values []float64, step float64) []Point {
		points := make([]Point, len(values))
		for i, val := range values {
			points[i] = Point{X: x((float64(i) + 0.5) * step), Y: y(max(val, 0))}
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
	return c.SVG(class, "Throughput over time, "+overTimeWords(tracks))
}

func overTimeWords(tracks []Track) string {
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
