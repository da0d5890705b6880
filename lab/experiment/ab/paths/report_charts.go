package paths

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Bars are the medians of the main metrics, one panel each.
func (v view) Bars() (figures []chart.Figure) {
	for _, m := range printed(v.Result) {
		if m != mainMetric(m.Case) && m.Unit != "CPU s/GB" && m.Name != measure.Retransmits {
			continue
		}
		if f, ok := chart.MedianBars(v.View, m); ok {
			figures = append(figures, f)
		}
	}
	return figures
}

// Series draws throughput within a slice, its slow start too.
func (v view) Series() (figures []chart.Figure) {
	for _, caseName := range []string{caseTCP, caseReverse} {
		tracks := v.tracks(caseName)
		if len(tracks) == 0 {
			continue
		}
		figures = append(figures, chart.Figure{
			Title: mainMetric(caseName).Title, Unit: "Gbit/s; strong: the median round, faint: the others",
			Wide: chart.OverTime(v.View, tracks, 528, 280, "wide"), Narrow: chart.OverTime(v.View, tracks, 360, 280, "narrow"),
		})
	}
	return figures
}

func (v view) tracks(caseName string) (tracks []chart.Track) {
	for _, name := range v.Names() {
		t := chart.Track{Name: name}
		samples := slices.DeleteFunc(stats.Good(v.Result, name, caseName), func(s result.Sample) bool {
			return len(s.Series[measure.TCPSeries]) == 0 || s.Duration <= 0
		})
		slices.SortStableFunc(samples, func(a, b result.Sample) int {
			return cmp.Compare(a.Metrics[measure.TCPThroughput], b.Metrics[measure.TCPThroughput])
		})
		for i, s := range samples {
			values := s.Series[measure.TCPSeries]
			t.Rounds = append(t.Rounds, values)
			if i == (len(samples)-1)/2 {
				t.Median, t.Step = values, s.Duration/float64(len(values))
			}
		}
		if t.Median != nil {
			tracks = append(tracks, t)
		}
	}
	return tracks
}

// Latency draws the distribution of each request/response case.
func (v view) Latency() (figures []chart.Figure) {
	for _, of := range []struct{ name, title string }{{caseRR, "Latency distribution"}, {caseLoad, "Latency distribution under load"}} {
		curves := v.Curves(of.name)
		if len(curves) == 0 {
			continue
		}
		figures = append(figures, chart.Figure{
			Title: of.title, Unit: "µs by percentile, both axes logarithmic",
			Wide: v.Distribution(curves, 528, 300, "wide"), Narrow: v.Distribution(curves, 360, 280, "narrow"),
		})
	}
	return figures
}

// Cores draws how the cores of each machine spent transfers.
func (v view) Cores() (figures []chart.Figure) {
	for _, caseName := range []string{caseTCP, caseReverse} {
		for i, p := range v.Places {
			if sameMachine(v.Result, i) != "" {
				continue
			}
			var groups []chart.CoreGroup
			for _, name := range v.Names() {
				groups = append(groups, chart.CoreGroup{Name: name, Color: v.Color(name), Cores: coresOf(v.Result, name, caseName, p.Role)})
			}
			f := chart.CoreBars("Cores of "+p.Role+" during "+mainMetric(caseName).Title, groups)
			if f.Wide != "" {
				figures = append(figures, f)
			}
		}
	}
	return figures
}

// DeviceCharts draws each box's series.
func (v view) DeviceCharts() (figures []chart.Figure) {
	for _, d := range v.Devices {
		for _, s := range d.Series {
			if len(s.Values) < 2 {
				continue
			}
			figures = append(figures, chart.Figure{
				Title: seriesName(d, s), Unit: d.Place + ": " + d.Command,
				Wide: v.deviceChart(d, s, 1104, "wide"), Narrow: v.deviceChart(d, s, 360, "narrow"),
			})
		}
	}
	return figures
}

// deviceChart draws one series over the run.
func (v view) deviceChart(d result.Device, s result.DeviceSeries, width float64, class string) template.HTML {
	const height, left, above, below = 170.0, 40.0, 10.0, 26.0
	right := width - 8
	end := max(v.Duration, s.Times[len(s.Times)-1])
	lowest := min(0, slices.Min(s.Values))
	ys := chart.Ticks(slices.Max(s.Values)-lowest, 4)
	top := ys[len(ys)-1]
	x := func(at float64) float64 { return left + max(0, at)/end*(right-left) }
	y := func(value float64) float64 { return height - below - (value-lowest)/top*(height-below-above) }
	c := chart.NewCanvas(width, height)
	for _, sample := range v.Samples {
		if sample.Case == caseTCP || sample.Case == caseReverse {
			c.Open(v.Color(sample.Target), sample.Target)
			c.Rect(x(sample.Start), above, x(sample.Start+sample.Duration)-x(sample.Start), height-above-below, 0, "band")
			c.Close()
		}
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
	return c.SVG(class, fmt.Sprintf("%s of %s over the run: from %s to %s.", seriesName(d, s), d.Place, stats.Figure(slices.Min(s.Values)), stats.Figure(slices.Max(s.Values))))
}
