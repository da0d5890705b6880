package places

import (
	_ "embed"
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
	dut := ""
	if names := stats.Names(r); len(names) > 0 {
		dut = names[0]
	}
	v := turns.View{View: chart.NewView(r, "", dut), Metrics: rowMetrics()}
	for _, i := range instruments {
		for _, role := range []string{client, server, firewall} {
			v.Watched = append(v.Watched, turns.Watched{Prefix: i.name + "_", Role: role, Words: i.words})
		}
	}
	return view{v}
}

// rowMetrics are those of the rows.
func rowMetrics() []stats.Metric {
	list := metrics()
	for _, a := range added {
		list = append(list, stats.Metric{Name: a.name, Unit: "µs", Title: a.title})
	}
	return list
}

// Cards are the key figures of the first paths.
func (v view) Cards() []chart.Card {
	var cards []chart.Card
	for _, name := range v.Names()[:min(2, len(v.Names()))] {
		for _, a := range []struct{ name, title string }{{rrAdded, "Added to a round trip, "}, {crrAdded, "Added to a connection, "}} {
			row, ok := stats.Find(v.Summary, name, on, a.name)
			if !ok {
				continue
			}
			card := chart.Card{Title: a.title + name, Value: signed(row.Median), Unit: "µs", Class: "even", Note: between(row) + ", no difference shown"}
			if row.Distinguishable {
				card.Note, card.Class = between(row), "bad"
				if row.Median < 0 {
					card.Class = "good"
				}
			}
			cards = append(cards, card)
		}
	}
	return cards
}

// Bars draw off and on of each path, of a metric and what is added to it.
func (v view) Bars() []chart.Figure {
	var figures []chart.Figure
	for _, f := range []struct{ metric, of, title string }{
		{measure.RRP50, rrAdded, "Round trip, 1024 B"}, {rr1P50, rr1Added, "Round trip, 1 B"}, {measure.CRRP50, crrAdded, "Connect, ask and close"},
	} {
		var bars []turns.Bar
		for _, name := range v.Names() {
			for _, state := range []string{off, on} {
				row, ok := stats.Find(v.Summary, name, state, f.metric)
				if !ok {
					continue
				}
				bar := turns.Bar{Name: name + " " + state, Color: v.Color(name), Pale: state == off, Row: row}
				if a, ok := stats.Find(v.Summary, name, on, f.of); ok && state == on {
					bar.Note, bar.Same = signed(a.Median), !a.Distinguishable
				}
				bars = append(bars, bar)
			}
		}
		if figure := turns.Bars(f.title, "µs, p50; pale: firewall off, full: on; right: added", bars); figure.Wide != "" {
			figures = append(figures, figure)
		}
	}
	return figures
}

// tailEnd is the last quantile that is drawn: a slice has too few transactions for more.
const tailEnd = 0.999

// Distributions draw the round trips of all paths by percentile, off and on.
func (v view) Distributions() []chart.Figure {
	var figures []chart.Figure
	for _, state := range []string{off, on} {
		curves := v.CurvesOf(state, measure.RRP50)
		for i := range curves {
			curves[i].Points = slices.DeleteFunc(curves[i].Points, func(q result.Quantile) bool { return q.Q > tailEnd })
		}
		if len(curves) > 0 {
			figures = append(figures, chart.Figure{
				Title: "Round trips, firewall " + state, Unit: "µs by percentile, 1024 B, both axes logarithmic",
				Wide: v.Distribution(curves, 528, 260, "wide"), Narrow: v.Distribution(curves, 360, 240, "narrow"),
			})
		}
	}
	return figures
}

// timesLine is one path, off and on.
type timesLine struct {
	Name, Color, Title string
	Off, On            string
	Added, Interval    string
	P99Off, P99On      string
	Same               bool
}

// Times is the table of both states.
func (v view) Times() []timesLine {
	var lines []timesLine
	for _, name := range v.Names() {
		for _, of := range []struct{ p50, p99, added, title string }{
			{measure.RRP50, measure.RRP99, rrAdded, "round trip, 1024 B"}, {rr1P50, "rr1_p99", rr1Added, "round trip, 1 B"},
			{measure.CRRP50, measure.CRRP99, crrAdded, "connect, ask and close"},
		} {
			if _, ok := stats.Find(v.Summary, name, on, of.p50); !ok {
				continue
			}
			l := timesLine{
				Name: name, Color: v.Color(name), Title: of.title, Off: v.value(name, off, of.p50), On: v.value(name, on, of.p50),
				P99Off: v.value(name, off, of.p99), P99On: v.value(name, on, of.p99), Added: "–",
			}
			if row, ok := stats.Find(v.Summary, name, on, of.added); ok {
				l.Added, l.Interval, l.Same = signed(row.Median), between(row), !row.Distinguishable
			}
			lines = append(lines, l)
		}
	}
	return lines
}

// value is the median of a metric, "–" when it was not measured.
func (v view) value(name, state, metric string) string {
	row, ok := stats.Find(v.Summary, name, state, metric)
	if !ok {
		return "–"
	}
	return stats.In(row.Median, row.Unit)
}

// page writes r as one self-contained page.
func page(w io.Writer, r result.Result) error {
	return chart.Page(w, turns.Pieces+pageTemplate, viewOf(r))
}

// table writes the summary of r for a terminal.
func table(w io.Writer, r result.Result) error {
	var b strings.Builder
	turns.WriteRows(&b, r.Summary, rowMetrics())
	return chart.WriteText(w, &b, r.Verdict)
}
