package rfc2544

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
)

// view is a result of the RFC 2544 experiment prepared for drawing.
type view struct{ chart.View }

func (v view) find(name string, t Traffic, metric string) (result.Row, bool) {
	return stats.Find(v.Summary, name, t.Case(), metric)
}

// value is the median of a metric, "–" when it was not measured.
func (v view) value(name string, t Traffic, metric string) string {
	row, ok := v.find(name, t, metric)
	if !ok {
		return "–"
	}
	return stats.In(row.Median, row.Unit)
}

// percent is a share in percent.
func (v view) percent(name string, t Traffic, metric string) string {
	row, ok := v.find(name, t, metric)
	if !ok {
		return "–"
	}
	return strconv.FormatFloat(100*row.Median, 'f', 1, 64)
}

// sized are the cases of a direction that are not of the flow sweep.
func (v view) sized(direction string) []Traffic {
	return slices.DeleteFunc(Transits(v.Result), func(t Traffic) bool {
		return t.Direction != direction || t.Flows > 0
	})
}

// directions are those that were measured, with words for them.
func (v view) directions() []string {
	return slices.DeleteFunc([]string{transit.Encap, transit.Decap, transit.Both}, func(direction string) bool {
		return len(v.sized(direction)) == 0
	})
}

func wayWords(direction string) string {
	return map[string]string{transit.Encap: "Into the tunnel", transit.Decap: "Out of the tunnel", transit.Both: "Into the tunnel and back"}[direction]
}

// sizeWords is the size of a case: "64", "IMIX", "64 ×2" with two uplinks.
func sizeWords(t Traffic) string {
	words := "IMIX"
	if t.Size > 0 {
		words = strconv.Itoa(t.Size)
	}
	if t.Pairs > 1 {
		words += fmt.Sprintf(" ×%d", t.Pairs)
	}
	return words
}

// key is the case that cards and single charts are about: the smallest frames of a
// direction that the subject was measured with.
func (v view) key(direction string) (Traffic, bool) {
	for _, t := range v.sized(direction) {
		if _, ok := v.find(v.DUT, t, transit.NDR); ok {
			return t, true
		}
	}
	return Traffic{}, false
}

// Cards are the subject's key figures.
func (v view) Cards() []chart.Card {
	var cards []chart.Card
	for _, direction := range v.directions() {
		t, ok := v.key(direction)
		if !ok {
			continue
		}
		m := stats.Metric{Case: t.Case(), Name: transit.NDR, Unit: "Mpps", Higher: true}
		if row, _ := v.Row(v.DUT, m); row.Median == 0 {
			m.Name = transit.PDR
		}
		if row, ok := v.Row(v.DUT, m); ok {
			cards = append(cards, v.rateCard(direction, t, m, row))
		}
	}
	t, ok := v.key(transit.Encap)
	if !ok {
		return cards
	}
	for _, c := range []struct{ metric, title, unit string }{
		{transit.DeviceNS, "The device’s time", "ns a packet"}, {transit.LatencyP99, "Latency p99 at full rate", "µs"},
	} {
		row, ok := v.find(v.DUT, t, c.metric)
		if !ok {
			continue
		}
		note := ""
		if row.Ratio > 0 {
			note = chart.Glue(stats.Ratio(row.Ratio)) + " " + stats.Limit
		}
		cards = append(cards, chart.Card{Title: c.title, Value: stats.In(row.Median, row.Unit), Unit: c.unit, Note: note, Class: "even",
			Strip: v.Strip(stats.Metric{Case: t.Case(), Name: c.metric})})
	}
	return cards[:min(len(cards), 4)]
}

func (v view) rateCard(direction string, t Traffic, m stats.Metric, row result.Row) chart.Card {
	c := chart.Card{
		Title: fmt.Sprintf("%s, %s B, %s", wayWords(direction), sizeWords(t), strings.ToUpper(m.Name)),
		Value: stats.In(row.Median, row.Unit), Unit: m.Unit, Class: "even", Note: "no ratio to " + stats.Limit, Strip: v.Strip(m),
	}
	if t.Size == 0 {
		c.Title = fmt.Sprintf("%s, IMIX, %s", wayWords(direction), strings.ToUpper(m.Name))
	}
	if row.Ratio > 0 {
		c.Note = chart.Glue(stats.Ratio(row.Ratio)) + " " + stats.Limit
	}
	if iv := stats.Against(v.Result, v.DUT, "kernel", t.Case(), m.Name); iv.N > 0 && v.DUT != "kernel" {
		c.Note += ", " + chart.Glue(stats.Ratio(iv.Median)) + " kernel"
		if iv.Lo > 1 {
			c.Class = "good"
		}
	}
	return c
}

// studyTable is the study's table of one target and direction.
type studyTable struct {
	Title, Name, Color string
	Lines              []transitLine
}

// transitLine is one frame size of it.
type transitLine struct {
	Size, Offered, Forwarded, FrameOut, Egress, Line, CPU, PerCore, NS, Device, Ratio string
	NDR, PDR                                                                          string
	Contradicts                                                                       bool // fewer packets than a larger size moves
}

// Own are the tables of the DUT; Others those of all other targets.
func (v view) Own() []studyTable { return v.tables(v.DUT) }

// Others are the tables of everybody else.
func (v view) Others() []studyTable {
	var tables []studyTable
	for _, name := range v.Names() {
		if name != v.DUT {
			tables = append(tables, v.tables(name)...)
		}
	}
	return tables
}

func (v view) tables(name string) []studyTable {
	var tables []studyTable
	for _, direction := range v.directions() {
		table := studyTable{Title: wayWords(direction), Name: name, Color: v.Color(name)}
		for _, t := range v.sized(direction) {
			if _, ok := v.find(name, t, transit.PDR); ok {
				table.Lines = append(table.Lines, v.tableLine(name, t))
			}
		}
		if len(table.Lines) > 0 {
			tables = append(tables, table)
		}
	}
	return tables
}

func (v view) tableLine(name string, t Traffic) transitLine {
	l := transitLine{
		Size: sizeWords(t), NDR: v.value(name, t, transit.NDR), PDR: v.value(name, t, transit.PDR),
		Offered: v.value(name, t, offeredRate), Forwarded: v.value(name, t, forwardedRate), FrameOut: v.value(name, t, frameOut),
		Egress: v.value(name, t, egressRate), Line: v.percent(name, t, lineShare), CPU: v.percent(name, t, cpuShare),
		PerCore: v.value(name, t, transit.MppsPerCore), NS: v.value(name, t, transit.NSPerPacket), Device: v.value(name, t, transit.DeviceNS), Ratio: "–",
	}
	row, _ := v.find(name, t, transit.PDR)
	l.Ratio = chart.RatioLabel(row)
	for _, larger := range v.sized(t.Direction) {
		other, ok := v.find(name, larger, transit.PDR)
		l.Contradicts = l.Contradicts || ok && t.Size > 0 && larger.Pairs == t.Pairs && larger.Size > t.Size && row.Median < 0.95*other.Median && row.Hi < other.Lo
	}
	return l
}

// studyLAG is a line of the NSX edge study's table of two uplinks and two downlinks.
type studyLAG struct{ Size, Gbits, Mpps string }

// StudyLAG is that table: facts of another machine. Packets a second follow from the
// rate, if that counts 20 bytes of preamble and outage.
func (v view) StudyLAG() []studyLAG {
	var lines []studyLAG
	for _, l := range []struct {
		size  int
		gbits float64
	}{{128, 29.8}, {256, 135.7}, {512, 161.4}, {1024, 184.7}, {1500, 189.6}} {
		lines = append(lines, studyLAG{strconv.Itoa(l.size), fmt.Sprintf("%.1f", l.gbits), stats.Figure(l.gbits * 1e3 / 8 / float64(l.size+20))})
	}
	return lines
}

// extra is a figure of RFC 2544's other tests.
type extra struct{ Name, Color, Case, Burst, Recovery, Reset string }

// delay is the latency of a target at its no-drop rate.
type delay struct{ Name, Color, Case, Min, Mean, P50, P99, P999, Jitter string }

// Delays are those of the smallest frames, by direction.
func (v view) Delays() []delay {
	var lines []delay
	for _, direction := range v.directions() {
		t, ok := v.key(direction)
		if !ok {
			continue
		}
		for _, name := range v.Names() {
			if _, ok := v.find(name, t, transit.LatencyP50); ok {
				lines = append(lines, delay{
					name, v.Color(name), t.Case(), v.value(name, t, transit.LatencyMin), v.value(name, t, transit.LatencyMean), v.value(name, t, transit.LatencyP50),
					v.value(name, t, transit.LatencyP99), v.value(name, t, transit.LatencyP999), v.value(name, t, transit.Jitter),
				})
			}
		}
	}
	return lines
}

// Extras are back-to-back, recovery and reset, where they were tested.
func (v view) Extras() []extra {
	var lines []extra
	for _, t := range Transits(v.Result) {
		for _, name := range v.Names() {
			e := extra{name, v.Color(name), t.Case(), v.value(name, t, backToBack), v.value(name, t, recoveryMS), v.value(name, t, resetMS)}
			if e.Burst != "–" || e.Recovery != "–" || e.Reset != "–" {
				lines = append(lines, e)
			}
		}
	}
	return lines
}

// Blocks are all rows of the metrics that verdicts speak of, by case and metric.
func (v view) Blocks() []chart.Block {
	var blocks []chart.Block
	for _, m := range []struct{ name, title, unit string }{
		{transit.NDR, "no-drop rate", "Mpps"}, {transit.PDR, "partial-drop rate", "Mpps"},
		{transit.LatencyP50, "latency p50", "µs"}, {transit.LatencyP99, "latency p99", "µs"}, {transit.NSPerPacket, "time per packet", "ns"},
	} {
		for _, t := range Transits(v.Result) {
			b := chart.Block{Title: t.Case(), Unit: m.title + ", " + m.unit}
			for _, name := range v.Names() {
				if row, ok := v.find(name, t, m.name); ok {
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

// Tolerance is the PDR's loss in words.
func (v view) Tolerance() string { return chart.Glue(Tolerance(v.Result)) }

// Lengths is how long a sample took.
func (v view) Lengths() string { return v.SampleTimes() }

//go:embed page.html
var pageTemplate string

// viewOf prepares r for drawing.
func viewOf(r result.Result) view {
	v := chart.NewView(r, stats.Limit, underTest(r))
	return view{v}
}

// page writes r as one self-contained page.
func page(w io.Writer, r result.Result) error { return chart.Page(w, pageTemplate, viewOf(r)) }

// table writes the summary of r for a terminal.
func table(w io.Writer, r result.Result) error { return writeTable(w, viewOf(r)) }
