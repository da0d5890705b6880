package watch

import (
	"fmt"
	"html/template"
	"slices"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Band is a time of the run, in seconds since its beginning, in which something was measured.
type Band struct {
	Class, Name     string // its colour's, see chart.View; what was measured
	Start, Duration float64
}

// Name is a series' own name, or the command's.
func Name(d result.Device, s result.DeviceSeries) string {
	if s.Name != "" {
		return s.Name
	}
	return d.Command
}

// Failed says how many questions a box did not answer, if it is any.
func Failed(d result.Device) []result.Finding {
	if d.Failed == 0 {
		return nil
	}
	return []result.Finding{{Topic: "Watched", Text: fmt.Sprintf("%d of %d questions to %s failed; the first: %s.", d.Failed, d.Asked, d.Place, d.Error)}}
}

// Findings say what boxes did not answer, and how their figures changed over the run.
func Findings(devices []result.Device) (all []result.Finding) {
	for _, d := range devices {
		all = append(all, Failed(d)...)
		for _, s := range d.Series {
			if len(s.Values) == 0 {
				continue
			}
			first, last, most := s.Values[0], s.Values[len(s.Values)-1], slices.Max(s.Values)
			text := fmt.Sprintf("%s of %s went from %s to %s, at most %s.", Name(d, s), d.Place, stats.Figure(first), stats.Figure(last), stats.Figure(most))
			if first == last && first == most {
				text = fmt.Sprintf("%s of %s stayed at %s.", Name(d, s), d.Place, stats.Figure(first))
			}
			all = append(all, result.Finding{Topic: "Watched", Text: text})
		}
	}
	return all
}

// Figures draw each box's series over a run of so many seconds.
func Figures(devices []result.Device, duration float64, bands []Band) (figures []chart.Figure) {
	for _, d := range devices {
		for _, s := range d.Series {
			if len(s.Values) < 2 || len(s.Times) != len(s.Values) {
				continue
			}
			draw := func(width float64, class string) template.HTML { return figure(d, s, duration, bands, width, class) }
			figures = append(figures, chart.Figure{Title: Name(d, s), Unit: d.Place + ": " + d.Command, Wide: draw(1104, "wide"), Narrow: draw(360, "narrow")})
		}
	}
	return figures
}

// figure draws one series.
func figure(d result.Device, s result.DeviceSeries, duration float64, bands []Band, width float64, class string) template.HTML {
	const height, left, above, below = 170.0, 40.0, 10.0, 26.0
	right := width - 8
	end := max(duration, s.Times[len(s.Times)-1])
	lowest := min(0, slices.Min(s.Values))
	ys := chart.Ticks(slices.Max(s.Values)-lowest, 4)
	top := ys[len(ys)-1]
	x := func(at float64) float64 { return left + max(0, at)/end*(right-left) }
	y := func(value float64) float64 { return height - below - (value-lowest)/top*(height-below-above) }
	c := chart.NewCanvas(width, height)
	for _, b := range bands {
		c.Open(b.Class, b.Name)
		c.Rect(x(b.Start), above, x(b.Start+b.Duration)-x(b.Start), height-above-below, 0, "band")
		c.Close()
	}
	for _, t := range ys {
		c.Line(left, y(t+lowest), right, y(t+lowest), "grid")
		c.Text(left-6, y(t+lowest)+4, "tick e", stats.Figure(t+lowest))
	}
	for _, t := range chart.Ticks(end, int(min(10, width/60))) {
		if t <= end {
			c.Text(x(t), height-8, "tick m", fmt.Sprintf("%g s", t))
		}
	}
	points := make([]chart.Point, len(s.Values))
	for i, value := range s.Values {
		points[i] = chart.Point{X: x(s.Times[i]), Y: y(value)}
	}
	c.Open("k-none", "")
	c.Polyline(points, "strong")
	c.Close()
	return c.SVG(class, fmt.Sprintf("%s of %s over the run: from %s to %s.", Name(d, s), d.Place, stats.Figure(slices.Min(s.Values)), stats.Figure(slices.Max(s.Values))))
}
