package ab

import (
	"cmp"
	"slices"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/measure"
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
		if f, ok := chart.MedianBars(v.View, m); ok {
			figures = append(figures, f)
		}
	}
	return figures
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
	f.Wide = chart.OverTime(v.View, tracks, 1104, 280, "wide")
	f.Narrow = chart.OverTime(v.View, tracks, 360, 280, "narrow")
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
