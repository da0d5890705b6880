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
		{Role: client, Words: "TCP"}, {Role: server, Words: "TCP"},
	}}}
}

// Cards are what each of the first paths carries.
func (v view) Cards() []chart.Card {
	var cards []chart.Card
	for _, name := range v.Names()[:min(4, len(v.Names()))] {
		least, note, class := 0.0, "both ways: all that senders believe in", "even"
		for _, w := range waysOf(v.Result, name) {
			if w.searched && (least == 0 || w.least < least) {
				least = w.least
			}
			switch {
			case w.hole():
				note, class = "TCP stalls, "+w.words(), "bad"
			case class == "bad":
			case w.silent():
				note, class = "larger ones vanish silently", "bad"
			case w.reported > 0:
				note = "ICMP reports it"
			}
		}
		if least > 0 {
			cards = append(cards, chart.Card{Title: "Largest packet, " + name, Value: stats.Figure(least), Unit: "bytes", Note: note, Class: class})
		}
	}
	return cards
}

// wayLine is a path in one direction.
type wayLine struct {
	Name, Color, Words                 string
	Believed, Largest, Reported, TCP   string
	MSS, Throughput, Ratio, Retransmit string
	Bad                                bool
}

// Ways is the table of all paths both ways.
func (v view) Ways() []wayLine {
	var lines []wayLine
	for _, name := range v.Names() {
		for _, w := range waysOf(v.Result, name) {
			l := wayLine{Name: name, Color: v.Color(name), Words: w.words(), Believed: "–", Largest: "–", Reported: "–", TCP: "passes", Bad: w.hole()}
			if w.searched {
				l.Believed, l.Largest, l.Reported = stats.Figure(w.believed), stats.Figure(w.least), "nobody"
				if w.best != w.least {
					l.Largest += " to " + stats.Figure(w.best)
				}
				if w.reported > 0 {
					l.Reported = stats.Figure(w.reported)
				} else if w.least >= w.believed {
					l.Reported = "no need"
				}
			}
			switch {
			case w.transfers == 0:
				l.TCP = "–"
			case w.hole():
				l.TCP = fmt.Sprintf("stalls, %d of %d", w.stalled, w.transfers)
			}
			for metric, into := range map[string]*string{measure.MSS: &l.MSS, measure.TCPThroughput: &l.Throughput, measure.Retransmits: &l.Retransmit} {
				*into = "–"
				if row, ok := stats.Find(v.Summary, name, tcp+w.suffix, metric); ok {
					*into = stats.In(row.Median, row.Unit)
				}
			}
			if row, ok := stats.Find(v.Summary, name, tcp+w.suffix, measure.TCPThroughput); ok {
				l.Ratio = chart.BareRatioLabel(row)
			}
			lines = append(lines, l)
		}
	}
	return lines
}

// Bars draw the throughput of all paths, each way and by MTU.
func (v view) Bars() []chart.Figure {
	var figures []chart.Figure
	draw := func(title string, cases func(name string) []string) {
		var bars []turns.Bar
		for _, name := range v.Names() {
			for i, caseName := range cases(name) {
				row, ok := stats.Find(v.Summary, name, caseName, measure.TCPThroughput)
				if !ok {
					continue
				}
				bar := turns.Bar{Name: name, Color: v.Color(name), Pale: i > 0, Row: row}
				if mtu, ok := strings.CutPrefix(caseName, mtuPrefix); ok {
					bar.Name += " " + mtu
				}
				if row.Baseline != "" && row.Ratio > 0 {
					bar.Note, bar.Same = stats.Ratio(row.Ratio), !row.Distinguishable
				}
				bars = append(bars, bar)
			}
		}
		if f := turns.Bars(title, "TCP, Gbit/s; right: ratio to the baseline", bars); f.Wide != "" {
			figures = append(figures, f)
		}
	}
	draw("Client to server", func(string) []string { return []string{tcp} })
	draw("Server to client", func(string) []string { return []string{tcp + reverse} })
	var mtus []string
	for _, caseName := range stats.Cases(v.Result) {
		if strings.HasPrefix(caseName, mtuPrefix) {
			mtus = append(mtus, caseName)
		}
	}
	if len(mtus) > 0 {
		draw("By MTU; the first bar is as it is", func(string) []string { return append([]string{tcp}, mtus...) })
	}
	return figures
}

// page writes r as one self-contained page.
func page(w io.Writer, r result.Result) error {
	return chart.Page(w, turns.Pieces+pageTemplate, viewOf(r))
}

// table writes the summary of r for a terminal.
func table(w io.Writer, r result.Result) error {
	v := viewOf(r)
	var b strings.Builder
	fmt.Fprintf(&b, "%-14s %-17s %8s %8s %9s  %-14s %6s %8s  %s\n", "path", "", "believed", "arrives", "ICMP says", "TCP", "MSS", "Gbit/s", "ratio")
	for _, l := range v.Ways() {
		line := fmt.Sprintf("%-14s %-17s %8s %8s %9s  %-14s %6s %8s  %s", chart.Clip(l.Name, 14), l.Words, l.Believed, l.Largest, l.Reported, l.TCP, l.MSS, l.Throughput, l.Ratio)
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	b.WriteByte('\n')
	turns.WriteRows(&b, r.Summary, metrics(r))
	return chart.WriteText(w, &b, r.Verdict)
}
