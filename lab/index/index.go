// Package index draws one page over many runs: trends of their figures, and a list with links to
// their reports.
//
// Its one invariant: a trend joins only runs of one experiment with equal parameters, and marks where
// anything else changed that bears on figures. Output is a function of the results alone.
// Do not use it to decide whether a figure changed; that is lab/compare.
package index

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/compare"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

//go:embed page.html
var page string

// Run is one of the runs.
type Run struct {
	Link   string // of its report, relative to the page; "" where there is none
	Result result.Result
	// Metric finds title of a metric, and which way is better; false of one that has no trend. Nil is of
	// an experiment that this version does not have: all metrics have trends then.
	Metric func(caseName, name string) (stats.Metric, bool)
}

// Unread is a file that is no result of this version.
type Unread struct{ File, Why string }

// Page writes the page over runs, complete ones, in any order.
func Page(w io.Writer, runs []Run, unread []Unread) error {
	runs = slices.Clone(runs)
	slices.SortStableFunc(runs, func(a, b Run) int { return a.Result.Started.Compare(b.Result.Started) })
	return chart.Page(w, page, view{runs, unread})
}

// view is what the page asks for its parts.
type view struct {
	runs   []Run
	Unread []Unread
}

// Span is when the runs were, in UTC.
func (v view) Span() string {
	const day = "2 January 2006"
	if len(v.runs) == 0 {
		return "no runs"
	}
	first, last := v.runs[0].Result.Started.UTC().Format(day), v.runs[len(v.runs)-1].Result.Started.UTC().Format(day)
	if first == last {
		return first
	}
	return first + " to " + last
}

// Headline counts runs, and those without a verdict.
func (v view) Headline() string {
	refused, experiments := 0, map[string]bool{}
	for _, run := range v.runs {
		experiments[run.Result.Experiment] = true
		if run.Result.Verdict.Refused {
			refused++
		}
	}
	s := fmt.Sprintf("%s of %s", result.Counted(len(v.runs), "run"), result.Counted(len(experiments), "experiment"))
	if refused > 0 {
		s += fmt.Sprintf(", %d without a verdict", refused)
	}
	return s
}

// Line is a run in the list.
type Line struct {
	When, Sort, Experiment, Version, Kernel, Headline, Link string
	Refused                                                 bool
}

// Lines are the runs, newest first.
func (v view) Lines() []Line {
	var lines []Line
	for _, run := range slices.Backward(v.runs) {
		r := run.Result
		lines = append(lines, Line{
			When: r.Started.UTC().Format("2006-01-02 15:04"), Sort: r.Started.UTC().Format("20060102150405.000000000"), Experiment: r.Experiment,
			Version: r.Environment.Versions["selvage"], Kernel: r.Environment.Kernel, Headline: chart.Glue(r.Verdict.Headline), Link: run.Link, Refused: r.Verdict.Refused,
		})
	}
	return lines
}

// Group is the runs of one experiment with equal parameters.
type Group struct {
	Experiment, Parameters string
	runs                   []Run
	Charts, More           []chart.Figure
	Targets                []Dot
	Changes                []string
}

// Dot is a target with the class of its colour.
type Dot struct{ Name, Color string }

// mostCharts is how many trends of a group are open; mostMore how many more there are.
const mostCharts, mostMore = 6, 48

// Groups are those with two runs and more, by experiment, the ones with the newest run first.
func (v view) Groups() []Group {
	byKey, order := map[string]*Group{}, []string{}
	for _, run := range v.runs {
		key := run.Result.Experiment + "\n" + fmt.Sprint(compare.Parameters(run.Result))
		if byKey[key] == nil {
			byKey[key] = &Group{Experiment: run.Result.Experiment}
			order = append(order, key)
		}
		byKey[key].runs = append(byKey[key].runs, run)
	}
	var all []*Group
	for _, key := range order {
		all = append(all, byKey[key])
	}
	var groups []Group
	for _, g := range all {
		if len(g.runs) < 2 {
			continue
		}
		g.Parameters = differing(g, all)
		g.draw()
		groups = append(groups, *g)
	}
	newest := func(g Group) int64 { return g.runs[len(g.runs)-1].Result.Started.UnixNano() }
	slices.SortStableFunc(groups, func(a, b Group) int { return cmp.Compare(newest(b), newest(a)) })
	return groups
}

// longValue is the length from which a parameter is a description, not a choice.
const longValue = 48

// differing are the parameters of a group in which groups of its experiment differ, in words.
func differing(g *Group, all []*Group) string {
	own := compare.Parameters(g.runs[0].Result)
	var words []string
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if len(own[name]) < longValue && slices.ContainsFunc(all, func(o *Group) bool {
			return o.Experiment == g.Experiment && compare.Parameters(o.runs[0].Result)[name] != own[name]
		}) {
			words = append(words, name+" "+own[name])
		}
	}
	return strings.Join(words, ", ")
}

// draw makes the trends of a group.
func (g *Group) draw() {
	union := result.Result{}
	for _, run := range g.runs {
		for _, name := range stats.Names(run.Result) {
			if !slices.ContainsFunc(union.Targets, func(t result.Target) bool { return t.Name == name }) {
				union.Targets = append(union.Targets, result.Target{Name: name})
			}
		}
	}
	colors := chart.NewView(union, "", "")
	for _, t := range union.Targets {
		g.Targets = append(g.Targets, Dot{t.Name, colors.Color(t.Name)})
	}
	changed := g.changes()
	for _, f := range g.figures() {
		trend, ok := g.trend(f, colors, changed)
		switch {
		case !ok:
		case len(g.Charts) < mostCharts:
			g.Charts = append(g.Charts, trend)
		case len(g.More) < mostMore:
			g.More = append(g.More, trend)
		}
	}
}

// changes are, by the run before which they were, what else changed that bears on figures.
func (g *Group) changes() map[int]string {
	changed := map[int]string{}
	for i := 1; i < len(g.runs); i++ {
		var words []string
		for _, d := range compare.Differences(g.runs[i-1].Result, g.runs[i].Result) {
			words = append(words, d.String())
		}
		if len(words) == 0 {
			continue
		}
		if len(words) > 3 {
			words = append(words[:3], fmt.Sprintf("%d more", len(words)-3))
		}
		changed[i] = strings.Join(words, "; ")
		g.Changes = append(g.Changes, g.runs[i].Result.Started.UTC().Format("2006-01-02 15:04")+": "+changed[i])
	}
	return changed
}

// figure is a metric of a case.
type figure struct{ caseName, metric string }

// figures are those of the newest run that others have too.
func (g *Group) figures() []figure {
	newest := g.runs[len(g.runs)-1].Result
	var all []figure
	for _, row := range newest.Summary {
		f := figure{row.Case, row.Metric}
		if _, known := g.metric(f); known && !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all
}

// metric is a figure's, true where it has a trend.
func (g *Group) metric(f figure) (stats.Metric, bool) {
	find := g.runs[len(g.runs)-1].Metric
	if find == nil {
		return stats.Metric{Name: f.metric, Title: f.metric}, true
	}
	return find(f.caseName, f.metric)
}
