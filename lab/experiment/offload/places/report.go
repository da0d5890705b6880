package places

import (
	_ "embed"
	"fmt"
	"io"
	"strings"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/turns"
)

//go:embed page.html
var pageTemplate string

// view is a result prepared for drawing.
type view struct{ turns.View }

func viewOf(r result.Result) view {
	names := stats.Names(r)
	if len(names) == 0 {
		names = []string{""}
	}
	return view{turns.View{View: chart.NewView(r, names[0], names[len(names)-1]), Metrics: metrics(r), Watched: []turns.Watched{
		{Role: client, Words: "sending"}, {Role: server, Words: "receiving"},
	}}}
}

// Cards are what was found, what it gains, and what it costs, over the first path.
func (v view) Cards() []chart.Card {
	var cards []chart.Card
	path := v.Names()
	if len(path) == 0 {
		return nil
	}
	for _, c := range []struct{ title, metric, note string }{
		{"As found, " + path[0], measure.TCPThroughput, "mean over the sizes of writes"},
		{"To all offloads off", gain, "throughput"},
		{"CPU, client", client + turns.CPUPerGB, "for each GB, as found"},
		{"CPU, server", server + turns.CPUPerGB, "for each GB, as found"},
	} {
		if row, ok := stats.Find(v.Summary, path[0], caseOf(AsFound, 0), c.metric); ok {
			cards = append(cards, chart.Card{Title: c.title, Value: stats.Figure(row.Median), Unit: row.Unit, Note: c.note, Class: "even"})
		}
	}
	return cards
}

// studyGain is the QLogic study's mean gain of throughput at 10 Gbit/s, in percent.
const studyGain = 19

// Study draws the study's charts over the sizes of writes: throughput, gain, and the processor at both
// ends.
func (v view) Study() []chart.Figure {
	with := func(metric string, percent bool, states ...string) []chart.Bundle {
		var all []chart.Bundle
		for _, kb := range sizesIn(v.Result) {
			one := chart.Bundle{Label: fmt.Sprintf("%d kB", kb)}
			for _, path := range v.Names() {
				for _, state := range states {
					if row, ok := stats.Find(v.Summary, path, caseOf(state, kb), metric); ok {
						one.Bars = append(one.Bars, chart.Bundled{Row: row, Name: path, Words: path + ", " + state, Pale: state == AllOff, Percent: percent})
					}
				}
			}
			all = append(all, one)
		}
		return all
	}
	return v.drawn(
		chart.BundleChart{Title: "Throughput", Unit: "Gbit/s by size of writes, higher is better; pale: all offloads off, full: as found", Bundles: with(measure.TCPThroughput, false, AllOff, AsFound)},
		chart.BundleChart{Title: "Gain of throughput", Unit: "% of as found over all off; dashed: mean of the QLogic study at 10 Gbit/s, +19 %", Bundles: with(gain, true, AsFound), Rule: studyGain},
		chart.BundleChart{Title: "CPU per GB, client", Unit: "seconds of a core for each GB, lower is better", Bundles: with(client+turns.CPUPerGB, false, AllOff, AsFound)},
		chart.BundleChart{Title: "CPU per GB, server", Unit: "seconds of a core for each GB, lower is better", Bundles: with(server+turns.CPUPerGB, false, AllOff, AsFound)},
	)
}

func (v view) drawn(charts ...chart.BundleChart) []chart.Figure {
	var figures []chart.Figure
	for _, c := range charts {
		if f, ok := c.Figure(v.Color); ok {
			figures = append(figures, f)
		}
	}
	return figures
}

// States draws all states, a chart a figure and path.
func (v view) States() []chart.Figure {
	var all []chart.Figure
	for _, path := range v.Names() {
		for _, m := range figures()[:3] {
			var bars []turns.Bar
			for _, state := range statesIn(v.Result) {
				row, ok := stats.Find(v.Summary, path, caseOf(state, 0), m.Name)
				if !ok {
					continue
				}
				bar := turns.Bar{Name: state, Color: v.Color(path), Pale: state != AsFound, Row: row}
				if row.Baseline != "" && row.Ratio > 0 {
					bar.Note, bar.Same = stats.Ratio(row.Ratio), !row.Distinguishable
				}
				bars = append(bars, bar)
			}
			if f := turns.Bars(m.Title+", "+path, m.Unit+", mean over the sizes of writes; right: ratio to as found", bars); f.Wide != "" {
				all = append(all, f)
			}
		}
	}
	return all
}

// Missing is what there is not.
func (v view) Missing() []string { return v.Parameters.Texts(missingKey) }

// page writes r as one self-contained page.
func page(w io.Writer, r result.Result) error {
	return chart.Page(w, turns.Pieces+pageTemplate, viewOf(r))
}

// table writes the summary of r for a terminal: the means of all states, then all sizes.
func table(w io.Writer, r result.Result) error {
	var b strings.Builder
	turns.WriteRows(&b, r.Summary, metrics(r))
	return chart.WriteText(w, &b, r.Verdict)
}
