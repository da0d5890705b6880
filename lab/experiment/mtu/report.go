package mtu

import (
	_ "embed"
	"fmt"
	"io"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// view is a result of the MTU experiment prepared for drawing.
type view struct{ chart.View }

// find is a row of the summary.
func (v view) find(target, caseName, metric string) (result.Row, bool) {
	return stats.Find(v.Summary, target, caseName, metric)
}

// sample is the first good one of a target's case.
func (v view) sample(target, caseName string) (result.Sample, bool) {
	for _, s := range v.Samples {
		if s.Target == target && s.Case == caseName && s.Error == "" {
			return s, true
		}
	}
	return result.Sample{}, false
}

// Guest and Underlay are what the transfers into the hole have.
func (v view) Guest() string    { return stats.Figure(v.Parameters.Number(guestMTU)) }
func (v view) Underlay() string { return stats.Figure(v.Parameters.Number(underlayMTU)) }

// Lengths are the times of the three kinds of transfers.
func (v view) Lengths() string {
	return fmt.Sprintf("transfers %s into the hole, %s after it, %s in the sweep", v.Parameters.Time("hole_duration"), v.Parameters.Time("duration"), v.Parameters.Time("sweep_duration"))
}

// Cards say of each target whether it has a black hole.
func (v view) Cards() []chart.Card {
	var cards []chart.Card
	for _, name := range v.Names() {
		row, ok := v.find(name, HoleCase, BlackHole)
		if !ok {
			continue
		}
		rate, _ := v.find(name, HoleCase, stats.Decisive)
		mss, _ := v.find(name, HoleCase, measure.MSS)
		size, _ := v.find(name, SizeCase, measure.LargestSize)
		c := chart.Card{Title: name, Value: "no hole", Class: "good", Note: fmt.Sprintf("%s Gbit/s without a fix, MSS %s", stats.Figure(rate.Median), stats.Figure(mss.Median))}
		if row.Median == 1 {
			c.Value, c.Class = "black hole", "bad"
			c.Note = fmt.Sprintf("%s of %s bytes pass", stats.Figure(size.Median), stats.Figure(v.Parameters.Number(guestMTU)))
			if s, ok := v.sample(name, SizeCase); ok && s.Metrics[measure.ReportedFlows] == 0 {
				c.Note += ", no ICMP error"
			}
		}
		if name == stats.Baseline {
			c.Class = "even"
		}
		c.Note = chart.Glue(c.Note)
		cards = append(cards, c)
	}
	return cards
}

// way is one column of the tables: a direction and a family.
type way struct{ Suffix, Words string }

// Ways are the columns.
func (v view) Ways() []way {
	return []way{{"", "client → server"}, {Reverse, "server → client"}, {"-v6", "IPv6, client → server"}, {"-v6" + Reverse, "IPv6, server → client"}}
}

// tableLine is one target's line.
type tableLine struct {
	Name, Color string
	Cells       []chart.Cell
}

// lines fills a table: fill says what a target has in a case, for each of cases.
func (v view) lines(cases []string, fill func(name, caseName string) chart.Cell) []tableLine {
	var lines []tableLine
	for _, name := range v.Names() {
		l := tableLine{Name: name, Color: v.Color(name)}
		for _, caseName := range cases {
			l.Cells = append(l.Cells, fill(name, caseName))
		}
		lines = append(lines, l)
	}
	return lines
}

// Transfers are the transfers as the paths come, all ways and with offload.
func (v view) Transfers() []tableLine {
	return v.lines(append(v.every(HoleCase), OffloadCase), func(name, caseName string) chart.Cell {
		s, ok := v.sample(name, caseName)
		if !ok {
			return chart.Cell{Value: "–"}
		}
		if at, stalled := stats.Stalled(s); stalled {
			return chart.Cell{Value: "black hole", Note: silence(at), Class: "bad"}
		}
		return chart.Cell{Value: stats.Figure(s.Metrics[stats.Decisive]) + "\u00a0Gbit/s", Note: "MSS " + stats.Figure(s.Metrics[measure.MSS])}
	})
}

// Largest are the sizes that arrive, all ways and with jumbo guests.
func (v view) Largest() []tableLine {
	return v.lines(append(v.every(SizeCase), SizeCase+"-jumbo"), func(name, caseName string) chart.Cell {
		s, ok := v.sample(name, caseName)
		if !ok {
			return chart.Cell{Value: "–"}
		}
		c := chart.Cell{Value: stats.Figure(s.Metrics[measure.LargestSize])}
		if best := s.Metrics[measure.LargestBest]; best != s.Metrics[measure.LargestSize] {
			c.Value, c.Class = c.Value+" … "+stats.Figure(best), "bad"
		}
		guest := stats.Figure(v.Parameters.Number(guestMTU))
		switch {
		case s.Metrics[measure.ReportedFlows] > 0:
			c.Note, c.Class = "told "+stats.Figure(s.Metrics[measure.ReportedMTU]), "good"
		case caseName != SizeCase+"-jumbo" && c.Value != guest:
			c.Note, c.Class = "silence", "bad"
		default:
			c.Note = "all fits"
		}
		return c
	})
}

func (v view) every(caseName string) []string {
	var cases []string
	for _, w := range v.Ways() {
		cases = append(cases, caseName+w.Suffix)
	}
	return cases
}

// Hashes is how many source ports were tried.
func (v view) Hashes() int { return v.Parameters.Int("hashes") }

// Fixes are the fixes with their commands.
func (v view) Fixes() []Fix { return Fixes(v.Result) }

// limit is what the sweep says of one target.
type limit struct {
	Name, Color, Kind, Class, Elasticity, Packet, Kilobyte, Growth, Jumbo string
}

// Limits are the ceilings of all targets.
func (v view) Limits() []limit {
	all := Ceilings(v.Result)
	var limits []limit
	for _, name := range v.Names() {
		c, ok := all[name]
		if !ok {
			continue
		}
		l := limit{Name: name, Color: v.Color(name), Kind: c.Words(), Elasticity: "–", Packet: "–", Kilobyte: "–", Growth: "–", Jumbo: v.grown(name)}
		if c.Refused != "" {
			l.Class = "dim"
		}
		if c.Elasticity.N > 0 {
			l.Elasticity = fmt.Sprintf("%.2f [%.2f, %.2f]", c.Elasticity.Median, c.Elasticity.Lo, c.Elasticity.Hi)
			l.Packet, l.Kilobyte = stats.Figure(c.PacketNS), stats.Figure(c.KilobyteNS)
		}
		if c.Growth.N > 0 {
			l.Growth = fmt.Sprintf("%s [%.2f, %.2f]", stats.Ratio(c.Growth.Median), c.Growth.Lo, c.Growth.Hi)
		}
		limits = append(limits, l)
	}
	return limits
}

// grown is the step from the guests' lowered MTU to jumbo packets.
func (v view) grown(name string) string {
	was, ok := v.find(name, "guest-mtu", stats.Decisive)
	now, okNow := v.find(name, "jumbo", stats.Decisive)
	old, _ := v.find(name, "guest-mtu", measure.MSS)
	mss, _ := v.find(name, "jumbo", measure.MSS)
	if !ok || !okNow || was.Median == 0 {
		return "–"
	}
	return fmt.Sprintf("%s → %s B: %s", stats.Figure(old.Median), stats.Figure(mss.Median), stats.Ratio(now.Median/was.Median))
}

// Blocks is the table of all rows: of throughput only, as sizes have tables of their
// own.
func (v view) Blocks() []chart.Block {
	var blocks []chart.Block
	for _, caseName := range stats.Cases(v.Result) {
		b := chart.Block{Title: caseName, Unit: "TCP throughput, Gbit/s"}
		for _, name := range v.Names() {
			if row, ok := v.find(name, caseName, stats.Decisive); ok {
				b.Lines = append(b.Lines, v.Line(row))
			}
		}
		if len(b.Lines) > 0 {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

//go:embed page.html
var pageTemplate string

// viewOf prepares r for drawing.
func viewOf(r result.Result) view {
	v := chart.NewView(r, stats.Baseline, underTest(r))
	return view{v}
}

// page writes r as one self-contained page.
func page(w io.Writer, r result.Result) error { return chart.Page(w, pageTemplate, viewOf(r)) }

// table writes the summary of r for a terminal.
func table(w io.Writer, r result.Result) error { return writeTable(w, viewOf(r)) }
