package offload

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// view is a result of the offload experiment prepared for drawing.
type view struct{ chart.View }

func newView(v chart.View) view { return view{v} }

func (v view) find(name string, s Stream, metric string) (result.Row, bool) {
	return stats.Find(v.Summary, name, s.Case(), metric)
}

// Lengths is how long a sample took.
func (v view) Lengths() string { return v.SampleTimes() }

// Cards are the subject's ratios to the baseline: the worst and the best state, and all on and
// all off.
func (v view) Cards() []chart.Card {
	states := WorstStates(v.Summary, v.DUT)
	if len(states) == 0 {
		return nil
	}
	var cards []chart.Card
	add := func(title string, row result.Row) {
		s, _ := Streamed(row.Case)
		c := chart.Card{Title: title, Value: stats.Ratio(row.Ratio), Unit: v.Baseline(), Class: "even", Note: v.where(s) + ", cannot be told from 1.1\u00a0×"}
		switch {
		case pairs(v.Result, v.DUT, s) < stats.MinRounds:
			c.Note = v.where(s) + ", of too few rounds"
		case row.RatioLo >= aim:
			c.Class, c.Note = "good", fmt.Sprintf("%s [%.2f, %.2f]", v.where(s), row.RatioLo, row.RatioHi)
		case row.RatioHi < aim:
			c.Class, c.Note = "bad", fmt.Sprintf("%s [%.2f, %.2f]", v.where(s), row.RatioLo, row.RatioHi)
		}
		cards = append(cards, c)
	}
	add("Worst state", states[0])
	for _, kind := range []struct{ title, state string }{{"All offloads on", AllOn}, {"All offloads off", AllOff}} {
		for _, row := range states {
			if s, _ := Streamed(row.Case); s.State == kind.state {
				add(kind.title+", least", row)
				break
			}
		}
	}
	if len(states) > 1 {
		add("Best state", states[len(states)-1])
	}
	return cards
}

// where is a state and what tells it from others.
func (v view) where(s Stream) string { return s.State + ", " + v.group(s) }

func (v view) group(s Stream) string {
	if s.BothWays {
		return s.Encapsulation + " both ways"
	}
	return s.Encapsulation + " one way"
}

// streamGroup is what is drawn together: an encapsulation one way or both ways.
type streamGroup struct {
	Title   string
	Figures []chart.Figure
}

// Groups are the study's charts, over the sizes of writes.
func (v view) Groups() []streamGroup {
	var groups []streamGroup
	for _, s := range v.grouped() {
		g := streamGroup{Title: v.group(s)}
		for _, chart := range v.charts(s) {
			if f, ok := chart.Figure(v.Color); ok {
				g.Figures = append(g.Figures, f)
			}
		}
		if len(g.Figures) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// grouped are the means, one for each encapsulation and way.
func (v view) grouped() []Stream {
	var all []Stream
	for _, s := range Means(v.Result) {
		s.State = ""
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// states are those that were measured, in the order of stats.OffloadStates.
func (v view) states() []string {
	return slices.DeleteFunc(states(), func(state string) bool {
		return !slices.ContainsFunc(Means(v.Result), func(s Stream) bool { return s.State == state })
	})
}

// stateLine is a state in the table of ratios.
type stateLine struct {
	State, Words string
	Cells        []chart.Cell
}

// stateTable is the ratios to the baseline of a target, of an encapsulation and way.
type stateTable struct {
	Title string
	Sizes []string
	Lines []stateLine
}

// Matrices are states by sizes: how many times the baseline the subject carries.
func (v view) Matrices() []stateTable {
	var tables []stateTable
	sizes := append(Sizes(v.Result), 0)
	for _, s := range v.grouped() {
		t := stateTable{Title: v.group(s)}
		for _, size := range sizes {
			t.Sizes = append(t.Sizes, sizeLabel(size))
		}
		compared := false
		for _, state := range v.states() {
			line := stateLine{State: state, Words: words(state)}
			for _, size := range sizes {
				s.State, s.Size = state, size
				row, ok := v.find(v.DUT, s, Throughput)
				compared = compared || ok && row.Ratio > 0
				line.Cells = append(line.Cells, ratioCell(row, pairs(v.Result, v.DUT, s)))
			}
			t.Lines = append(t.Lines, line)
		}
		if compared {
			tables = append(tables, t)
		}
	}
	return tables
}

// ratioCell is a ratio with its interval, marked by what it says of the aim where it stands on
// enough pairs.
func ratioCell(row result.Row, pairs int) chart.Cell {
	if row.Ratio == 0 {
		return chart.Cell{Value: "–"}
	}
	c := chart.Cell{Value: stats.BareRatio(row.Ratio), Note: fmt.Sprintf("%.2f–%.2f", row.RatioLo, row.RatioHi)}
	switch {
	case pairs < stats.MinRounds:
	case row.RatioLo >= aim:
		c.Class = "good"
	case row.RatioHi < aim:
		c.Class = "bad"
	}
	return c
}

// sizeLabel is a size of writes for people, the mean of all for 0.
func sizeLabel(size int) string {
	if size == 0 {
		return "mean"
	}
	if size%1024 == 0 {
		return fmt.Sprintf("%d\u00a0kB", size/1024)
	}
	return fmt.Sprintf("%d\u00a0B", size)
}

// Aim is what the ratios are marked by.
func (v view) Aim() string { return stats.Ratio(aim) }

// identityLine is the QLogic study's identity on a row.
type identityLine struct{ Name, Color, Case, Rate, CPU, Efficiency, Expected, Off, Class string }

// Identities are the rows of all states but all off, one a size.
func (v view) Identities() []identityLine {
	var lines []identityLine
	for _, i := range Identities(v.Summary) {
		rate, _ := v.find(i.Target, i.Stream, ThroughputGain)
		cpu, _ := v.find(i.Target, i.Stream, ProcessorChange)
		l := identityLine{
			Name: i.Target, Color: v.Color(i.Target), Case: i.Stream.Case(), Rate: fmt.Sprintf("%.2f", rate.Median), CPU: fmt.Sprintf("%.2f", cpu.Median),
			Efficiency: fmt.Sprintf("%.2f", i.Efficiency), Expected: fmt.Sprintf("%.2f", i.Expected), Off: stats.Percent(i.Off()), Class: "good",
		}
		if !i.Holds() {
			l.Class = "bad"
		}
		lines = append(lines, l)
	}
	return lines
}

// Blocks is the table of all rows of throughput, processor and efficiency.
func (v view) Blocks() []chart.Block {
	var blocks []chart.Block
	for _, s := range append(Means(v.Result), Streams(v.Result)...) {
		for _, m := range []struct{ name, unit string }{{Throughput, "Gbit/s"}, {Processor, "% of all cores"}, {Efficiency, "Mbit/s per %"}} {
			b := chart.Block{Title: s.Case(), Unit: m.unit}
			for _, name := range v.Names() {
				if row, ok := v.find(name, s, m.name); ok {
					b.Lines = append(b.Lines, v.Line(row))
				}
			}
			if len(b.Lines) > 0 {
				blocks = append(blocks, b)
			}
		}
	}
	return blocks
}

// writeTable writes the experiment's summary for a terminal: every state over all sizes, then
// what all offloads bring by size.
func writeTable(w io.Writer, v view) error {
	var b strings.Builder
	for _, s := range v.grouped() {
		fmt.Fprintf(&b, "%s, mean over writes of %s\n", v.group(s), v.sizesWords())
		fmt.Fprintf(&b, "  %-10s %-9s %8s  %-15s %3s %6s %9s  %s\n", "state", "", "Gbit/s", "interval", "n", "CPU %", "Mbit/s/%", "× "+v.Baseline())
		for _, state := range v.states() {
			s.State = state
			for _, name := range v.Names() {
				b.WriteString(v.textState(name, s))
			}
		}
		b.WriteString(v.textGains(s))
		b.WriteByte('\n')
	}
	return chart.WriteText(w, &b, v.Verdict)
}

func (v view) sizesWords() string {
	var words []string
	for _, size := range Sizes(v.Result) {
		words = append(words, SizeWords(size))
	}
	return strings.Join(words, ", ")
}

// textState is a line of a target's mean in a state, "" without one.
func (v view) textState(name string, s Stream) string {
	row, ok := v.find(name, s, Throughput)
	if !ok {
		return ""
	}
	cpu, _ := v.find(name, s, Processor)
	efficiency, _ := v.find(name, s, Efficiency)
	ratio := ""
	if row.Baseline != "" {
		ratio = fmt.Sprintf("%s [%.2f, %.2f]", stats.BareRatio(row.Ratio), row.RatioLo, row.RatioHi)
	}
	return strings.TrimRight(fmt.Sprintf("  %-10s %-9s %8s  %-15s %3d %6s %9s  %s", s.State, name, stats.Figure(row.Median),
		fmt.Sprintf("[%s, %s]", stats.Figure(row.Lo), stats.Figure(row.Hi)), row.N, stats.Figure(cpu.Median), stats.Figure(efficiency.Median), ratio), " ") + "\n"
}

// textGains are the gains of all on against all off by size.
func (v view) textGains(s Stream) string {
	s.State = AllOn
	var b strings.Builder
	for _, name := range v.Names() {
		var words []string
		for _, size := range append(Sizes(v.Result), 0) {
			s.Size = size
			if row, ok := v.find(name, s, ThroughputGain); ok {
				words = append(words, fmt.Sprintf("%s %s", SizeWords(size), stats.Percent(row.Median-1)))
			}
		}
		if len(words) > 0 {
			fmt.Fprintf(&b, "  gain of all, %s: %s\n", name, strings.Join(words, ", "))
		}
	}
	return b.String()
}

//go:embed page.html
var pageTemplate string

// viewOf prepares r for drawing.
func viewOf(r result.Result) view {
	v := chart.NewView(r, baseline, underTest(r))
	return newView(v)
}

// page writes r as one self-contained page.
func page(w io.Writer, r result.Result) error { return chart.Page(w, pageTemplate, viewOf(r)) }

// table writes the summary of r for a terminal.
func table(w io.Writer, r result.Result) error { return writeTable(w, viewOf(r)) }
