package report

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// convergeView is a result of the converge experiment prepared for drawing.
type convergeView struct{ view }

// cases are those that have an event.
func (v convergeView) cases() []string {
	measured := stats.Cases(v.Result)
	return slices.DeleteFunc(stats.ConvergeCases(), func(kase string) bool { return !slices.Contains(measured, kase) })
}

func (v convergeView) find(name, kase, metric string) (result.Row, bool) {
	return stats.Find(v.Summary, name, kase, metric)
}

// Cards are the subject's p99 of each case.
func (v convergeView) Cards() []card {
	var cards []card
	for _, kase := range v.cases() {
		row, ok := v.find(v.subject, kase, stats.GapP99)
		if !ok {
			continue
		}
		c := card{Title: kase + ", p99", Value: stats.Figure(row.Median), Unit: "ms", Class: "even"}
		if stats.LostInAll(v.Result, v.subject, kase) == 0 {
			c.Value, c.Unit, c.Class = "no loss", "", "good"
		}
		c.Note, c.Class = v.rival(row, c.Class)
		cards = append(cards, c)
	}
	return cards
}

// rival is what a card says of the baseline.
func (v convergeView) rival(row result.Row, class string) (note, colour string) {
	base, ok := v.find(stats.BaselineBGP, row.Case, stats.GapP99)
	if !ok || v.subject == stats.BaselineBGP {
		return fmt.Sprintf("%d gaps", row.N), class
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
	return glue("Quantiles are over flows of all events of a case, and n is their number; flows of one event share much of its fate. Losses and steps are medians over events. Ratios are of same-round events.")
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

// convergeLine is a contender's line in the table of a case.
type convergeLine struct {
	Contender, Tint, Ratio string
	Cells                  []string
}

// convergeBlock is a case in the table.
type convergeBlock struct {
	Case, Words string
	Lines       []convergeLine
}

// Columns head the table of cases.
func (v convergeView) Columns() []string {
	return []string{"events", "gaps", "p50, ms", "p99", "longest", "flows hit", "packets lost in all", "× kernel"}
}

// Blocks are the cases.
func (v convergeView) Blocks() []convergeBlock {
	var blocks []convergeBlock
	for _, kase := range v.cases() {
		b := convergeBlock{Case: kase, Words: v.Parameters["fault_"+kase]}
		for _, name := range v.names {
			if row, ok := v.find(name, kase, stats.GapP99); ok {
				b.Lines = append(b.Lines, v.line(row))
			}
		}
		blocks = append(blocks, b)
	}
	return blocks
}

func (v convergeView) line(row result.Row) convergeLine {
	figure := func(metric string) string {
		r, _ := v.find(row.Contender, row.Case, metric)
		return stats.Figure(r.Median)
	}
	ratio := ratioLabel(row)
	switch {
	case row.Contender == stats.BaselineBGP:
		ratio = "1"
	case stats.LostInAll(v.Result, row.Contender, row.Case) == 0: // what is left is the machine's noise
		ratio = "–"
	}
	return convergeLine{Contender: row.Contender, Tint: v.tint(row.Contender), Cells: []string{
		strconv.Itoa(len(stats.Events(v.Result, row.Contender, row.Case))), strconv.Itoa(row.N),
		figure(stats.GapP50), stats.Figure(row.Median), figure(stats.GapMax), figure(stats.HitFlows),
		stats.In(stats.LostInAll(v.Result, row.Contender, row.Case), "count"), ratio,
	}}
}

// wayLine is a way's gaps with a contender.
type wayLine struct {
	Case, Way, Contender, Tint string
	Cells                      []string
}

// WayLines are the gaps by way, where flows were hit.
func (v convergeView) WayLines() []wayLine {
	var lines []wayLine
	for _, kase := range v.cases() {
		for _, way := range stats.Ways(v.Result, kase) {
			for _, name := range v.names {
				gaps := stats.Pooled(stats.Events(v.Result, name, kase), stats.WaySeries(way))
				if len(gaps) == 0 {
					continue
				}
				lines = append(lines, wayLine{kase, way, name, v.tint(name), []string{
					strconv.Itoa(len(gaps)), stats.Figure(stats.Quantile(gaps, 0.5)), stats.Figure(stats.Quantile(gaps, 0.99)), stats.Figure(gaps[len(gaps)-1]),
				}})
			}
		}
	}
	return lines
}

// stepped are the cases whose steps are known.
func (v convergeView) stepped() []string {
	return slices.DeleteFunc(v.cases(), func(kase string) bool {
		for _, row := range v.Summary {
			if row.Case == kase && slices.ContainsFunc(stats.ConvergeSteps()[:4], func(s stats.FailoverStep) bool { return s.Metric == row.Metric }) {
				return false
			}
		}
		return true
	})
}

// StepHeads head the table of steps.
func (v convergeView) StepHeads() []string {
	var heads []string
	for _, kase := range v.stepped() {
		for _, name := range v.names {
			heads = append(heads, kase+", "+name)
		}
	}
	return heads
}

// StepLines are the medians of the steps.
func (v convergeView) StepLines() []stepLine {
	var lines []stepLine
	for i, step := range stats.ConvergeSteps() {
		l := stepLine{Title: step.Title, Tint: stepTint(i)}
		known := false
		for _, kase := range v.stepped() {
			for _, name := range v.names {
				row, ok := v.find(name, kase, step.Metric)
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
	Round                         int
	Case, Contender, Tint, Failed string
	Cells                         []string
}

// EventColumns are the columns of EventLines.
func (v convergeView) EventColumns() []string {
	return []string{"flows hit", "gap p50, ms", "longest", "packets lost", "last flow, ms", "noise before, ms", "sender held up, ms"}
}

// EventLines are all events.
func (v convergeView) EventLines() []eventLine {
	metrics := []string{stats.HitFlows, stats.GapP50, stats.GapMax, stats.Lost, stats.Followed, stats.Noise, stats.Late}
	var lines []eventLine
	for _, s := range v.Samples {
		l := eventLine{Round: s.Round, Case: s.Case, Contender: s.Contender, Tint: v.tint(s.Contender), Failed: s.Error}
		for _, m := range metrics {
			value, ok := s.Metrics[m]
			cell := stats.Figure(value)
			switch {
			case !ok:
				cell = "–"
			case m == stats.HitFlows || m == stats.Lost:
				cell = stats.In(value, "count")
			}
			l.Cells = append(l.Cells, cell)
		}
		lines = append(lines, l)
	}
	return lines
}
