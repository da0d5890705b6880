package egress

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// view is a result of the egress experiment prepared for drawing.
type view struct{ chart.View }

// find is a row of the summary.
func (v view) find(target string, stage Stage, metric string) (result.Row, bool) {
	return stats.Find(v.Summary, target, stage.Case(), metric)
}

// Rate is the rate of the wires for people, "" without one.
func (v view) Rate() string {
	return rateWords(v.Parameters)
}

// rateWords is the rate of the wires for people, "" without one.
func rateWords(p result.Parameters) string {
	if p.Number(wireRate) == 0 {
		return ""
	}
	return p[wireRate].String()
}

// Underlay is the MTU of the wires for people.
func (v view) Underlay() int { return v.Parameters.Int("underlay_mtu") }

// Lengths are the times of the samples.
func (v view) Lengths() string {
	return fmt.Sprintf("%s of TCP throughput, %s of round trips and connections", v.Parameters.Time("duration"), v.Parameters.Time("sample"))
}

// Cards are the four figures that the stages is judged by.
func (v view) Cards() []chart.Card {
	setting := Stage{}
	if _, ok := v.find(v.DUT, setting.At(StageEgress), stats.Decisive); !ok {
		setting.Free = true
	}
	free := Stage{Name: StageEgress, Free: true}
	var cards []chart.Card
	for _, k := range []struct {
		title, metric, unit, note string
		stage                     Stage
	}{
		{"Tunnel keeps", stats.Decisive, "× node", "", setting.At(StageTunnel)},
		{"Gateway and NAT keep", stats.Decisive, "× node", "", setting.At(StageEgress)},
		{"Translation keeps", NATKept, "× routing", "same edge, cores the limit", free},
		{"Connections", ConnRival, "× kernel", "opened through NAT", Stage{Name: StageEgress}},
	} {
		row, ok := v.find(v.DUT, k.stage, k.metric)
		if !ok || row.Ratio == 0 {
			continue
		}
		c := chart.Card{Title: k.title, Value: fmt.Sprintf("%.3f", row.Ratio), Unit: k.unit, Class: "even", Note: k.note}
		if k.metric == ConnRival {
			c.Value = fmt.Sprintf("%.2f", row.Ratio)
			if row.Distinguishable {
				c.Class = map[bool]string{true: "good", false: "bad"}[row.Ratio > 1]
			}
		}
		if c.Note == "" {
			c.Note = fmt.Sprintf("%s Gbit/s, kernel %s", stats.Figure(row.Median), v.ratioOf(stats.Kernel, k.stage))
			if v.DUT == stats.Kernel {
				c.Note = stats.Figure(row.Median) + " Gbit/s"
			}
		}
		c.Note = chart.Glue(fmt.Sprintf("[%.3f, %.3f] ", row.RatioLo, row.RatioHi) + c.Note)
		cards = append(cards, c)
	}
	return cards
}

// ratioOf is a target's throughput on a stage against its lowest one, for people.
func (v view) ratioOf(name string, stage Stage) string {
	row, ok := v.find(name, stage, stats.Decisive)
	if !ok || row.Ratio == 0 {
		return "–"
	}
	return fmt.Sprintf("%.3f ×", row.Ratio)
}

// stageLine is one stage of a target in the table of the stages.
type stageLine struct {
	Name, Color, Stage     string
	Sent, Received         string
	Node                   string // ratio to node to node
	Loss, Interval, Header string // against the stage below
	CPU, Retransmits, MSS  string
}

// stageTable is the stages in one setting and direction.
type stageTable struct {
	Title, Note string
	Lines       []stageLine
}

// Tables are the ladders of all settings, from the one that the verdict is about.
func (v view) Tables() []stageTable {
	var tables []stageTable
	for _, stage := range Cases(v.Result) {
		title, note := v.settingWords(stage)
		last := len(tables) - 1
		if last < 0 || tables[last].Title != title {
			tables = append(tables, stageTable{Title: title, Note: note})
			last++
		}
		for _, name := range v.Names() {
			if line, ok := v.stageLine(name, stage); ok {
				tables[last].Lines = append(tables[last].Lines, line)
			}
		}
	}
	return slices.DeleteFunc(tables, func(t stageTable) bool { return len(t.Lines) == 0 })
}

// settingWords are what a case has besides its stage.
func (v view) settingWords(stage Stage) (title, note string) {
	title, note = "To the target", "wires of "+v.Rate()
	if stage.Reverse {
		title = "To the workload"
	}
	if stage.Free {
		note = "no rate limit: all hosts share the cores of this machine, which are the limit"
		title += ", no rate"
	}
	return title, note
}

func (v view) stageLine(name string, stage Stage) (stageLine, bool) {
	row, ok := v.find(name, stage, stats.Decisive)
	if !ok {
		return stageLine{}, false
	}
	figure := func(metric, unit string) string {
		if row, ok := v.find(name, stage, metric); ok {
			return stats.In(row.Median, unit)
		}
		return "–"
	}
	l := stageLine{
		Name: name, Color: v.Color(name), Stage: stage.Name, Received: stats.Figure(row.Median), Sent: figure(measure.TCPSent, ""),
		Node: "–", Loss: "–", Header: "–", CPU: figure(measure.CPUPerGB, ""), Retransmits: figure(measure.Retransmits, "count"), MSS: figure(measure.MSS, "count"),
	}
	if row.Ratio > 0 {
		l.Node = fmt.Sprintf("%.3f", row.Ratio)
	}
	if loss, ok := v.find(name, stage, LossBelow); ok {
		l.Loss = stats.Percent(-loss.Median)
		l.Interval = stats.Percent(-loss.Hi) + " … " + stats.Percent(-loss.Lo)
	}
	if stage.Name == StageTunnel {
		l.Header = stats.Percent(-v.tax(name))
	}
	return l, true
}

// tax is what headers alone cost a target on a wire.
func (v view) tax(name string) float64 {
	for _, k := range v.Targets {
		if k.Name == name {
			return k.HeaderTax
		}
	}
	return 0
}

// Blocks are all rows by metric, a target's case a line.
func (v view) Blocks() []chart.Block {
	var blocks []chart.Block
	metrics := figures()
	for _, m := range []struct{ name, unit, title string }{
		{LossBelow, "share", "Lost against the stage below"}, {NATKept, "×", "NAT against routed, throughput"},
		{NATConn, "×", "NAT against routed, connections"}, {TCPRival, "×", "Throughput against the kernel"},
		{ConnRival, "×", "Connections against the kernel"}, {HopsRival, "×", "Throughput against plain over as many hops"},
		{ConnAdded, "µs", "A connection beyond node to node"},
	} {
		metrics = append(metrics, stats.Metric{Name: m.name, Unit: m.unit, Title: m.title})
	}
	for _, m := range metrics {
		b := chart.Block{Title: m.Title, Unit: m.Unit}
		for _, row := range v.Summary {
			if row.Metric == m.Name {
				l := v.Line(row)
				l.Target += " " + row.Case
				b.Lines = append(b.Lines, l)
			}
		}
		if len(b.Lines) > 0 {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// stagesStudy is one of the EgressGateway study's two tables: facts of other machines.
type stagesStudy struct {
	Title, Note string
	Lines       []stagesStudyLine
	kept        map[string]float64 // by stage
}

type stagesStudyLine struct{ Stage, Sent, Received, Loss string }

// Studies are the EgressGateway study's tables in Gbit/s, with the share that each stage keeps of the lowest.
func (v view) Studies() []stagesStudy {
	studies := []stagesStudy{
		{Title: "EgressGateway study, physical hosts", Note: "10G Mellanox, two E5-2680 v4 each"},
		{Title: "EgressGateway study, virtual machines", Note: "VMware, 4 virtual cores, VMXNET3"},
	}
	for i, figures := range [][3][2]float64{
		{{9.44, 9.41}, {9.11, 9.09}, {9.01, 8.98}},
		{{2.99, 2.99}, {1.73, 1.71}, {1.23, 1.22}},
	} {
		studies[i].kept = map[string]float64{}
		for k, stage := range studyStages() {
			received := figures[k][1]
			line := stagesStudyLine{stage, fmt.Sprintf("%.2f", figures[k][0]), fmt.Sprintf("%.2f", received), "–"}
			studies[i].kept[stage] = received / figures[0][1]
			if k > 0 {
				line.Loss = stats.Percent(received/figures[0][1] - 1)
			}
			studies[i].Lines = append(studies[i].Lines, line)
		}
	}
	return studies
}

// studyStages are the stages that the EgressGateway study has.
func studyStages() []string { return []string{StageNode, StageTunnel, StageEgress} }

// stageWords is a stage for people.
func stageWords(stage string) string {
	return map[string]string{
		StageNode: "node to node", StageTunnel: "tunnel to tunnel",
		StageRouted: "gateway, routed", StageEgress: "gateway, NAT",
	}[stage]
}

// worded is a list of figures in words.
func worded(parts []string) string { return strings.Join(parts, ". ") }

//go:embed page.html
var pageTemplate string

// viewOf prepares r for drawing.
func viewOf(r result.Result) view {
	v := chart.NewView(r, "", underTest(r))
	return view{v}
}

// page writes r as one self-contained page.
func page(w io.Writer, r result.Result) error { return chart.Page(w, pageTemplate, viewOf(r)) }

// table writes the summary of r for a terminal.
func table(w io.Writer, r result.Result) error { return writeTable(w, viewOf(r)) }
