package failover

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

// view is a result of the failover experiment prepared for drawing.
type view struct{ chart.View }

// cases are the lines of the tables: all kills, then each way to kill where there are several.
func (v view) cases() []string {
	cases := cases(v.Result)
	if len(cases) == 2 {
		return cases[1:]
	}
	return cases
}

// what was killed.
func (v view) what() string {
	if cases := cases(v.Result); len(cases) > 0 {
		return cases[0]
	}
	return v.Parameters.Text("what")
}

// find is a row of the summary of the subject.
func (v view) find(caseName, metric string) (result.Row, bool) {
	return stats.Find(v.Summary, v.DUT, caseName, metric)
}

// figure writes a row's value, "–" without one.
func (v view) figure(caseName, metric string) string {
	row, ok := v.find(caseName, metric)
	switch {
	case !ok:
		return "–"
	case row.Unit == "share":
		return surviving(row.Median)
	}
	return stats.In(row.Median, row.Unit)
}

// surviving writes a share that may be almost all without rounding it up to that.
func surviving(share float64) string {
	if share > 0.9995 && share < 1 {
		share = 0.9994
	}
	return strconv.FormatFloat(100*share, 'f', map[bool]int{true: 0, false: 2}[share == 0 || share == 1], 64) + "\u00a0%"
}

// kills are the good ones of all ways.
func (v view) kills() []result.Sample { return Kills(v.Result, v.DUT, v.what()) }

// affected says whether flows were.
func (v view) affected() bool { return len(stats.Pooled(v.kills(), inject.OutageSeries)) > 0 }

// Cards are the key figures of all kills.
func (v view) Cards() []chart.Card {
	kills := v.kills()
	if len(kills) == 0 {
		return nil
	}
	var cards []chart.Card
	for _, c := range []struct{ title, metric, note string }{
		{"Outage, p50", inject.OutageP50, "half of the affected flows"},
		{"Outage, p99", inject.OutageP99, "of the flows; of a kill "},
		{"Longest outage", inject.OutageMax, "of any flow"},
	} {
		row, ok := v.find(v.what(), c.metric)
		if !ok {
			continue
		}
		next := chart.Card{Title: c.title, Value: stats.Figure(row.Median), Unit: "ms", Note: c.note, Class: "even"}
		if c.metric == inject.OutageP99 {
			next.Note += fmt.Sprintf("%s to %s ms", stats.Figure(row.Lo), stats.Figure(row.Hi))
		}
		if !v.affected() {
			next.Value, next.Unit, next.Note, next.Class = "none", "", "no flow lost a packet", "good"
		}
		cards = append(cards, next)
	}
	on, all := 0.0, 0.0
	for _, k := range kills {
		on, all = on+k.Metrics[inject.WentOn], all+k.Metrics[inject.Connections]
	}
	survived := chart.Card{Title: "Connections that survived", Value: v.figure(v.what(), inject.Survived), Note: fmt.Sprintf("%s of %s", stats.Figure(on), stats.Figure(all)), Class: "good"}
	if on < 0.99*all {
		survived.Class = "bad"
	}
	return append(cards, survived)
}

// Confidence says what the figures are over, in the place of intervals of rounds.
func (v view) Confidence() string {
	return chart.Glue(fmt.Sprintf("Quantiles are over the affected flows of all %d kills. Flows of one kill are not independent, so n counts the kills. Steps and losses are medians over kills.", len(v.kills())))
}

// Order is the kills' own table's business.
func (v view) Order() []chart.Order { return nil }

// Lengths is what one kill took with all that is around it.
func (v view) Lengths() string {
	var all []float64
	for _, k := range v.kills() {
		all = append(all, k.Duration)
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f s a kill", stats.Median(all).Median)
}

// Picture is the network.
func (v view) Picture() string {
	if v.what() == "gateway" {
		return `source ─── edge ═══ under0 ═══ gw1 ─── out0 ─── target
                       ╚══════ gw2 ─────┘
tunnels (VXLAN) over under0; one switch has both networks; gw1 has the work while it lives`
	}
	return `                u0 ═══╗      ╔═══ u0
source ─── edge1      ╠ core ╣      edge2 ─── target
                u1 ═══╝      ╚═══ u1
four paths (VXLAN) between two endpoints each share the flows; u1 of edge1 is what is cut`
}

// caseLine is a line of the table of cases.
type caseLine struct {
	Name, Words string
	All         bool
	Cells       []string
}

// caseColumns are the table's columns.
func caseColumns() []struct{ title, metric string } {
	return []struct{ title, metric string }{
		{"outage p50, ms", inject.OutageP50}, {"p99", inject.OutageP99}, {"longest", inject.OutageMax}, {"flows hit", inject.AffectedFlows}, {"packets lost", inject.Lost},
		{"TCP stall p50, ms", inject.StallP50}, {"p99", inject.StallP99}, {"survived", inject.Survived}, {"return: longest outage, ms", inject.ReturnMax},
	}
}

// Columns are their titles.
func (v view) Columns() []string {
	titles := []string{"kills"}
	for _, c := range caseColumns() {
		titles = append(titles, c.title)
	}
	return titles
}

// Lines are the table's.
func (v view) Lines() []caseLine {
	var lines []caseLine
	for _, caseName := range v.cases() {
		_, how := Killed(caseName)
		l := caseLine{Name: how, Words: v.Parameters.Text(faultParameter(how)), All: how == "", Cells: []string{strconv.Itoa(len(Kills(v.Result, v.DUT, caseName)))}}
		if l.All {
			l.Name = "all"
		}
		for _, c := range caseColumns() {
			l.Cells = append(l.Cells, v.figure(caseName, c.metric))
		}
		lines = append(lines, l)
	}
	return lines
}

// StepCases heads the table of steps.
func (v view) StepCases() []string {
	var heads []string
	for _, caseName := range v.cases() {
		what, how := Killed(caseName)
		if how == "" {
			how = what + ", all"
		}
		heads = append(heads, how)
	}
	return heads
}

// StepLines are the medians of the steps.
func (v view) StepLines() []inject.StepLine {
	var lines []inject.StepLine
	for i, step := range Steps() {
		l := inject.StepLine{Title: step.Title, Color: inject.StepColor(i)}
		known := false
		for _, caseName := range v.cases() {
			row, ok := v.find(caseName, step.Metric)
			known = known || ok
			l.Cells = append(l.Cells, inject.StepCell(row, ok))
		}
		if known {
			lines = append(lines, l)
		}
	}
	return lines
}

// killLine is a kill's line in the table of all of them.
type killLine struct {
	Number      int
	How, Failed string
	Cells       []string
}

// KillColumns are the columns of KillLines.
func (v view) KillColumns() []string {
	return []string{"flows hit", "outage p50, ms", "longest", "packets lost", "repair, ms", "TCP stall p99, ms", "survived", "return: outage, ms", "lost", "noise before, ms", "sender stalled, ms"}
}

// KillLines are all kills.
func (v view) KillLines() []killLine {
	metrics := []string{inject.AffectedFlows, inject.OutageP50, inject.OutageMax, inject.Lost, inject.Repair, inject.StallP99, inject.Survived, inject.ReturnMax, inject.ReturnLost, inject.Noise, inject.Late}
	var lines []killLine
	for _, s := range v.Samples {
		_, how := Killed(s.Case)
		l := killLine{Number: s.Round, How: how, Failed: s.Error}
		for _, m := range metrics {
			value, ok := s.Metrics[m]
			cell := stats.Figure(value)
			switch {
			case !ok:
				cell = "–"
			case m == inject.Survived:
				cell = surviving(value)
			case slices.Contains([]string{inject.AffectedFlows, inject.Lost, inject.ReturnLost}, m):
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
	v := chart.NewView(r, "", underTest(r))
	return view{v}
}

// page writes r as one self-contained page.
func page(w io.Writer, r result.Result) error {
	return chart.Page(w, pageTemplate, viewOf(r))
}

// table writes the summary of r for a terminal.
func table(w io.Writer, r result.Result) error { return writeTable(w, viewOf(r)) }
