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

// curve is one target's latency distribution.
type curve struct {
	name   string
	points []result.Quantile // medians over the rounds, by Q
}

func (v view) curves(caseName string) []curve { return v.curvesOf(caseName, "") }

// curvesOf are those of a case's samples that have a metric, of all for "".
func (v view) curvesOf(caseName, metric string) []curve {
	var curves []curve
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
		c := curve{name: name}
		for q, us := range at {
			c.points = append(c.points, result.Quantile{Q: q, US: stats.Median(us).Median})
		}
		slices.SortFunc(c.points, func(a, b result.Quantile) int { return cmp.Compare(a.Q, b.Q) })
		if len(c.points) > 1 {
			curves = append(curves, c)
		}
	}
	return curves
}

// tail maps a quantile to its axis: 0, 1, 2, 3 for 0, 90, 99, 99.9 %.
func tail(q float64) float64 { return -math.Log10(1 - q) }

func (v view) distribution(curves []curve, width, height float64, class string) template.HTML {
	const left, above, below = 36, 10, 26
	right := width - 66
	lo, hi, end := math.Inf(1), 0.0, 0.0
	for _, k := range curves {
		for _, p := range k.points {
			lo, hi, end = min(lo, p.US), max(hi, p.US), max(end, tail(p.Q))
		}
	}
	ys := logTicks(lo, hi)
	bottom, top := math.Log(ys[0]), math.Log(ys[len(ys)-1])
	x := func(q float64) float64 { return left + tail(q)/max(end, 0.1)*(right-left) }
	y := func(us float64) float64 {
		return height - below - (math.Log(us)-bottom)/(top-bottom)*(height-below-above)
	}
	c := newCanvas(width, height)
	for _, t := range ys {
		c.line(left, y(t), right, y(t), "grid")
		c.text(left-6, y(t)+4, "tick e", fmt.Sprintf("%g", t))
	}
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999} {
		if tail(q) <= end+0.001 && (q > 0 || tail(0.5)*(right-left) > 34*end) {
			c.line(x(q), height-below, x(q), height-below+4, "axis")
			c.text(x(q), height-8, "tick m", fmt.Sprintf("%g%%", math.Round(q*1e7)/1e5))
		}
	}
	var ends []track
	words := "Latency by percentile. "
	for _, k := range curves {
		points := make([]point, len(k.points))
		for i, p := range k.points {
			points[i] = point{x(p.Q), y(p.US)}
		}
		c.open(v.Color(k.name), k.name)
		c.polyline(points, "strong")
		c.close()
		final := k.points[len(k.points)-1]
		ends = append(ends, track{name: k.name, median: []float64{final.US}})
		words += fmt.Sprintf("%s reaches %s µs at %g%%. ", k.name, stats.Figure(final.US), math.Round(final.Q*1e7)/1e5)
	}
	v.endLabels(c, ends, y, right)
	return c.svg(class, words)
}
