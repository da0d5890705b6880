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

// failoverView is a result of the failover experiment prepared for drawing.
type failoverView struct{ view }

// cases are the lines of the tables: all kills, then each way to kill where there are several.
func (v failoverView) cases() []string {
	cases := stats.FailoverCases(v.Result)
	if len(cases) == 2 {
		return cases[1:]
	}
	return cases
}

// what was killed.
func (v failoverView) what() string {
	if cases := stats.FailoverCases(v.Result); len(cases) > 0 {
		return cases[0]
	}
	return v.Parameters["what"]
}

// find is a row of the summary of the subject.
func (v failoverView) find(caseName, metric string) (result.Row, bool) {
	return stats.Find(v.Summary, v.dut, caseName, metric)
}

// figure writes a row's value, "–" without one.
func (v failoverView) figure(caseName, metric string) string {
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
func (v failoverView) kills() []result.Sample { return stats.Kills(v.Result, v.dut, v.what()) }

// affected says whether flows were.
func (v failoverView) affected() bool { return len(stats.Pooled(v.kills(), stats.OutageSeries)) > 0 }

// Cards are the key figures of all kills.
func (v failoverView) Cards() []card {
	kills := v.kills()
	if len(kills) == 0 {
		return nil
	}
	var cards []card
	for _, c := range []struct{ title, metric, note string }{
		{"Outage, p50", stats.OutageP50, "half of the affected flows"},
		{"Outage, p99", stats.OutageP99, "of the flows; of a kill "},
		{"Longest outage", stats.OutageMax, "of any flow"},
	} {
		row, ok := v.find(v.what(), c.metric)
		if !ok {
			continue
		}
		next := card{Title: c.title, Value: stats.Figure(row.Median), Unit: "ms", Note: c.note, Class: "even"}
		if c.metric == stats.OutageP99 {
			next.Note += fmt.Sprintf("%s to %s ms", stats.Figure(row.Lo), stats.Figure(row.Hi))
		}
		if !v.affected() {
			next.Value, next.Unit, next.Note, next.Class = "none", "", "no flow lost a packet", "good"
		}
		cards = append(cards, next)
	}
	on, all := 0.0, 0.0
	for _, k := range kills {
		on, all = on+k.Metrics[stats.WentOn], all+k.Metrics[stats.Connections]
	}
	survived := card{Title: "Connections that survived", Value: v.figure(v.what(), stats.Survived), Note: fmt.Sprintf("%s of %s", stats.Figure(on), stats.Figure(all)), Class: "good"}
	if on < 0.99*all {
		survived.Class = "bad"
	}
	return append(cards, survived)
}

// Confidence says what the figures are over, in the place of intervals of rounds.
func (v failoverView) Confidence() string {
	return glue(fmt.Sprintf("Quantiles are over the affected flows of all %d kills. Flows of one kill are not independent, so n counts the kills. Steps and losses are medians over kills.", len(v.kills())))
}

// Order is the kills' own table's business.
func (v failoverView) Order() []order { return nil }

// Lengths is what one kill took with all that is around it.
func (v failoverView) Lengths() string {
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
func (v failoverView) Picture() string {
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
		{"outage p50, ms", stats.OutageP50}, {"p99", stats.OutageP99}, {"longest", stats.OutageMax}, {"flows hit", stats.AffectedFlows}, {"packets lost", stats.Lost},
		{"TCP stall p50, ms", stats.StallP50}, {"p99", stats.StallP99}, {"survived", stats.Survived}, {"return: longest outage, ms", stats.ReturnMax},
	}
}

// Columns are their titles.
func (v failoverView) Columns() []string {
	titles := []string{"kills"}
	for _, c := range caseColumns() {
		titles = append(titles, c.title)
	}
	return titles
}

// Lines are the table's.
func (v failoverView) Lines() []caseLine {
	var lines []caseLine
	for _, caseName := range v.cases() {
		_, how := stats.Killed(caseName)
		l := caseLine{Name: how, Words: v.Parameters["fault_"+how], All: how == "", Cells: []string{strconv.Itoa(len(stats.Kills(v.Result, v.dut, caseName)))}}
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

// stepLine is a step's line in the table of steps.
type stepLine struct {
	Title, Color string
	Cells        []string // by case
}

// StepCases heads the table of steps.
func (v failoverView) StepCases() []string {
	var heads []string
	for _, caseName := range v.cases() {
		what, how := stats.Killed(caseName)
		if how == "" {
			how = what + ", all"
		}
		heads = append(heads, how)
	}
	return heads
}

// StepLines are the medians of the steps.
func (v failoverView) StepLines() []stepLine {
	var lines []stepLine
	for i, step := range stats.FailoverSteps() {
		l := stepLine{Title: step.Title, Color: stepColor(i)}
		known := false
		for _, caseName := range v.cases() {
			row, ok := v.find(caseName, step.Metric)
			known = known || ok
			l.Cells = append(l.Cells, stepCell(row, ok))
		}
		if known {
			lines = append(lines, l)
		}
	}
	return lines
}

// stepCell writes a step's median with its interval, "–" without one.
func stepCell(row result.Row, ok bool) string {
	if !ok {
		return "–"
	}
	return fmt.Sprintf("%s [%s, %s]", stats.Figure(row.Median), stats.Figure(row.Lo), stats.Figure(row.Hi))
}

// killLine is a kill's line in the table of all of them.
type killLine struct {
	Number      int
	How, Failed string
	Cells       []string
}

// KillColumns are the columns of KillLines.
func (v failoverView) KillColumns() []string {
	return []string{"flows hit", "outage p50, ms", "longest", "packets lost", "repair, ms", "TCP stall p99, ms", "survived", "return: outage, ms", "lost", "noise before, ms", "sender stalled, ms"}
}

// KillLines are all kills.
func (v failoverView) KillLines() []killLine {
	metrics := []string{stats.AffectedFlows, stats.OutageP50, stats.OutageMax, stats.Lost, stats.Repair, stats.StallP99, stats.Survived, stats.ReturnMax, stats.ReturnLost, stats.Noise, stats.Late}
	var lines []killLine
	for _, s := range v.Samples {
		_, how := stats.Killed(s.Case)
		l := killLine{Number: s.Round, How: how, Failed: s.Error}
		for _, m := range metrics {
			value, ok := s.Metrics[m]
			cell := stats.Figure(value)
			switch {
			case !ok:
				cell = "–"
			case m == stats.Survived:
				cell = surviving(value)
			case slices.Contains([]string{stats.AffectedFlows, stats.Lost, stats.ReturnLost}, m):
				cell = stats.In(value, "count")
			}
			l.Cells = append(l.Cells, cell)
		}
		lines = append(lines, l)
	}
	return lines
}

//go:embed failover.html
var failoverPage string

// failoverViewOf prepares r for drawing.
func failoverViewOf(r result.Result) failoverView {
	v := newView(r, "", diagnose.FailoverDUT(r))
	return failoverView{v}
}

// FailoverPage writes r as one self-contained page.
func FailoverPage(w io.Writer, r result.Result) error {
	return Page(w, failoverPage, failoverViewOf(r))
}

// FailoverTable writes the summary of r for a terminal.
func FailoverTable(w io.Writer, r result.Result) error { return failoverTable(w, failoverViewOf(r)) }

// FailoverExperiment is the experiment.
func FailoverExperiment() experiment.Experiment {
	return experiment.Experiment{Name: stats.Failover, Summarise: stats.FailoverRows, Verdict: diagnose.FailoverVerdict, Page: FailoverPage, Table: FailoverTable}
}
