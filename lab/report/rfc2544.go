package report

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// transitView is a result of the RFC 2544 experiment prepared for drawing.
type transitView struct{ view }

func (v transitView) find(name string, t stats.Traffic, metric string) (result.Row, bool) {
	return stats.Find(v.Summary, name, t.Case(), metric)
}

// value is the median of a metric, "–" when it was not measured.
func (v transitView) value(name string, t stats.Traffic, metric string) string {
	row, ok := v.find(name, t, metric)
	if !ok {
		return "–"
	}
	return stats.In(row.Median, row.Unit)
}

// percent is a share in percent.
func (v transitView) percent(name string, t stats.Traffic, metric string) string {
	row, ok := v.find(name, t, metric)
	if !ok {
		return "–"
	}
	return strconv.FormatFloat(100*row.Median, 'f', 1, 64)
}

// sized are the cases of a direction that are not of the flow sweep.
func (v transitView) sized(direction string) []stats.Traffic {
	return slices.DeleteFunc(stats.Transits(v.Result), func(t stats.Traffic) bool {
		return t.Direction != direction || t.Flows > 0
	})
}

// directions are those that were measured, with words for them.
func (v transitView) directions() []string {
	return slices.DeleteFunc([]string{stats.Encap, stats.Decap, stats.Both}, func(direction string) bool {
		return len(v.sized(direction)) == 0
	})
}

func wayWords(direction string) string {
	return map[string]string{stats.Encap: "Into the tunnel", stats.Decap: "Out of the tunnel", stats.Both: "Into the tunnel and back"}[direction]
}

// sizeWords is the size of a case: "64", "IMIX", "64 ×2" with two uplinks.
func sizeWords(t stats.Traffic) string {
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
func (v transitView) key(direction string) (stats.Traffic, bool) {
	for _, t := range v.sized(direction) {
		if _, ok := v.find(v.dut, t, stats.NDR); ok {
			return t, true
		}
	}
	return stats.Traffic{}, false
}

// Cards are the subject's key figures.
func (v transitView) Cards() []card {
	var cards []card
	for _, direction := range v.directions() {
		t, ok := v.key(direction)
		if !ok {
			continue
		}
		m := stats.Metric{Case: t.Case(), Name: stats.NDR, Unit: "Mpps", Higher: true}
		if row, _ := v.row(v.dut, m); row.Median == 0 {
			m.Name = stats.PDR
		}
		if row, ok := v.row(v.dut, m); ok {
			cards = append(cards, v.rateCard(direction, t, m, row))
		}
	}
	t, ok := v.key(stats.Encap)
	if !ok {
		return cards
	}
	for _, c := range []struct{ metric, title, unit string }{
		{stats.DeviceNS, "The device’s time", "ns a packet"}, {stats.LatencyP99, "Latency p99 at full rate", "µs"},
	} {
		row, ok := v.find(v.dut, t, c.metric)
		if !ok {
			continue
		}
		note := ""
		if row.Ratio > 0 {
			note = glue(stats.Ratio(row.Ratio)) + " " + stats.Limit
		}
		cards = append(cards, card{Title: c.title, Value: stats.In(row.Median, row.Unit), Unit: c.unit, Note: note, Class: "even",
			Strip: v.strip(stats.Metric{Case: t.Case(), Name: c.metric})})
	}
	return cards[:min(len(cards), 4)]
}

func (v transitView) rateCard(direction string, t stats.Traffic, m stats.Metric, row result.Row) card {
	c := card{
		Title: fmt.Sprintf("%s, %s B, %s", wayWords(direction), sizeWords(t), strings.ToUpper(m.Name)),
		Value: stats.In(row.Median, row.Unit), Unit: m.Unit, Class: "even", Note: "no ratio to " + stats.Limit, Strip: v.strip(m),
	}
	if t.Size == 0 {
		c.Title = fmt.Sprintf("%s, IMIX, %s", wayWords(direction), strings.ToUpper(m.Name))
	}
	if row.Ratio > 0 {
		c.Note = glue(stats.Ratio(row.Ratio)) + " " + stats.Limit
	}
	if iv := stats.Against(v.Result, v.dut, "kernel", t.Case(), m.Name); iv.N > 0 && v.dut != "kernel" {
		c.Note += ", " + glue(stats.Ratio(iv.Median)) + " kernel"
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

// DUT are the tables of the subject; Others those of all other targets.
func (v transitView) DUT() []studyTable { return v.tables(v.dut) }

// Others are the tables of everybody else.
func (v transitView) Others() []studyTable {
	var tables []studyTable
	for _, name := range v.Names() {
		if name != v.dut {
			tables = append(tables, v.tables(name)...)
		}
	}
	return tables
}

func (v transitView) tables(name string) []studyTable {
	var tables []studyTable
	for _, direction := range v.directions() {
		table := studyTable{Title: wayWords(direction), Name: name, Color: v.Color(name)}
		for _, t := range v.sized(direction) {
			if _, ok := v.find(name, t, stats.PDR); ok {
				table.Lines = append(table.Lines, v.tableLine(name, t))
			}
		}
		if len(table.Lines) > 0 {
			tables = append(tables, table)
		}
	}
	return tables
}

func (v transitView) tableLine(name string, t stats.Traffic) transitLine {
	l := transitLine{
		Size: sizeWords(t), NDR: v.value(name, t, stats.NDR), PDR: v.value(name, t, stats.PDR),
		Offered: v.value(name, t, "offered"), Forwarded: v.value(name, t, "forwarded"), FrameOut: v.value(name, t, "frame_out"),
		Egress: v.value(name, t, "egress"), Line: v.percent(name, t, "line_share"), CPU: v.percent(name, t, "cpu"),
		PerCore: v.value(name, t, stats.MppsPerCore), NS: v.value(name, t, stats.NSPerPacket), Device: v.value(name, t, stats.DeviceNS), Ratio: "–",
	}
	row, _ := v.find(name, t, stats.PDR)
	l.Ratio = ratioLabel(row)
	for _, larger := range v.sized(t.Direction) {
		other, ok := v.find(name, larger, stats.PDR)
		l.Contradicts = l.Contradicts || ok && t.Size > 0 && larger.Pairs == t.Pairs && larger.Size > t.Size && row.Median < 0.95*other.Median && row.Hi < other.Lo
	}
	return l
}

// studyLAG is a line of the NSX edge study's table of two uplinks and two downlinks.
type studyLAG struct{ Size, Gbits, Mpps string }

// StudyLAG is that table: facts of another machine. Packets a second follow from the
// rate, if that counts 20 bytes of preamble and outage.
func (v transitView) StudyLAG() []studyLAG {
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
func (v transitView) Delays() []delay {
	var lines []delay
	for _, direction := range v.directions() {
		t, ok := v.key(direction)
		if !ok {
			continue
		}
		for _, name := range v.Names() {
			if _, ok := v.find(name, t, stats.LatencyP50); ok {
				lines = append(lines, delay{
					name, v.Color(name), t.Case(), v.value(name, t, "latency_min"), v.value(name, t, "latency_mean"), v.value(name, t, stats.LatencyP50),
					v.value(name, t, stats.LatencyP99), v.value(name, t, "latency_p999"), v.value(name, t, "jitter"),
				})
			}
		}
	}
	return lines
}

// Extras are back-to-back, recovery and reset, where they were tested.
func (v transitView) Extras() []extra {
	var lines []extra
	for _, t := range stats.Transits(v.Result) {
		for _, name := range v.Names() {
			e := extra{name, v.Color(name), t.Case(), v.value(name, t, "back_to_back"), v.value(name, t, "recovery_ms"), v.value(name, t, "reset_ms")}
			if e.Burst != "–" || e.Recovery != "–" || e.Reset != "–" {
				lines = append(lines, e)
			}
		}
	}
	return lines
}

// Blocks are all rows of the metrics that verdicts speak of, by case and metric.
func (v transitView) Blocks() []block {
	var blocks []block
	for _, m := range []struct{ name, title, unit string }{
		{stats.NDR, "no-drop rate", "Mpps"}, {stats.PDR, "partial-drop rate", "Mpps"},
		{stats.LatencyP50, "latency p50", "µs"}, {stats.LatencyP99, "latency p99", "µs"}, {stats.NSPerPacket, "time per packet", "ns"},
	} {
		for _, t := range stats.Transits(v.Result) {
			b := block{Title: t.Case(), Unit: m.title + ", " + m.unit}
			for _, name := range v.Names() {
				if row, ok := v.find(name, t, m.name); ok {
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

// Tolerance is the PDR's loss in words.
func (v transitView) Tolerance() string { return glue(stats.Tolerance(v.Result)) }

// Lengths is how long a sample took.
func (v transitView) Lengths() string { return v.sampleTimes() }

// sampleTimes is how long samples took, where cases are too many to name.
func (v view) sampleTimes() string {
	var all []float64
	for _, s := range v.Samples {
		all = append(all, s.Duration)
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f to %.1f s, %d samples", slices.Min(all), slices.Max(all), len(all))
}

//go:embed rfc2544.html
var transitPage string

// rfc2544ViewOf prepares r for drawing.
func rfc2544ViewOf(r result.Result) transitView {
	v := newView(r, stats.Limit, diagnose.RFC2544DUT(r))
	return transitView{v}
}

// RFC2544Page writes r as one self-contained page.
func RFC2544Page(w io.Writer, r result.Result) error { return Page(w, transitPage, rfc2544ViewOf(r)) }

// RFC2544Table writes the summary of r for a terminal.
func RFC2544Table(w io.Writer, r result.Result) error { return transitTable(w, rfc2544ViewOf(r)) }

// RFC2544Experiment is the experiment.
func RFC2544Experiment() experiment.Experiment {
	return experiment.Experiment{Name: stats.RFC2544, Summarise: stats.RFC2544Rows, Verdict: diagnose.RFC2544Verdict, Page: RFC2544Page, Table: RFC2544Table}
}
