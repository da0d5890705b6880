package report

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// policedView is a result of the latency experiment prepared for drawing.
type policedView struct {
	view
	breakdowns []stats.Breakdown // of all targets, of whom Selvage alone can be broken down
}

func newPolicedView(v view) policedView {
	p := policedView{view: v}
	for _, name := range v.Names() {
		p.breakdowns = append(p.breakdowns, stats.Breakdowns(v.Result, name)...)
	}
	return p
}

func (v policedView) find(name string, s stats.Setting, metric string) (result.Row, bool) {
	return stats.Find(v.Summary, name, s.Case(), metric)
}

// value is the median of a metric, "–" when it was not measured.
func (v policedView) value(name string, s stats.Setting, metric string) string {
	row, ok := v.find(name, s, metric)
	if !ok {
		return "–"
	}
	return stats.In(row.Median, row.Unit)
}

// sweep is the numbers of rules between two hosts, 0 first, rising.
func (v policedView) sweep() []stats.Setting {
	return slices.DeleteFunc(stats.Settings(v.Result), func(s stats.Setting) bool {
		return !s.InSweep()
	})
}

// most is the subject's setting with the most rules.
func (v policedView) most() (most stats.Setting, ok bool) {
	for _, s := range v.sweep() {
		if _, found := v.find(v.dut, s, stats.RRP50); found && s.Rules > 0 {
			most, ok = s, true
		}
	}
	return most, ok
}

// study is the setting of the scenarios between two hosts with a firewall.
func (v policedView) study() stats.Setting {
	return stats.Setting{Scenario: stats.TwoHosts, Rules: stats.ScenarioRules, Pairs: 1}
}

// rulesWords is a number of rules: "no firewall", "1 rule", "100 rules".
func rulesWords(n int) string {
	switch n {
	case 0:
		return "no firewall"
	case 1:
		return "1 rule"
	}
	return counted(float64(n)) + " rules"
}

// signed is a difference with its sign, to hundredths below 10: "+0.30", "−0.10", "0".
func signed(v float64) string {
	words := strings.TrimPrefix(stats.Figure(v), "-")
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

// difference is a difference with its interval: "+0.30 [+0.10, +0.50]".
func difference(row result.Row) string { return signed(row.Median) + " " + between(row.Lo, row.Hi) }

// Cards are the subject's key figures.
func (v policedView) Cards() []card {
	var cards []card
	settings := []stats.Setting{v.study()}
	if most, ok := v.most(); ok && most.Rules > stats.ScenarioRules {
		settings = append(settings, most)
	}
	for _, s := range settings {
		if row, ok := v.find(v.dut, s, stats.RRAdded); ok {
			c := card{
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
	if v.dut == stats.Nftables {
		return cards
	}
	last := settings[len(settings)-1]
	for _, of := range []struct{ metric, title string }{
		{stats.ConnRate, "Connections, many at once"}, {stats.CRRRate, "Connections, one at a time"}, {stats.UDPRate, "UDP packets"},
	} {
		if c, ok := v.rateCard(last, of.metric, of.title+", "+rulesWords(last.Rules)); ok {
			cards = append(cards, c)
		}
	}
	return cards[:min(len(cards), 4)]
}

// rateCard is a rate of the subject, with its ratios to itself without a firewall and to
// nftables.
func (v policedView) rateCard(s stats.Setting, metric, title string) (card, bool) {
	row, ok := v.find(v.dut, s, metric)
	if !ok {
		return card{}, false
	}
	c := card{Title: title, Value: stats.In(row.Median, row.Unit), Unit: row.Unit, Class: "even"}
	var notes []string
	if row.Ratio > 0 && row.Baseline != "" {
		notes = append(notes, glue(stats.Ratio(row.Ratio))+" without a firewall")
	}
	if iv := stats.Rival(v.Result, v.dut, s.Case(), metric); iv.N > 0 {
		notes = append(notes, glue(stats.Ratio(iv.Median))+" nftables")
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
	off, on stats.Setting
}

// scenarios are the study's, those with several pairs last.
func (v policedView) scenarios() []scenario {
	var all []scenario
	for _, s := range stats.Settings(v.Result) {
		if s.Rules != stats.ScenarioRules {
			continue
		}
		title := map[string]string{stats.SameHost: "On one host", stats.TwoHosts: "Between two hosts"}[s.Scenario]
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
func (v policedView) Scenarios() []scenarioLine {
	var lines []scenarioLine
	for _, s := range v.scenarios() {
		for _, name := range v.Names() {
			on, ok := v.find(name, s.on, stats.RRP50)
			if !ok {
				continue
			}
			l := scenarioLine{
				Title: s.Title, Name: name, Color: v.Color(name), Off: v.value(name, s.off, stats.RRP50), On: stats.In(on.Median, on.Unit),
				Added: "–", P99Off: v.value(name, s.off, "rr_p99"), P99On: v.value(name, s.on, "rr_p99"),
				TailOff: v.value(name, s.off, "rr_p9999"), TailOn: v.value(name, s.on, "rr_p9999"),
			}
			if row, ok := v.find(name, s.on, stats.RRAdded); ok {
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
func (v policedView) Sweep() []rulesLine {
	var lines []rulesLine
	for _, s := range v.sweep() {
		for _, name := range v.Names() {
			l := rulesLine{
				Rules: counted(float64(s.Rules)), Name: name, Color: v.Color(name), RR: v.value(name, s, stats.RRP50), Added: "–",
				CRR: v.value(name, s, stats.CRRRate), Conn: v.value(name, s, stats.ConnRate),
				UDP: v.value(name, s, stats.UDPRate), TCP: v.value(name, s, stats.Decisive),
				CRRRival: v.rival(name, s, stats.CRRRate), ConnRival: v.rival(name, s, stats.ConnRate), UDPRival: v.rival(name, s, stats.UDPRate),
			}
			if l.RR+l.CRR+l.Conn+l.UDP+l.TCP == "–––––" {
				continue
			}
			if row, ok := v.find(name, s, stats.RRAdded); ok {
				l.Added, l.Interval = signed(row.Median), between(row.Lo, row.Hi)
			}
			lines = append(lines, l)
		}
	}
	return lines
}

// rival is a metric as multiple of nftables', "" where there is none.
func (v policedView) rival(name string, s stats.Setting, metric string) string {
	iv := stats.Rival(v.Result, name, s.Case(), metric)
	if iv.N == 0 || name == stats.Nftables {
		return ""
	}
	return strings.TrimSuffix(stats.Ratio(iv.Median), " ×")
}

// slope is what one rule costs a target.
type slope struct{ Name, Color, Rules, RR, CRR, Conn, UDP string }

// nanoseconds is an interval of µs: of many rules each costs little.
func nanoseconds(iv stats.Interval) string {
	return strings.ReplaceAll(fmt.Sprintf("%s [%s, %s]", stats.Figure(1e3*iv.Median), stats.Figure(1e3*iv.Lo), stats.Figure(1e3*iv.Hi)), "-", "−")
}

// Slopes is the table of costs of a rule, in ns.
func (v policedView) Slopes() []slope {
	var lines []slope
	for _, name := range v.Names() {
		l := slope{Name: name, Color: v.Color(name)}
		for _, of := range []struct {
			metric string
			into   *string
		}{{stats.RRP50, &l.RR}, {stats.CRRRate, &l.CRR}, {stats.ConnRate, &l.Conn}, {stats.UDPRate, &l.UDP}} {
			iv, rules := stats.PerRule(v.Result, name, of.metric)
			*of.into = "–"
			if iv.N > 0 {
				*of.into = nanoseconds(iv)
				l.Rules = counted(float64(rules))
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
func (v policedView) Applications() []application {
	var lines []application
	for _, loop := range []struct{ kind, words string }{
		{"app", "on one connection"}, {"app_connect", "a connection a request"}, {"app_rated", "at a fixed rate"},
	} {
		for _, s := range v.sweep() {
			for _, name := range v.Names() {
				if _, ok := v.find(name, s, loop.kind+"_p50"); !ok {
					continue
				}
				l := application{Rules: counted(float64(s.Rules)), Name: name, Color: v.Color(name), Loop: loop.words}
				for suffix, into := range map[string]*string{"_p50": &l.P50, "_p90": &l.P90, "_p99": &l.P99, "_p999": &l.P999, "_rate": &l.Rate} {
					*into = v.value(name, s, loop.kind+suffix)
				}
				if iv := stats.Added(v.Result, name, s.Case(), loop.kind+"_p50"); iv.N > 0 {
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
	line
}

// Blocks are all rows, by metric.
func (v policedView) Blocks() []policedBlock {
	titles := map[string]stats.Metric{
		stats.RRAdded: {Title: "Added to a round trip, 1024 B", Unit: "µs"}, stats.RR1Added: {Title: "Added to a round trip, 1 B", Unit: "µs"},
	}
	for _, m := range stats.LatencyMetrics() {
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
		b.Lines = append(b.Lines, policedRow{row.Case, v.line(row)})
	}
	return blocks
}

//go:embed firewall_latency.html
var policedPage string

// latencyViewOf prepares r for drawing.
func latencyViewOf(r result.Result) policedView {
	v := newView(r, "", diagnose.LatencyDUT(r))
	return newPolicedView(v)
}

// LatencyPage writes r as one self-contained page.
func LatencyPage(w io.Writer, r result.Result) error { return Page(w, policedPage, latencyViewOf(r)) }

// LatencyTable writes the summary of r for a terminal.
func LatencyTable(w io.Writer, r result.Result) error { return policedTable(w, latencyViewOf(r)) }

// LatencyExperiment is the experiment.
func LatencyExperiment() experiment.Experiment {
	return experiment.Experiment{Name: stats.Latency, Summarise: stats.LatencyRows, Verdict: diagnose.LatencyVerdict, Page: LatencyPage, Table: LatencyTable}
}
