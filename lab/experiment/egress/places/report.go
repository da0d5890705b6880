package places

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/turns"
)

//go:embed page.html
var pageTemplate string

// view is a result prepared for drawing.
type view struct{ turns.View }

func viewOf(r result.Result) view {
	names := pathsOf(r)
	if len(names) == 0 {
		names = []string{""}
	}
	dut := names[0]
	if at := slices.IndexFunc(names, isEgress); at >= 0 {
		dut = names[at]
	}
	v := turns.View{View: chart.NewView(r, names[0], dut), Metrics: rowMetrics()}
	for _, role := range roles() {
		v.Watched = append(v.Watched, turns.Watched{Role: role, Words: "the slice"})
	}
	return view{v}
}

// Cards are what the first egress path shows and costs.
func (v view) Cards() []chart.Card {
	names := pathsOf(v.Result)
	at := slices.IndexFunc(names, isEgress)
	if at < 0 {
		return nil
	}
	var cards []chart.Card
	path := names[at]
	if src := sourcesOf(v.Result, path); src.asked > 0 {
		card := chart.Card{Title: "Leaks, " + path, Value: fmt.Sprint(src.node), Unit: fmt.Sprintf("of %d", src.asked), Note: "the target sees " + src.String(), Class: "good"}
		if src.node > 0 {
			card.Class = "bad"
		}
		cards = append(cards, card)
	}
	if row, ok := stats.Find(v.Summary, path, tcp, measure.TCPThroughput); ok {
		card := chart.Card{Title: "TCP throughput, " + path, Value: stats.Figure(row.Median), Unit: "Gbit/s", Class: "even"}
		if row.Ratio > 0 && row.Baseline != "" {
			card.Note = fmt.Sprintf("%s %s%s", stats.Ratio(row.Ratio), row.Baseline, unless(row.Distinguishable))
		}
		cards = append(cards, card)
	}
	for _, a := range added {
		if row, ok := stats.Find(v.Summary, path, a.caseName, a.name); ok {
			cards = append(cards, chart.Card{Title: a.title + ", " + path, Value: signed(row.Median), Unit: "µs", Class: "even",
				Note: fmt.Sprintf("[%s, %s]%s", signed(row.Lo), signed(row.Hi), unless(row.Distinguishable))})
		}
	}
	return cards
}

// wayLine is a path, or the gateway's own way.
type wayLine struct {
	Name, Color, Source          string
	Leak                         bool
	To, ToRatio, From, FromRatio string
	Trip, TripAdded              string
	Connection, ConnectionAdded  string
}

// Ways is the table of all.
func (v view) Ways() []wayLine {
	var lines []wayLine
	for _, name := range v.Names() {
		l := wayLine{Name: name, Color: v.Color(name), Source: "–", ToRatio: "–", FromRatio: "–", TripAdded: "–", ConnectionAdded: "–"}
		if src := sourcesOf(v.Result, name); src.asked > 0 {
			l.Source, l.Leak = src.String(), isEgress(name) && src.node > 0
		}
		l.To, l.From = v.value(name, tcp, measure.TCPThroughput), v.value(name, tcpReverse, measure.TCPThroughput)
		l.Trip, l.Connection = v.value(name, rr, measure.RRP50), v.value(name, crr, measure.CRRP50)
		for caseName, into := range map[string]*string{tcp: &l.ToRatio, tcpReverse: &l.FromRatio} {
			if row, ok := stats.Find(v.Summary, name, caseName, measure.TCPThroughput); ok {
				*into = chart.BareRatioLabel(row)
			}
		}
		for metric, into := range map[string]*string{rrAdded: &l.TripAdded, crrAdded: &l.ConnectionAdded} {
			caseName := strings.TrimSuffix(metric, "_added")
			if row, ok := stats.Find(v.Summary, name, caseName, metric); ok {
				*into = signed(row.Median)
				if !row.Distinguishable {
					*into = "≈ " + *into
				}
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// value is the median of a metric, "–" when it was not measured.
func (v view) value(name, caseName, metric string) string {
	row, ok := stats.Find(v.Summary, name, caseName, metric)
	if !ok {
		return "–"
	}
	return stats.In(row.Median, row.Unit)
}

// Bars draw the throughput of all paths each way, and their times.
func (v view) Bars() []chart.Figure {
	return v.figures([]figure{
		{tcp, measure.TCPThroughput, "TCP to the target", "Gbit/s; right: ratio to the first path"},
		{tcpReverse, measure.TCPThroughput, "TCP from the target", "Gbit/s; right: ratio to the first path"},
		{rr, measure.RRP50, "Round trip, 1 B", "µs, p50; right: ratio to the first path"},
		{crr, measure.CRRP50, "Connect, ask and close", "µs, p50; right: ratio to the first path"},
	})
}

// Costs draw what a GB costs at each place.
func (v view) Costs() []chart.Figure {
	var list []figure
	for _, role := range roles() {
		list = append(list, figure{tcp, role + turns.CPUPerGB, "At the " + role, "s/GB to the target; right: ratio to the first path"})
	}
	return v.figures(list)
}

// figure is one of bars, a path each.
type figure struct{ caseName, metric, title, unit string }

func (v view) figures(list []figure) []chart.Figure {
	var figures []chart.Figure
	for _, f := range list {
		var bars []turns.Bar
		for _, name := range v.Names() {
			row, ok := stats.Find(v.Summary, name, f.caseName, f.metric)
			if !ok {
				continue
			}
			bar := turns.Bar{Name: chart.Brief(name, 12), Color: v.Color(name), Pale: strings.HasPrefix(name, fromGateway), Row: row}
			if row.Baseline != "" && row.Ratio > 0 {
				bar.Note, bar.Same = stats.Ratio(row.Ratio), !row.Distinguishable
			}
			bars = append(bars, bar)
		}
		if drawn := turns.Bars(f.title, f.unit, bars); drawn.Wide != "" {
			figures = append(figures, drawn)
		}
	}
	return figures
}

// tailEnd is the last quantile that is drawn: a slice has too few transactions for more.
const tailEnd = 0.999

// Distributions draw the node's round trips over all paths by percentile.
func (v view) Distributions() []chart.Figure {
	ofNode := v // a copy, whose samples are others
	ofNode.Samples = slices.DeleteFunc(slices.Clone(v.Samples), func(s result.Sample) bool { return strings.HasPrefix(s.Target, fromGateway) })
	curves := ofNode.CurvesOf(rr, measure.RRP50)
	for i := range curves {
		curves[i].Points = slices.DeleteFunc(curves[i].Points, func(q result.Quantile) bool { return q.Q > tailEnd })
	}
	if len(curves) == 0 {
		return nil
	}
	return []chart.Figure{{
		Title: "Round trips", Unit: "µs by percentile, 1 B, both axes logarithmic",
		Wide: v.Distribution(curves, 528, 260, "wide"), Narrow: v.Distribution(curves, 360, 240, "narrow"),
	}}
}

// page writes r as one self-contained page.
func page(w io.Writer, r result.Result) error {
	return chart.Page(w, turns.Pieces+pageTemplate, viewOf(r))
}

// table writes the summary of r for a terminal.
func table(w io.Writer, r result.Result) error {
	v := viewOf(r)
	var b strings.Builder
	fmt.Fprintf(&b, "%-18s %8s %7s %8s %7s %9s %8s %9s %8s  %s\n", "path", "Gbit/s", "ratio", "back", "ratio", "RTT, µs", "added", "CRR, µs", "added", "the target sees")
	for _, l := range v.Ways() {
		line := fmt.Sprintf("%-18s %8s %7s %8s %7s %9s %8s %9s %8s  %s", chart.Clip(l.Name, 18), l.To, l.ToRatio, l.From, l.FromRatio, l.Trip, l.TripAdded, l.Connection, l.ConnectionAdded, l.Source)
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	b.WriteByte('\n')
	turns.WriteRows(&b, r.Summary, rowMetrics())
	return chart.WriteText(w, &b, r.Verdict)
}
