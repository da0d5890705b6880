package latency

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// view is a result of the latency experiment prepared for drawing.
type view struct {
	chart.View
	breakdowns []Breakdown // of all targets, of whom Selvage alone can be broken down
}

func newView(v chart.View) view {
	p := view{View: v}
	for _, name := range v.Names() {
		p.breakdowns = append(p.breakdowns, Breakdowns(v.Result, name)...)
	}
	return p
}

func (v view) find(name string, s Setting, metric string) (result.Row, bool) {
	return stats.Find(v.Summary, name, s.Case(), metric)
}

// value is the median of a metric, "–" when it was not measured.
func (v view) value(name string, s Setting, metric string) string {
	row, ok := v.find(name, s, metric)
	if !ok {
		return "–"
	}
	return stats.In(row.Median, row.Unit)
}

// sweep is the numbers of rules between two hosts, 0 first, rising.
func (v view) sweep() []Setting {
	return slices.DeleteFunc(Settings(v.Result), func(s Setting) bool {
		return !s.InSweep()
	})
}

// most is the subject's setting with the most rules.
func (v view) most() (most Setting, ok bool) {
	for _, s := range v.sweep() {
		if _, found := v.find(v.DUT, s, RRP50); found && s.Rules > 0 {
			most, ok = s, true
		}
	}
	return most, ok
}

// study is the setting of the scenarios between two hosts with a firewall.
func (v view) study() Setting {
	return Setting{Scenario: TwoHosts, Rules: ScenarioRules, Pairs: 1}
}

// rulesWords is a number of rules: "no firewall", "1 rule", "100 rules".
func rulesWords(n int) string {
	switch n {
	case 0:
		return "no firewall"
	case 1:
		return "1 rule"
	}
	return chart.Counted(float64(n)) + " rules"
}

// signed is a difference with its sign, to hundredths below 10: "+0.30", "−0.10", "0".
func signed(v float64) string {
	words := stats.Figure(math.Abs(v))
	if math.Abs(v) < 9.995 {
		words = fmt.Sprintf("%.2f", math.Abs(v))
	}
	switch {
	case words == "0.00":
		return "0"
	case v < 0:
		return "−" + words
	}
	return "+" + words
}

// between is an interval of differences: "[+0.10, +0.50]".
func between(lo, hi float64) string { return "[" + signed(lo) + ", " + signed(hi) + "]" }

// timesApart is a difference with its interval: "+0.30 [+0.10, +0.50]".
func timesApart(row result.Row) string { return signed(row.Median) + " " + between(row.Lo, row.Hi) }

// Cards are the subject's key figures.
func (v view) Cards() []chart.Card {
	var cards []chart.Card
	settings := []Setting{v.study()}
	if most, ok := v.most(); ok && most.Rules > ScenarioRules {
		settings = append(settings, most)
	}
	for _, s := range settings {
		if row, ok := v.find(v.DUT, s, RRAdded); ok {
			c := chart.Card{
				Title: "Added to a round trip by " + rulesWords(s.Rules), Value: signed(row.Median), Unit: "µs", Class: "even",
				Note: between(row.Lo, row.Hi) + ", no difference shown", Strip: v.addedStrip(s),
			}
			if row.Distinguishable {
				c.Note, c.Class = between(row.Lo, row.Hi), "bad"
				if row.Median < 0 {
					c.Class = "good"
				}
			}
			cards = append(cards, c)
		}
	}
	if v.DUT == stats.Kernel {
		return cards
	}
	last := settings[len(settings)-1]
	for _, of := range []struct{ metric, title string }{
		{ConnRate, "Connections, many at once"}, {CRRRate, "Connections, one at a time"}, {UDPRate, "UDP packets"},
	} {
		if c, ok := v.rateCard(last, of.metric, of.title+", "+rulesWords(last.Rules)); ok {
			cards = append(cards, c)
		}
	}
	return cards[:min(len(cards), 4)]
}

// rateCard is a rate of the subject, with its ratios to itself without a firewall and to
// nftables.
func (v view) rateCard(s Setting, metric, title string) (chart.Card, bool) {
	row, ok := v.find(v.DUT, s, metric)
	if !ok {
		return chart.Card{}, false
	}
	c := chart.Card{Title: title, Value: stats.In(row.Median, row.Unit), Unit: row.Unit, Class: "even"}
	var notes []string
	if row.Ratio > 0 && row.Baseline != "" {
		notes = append(notes, chart.Glue(stats.Ratio(row.Ratio))+" without a firewall")
	}
	if iv := Rival(v.Result, v.DUT, s.Case(), metric); iv.N > 0 {
		notes = append(notes, chart.Glue(stats.Ratio(iv.Median))+" nftables")
		if iv.Lo > 1 {
			c.Class = "good"
		} else if iv.Hi < 1 {
			c.Class = "bad"
		}
	}
	c.Note = strings.Join(notes, ", ")
	return c, true
}

// scenario is a setting of the NSX firewall study, with a word for it.
type scenario struct {
	Title   string
	off, on Setting
}

// scenarios are the study's, those with several pairs last.
func (v view) scenarios() []scenario {
	var all []scenario
	for _, s := range Settings(v.Result) {
		if s.Rules != ScenarioRules {
			continue
		}
		title := map[string]string{SameHost: "On one host", TwoHosts: "Between two hosts"}[s.Scenario]
		if s.Pairs > 1 {
			title += fmt.Sprintf(", %d pairs at once", s.Pairs)
		}
		all = append(all, scenario{Title: title, off: s.Without(), on: s})
	}
	slices.SortStableFunc(all, func(a, b scenario) int { return a.on.Pairs - b.on.Pairs })
	return all
}

// scenarioLine is one target in one scenario.
type scenarioLine struct {
	Title, Name, Color             string
	Off, On, Added, Interval       string
	P99Off, P99On, TailOff, TailOn string
	Same                           bool // no difference is shown
}

// Scenarios is the study's table of this run.
func (v view) Scenarios() []scenarioLine {
	var lines []scenarioLine
	for _, s := range v.scenarios() {
		for _, name := range v.Names() {
			on, ok := v.find(name, s.on, RRP50)
			if !ok {
				continue
			}
			l := scenarioLine{
				Title: s.Title, Name: name, Color: v.Color(name), Off: v.value(name, s.off, RRP50), On: stats.In(on.Median, on.Unit),
				Added: "–", P99Off: v.value(name, s.off, measure.RRP99), P99On: v.value(name, s.on, measure.RRP99),
				TailOff: v.value(name, s.off, measure.RRP9999), TailOn: v.value(name, s.on, measure.RRP9999),
			}
			if row, ok := v.find(name, s.on, RRAdded); ok {
				l.Added, l.Interval, l.Same = signed(row.Median), between(row.Lo, row.Hi), !row.Distinguishable
			}
			lines = append(lines, l)
		}
	}
	return lines
}

// rulesLine is one target with one number of rules.
type rulesLine struct {
	Rules, Name, Color                  string
	RR, Added, Interval, CRR, Conn, UDP string
	TCP, CRRRival, ConnRival, UDPRival  string
}

// Sweep is the table of all numbers of rules.
func (v view) Sweep() []rulesLine {
	var lines []rulesLine
	for _, s := range v.sweep() {
		for _, name := range v.Names() {
			l := rulesLine{
				Rules: chart.Counted(float64(s.Rules)), Name: name, Color: v.Color(name), RR: v.value(name, s, RRP50), Added: "–",
				CRR: v.value(name, s, CRRRate), Conn: v.value(name, s, ConnRate),
				UDP: v.value(name, s, UDPRate), TCP: v.value(name, s, stats.Decisive),
				CRRRival: v.rival(name, s, CRRRate), ConnRival: v.rival(name, s, ConnRate), UDPRival: v.rival(name, s, UDPRate),
			}
			if l.RR+l.CRR+l.Conn+l.UDP+l.TCP == "–––––" {
				continue
			}
			if row, ok := v.find(name, s, RRAdded); ok {
				l.Added, l.Interval = signed(row.Median), between(row.Lo, row.Hi)
			}
			lines = append(lines, l)
		}
	}
	return lines
}

// rival is a metric as multiple of nftables', "" where there is none.
func (v view) rival(name string, s Setting, metric string) string {
	iv := Rival(v.Result, name, s.Case(), metric)
	if iv.N == 0 || name == stats.Kernel {
		return ""
	}
	return stats.BareRatio(iv.Median)
}

// slope is what one rule costs a target.
type slope struct{ Name, Color, Rules, RR, CRR, Conn, UDP string }

// inNanoseconds is an interval of µs: of many rules each costs little.
func inNanoseconds(iv stats.Interval) string {
	return strings.ReplaceAll(fmt.Sprintf("%s [%s, %s]", stats.Figure(1e3*iv.Median), stats.Figure(1e3*iv.Lo), stats.Figure(1e3*iv.Hi)), "-", "−")
}

// Slopes is the table of costs of a rule, in ns.
func (v view) Slopes() []slope {
	var lines []slope
	for _, name := range v.Names() {
		l := slope{Name: name, Color: v.Color(name)}
		for _, of := range []struct {
			metric string
			into   *string
		}{{RRP50, &l.RR}, {CRRRate, &l.CRR}, {ConnRate, &l.Conn}, {UDPRate, &l.UDP}} {
			iv, rules := PerRule(v.Result, name, of.metric)
			*of.into = "–"
			if iv.N > 0 {
				*of.into = inNanoseconds(iv)
				l.Rules = chart.Counted(float64(rules))
			}
		}
		if l.Rules != "" {
			lines = append(lines, l)
		}
	}
	return lines
}

// application is one target's application loop.
type application struct {
	Rules, Name, Color, Loop string
	P50, P90, P99, P999      string
	Rate, Added              string
}

// Applications is the table of the application loop, by the way of asking.
func (v view) Applications() []application {
	var lines []application
	for _, loop := range []struct{ kind, words string }{
		{"app", "on one connection"}, {"app_connect", "a connection a request"}, {"app_rated", "at a fixed rate"},
	} {
		for _, s := range v.sweep() {
			for _, name := range v.Names() {
				if _, ok := v.find(name, s, loop.kind+"_p50"); !ok {
					continue
				}
				l := application{Rules: chart.Counted(float64(s.Rules)), Name: name, Color: v.Color(name), Loop: loop.words}
				for suffix, into := range map[string]*string{"_p50": &l.P50, "_p90": &l.P90, "_p99": &l.P99, "_p999": &l.P999, "_rate": &l.Rate} {
					*into = v.value(name, s, loop.kind+suffix)
				}
				if iv := Added(v.Result, name, s.Case(), loop.kind+"_p50"); iv.N > 0 {
					l.Added = signed(iv.Median) + " " + between(iv.Lo, iv.Hi)
				}
				lines = append(lines, l)
			}
		}
	}
	return lines
}

// policedBlock is a metric of the table of all rows.
type policedBlock struct {
	Title, Unit string
	Lines       []policedRow
}

// policedRow is a row with its case.
type policedRow struct {
	Case string
	chart.Line
}

// Blocks are all rows, by metric.
func (v view) Blocks() []policedBlock {
	titles := map[string]stats.Metric{
		RRAdded: {Title: "Added to a round trip, 1024 B", Unit: "µs"}, RR1Added: {Title: "Added to a round trip, 1 B", Unit: "µs"},
	}
	for _, m := range figures() {
		titles[m.Name] = m
	}
	var blocks []policedBlock
	for _, row := range v.Summary {
		if isOtherName(row.Case) {
			continue
		}
		m, ok := titles[row.Metric]
		if !ok {
			m = stats.Metric{Title: row.Metric, Unit: row.Unit}
		}
		if len(blocks) == 0 || blocks[len(blocks)-1].Title != m.Title {
			blocks = append(blocks, policedBlock{Title: m.Title, Unit: row.Unit})
		}
		b := &blocks[len(blocks)-1]
		b.Lines = append(b.Lines, policedRow{row.Case, v.Line(row)})
	}
	return blocks
}

//go:embed page.html
var pageTemplate string

// viewOf prepares r for drawing.
func viewOf(r result.Result) view {
	v := chart.NewView(r, "", underTest(r))
	return newView(v)
}

// page writes r as one self-contained page.
func page(w io.Writer, r result.Result) error { return chart.Page(w, pageTemplate, viewOf(r)) }

// table writes the summary of r for a terminal.
func table(w io.Writer, r result.Result) error { return writeTable(w, viewOf(r)) }
