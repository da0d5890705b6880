package ports

import (
	_ "embed"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
	"github.com/selvage/selvage/lab/turns"
	"github.com/selvage/selvage/lab/watch"
)

//go:embed page.html
var pageTemplate string

// view is a result prepared for drawing.
type view struct{ turns.View }

func viewOf(r result.Result) view {
	return view{turns.View{View: chart.NewView(r, "", deviceName), Metrics: metrics(r)}}
}

// Confidence says what the intervals are worth.
func (v view) Confidence() string {
	rounds := stats.Rounds(v.Result)
	return fmt.Sprintf("The interval of a median is over the rounds (order statistics, %.4g %%, n = %d).", 100*stats.Confidence(rounds), rounds)
}

// Topology is the ports and the device.
func (v view) Topology() chart.Figure { return v.View.View.Topology() }

func (v view) row(caseName, metric string) (result.Row, bool) {
	return stats.Find(v.Summary, deviceName, caseName, metric)
}

// value is the median of a metric, "–" when it was not measured.
func (v view) value(caseName, metric string) string {
	row, ok := v.row(caseName, metric)
	if !ok {
		return "–"
	}
	return stats.In(row.Median, row.Unit)
}

func (v view) percent(caseName, metric string) string {
	row, ok := v.row(caseName, metric)
	if !ok {
		return "–"
	}
	return strconv.FormatFloat(100*row.Median, 'f', 1, 64)
}

// sizeLine is a size in one direction.
type sizeLine struct {
	Words, NDR, PDR, In, Out, Total, Line, CPU, Ceiling, Limiter, P50, P99 string
	N                                                                      int
	Foreign                                                                bool // the device is not the limiter
}

// Sizes is the study's table.
func (v view) Sizes() []sizeLine {
	var lines []sizeLine
	for _, caseName := range cases(v.Result) {
		row, ok := v.row(caseName, transit.NDR)
		if !ok {
			continue
		}
		l := sizeLine{
			Words: words(caseName), NDR: v.value(caseName, transit.NDR), PDR: v.value(caseName, transit.PDR), In: v.value(caseName, rateIn),
			Out: v.value(caseName, rateOut), Total: v.value(caseName, rateTotal), Line: v.percent(caseName, lineShare), CPU: v.percent(caseName, cpuShare),
			Ceiling: v.value(caseName, transit.GeneratorCeiling), P50: v.value(caseName, transit.LatencyP50), P99: v.value(caseName, transit.LatencyP99), N: row.N,
		}
		l.Limiter, l.Foreign = limitedBy(v.Result, caseName)
		lines = append(lines, l)
	}
	return lines
}

// mostCards are beside each other on a page.
const mostCards = 4

// Cards are the rates of the first sizes, of each direction as many.
func (v view) Cards() []chart.Card {
	var measured []string
	of := map[int]int{} // cards by direction
	for _, caseName := range cases(v.Result) {
		if _, ok := v.row(caseName, transit.NDR); ok {
			measured = append(measured, caseName)
			of[directionOf(caseName)] = 0
		}
	}
	var cards []chart.Card
	for _, caseName := range measured {
		if of[directionOf(caseName)] == max(mostCards/len(of), 1) {
			continue
		}
		of[directionOf(caseName)]++
		row, _ := v.row(caseName, transit.NDR)
		limiter, _ := limitedBy(v.Result, caseName)
		cards = append(cards, chart.Card{Title: "No-drop rate, " + words(caseName), Value: stats.In(row.Median, row.Unit), Unit: row.Unit, Note: "limited by the " + limiter, Class: "even"})
	}
	return cards
}

// Rates draws the no-drop rates.
func (v view) Rates() []chart.Figure {
	var figures []chart.Figure
	for i, title := range []string{"From tx to rx", "From rx to tx", "There and back at once"} {
		var bars []turns.Bar
		for _, caseName := range cases(v.Result) {
			if row, ok := v.row(caseName, transit.NDR); ok && directionOf(caseName) == i {
				bars = append(bars, turns.Bar{Name: sizeWords(caseName), Color: v.Color(deviceName), Row: row})
			}
		}
		if f := turns.Bars(title, "no-drop rate, Mpps", bars); f.Wide != "" {
			figures = append(figures, f)
		}
	}
	return figures
}

// Losses draws loss over load.
func (v view) Losses() []chart.Figure {
	var figures []chart.Figure
	for _, caseName := range cases(v.Result) {
		line := chart.PlotLine{Name: deviceName}
		for _, s := range v.Samples {
			load, share := s.Series[transit.LossLoad], s.Series[transit.LossShare]
			if s.Case != caseName || len(load) < 2 || len(load) != len(share) {
				continue
			}
			line.Points = line.Points[:0] // the last round's
			for i := range load {
				line.Points = append(line.Points, chart.Point{X: 100 * load[i], Y: 100 * share[i]})
			}
		}
		if len(line.Points) == 0 {
			continue
		}
		p := chart.Plot{Lines: []chart.PlotLine{line}, Words: "Loss over the rate offered. ", XTick: percentTick, YTick: percentTick}
		figures = append(figures, chart.Figure{
			Title: words(caseName), Unit: "share lost over the share of the highest rate offered",
			Wide: v.Plot(p, 528, 260, "wide"), Narrow: v.Plot(p, 360, 240, "narrow"),
		})
	}
	return figures
}

func percentTick(x float64) string { return fmt.Sprintf("%g%%", x) }

// delay is the latency of a size.
type delay struct{ Words, Min, Mean, P50, P99, Jitter, P99At90, P99At50, P99At10 string }

// Delays are those of all sizes.
func (v view) Delays() []delay {
	var lines []delay
	for _, caseName := range cases(v.Result) {
		if _, ok := v.row(caseName, transit.LatencyP50); ok {
			lines = append(lines, delay{
				words(caseName), v.value(caseName, transit.LatencyMin), v.value(caseName, transit.LatencyMean), v.value(caseName, transit.LatencyP50), v.value(caseName, transit.LatencyP99),
				v.value(caseName, transit.Jitter), v.value(caseName, transit.LatencyP99+"_90"), v.value(caseName, transit.LatencyP99+"_50"), v.value(caseName, transit.LatencyP99+"_10"),
			})
		}
	}
	return lines
}

// DeviceCharts draws each box's series, and when samples were taken.
func (v view) DeviceCharts() []chart.Figure {
	var bands []watch.Band
	for _, s := range v.Samples {
		bands = append(bands, watch.Band{Class: v.Color(deviceName), Name: words(s.Case), Start: s.Start, Duration: s.Duration})
	}
	return watch.Figures(v.Devices, v.Duration, bands)
}

// Tolerance is the PDR's loss in words.
func (v view) Tolerance() string { return chart.Glue(v.Parameters[tolerance].String()) }

// Lengths is how long samples took.
func (v view) Lengths() string { return v.SampleTimes() }

// page writes r as one self-contained page.
func page(w io.Writer, r result.Result) error {
	return chart.Page(w, turns.Pieces+pageTemplate, viewOf(r))
}

// table writes the summary of r for a terminal.
func table(w io.Writer, r result.Result) error {
	v := viewOf(r)
	var b strings.Builder
	const columns = "%-22s %7s %7s %7s %7s %7s %6s %6s %8s  %-14s %7s %7s %3s"
	for _, head := range [][]any{
		{"frames", "NDR", "PDR", "in", "out", "total", "line", "CPU", "ceiling", "limiter", "p50", "p99", "n"},
		{"", "Mpps", "Mpps", "Gbit/s", "Gbit/s", "Gbit/s", "%", "%", "Mpps", "", "µs", "µs", ""},
	} {
		b.WriteString(strings.TrimRight(fmt.Sprintf(columns, head...), " ") + "\n")
	}
	for _, l := range v.Sizes() {
		fmt.Fprintf(&b, columns+"\n", l.Words, l.NDR, l.PDR, l.In, l.Out, l.Total, l.Line, l.CPU, l.Ceiling, l.Limiter, l.P50, l.P99, strconv.Itoa(l.N))
	}
	b.WriteByte('\n')
	return chart.WriteText(w, &b, v.Verdict)
}
