package paths

import (
	"cmp"
	"slices"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/watch"
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

// DeviceCharts draws each box's series, and when transfers ran.
func (v view) DeviceCharts() []chart.Figure {
	var bands []watch.Band
	for _, sample := range v.Samples {
		if sample.Case == caseTCP || sample.Case == caseReverse {
			bands = append(bands, watch.Band{Class: v.Color(sample.Target), Name: sample.Target, Start: sample.Start, Duration: sample.Duration})
		}
	}
	return watch.Figures(v.Devices, v.Duration, bands)
}
