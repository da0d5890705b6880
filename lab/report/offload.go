package report

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// offloadView is a result of the offload experiment prepared for drawing.
type offloadView struct{ view }

func newOffloadView(v view) offloadView { return offloadView{v} }

func (v offloadView) find(name string, s stats.Stream, metric string) (result.Row, bool) {
	return stats.Find(v.Summary, name, s.Case(), metric)
}

// Lengths is how long a sample took.
func (v offloadView) Lengths() string { return v.sampleTimes() }

// Cards are the subject's ratios to the baseline: the worst and the best state, and all on and
// all off.
func (v offloadView) Cards() []card {
	states := stats.WorstStates(v.Summary, v.dut)
	if len(states) == 0 {
		return nil
	}
	var cards []card
	add := func(title string, row result.Row) {
		s, _ := stats.Streamed(row.Case)
		c := card{Title: title, Value: stats.Ratio(row.Ratio), Unit: v.Baseline(), Class: "even", Note: v.where(s) + ", cannot be told from 1.1\u00a0×"}
		switch {
		case stats.OffloadPairs(v.Result, v.dut, s) < stats.MinRounds:
			c.Note = v.where(s) + ", of too few rounds"
		case row.RatioLo >= diagnose.OffloadAim:
			c.Class, c.Note = "good", fmt.Sprintf("%s [%.2f, %.2f]", v.where(s), row.RatioLo, row.RatioHi)
		case row.RatioHi < diagnose.OffloadAim:
			c.Class, c.Note = "bad", fmt.Sprintf("%s [%.2f, %.2f]", v.where(s), row.RatioLo, row.RatioHi)
		}
		cards = append(cards, c)
	}
	add("Worst state", states[0])
	for _, kind := range []struct{ title, state string }{{"All offloads on", stats.AllOn}, {"All offloads off", stats.AllOff}} {
		for _, row := range states {
			if s, _ := stats.Streamed(row.Case); s.State == kind.state {
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
func (v offloadView) where(s stats.Stream) string { return s.State + ", " + v.group(s) }

func (v offloadView) group(s stats.Stream) string {
	if s.BothWays {
		return s.Encapsulation + " both ways"
	}
	return s.Encapsulation + " one way"
}

// streamGroup is what is drawn together: an encapsulation one way or both ways.
type streamGroup struct {
	Title   string
	Figures []figure
}

// Groups are the study's charts, over the sizes of writes.
func (v offloadView) Groups() []streamGroup {
	var groups []streamGroup
	for _, s := range v.grouped() {
		g := streamGroup{Title: v.group(s)}
		for _, chart := range v.charts(s) {
			if f, ok := v.drawn(chart); ok {
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
func (v offloadView) grouped() []stats.Stream {
	var all []stats.Stream
	for _, s := range stats.Means(v.Result) {
		s.State = ""
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// states are those that were measured, in the order of stats.OffloadStates.
func (v offloadView) states() []string {
	return slices.DeleteFunc(stats.OffloadStates(), func(state string) bool {
		return !slices.ContainsFunc(stats.Means(v.Result), func(s stats.Stream) bool { return s.State == state })
	})
}

// stateLine is a state in the table of ratios.
type stateLine struct {
	State, Words string
	Cells        []cell
}

// stateTable is the ratios to the baseline of a target, of an encapsulation and way.
type stateTable struct {
	Title string
	Sizes []string
	Lines []stateLine
}

// Matrices are states by sizes: how many times the baseline the subject carries.
func (v offloadView) Matrices() []stateTable {
	var tables []stateTable
	sizes := append(stats.Sizes(v.Result), 0)
	for _, s := range v.grouped() {
		t := stateTable{Title: v.group(s)}
		for _, size := range sizes {
			t.Sizes = append(t.Sizes, sizeLabel(size))
		}
		compared := false
		for _, state := range v.states() {
			line := stateLine{State: state, Words: diagnose.OffloadWords(state)}
			for _, size := range sizes {
				s.State, s.Size = state, size
				row, ok := v.find(v.dut, s, stats.Throughput)
				compared = compared || ok && row.Ratio > 0
				line.Cells = append(line.Cells, ratioCell(row, stats.OffloadPairs(v.Result, v.dut, s)))
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
func ratioCell(row result.Row, pairs int) cell {
	if row.Ratio == 0 {
		return cell{Value: "–"}
	}
	c := cell{Value: strings.TrimSuffix(stats.Ratio(row.Ratio), " ×"), Note: fmt.Sprintf("%.2f–%.2f", row.RatioLo, row.RatioHi)}
	switch {
	case pairs < stats.MinRounds:
	case row.RatioLo >= diagnose.OffloadAim:
		c.Class = "good"
	case row.RatioHi < diagnose.OffloadAim:
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
func (v offloadView) Aim() string { return stats.Ratio(diagnose.OffloadAim) }

// identityLine is the QLogic study's identity on a row.
type identityLine struct{ Name, Color, Case, Rate, CPU, Efficiency, Expected, Off, Class string }

// Identities are the rows of all states but all off, one a size.
func (v offloadView) Identities() []identityLine {
	var lines []identityLine
	for _, i := range stats.Identities(v.Summary) {
		rate, _ := v.find(i.Target, i.Stream, stats.ThroughputGain)
		cpu, _ := v.find(i.Target, i.Stream, stats.ProcessorChange)
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
func (v offloadView) Blocks() []block {
	var blocks []block
	for _, s := range append(stats.Means(v.Result), stats.Streams(v.Result)...) {
		for _, m := range []struct{ name, unit string }{{stats.Throughput, "Gbit/s"}, {stats.Processor, "% of all cores"}, {stats.Efficiency, "Mbit/s per %"}} {
			b := block{Title: s.Case(), Unit: m.unit}
			for _, name := range v.Names() {
				if row, ok := v.find(name, s, m.name); ok {
					b.Lines = append(b.Lines, v.line(row))
				}
			}
			if len(b.Lines) > 0 {
				blocks = append(blocks, b)
			}
		}
	}
	return blocks
}

// offloadTable writes the experiment's summary for a terminal: every state over all sizes, then
// what all offloads bring by size.
func offloadTable(w io.Writer, v offloadView) error {
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
	return writeText(w, &b, v.Verdict)
}

func (v offloadView) sizesWords() string {
	var words []string
	for _, size := range stats.Sizes(v.Result) {
		words = append(words, stats.SizeWords(size))
	}
	return strings.Join(words, ", ")
}

// textState is a line of a target's mean in a state, "" without one.
func (v offloadView) textState(name string, s stats.Stream) string {
	row, ok := v.find(name, s, stats.Throughput)
	if !ok {
		return ""
	}
	cpu, _ := v.find(name, s, stats.Processor)
	efficiency, _ := v.find(name, s, stats.Efficiency)
	ratio := ""
	if row.Baseline != "" {
		ratio = fmt.Sprintf("%s [%.2f, %.2f]", strings.TrimSuffix(stats.Ratio(row.Ratio), " ×"), row.RatioLo, row.RatioHi)
	}
	return strings.TrimRight(fmt.Sprintf("  %-10s %-9s %8s  %-15s %3d %6s %9s  %s", s.State, name, stats.Figure(row.Median),
		fmt.Sprintf("[%s, %s]", stats.Figure(row.Lo), stats.Figure(row.Hi)), row.N, stats.Figure(cpu.Median), stats.Figure(efficiency.Median), ratio), " ") + "\n"
}

// textGains are the gains of all on against all off by size.
func (v offloadView) textGains(s stats.Stream) string {
	s.State = stats.AllOn
	var b strings.Builder
	for _, name := range v.Names() {
		var words []string
		for _, size := range append(stats.Sizes(v.Result), 0) {
			s.Size = size
			if row, ok := v.find(name, s, stats.ThroughputGain); ok {
				words = append(words, fmt.Sprintf("%s %s", stats.SizeWords(size), stats.Percent(row.Median-1)))
			}
		}
		if len(words) > 0 {
			fmt.Fprintf(&b, "  gain of all, %s: %s\n", name, strings.Join(words, ", "))
		}
	}
	return b.String()
}

// DUT is the target that the ratios are of.
func (v offloadView) DUT() string { return v.dut }

//go:embed offload.html
var offloadPage string

// offloadViewOf prepares r for drawing.
func offloadViewOf(r result.Result) offloadView {
	v := newView(r, stats.OffloadBaseline, diagnose.OffloadDUT(r))
	return newOffloadView(v)
}

// OffloadPage writes r as one self-contained page.
func OffloadPage(w io.Writer, r result.Result) error { return Page(w, offloadPage, offloadViewOf(r)) }

// OffloadTable writes the summary of r for a terminal.
func OffloadTable(w io.Writer, r result.Result) error { return offloadTable(w, offloadViewOf(r)) }

// OffloadExperiment is the experiment.
func OffloadExperiment() experiment.Experiment {
	return experiment.Experiment{Name: stats.Offload, Summarise: stats.OffloadRows, Verdict: diagnose.OffloadVerdict, Page: OffloadPage, Table: OffloadTable}
}
