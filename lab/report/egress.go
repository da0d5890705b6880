package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// egressView is a result of the egress experiment prepared for drawing.
type egressView struct{ view }

// find is a row of the summary.
func (v egressView) find(contender string, rung stats.Rung, metric string) (result.Row, bool) {
	return stats.Find(v.Summary, contender, rung.Case(), metric)
}

// Rate is the rate of the wires for people, "" without one.
func (v egressView) Rate() string {
	if rate := v.Parameters["wire_gbit"]; rate != "0" && rate != "" {
		return rate + " Gbit/s"
	}
	return ""
}

// Underlay is the MTU of the wires for people.
func (v egressView) Underlay() string { return v.Parameters["underlay_mtu"] }

// Lengths are the times of the samples.
func (v egressView) Lengths() string {
	return v.Parameters["duration"] + ", " + v.Parameters["sample"]
}

// Cards are the four figures that the ladder is judged by.
func (v egressView) Cards() []card {
	setting := stats.Rung{}
	if _, ok := v.find(v.subject, setting.At(stats.RungEgress), stats.Decisive); !ok {
		setting.Free = true
	}
	free := stats.Rung{Name: stats.RungEgress, Free: true}
	var cards []card
	for _, k := range []struct {
		title, metric, unit, note string
		rung                      stats.Rung
	}{
		{"Tunnel keeps", stats.Decisive, "× node", "", setting.At(stats.RungTunnel)},
		{"Gateway and translation keep", stats.Decisive, "× node", "", setting.At(stats.RungEgress)},
		{"Translation keeps", stats.NATKept, "× routing", "same edge, cores the limit", free},
		{"Connections", stats.ConnRival, "× kernel", "opened and translated", stats.Rung{Name: stats.RungEgress}},
	} {
		row, ok := v.find(v.subject, k.rung, k.metric)
		if !ok || row.Ratio == 0 {
			continue
		}
		c := card{Title: k.title, Value: fmt.Sprintf("%.3f", row.Ratio), Unit: k.unit, Class: "even", Note: k.note}
		if k.metric == stats.ConnRival {
			c.Value = fmt.Sprintf("%.2f", row.Ratio)
			if row.Distinguishable {
				c.Class = map[bool]string{true: "good", false: "bad"}[row.Ratio > 1]
			}
		}
		if c.Note == "" {
			c.Note = fmt.Sprintf("%s Gbit/s, kernel %s", stats.Figure(row.Median), v.ratioOf(stats.Nftables, k.rung))
			if v.subject == stats.Nftables {
				c.Note = stats.Figure(row.Median) + " Gbit/s"
			}
		}
		c.Note = glue(fmt.Sprintf("[%.3f, %.3f] ", row.RatioLo, row.RatioHi) + c.Note)
		cards = append(cards, c)
	}
	return cards
}

// ratioOf is a contender's throughput on a rung against its lowest one, for people.
func (v egressView) ratioOf(name string, rung stats.Rung) string {
	row, ok := v.find(name, rung, stats.Decisive)
	if !ok || row.Ratio == 0 {
		return "–"
	}
	return fmt.Sprintf("%.3f ×", row.Ratio)
}

// rungLine is one rung of a contender in the table of the ladder.
type rungLine struct {
	Name, Tint, Rung       string
	Sent, Received         string
	Node                   string // ratio to node to node
	Loss, Interval, Header string // against the rung below
	CPU, Retransmits, MSS  string
}

// rungTable is the ladder in one setting and direction.
type rungTable struct {
	Title, Note string
	Lines       []rungLine
}

// Tables are the ladders of all settings, from the one that the verdict is about.
func (v egressView) Tables() []rungTable {
	var tables []rungTable
	for _, rung := range stats.EgressCases(v.Result) {
		title, note := v.settingWords(rung)
		last := len(tables) - 1
		if last < 0 || tables[last].Title != title {
			tables = append(tables, rungTable{Title: title, Note: note})
			last++
		}
		for _, name := range v.names {
			if line, ok := v.rungLine(name, rung); ok {
				tables[last].Lines = append(tables[last].Lines, line)
			}
		}
	}
	return slices.DeleteFunc(tables, func(t rungTable) bool { return len(t.Lines) == 0 })
}

// settingWords are what a case has besides its rung.
func (v egressView) settingWords(rung stats.Rung) (title, note string) {
	title, note = "To the target", "wires of "+v.Rate()
	if rung.Reverse {
		title = "To the workload"
	}
	if rung.Free {
		note = "no rate: the cores of this machine are the limit of all hosts together"
		title += ", no rate"
	}
	return title, note
}

func (v egressView) rungLine(name string, rung stats.Rung) (rungLine, bool) {
	row, ok := v.find(name, rung, stats.Decisive)
	if !ok {
		return rungLine{}, false
	}
	figure := func(metric, unit string) string {
		if row, ok := v.find(name, rung, metric); ok {
			return stats.In(row.Median, unit)
		}
		return "–"
	}
	l := rungLine{
		Name: name, Tint: v.tint(name), Rung: rung.Name, Received: stats.Figure(row.Median), Sent: figure("tcp_sent", ""),
		Node: "–", Loss: "–", Header: "–", CPU: figure("cpu_per_gb", ""), Retransmits: figure("retransmits", "count"), MSS: figure("mss", "count"),
	}
	if row.Ratio > 0 {
		l.Node = fmt.Sprintf("%.3f", row.Ratio)
	}
	if loss, ok := v.find(name, rung, stats.LossBelow); ok {
		l.Loss = stats.Percent(-loss.Median)
		l.Interval = stats.Percent(-loss.Hi) + " … " + stats.Percent(-loss.Lo)
	}
	if rung.Name == stats.RungTunnel {
		l.Header = stats.Percent(-v.tax(name))
	}
	return l, true
}

// tax is what headers alone cost a contender on a wire.
func (v egressView) tax(name string) float64 {
	for _, k := range v.Contenders {
		if k.Name == name {
			return k.HeaderTax
		}
	}
	return 0
}

// Blocks are all rows by metric, a contender's case a line.
func (v egressView) Blocks() []block {
	var blocks []block
	metrics := stats.EgressMetrics()
	for _, m := range []struct{ name, unit, title string }{
		{stats.LossBelow, "share", "Lost against the rung below"}, {stats.NATKept, "×", "Translated against routed, throughput"},
		{stats.NATConn, "×", "Translated against routed, connections"}, {stats.TCPRival, "×", "Throughput against the kernel"},
		{stats.ConnRival, "×", "Connections against the kernel"}, {stats.HopsRival, "×", "Throughput against plain over as many hops"},
		{stats.ConnAdded, "µs", "A connection beyond node to node"},
	} {
		metrics = append(metrics, stats.Metric{Name: m.name, Unit: m.unit, Title: m.title})
	}
	for _, m := range metrics {
		b := block{Title: m.Title, Unit: m.Unit}
		for _, row := range v.Summary {
			if row.Metric == m.Name {
				l := v.line(row)
				l.Contender += " " + row.Case
				b.Lines = append(b.Lines, l)
			}
		}
		if len(b.Lines) > 0 {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// ladderStudy is one of study S1's two tables: facts of other machines.
type ladderStudy struct {
	Title, Note string
	Lines       []ladderStudyLine
	kept        map[string]float64 // by rung
}

type ladderStudyLine struct{ Rung, Sent, Received, Loss string }

// Studies are S1's tables in Gbit/s, with the share that each rung keeps of the lowest.
func (v egressView) Studies() []ladderStudy {
	studies := []ladderStudy{
		{Title: "Study S1, physical hosts", Note: "10G Mellanox, two E5-2680 v4 each"},
		{Title: "Study S1, virtual machines", Note: "VMware, 4 virtual cores, VMXNET3"},
	}
	for i, figures := range [][3][2]float64{
		{{9.44, 9.41}, {9.11, 9.09}, {9.01, 8.98}},
		{{2.99, 2.99}, {1.73, 1.71}, {1.23, 1.22}},
	} {
		studies[i].kept = map[string]float64{}
		for k, rung := range studyRungs() {
			received := figures[k][1]
			line := ladderStudyLine{rung, fmt.Sprintf("%.2f", figures[k][0]), fmt.Sprintf("%.2f", received), "–"}
			studies[i].kept[rung] = received / figures[0][1]
			if k > 0 {
				line.Loss = stats.Percent(received/figures[0][1] - 1)
			}
			studies[i].Lines = append(studies[i].Lines, line)
		}
	}
	return studies
}

// studyRungs are the rungs that study S1 has.
func studyRungs() []string { return []string{stats.RungNode, stats.RungTunnel, stats.RungEgress} }

// rungWords is a rung for people.
func rungWords(rung string) string {
	return map[string]string{
		stats.RungNode: "node to node", stats.RungTunnel: "tunnel to tunnel",
		stats.RungRouted: "gateway, routed", stats.RungEgress: "gateway, NAT",
	}[rung]
}

// worded is a list of figures in words.
func worded(parts []string) string { return strings.Join(parts, ". ") }
