package chart

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Curve is one target's latency distribution.
type Curve struct {
	name   string
	Points []result.Quantile // medians over the rounds, by Q
}

// Curves are the latency distributions of a case, one a target.
func (v View) Curves(caseName string) []Curve { return v.CurvesOf(caseName, "") }

// CurvesOf are those of a case's samples that have a metric, of all for "".
func (v View) CurvesOf(caseName, metric string) []Curve {
	var curves []Curve
	for _, name := range v.Names() {
		at := map[float64][]float64{}
		for _, s := range v.Samples {
			_, has := s.Metrics[metric]
			if s.Target != name || s.Case != caseName || s.Error != "" || metric != "" && !has {
				continue
			}
			for _, q := range s.Latency {
				if q.Q >= 0 && q.Q < 1 && q.US > 0 && !math.IsInf(q.US, 1) {
					at[q.Q] = append(at[q.Q], q.US)
				}
			}
		}
		c := Curve{name: name}
		for q, us := range at {
			c.Points = append(c.Points, result.Quantile{Q: q, US: stats.Median(us).Median})
		}
		slices.SortFunc(c.Points, func(a, b result.Quantile) int { return cmp.Compare(a.Q, b.Q) })
		if len(c.Points) > 1 {
			curves = append(curves, c)
		}
	}
	return curves
}

// tail maps a quantile to its axis: 0, 1, 2, 3 for 0, 90, 99, 99.9 %.
func tail(q float64) float64 { return -math.Log10(1 - q) }

// Distribution draws curves over percentiles, both axes logarithmic.
func (v View) Distribution(curves []Curve, width, height float64, class string) template.HTML {
	const left, above, below = 36, 10, 26
	right := width - 66
	lo, hi, end := math.Inf(1), 0.0, 0.0
	for _, k := range curves {
		for _, p := range k.Points {
			lo, hi, end = min(lo, p.US), max(hi, p.US), max(end, tail(p.Q))
		}
	}
	ys := LogTicks(lo, hi)
	bottom, top := math.Log(ys[0]), math.Log(ys[len(ys)-1])
	x := func(q float64) float64 { return left + tail(q)/max(end, 0.1)*(right-left) }
	y := func(us float64) float64 {
		return height - below - (math.Log(us)-bottom)/(top-bottom)*(height-below-above)
	}
	c := NewCanvas(width, height)
	for _, t := range ys {
		c.Line(left, y(t), right, y(t), "grid")
		c.Text(left-6, y(t)+4, "tick e", fmt.Sprintf("%g", t))
	}
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999} {
		if tail(q) <= end+0.001 && (q > 0 || tail(0.5)*(right-left) > 34*end) {
			c.Line(x(q), height-below, x(q), height-below+4, "axis")
			c.Text(x(q), height-8, "tick m", fmt.Sprintf("%g%%", math.Round(q*1e7)/1e5))
		}
	}
	var ends []Track
	words := "Latency by percentile. "
	for _, k := range curves {
		points := make([]Point, len(k.Points))
		for i, p := range k.Points {
			points[i] = Point{x(p.Q), y(p.US)}
		}
		c.Open(v.Color(k.name), k.name)
		c.Polyline(points, "strong")
		c.Close()
		final := k.Points[len(k.Points)-1]
		ends = append(ends, Track{Name: k.name, Median: []float64{final.US}})
		words += fmt.Sprintf("%s reaches %s µs at %g%%. ", k.name, stats.Figure(final.US), math.Round(final.Q*1e7)/1e5)
	}
	v.EndLabels(c, ends, y, right)
	return c.SVG(class, words)
}
