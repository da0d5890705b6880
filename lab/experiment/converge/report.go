package converge

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// view is a result of the converge experiment prepared for drawing.
type view struct{ chart.View }

// cases are those that have an event.
func (v view) cases() []string {
	measured := stats.Cases(v.Result)
	return slices.DeleteFunc(Cases(), func(caseName string) bool { return !slices.Contains(measured, caseName) })
}

func (v view) find(name, caseName, metric string) (result.Row, bool) {
	return stats.Find(v.Summary, name, caseName, metric)
}

// Cards are the subject's p99 of each case.
func (v view) Cards() []chart.Card {
	var cards []chart.Card
	for _, caseName := range v.cases() {
		row, ok := v.find(v.DUT, caseName, inject.OutageP99)
		if !ok {
			continue
		}
		c := chart.Card{Title: caseName + ", p99", Value: stats.Figure(row.Median), Unit: "ms", Class: "even"}
		if LostInAll(v.Result, v.DUT, caseName) == 0 {
			c.Value, c.Unit, c.Class = "no loss", "", "good"
		}
		c.Note, c.Class = v.rival(row, c.Class)
		cards = append(cards, c)
	}
	return cards
}

// rival is what a card says of the baseline.
func (v view) rival(row result.Row, class string) (note, colour string) {
	base, ok := v.find(baseline, row.Case, inject.OutageP99)
	if !ok || v.DUT == baseline {
		return fmt.Sprintf("%d outages", row.N), class
	}
	note = fmt.Sprintf("kernel and FRR %s ms", stats.Figure(base.Median))
	if LostInAll(v.Result, baseline, row.Case) == 0 {
		note = "kernel and FRR lose nothing either"
		if class != "good" {
			note, class = "kernel and FRR lose nothing", "bad"
		}
		return note, class
	}
	if class == "even" && row.Distinguishable {
		class = map[bool]string{true: "good", false: "bad"}[row.Median < base.Median]
	}
	return note, class
}

// Confidence says what the figures are over.
func (v view) Confidence() string {
	return chart.Glue("Quantiles are over the flows of all events of a case, and n is their number; flows of one event are not independent. Losses and steps are medians over events. Ratios are of same-round events.")
}

// Lengths is what one event took with all that is around it.
func (v view) Lengths() string {
	var all []float64
	for _, s := range v.Samples {
		if s.Error == "" {
			all = append(all, s.Duration)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f s an event", stats.Median(all).Median)
}

// Picture is the fabric.
func (v view) Picture() string {
	return `a, mobile, s1 ─── edge A ══╗          ╔══ reflector (FRR)
b, mobile, s2 ─── edge B ══╬══ switch ╝
c             ─── edge C ══╝
s1 and s2 have the same service address, to which A and B announce a prefix each (type 5);
in link-loss each edge has two links to a router in the place of the switch`
}

// convergeLine is a target's line in the table of a case.
type convergeLine struct {
	Target, Color string
	Cells         []string // the ratio last
	Ratio         string   // without its sign
}

// convergeBlock is a case in the table.
type convergeBlock struct {
	Case, Words string
	Lines       []convergeLine
}

// Columns head the table of cases.
func (v view) Columns() []string {
	return []string{"events", "outages", "p50, ms", "p99", "longest", "flows hit", "packets lost in all", "× kernel"}
}

// Blocks are the cases.
func (v view) Blocks() []convergeBlock {
	var blocks []convergeBlock
	for _, caseName := range v.cases() {
		b := convergeBlock{Case: caseName, Words: v.Parameters.Text(faultParameter(caseName))}
		for _, name := range v.Names() {
			if row, ok := v.find(name, caseName, inject.OutageP99); ok {
				b.Lines = append(b.Lines, v.line(row))
			}
		}
		blocks = append(blocks, b)
	}
	return blocks
}

func (v view) line(row result.Row) convergeLine {
	figure := func(metric string) string {
		r, _ := v.find(row.Target, row.Case, metric)
		return stats.Figure(r.Median)
	}
	ratio, bare := chart.RatioLabel(row), chart.BareRatioLabel(row)
	switch {
	case row.Target == baseline:
		ratio, bare = "1", "1"
	case LostInAll(v.Result, row.Target, row.Case) == 0: // what is left is the machine's noise
		ratio, bare = "–", "–"
	}
	return convergeLine{Target: row.Target, Color: v.Color(row.Target), Ratio: bare, Cells: []string{
		strconv.Itoa(len(stats.Good(v.Result, row.Target, row.Case))), strconv.Itoa(row.N),
		figure(inject.OutageP50), stats.Figure(row.Median), figure(inject.OutageMax), figure(inject.AffectedFlows),
		stats.In(LostInAll(v.Result, row.Target, row.Case), "count"), ratio,
	}}
}

// wayLine is a way's outages with a target.
type wayLine struct {
	Case, Way, Target, Color string
	Cells                    []string
}

// WayLines are the outages by way, where flows were hit.
func (v view) WayLines() []wayLine {
	var lines []wayLine
	for _, caseName := range v.cases() {
		for _, way := range Ways(v.Result, caseName) {
			for _, name := range v.Names() {
				outages := stats.Pooled(stats.Good(v.Result, name, caseName), WaySeries(way))
				if len(outages) == 0 {
					continue
				}
				lines = append(lines, wayLine{caseName, way, name, v.Color(name), []string{
					strconv.Itoa(len(outages)), stats.Figure(stats.Quantile(outages, 0.5)), stats.Figure(stats.Quantile(outages, 0.99)), stats.Figure(outages[len(outages)-1]),
				}})
			}
		}
	}
	return lines
}

// stepped are the cases whose steps are known.
func (v view) stepped() []string {
	return slices.DeleteFunc(v.cases(), func(caseName string) bool {
		for _, row := range v.Summary {
			if row.Case == caseName && slices.ContainsFunc(Steps()[:4], func(s inject.Step) bool { return s.Metric == row.Metric }) {
				return false
			}
		}
		return true
	})
}

// StepHeads head the table of steps.
func (v view) StepHeads() []string {
	var heads []string
	for _, caseName := range v.stepped() {
		for _, name := range v.Names() {
			heads = append(heads, caseName+", "+name)
		}
	}
	return heads
}

// StepLines are the medians of the steps.
func (v view) StepLines() []inject.StepLine {
	var lines []inject.StepLine
	for i, step := range Steps() {
		l := inject.StepLine{Title: step.Title, Color: inject.StepColor(i)}
		known := false
		for _, caseName := range v.stepped() {
			for _, name := range v.Names() {
				row, ok := v.find(name, caseName, step.Metric)
				known = known || ok
				l.Cells = append(l.Cells, inject.StepCell(row, ok))
			}
		}
		if known {
			lines = append(lines, l)
		}
	}
	return lines
}

// eventLine is an event's line in the table of all of them.
type eventLine struct {
	Round                       int
	Case, Target, Color, Failed string
	Cells                       []string
}

// EventColumns are the columns of EventLines.
func (v view) EventColumns() []string {
	return []string{"flows hit", "outage p50, ms", "longest", "packets lost", "last flow, ms", "noise before, ms", "sender stalled, ms"}
}

// EventLines are all events.
func (v view) EventLines() []eventLine {
	metrics := []string{inject.AffectedFlows, inject.OutageP50, inject.OutageMax, inject.Lost, Followed, inject.Noise, inject.Late}
	var lines []eventLine
	for _, s := range v.Samples {
		l := eventLine{Round: s.Round, Case: s.Case, Target: s.Target, Color: v.Color(s.Target), Failed: s.Error}
		for _, m := range metrics {
			value, ok := s.Metrics[m]
			cell := stats.Figure(value)
			switch {
			case !ok:
				cell = "–"
			case m == inject.AffectedFlows || m == inject.Lost:
				cell = stats.In(value, "count")
			}
			l.Cells = append(l.Cells, cell)
		}
		lines = append(lines, l)
	}
	return lines
}

//go:embed page.html
var pageTemplate string

// viewOf prepares r for drawing.
func viewOf(r result.Result) view {
	v := chart.NewView(r, baseline, underTest(r))
	return view{v}
}

// page writes r as one self-contained page.
func page(w io.Writer, r result.Result) error {
	return chart.Page(w, pageTemplate, viewOf(r))
}

// table writes the summary of r for a terminal.
func table(w io.Writer, r result.Result) error { return writeTable(w, viewOf(r)) }
