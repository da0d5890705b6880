package turns

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Pieces are parts of a page for View: "cores" and "rows".
//
//go:embed pieces.html
var Pieces string

// View is a result between places prepared for drawing.
type View struct {
	chart.View
	// Metrics are the rows that the page lists, in their order.
	Metrics []stats.Metric
	// Watched are the roles whose cores are shown, with the prefixes of their figures.
	Watched []Watched
}

// Watched are the cores of a role's place while an instrument ran.
type Watched struct {
	Prefix, Role string
	Words        string // what ran
}

// Confidence says what the intervals are worth.
func (v View) Confidence() string {
	return chart.Glue(fmt.Sprintf("The interval of a median is over the rounds (order statistics, %.4g %%). A ratio or difference compares slices of the same round: over the rounds it is the Hodges–Lehmann estimate with an interval of signed ranks (%.2g %%, n = %d). ≈ marks no difference. While a slice was measured, the SSH connections carried heartbeats alone.",
		100*stats.Confidence(stats.Rounds(v.Result)), 100*stats.PairedConfidence, stats.Rounds(v.Result)))
}

// Topology is none: the lab does not know what is between the places.
func (v View) Topology() chart.Figure { return chart.Figure{} }

// RowLine is a row with its case.
type RowLine struct {
	Case string
	chart.Line
}

// RowBlock is a metric of the list of all rows.
type RowBlock struct {
	Title, Unit string
	Lines       []RowLine
}

// Blocks are all rows, by metric.
func (v View) Blocks() []RowBlock {
	var blocks []RowBlock
	for _, row := range v.Summary {
		m := stats.Metric{Title: row.Metric, Unit: row.Unit}
		if at := slices.IndexFunc(v.Metrics, func(m stats.Metric) bool {
			return m.Name == row.Metric && (m.Case == "" || m.Case == row.Case)
		}); at >= 0 {
			m = v.Metrics[at]
		}
		if len(blocks) == 0 || blocks[len(blocks)-1].Title != m.Title {
			blocks = append(blocks, RowBlock{Title: m.Title, Unit: row.Unit})
		}
		b := &blocks[len(blocks)-1]
		b.Lines = append(b.Lines, RowLine{row.Case, v.Line(row)})
	}
	return blocks
}

// CoreLine is how busy the cores of a place were.
type CoreLine struct {
	Place, Target, Color, Case, Words string
	Cores                             string // busy, of all of the place
	Each                              []string
}

// Cores are the medians of the places' cores, in percent.
func (v View) Cores() []CoreLine {
	var lines []CoreLine
	for _, w := range v.Watched {
		for _, target := range v.Names() {
			for _, caseName := range stats.Cases(v.Result) {
				total := median(v.Result, target, caseName, CPUMetric(w.Prefix, w.Role))
				if total.N == 0 {
					continue
				}
				l := CoreLine{Place: w.Role, Target: target, Color: v.Color(target), Case: caseName, Words: w.Words, Cores: stats.Figure(total.Median)}
				for core := 0; ; core++ {
					share := median(v.Result, target, caseName, CoreMetric(w.Prefix, w.Role, core))
					if share.N == 0 {
						break
					}
					l.Each = append(l.Each, fmt.Sprintf("%.0f", 100*share.Median))
				}
				lines = append(lines, l)
			}
		}
	}
	return lines
}

func median(r result.Result, target, caseName, metric string) stats.Interval {
	return stats.Median(stats.ByRound(stats.Values(r, target, caseName, metric)))
}

// Bar is a row drawn as a bar.
type Bar struct {
	Name  string
	Color string // class
	Pale  bool
	Row   result.Row
	Note  string // a ratio or difference, at the right
	Same  bool   // it is not distinguishable
}

// Bars draws bars over one axis from 0, with their intervals.
func Bars(title, unit string, bars []Bar) chart.Figure {
	const width, left, right, value, pitch, thick = 360.0, 104.0, 232.0, 288.0, 27.0, 16.0
	top := 0.0
	for _, b := range bars {
		top = max(top, b.Row.Hi, b.Row.Median)
	}
	if top <= 0 {
		return chart.Figure{}
	}
	x := chart.Axis(0, top, left, right, false)
	c := chart.NewCanvas(width, float64(len(bars))*pitch+4)
	var words []string
	for i, b := range bars {
		y := float64(i)*pitch + 4
		label := b.Name + ": " + chart.Describe(b.Row)
		words = append(words, label)
		c.Open(b.Color, label)
		c.Rect(0, y-4, width, pitch, 0, "hit")
		c.Text(0, y+13, "name", chart.Clip(b.Name, 14))
		class := "bar"
		if b.Pale {
			class = "bar light"
		}
		c.Rect(x(0), y, x(b.Row.Median)-x(0), thick, 2, class)
		c.Whisker(x(b.Row.Lo), x(b.Row.Hi), y+thick/2)
		c.Text(value, y+13, "value e", stats.In(b.Row.Median, b.Row.Unit))
		if b.Note != "" {
			class, note := "ratio e", b.Note
			if b.Same {
				class, note = "ratio same e", "≈ "+note
			}
			c.Text(width-2, y+13, class, note)
		}
		c.Close()
	}
	return chart.Figure{Title: title, Unit: unit, Wide: c.SVG("any", title+", "+unit+". "+strings.Join(words, ". "))}
}

// WriteRows writes rows for a terminal, by metric, with the ratio or difference of each.
func WriteRows(b *strings.Builder, rows []result.Row, metrics []stats.Metric) {
	wide := 15
	for _, row := range rows {
		wide = max(wide, len(row.Case))
	}
	for _, m := range metrics {
		head := fmt.Sprintf("%-*s %9s  %-19s %3s  %s\n", 23+wide, m.Title+", "+m.Unit, "median", "interval", "n", "against")
		for _, row := range rows {
			if row.Metric != m.Name || m.Case != "" && row.Case != m.Case {
				continue
			}
			b.WriteString(head)
			head = ""
			interval := fmt.Sprintf("[%s, %s]", stats.In(row.Lo, row.Unit), stats.In(row.Hi, row.Unit))
			line := fmt.Sprintf("  %-20s %-*s %9s  %-19s %3d  %s", row.Target, wide, row.Case, stats.In(row.Median, row.Unit), interval, row.N, against(row, m))
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
		if head == "" {
			b.WriteByte('\n')
		}
	}
}

func against(row result.Row, m stats.Metric) string {
	switch {
	case row.Baseline == "" && row.Ratio == 1:
		return "1"
	case row.Baseline == "":
		return ""
	case row.Ratio > 0:
		text := fmt.Sprintf("%s %s [%.3f, %.3f]", stats.Ratio(row.Ratio), row.Baseline, row.RatioLo, row.RatioHi)
		if row.N < stats.LeastPairs {
			return text + fmt.Sprintf(", no verdict: fewer than %d rounds", stats.LeastPairs)
		}
		return text + ", " + stats.ChangeOf(row, m.Higher).String()
	}
	text := "over " + row.Baseline
	if row.Difference != 0 {
		text = fmt.Sprintf("difference %s to %s", strings.Replace(stats.In(row.Difference, row.Unit), "-", "−", 1), row.Baseline)
	}
	if !row.Distinguishable {
		text += ", no difference"
	}
	return text
}
