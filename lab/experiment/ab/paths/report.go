package paths

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"slices"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

//go:embed page.html
var pageTemplate string

// view is a result prepared for drawing.
type view struct{ chart.View }

// newView is about the path after the baseline, in cards.
func newView(r result.Result) view {
	dut := ""
	if names := stats.Names(r); len(names) > 0 {
		dut = names[min(1, len(names)-1)]
	}
	return view{chart.NewView(r, baseline(r), dut)}
}

// page writes r as one self-contained page.
func page(w io.Writer, r result.Result) error { return chart.Page(w, pageTemplate, newView(r)) }

// Experiment is the command that measured.
func (v view) Experiment() string { return "ab" }

// Intro says what was done.
func (v view) Intro() string {
	if built := v.Parameters.Text("network"); built != "" {
		return built
	}
	return "Paths between two places that exist, by the server’s address on each. Nothing was built for this run."
}

// Confidence says what the intervals are worth.
func (v view) Confidence() string {
	rounds := stats.Rounds(v.Result)
	if rounds == 0 {
		return "No round was completed."
	}
	return chart.Glue(fmt.Sprintf("In each round every path has a slice of each case, in balanced order. The interval of a median is over the rounds (order statistics, %.4g %%). A ratio compares slices of one round: it is the Hodges–Lehmann estimate with an interval of signed ranks (%.2g %%, n = %d). ≈ marks no difference; “sees” is the smallest change that nine of ten runs like this one would find. During a slice the connections to the places carried heartbeats alone.",
		100*stats.Confidence(rounds), 100*stats.PairedConfidence, rounds))
}

// pathLine is a path as it was used.
type pathLine struct{ Name, Color, Description, MSS, MTU string }

// Paths are those of the run.
func (v view) Paths() (lines []pathLine) {
	for _, t := range v.Targets {
		l := pathLine{Name: t.Name, Color: v.Color(t.Name), Description: t.Description, MSS: "–", MTU: "–"}
		for _, caseName := range []string{caseReverse, caseTCP} {
			samples := stats.Good(v.Result, t.Name, caseName)
			if mss := stats.MetricOf(samples, measure.MSS); len(mss) > 0 {
				l.MSS, l.MTU = band(mss, counted), band(stats.MetricOf(samples, measure.PathMTU), counted)
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// placeLine is a place, and which has the same machine.
type placeLine struct {
	result.Place
	Same string
}

// PlaceLines are the places of the run.
func (v view) PlaceLines() (lines []placeLine) {
	for i, p := range v.Places {
		lines = append(lines, placeLine{p, sameMachine(v.Result, i)})
	}
	return lines
}

// Transfers is the study's table.
func (v view) Transfers() []transfer {
	lines := transfers(v.Result)
	for i := range lines {
		lines[i].Color = v.Color(lines[i].Path)
	}
	return lines
}

// Climbs are the cores that climb.
func (v view) Climbs() []climb {
	all := climbs(v.Result)
	for i := range all {
		all[i].Color = v.Color(all[i].Path)
	}
	return all
}

// Cards are the key figures of the path after the baseline.
func (v view) Cards() (cards []chart.Card) {
	if v.DUT == v.Baseline() {
		return nil
	}
	for _, caseName := range []string{caseTCP, caseRR, caseLoad, caseUDP} {
		m := mainMetric(caseName)
		row, ok := v.Row(v.DUT, m)
		if !ok {
			continue
		}
		c := chart.Card{Title: m.Title, Value: stats.In(row.Median, row.Unit), Unit: m.Unit, Class: "even", Strip: v.Strip(m)}
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

// Blocks is the table of all rows, by metric.
func (v view) Blocks() (blocks []chart.Block) {
	for _, m := range metrics(v.Result) {
		b := chart.Block{Title: m.Title, Unit: m.Unit}
		for _, name := range v.Names() {
			if row, ok := v.Row(name, m); ok {
				b.Lines = append(b.Lines, v.Line(row))
			}
		}
		if len(b.Lines) > 0 {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// dropLine is a counter that grew.
type dropLine struct {
	Path, Color, Role, Stage, Where, Counter, Packets string
}

// mostDrops are shown of a path at a place.
const mostDrops = 12

// Drops are where packets were lost.
func (v view) Drops() (lines []dropLine) {
	for _, name := range v.Names() {
		for _, p := range v.Places {
			drops := lost(v.Result, name, p.Role)
			for _, d := range drops[:min(len(drops), mostDrops)] {
				lines = append(lines, dropLine{name, v.Color(name), p.Role, d.Stage, d.Where, d.Counter, counted(float64(d.Packets))})
			}
		}
	}
	return lines
}

// NotRead is what places did not let the agent read.
func (v view) NotRead() (lines []string) {
	for _, p := range v.Profiles {
		for _, what := range p.NotRead {
			if line := p.Role + ": " + what; !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// profileTable is what took the cores of one place in one direction, by path.
type profileTable struct {
	Title, Unit, What string
	Heads             []profileHead
	Lines             []profileLine
}

type profileHead struct{ Name, Color string }

type profileLine struct {
	Name  string
	Cells []string
}

// Lines of a table of the profile.
const mostProfileLines = 14

// Profile are the tables of processes, kernel functions and softirqs.
func (v view) Profile() (tables []profileTable) {
	for _, caseName := range []string{caseTCP, caseReverse} {
		for i, p := range v.Places {
			if sameMachine(v.Result, i) != "" {
				continue
			}
			of := map[string]result.Profile{}
			for _, profile := range v.Profiles {
				if profile.Case == caseName && profile.Role == p.Role {
					of[profile.Target] = profile
				}
			}
			where := p.Role + ", " + mainMetric(caseName).Title
			tables = append(tables,
				v.profileTable("Processes, "+where, "CPU s a GB", "process", of, processesOf),
				v.profileTable("Kernel functions, "+where, "CPU s a GB, of the function itself", "function", of, functionsOf),
				v.profileTable("Softirqs, "+where, "runs a second", "kind and core", of, softIRQsOf))
		}
	}
	return slices.DeleteFunc(tables, func(t profileTable) bool { return len(t.Lines) == 0 })
}

// named is a figure of a profile.
type named struct {
	name  string
	value float64
}

func processesOf(p result.Profile) (all []named) {
	for _, t := range p.Processes {
		all = append(all, named{t.Name, perGB(p, t.Seconds)})
	}
	return all
}

func functionsOf(p result.Profile) (all []named) {
	for _, f := range p.Functions {
		all = append(all, named{f.Name, perGB(p, f.Cores*p.Duration)})
	}
	return all
}

func softIRQsOf(p result.Profile) (all []named) {
	for _, s := range p.SoftIRQs {
		all = append(all, named{fmt.Sprintf("%s, core %d", s.Kind, s.Core), float64(s.Count) / max(p.Duration, 1e-3)})
	}
	return all
}

// perGB is a time by what the slice moved.
func perGB(p result.Profile, seconds float64) float64 {
	if p.Gigabytes <= 0 {
		return 0
	}
	return seconds / p.Gigabytes
}

// profileTable has a column for each path, and the largest figures first.
func (v view) profileTable(title, unit, what string, of map[string]result.Profile, figures func(result.Profile) []named) profileTable {
	t := profileTable{Title: title, Unit: unit, What: what}
	values, most := map[string][]float64{}, map[string]float64{}
	var names []string
	for _, path := range v.Names() {
		p, ok := of[path]
		if !ok {
			continue
		}
		t.Heads = append(t.Heads, profileHead{path, v.Color(path)})
		for _, f := range figures(p) {
			if values[f.name] == nil {
				names = append(names, f.name)
			}
			for len(values[f.name]) < len(t.Heads)-1 {
				values[f.name] = append(values[f.name], 0)
			}
			values[f.name], most[f.name] = append(values[f.name], f.value), max(most[f.name], f.value)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(most[b], most[a]), cmp.Compare(a, b)) })
	for _, name := range names[:min(len(names), mostProfileLines)] {
		l := profileLine{Name: name}
		for i := range t.Heads {
			cell := "–"
			if i < len(values[name]) && values[name][i] > 0 {
				cell = stats.Figure(values[name][i])
			}
			l.Cells = append(l.Cells, cell)
		}
		t.Lines = append(t.Lines, l)
	}
	return t
}
