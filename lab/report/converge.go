package report

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// convergeView is a result of the converge experiment prepared for drawing.
type convergeView struct{ view }

// cases are those that have an event.
func (v convergeView) cases() []string {
	measured := stats.Cases(v.Result)
	return slices.DeleteFunc(stats.ConvergeCases(), func(caseName string) bool { return !slices.Contains(measured, caseName) })
}

func (v convergeView) find(name, caseName, metric string) (result.Row, bool) {
	return stats.Find(v.Summary, name, caseName, metric)
}

// Cards are the subject's p99 of each case.
func (v convergeView) Cards() []card {
	var cards []card
	for _, caseName := range v.cases() {
		row, ok := v.find(v.dut, caseName, stats.OutageP99)
		if !ok {
			continue
		}
		c := card{Title: caseName + ", p99", Value: stats.Figure(row.Median), Unit: "ms", Class: "even"}
		if stats.LostInAll(v.Result, v.dut, caseName) == 0 {
			c.Value, c.Unit, c.Class = "no loss", "", "good"
		}
		c.Note, c.Class = v.rival(row, c.Class)
		cards = append(cards, c)
	}
	return cards
}

// rival is what a card says of the baseline.
func (v convergeView) rival(row result.Row, class string) (note, colour string) {
	base, ok := v.find(stats.BaselineBGP, row.Case, stats.OutageP99)
	if !ok || v.dut == stats.BaselineBGP {
		return fmt.Sprintf("%d outages", row.N), class
	}
	note = fmt.Sprintf("kernel and FRR %s ms", stats.Figure(base.Median))
	if stats.LostInAll(v.Result, stats.BaselineBGP, row.Case) == 0 {
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
func (v convergeView) Confidence() string {
	return glue("Quantiles are over the flows of all events of a case, and n is their number; flows of one event are not independent. Losses and steps are medians over events. Ratios are of same-round events.")
}

// Lengths is what one event took with all that is around it.
func (v convergeView) Lengths() string {
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
func (v convergeView) Picture() string {
	return `a, mobile, s1 ─── edge A ══╗          ╔══ reflector (FRR)
b, mobile, s2 ─── edge B ══╬══ switch ╝
c             ─── edge C ══╝
s1 and s2 have the same service address, to which A and B announce a prefix each (type 5);
in link-loss each edge has two links to a router in the place of the switch`
}

// convergeLine is a target's line in the table of a case.
type convergeLine struct {
	Target, Color, Ratio string
	Cells                []string
}

// convergeBlock is a case in the table.
type convergeBlock struct {
	Case, Words string
	Lines       []convergeLine
}

// Columns head the table of cases.
func (v convergeView) Columns() []string {
	return []string{"events", "outages", "p50, ms", "p99", "longest", "flows hit", "packets lost in all", "× kernel"}
}

// Blocks are the cases.
func (v convergeView) Blocks() []convergeBlock {
	var blocks []convergeBlock
	for _, caseName := range v.cases() {
		b := convergeBlock{Case: caseName, Words: v.Parameters["fault_"+caseName]}
		for _, name := range v.Names() {
			if row, ok := v.find(name, caseName, stats.OutageP99); ok {
				b.Lines = append(b.Lines, v.line(row))
			}
		}
		blocks = append(blocks, b)
	}
	return blocks
}

func (v convergeView) line(row result.Row) convergeLine {
	figure := func(metric string) string {
		r, _ := v.find(row.Target, row.Case, metric)
		return stats.Figure(r.Median)
	}
	ratio := ratioLabel(row)
	switch {
	case row.Target == stats.BaselineBGP:
		ratio = "1"
	case stats.LostInAll(v.Result, row.Target, row.Case) == 0: // what is left is the machine's noise
		ratio = "–"
	}
	return convergeLine{Target: row.Target, Color: v.Color(row.Target), Cells: []string{
		strconv.Itoa(len(stats.Events(v.Result, row.Target, row.Case))), strconv.Itoa(row.N),
		figure(stats.OutageP50), stats.Figure(row.Median), figure(stats.OutageMax), figure(stats.AffectedFlows),
		stats.In(stats.LostInAll(v.Result, row.Target, row.Case), "count"), ratio,
	}}
}

// wayLine is a way's outages with a target.
type wayLine struct {
	Case, Way, Target, Color string
	Cells                    []string
}

// WayLines are the outages by way, where flows were hit.
func (v convergeView) WayLines() []wayLine {
	var lines []wayLine
	for _, caseName := range v.cases() {
		for _, way := range stats.Ways(v.Result, caseName) {
			for _, name := range v.Names() {
				outages := stats.Pooled(stats.Events(v.Result, name, caseName), stats.WaySeries(way))
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
func (v convergeView) stepped() []string {
	return slices.DeleteFunc(v.cases(), func(caseName string) bool {
		for _, row := range v.Summary {
			if row.Case == caseName && slices.ContainsFunc(stats.ConvergeSteps()[:4], func(s stats.FailoverStep) bool { return s.Metric == row.Metric }) {
				return false
			}
		}
		return true
	})
}

// StepHeads head the table of steps.
func (v convergeView) StepHeads() []string {
	var heads []string
	for _, caseName := range v.stepped() {
		for _, name := range v.Names() {
			heads = append(heads, caseName+", "+name)
		}
	}
	return heads
}

// StepLines are the medians of the steps.
func (v convergeView) StepLines() []stepLine {
	var lines []stepLine
	for i, step := range stats.ConvergeSteps() {
		l := stepLine{Title: step.Title, Color: stepColor(i)}
		known := false
		for _, caseName := range v.stepped() {
			for _, name := range v.Names() {
				row, ok := v.find(name, caseName, step.Metric)
				known = known || ok
				l.Cells = append(l.Cells, stepCell(row, ok))
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
func (v convergeView) EventColumns() []string {
	return []string{"flows hit", "outage p50, ms", "longest", "packets lost", "last flow, ms", "noise before, ms", "sender stalled, ms"}
}

// EventLines are all events.
func (v convergeView) EventLines() []eventLine {
	metrics := []string{stats.AffectedFlows, stats.OutageP50, stats.OutageMax, stats.Lost, stats.Followed, stats.Noise, stats.Late}
	var lines []eventLine
	for _, s := range v.Samples {
		l := eventLine{Round: s.Round, Case: s.Case, Target: s.Target, Color: v.Color(s.Target), Failed: s.Error}
		for _, m := range metrics {
			value, ok := s.Metrics[m]
			cell := stats.Figure(value)
			switch {
			case !ok:
				cell = "–"
			case m == stats.AffectedFlows || m == stats.Lost:
				cell = stats.In(value, "count")
			}
			l.Cells = append(l.Cells, cell)
		}
		lines = append(lines, l)
	}
	return lines
}

//go:embed converge.html
var convergePage string

// convergeViewOf prepares r for drawing.
func convergeViewOf(r result.Result) convergeView {
	v := newView(r, stats.BaselineBGP, diagnose.ConvergeDUT(r))
	return convergeView{v}
}

// ConvergePage writes r as one self-contained page.
func ConvergePage(w io.Writer, r result.Result) error {
	return Page(w, convergePage, convergeViewOf(r))
}

// ConvergeTable writes the summary of r for a terminal.
func ConvergeTable(w io.Writer, r result.Result) error { return convergeTable(w, convergeViewOf(r)) }

// ConvergeExperiment is the experiment.
func ConvergeExperiment() experiment.Experiment {
	return experiment.Experiment{Name: stats.Converge, Summarise: stats.ConvergeRows, Verdict: diagnose.ConvergeVerdict, Page: ConvergePage, Table: ConvergeTable}
}
