package ab

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
	"github.com/selvage/selvage/lab/transit"
)

//go:embed page.html
var pageTemplate string

// view is a result of the A/B experiment prepared for drawing.
type view struct{ chart.View }

func newView(r result.Result) view {
	return view{chart.NewView(r, baselineOf(r), underTest(r))}
}

// page writes r as one self-contained page.
func page(w io.Writer, r result.Result) error { return chart.Page(w, pageTemplate, newView(r)) }

// metric looks a metric up by case and name.
func metric(caseName, name string) stats.Metric {
	all := Metrics()
	i := slices.IndexFunc(all, func(m stats.Metric) bool { return m.Case == caseName && m.Name == name })
	return all[i]
}

// Cards are the subject's key figures.
func (v view) Cards() []chart.Card {
	var cards []chart.Card
	for _, m := range []stats.Metric{
		metric("tcp", measure.TCPThroughput), metric("tcp", measure.CPUPerGB), metric("rr-1", measure.RRP50), metric("udp", measure.UDPRate), metric(TransitEncap, transit.NDR),
	} {
		row, ok := v.Row(v.DUT, m)
		if !ok {
			continue
		}
		c := chart.Card{Title: cardTitle(m), Value: stats.In(row.Median, row.Unit), Unit: m.Unit, Class: "even", Strip: v.Strip(m)}
		switch {
		case row.Ratio == 0:
			c.Note = "no ratio to " + v.Baseline()
		case !row.Distinguishable:
			c.Note = chart.Glue(stats.Ratio(row.Ratio)) + " " + v.Baseline() + ", no difference shown"
		default:
			change := stats.ChangeOf(row, m.Higher)
			c.Class = map[stats.Change]string{stats.Better: "good", stats.Worse: "bad"}[change]
			c.Note = chart.Glue(stats.Ratio(row.Ratio)) + " " + v.Baseline() + ", " + change.String()
		}
		cards = append(cards, c)
	}
	return cards
}

func cardTitle(m stats.Metric) string {
	if m.Name == measure.RRP50 {
		return "Request/response p50"
	}
	if m.Name == transit.NDR {
		return "Transit, no-drop rate"
	}
	return m.Title
}

// Blocks is the table of all rows, by metric.
func (v view) Blocks() []chart.Block {
	var blocks []chart.Block
	for _, m := range Metrics() {
		b := chart.Block{Title: m.Title, Unit: m.Unit}
		for _, name := range v.Names() {
			row, ok := v.Row(name, m)
			if !ok {
				continue
			}
			b.Lines = append(b.Lines, v.Line(row))
		}
		if len(b.Lines) > 0 {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// table writes the summary of r for a terminal: every metric by target with
// interval, n and ratio, then the verdict and the findings.
func table(w io.Writer, r result.Result) error {
	v := newView(r)
	var b strings.Builder
	for _, m := range Metrics() {
		head := false
		for _, name := range v.Names() {
			row, ok := v.Row(name, m)
			if !ok {
				continue
			}
			if !head {
				fmt.Fprintf(&b, "%-38s %9s  %-17s %3s  %7s\n", m.Title+", "+m.Unit, "median", "interval", "n", "× "+v.Baseline())
				head = true
			}
			b.WriteString(v.textRow(row, m))
		}
		if head {
			b.WriteByte('\n')
		}
	}
	return chart.WriteText(w, &b, v.Verdict)
}

func (v view) textRow(row result.Row, m stats.Metric) string {
	ratio, bounds := "–", ""
	switch {
	case row.Target == v.Baseline():
		ratio = "1"
	case row.Ratio > 0:
		ratio = stats.BareRatio(row.Ratio)
		bounds = fmt.Sprintf("[%.2f, %.2f]", row.RatioLo, row.RatioHi)
	}
	if row.Baseline != "" {
		bounds = strings.TrimSpace(bounds + " " + v.shown(row, m))
	}
	interval := fmt.Sprintf("[%s, %s]", stats.In(row.Lo, row.Unit), stats.In(row.Hi, row.Unit))
	return strings.TrimRight(fmt.Sprintf("  %-36s %9s  %-17s %3d  %7s  %s", row.Target, stats.In(row.Median, row.Unit), interval, row.N, ratio, bounds), " ") + "\n"
}

// shown is what a row shows against the baseline: in runs of slices whether it is better, and if
// no difference is shown, how small a one would have been found.
func (v view) shown(row result.Row, m stats.Metric) string {
	switch {
	case !stats.Sliced(v.Result) && row.Distinguishable:
		return ""
	case !stats.Sliced(v.Result):
		return "not distinguishable"
	case row.Distinguishable || row.SmallestEffect == 0:
		return stats.ChangeOf(row, m.Higher).String()
	}
	return "no difference above " + stats.Share(row.SmallestEffect)
}
