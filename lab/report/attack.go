package report

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// attackView is a result of the attack experiment prepared for drawing.
type attackView struct{ view }

func (v attackView) outcome(name, caseName string) stats.AttackOutcome {
	return stats.OutcomeOf(v.Result, name, caseName)
}

// attackCell is the verdict on an attack on a target.
type attackCell struct{ Class, Word, Detail string }

// verdict of an attack on a target, in words.
func (v attackView) verdict(name, caseName string) attackCell {
	switch v.outcome(name, caseName) {
	case stats.AttackNotApplicable:
		return attackCell{"dim", "not applicable", stats.WhyNot(v.Result, name, caseName)}
	case stats.AttackFailed:
		return attackCell{"bad", "failed", stats.RefuseAttack(v.Result, name, caseName)}
	case stats.AttackHeld:
		return attackCell{"good", "holds", ""}
	case stats.AttackUnclear:
		words, details := lossWords(stats.Unclear(v.Result, name, caseName))
		return attackCell{"dim", "unclear: " + words, details + "; so are unattacked pairs by chance"}
	case stats.AttackLost:
		words, details := lossWords(stats.Losses(v.Result, name, caseName))
		return attackCell{"bad", "loses " + words, details}
	}
	return attackCell{"dim", "–", ""}
}

// lossWords are what is lost, in a word each and with figures.
func lossWords(losses []stats.Loss) (words, details string) {
	var nouns, figures []string
	for _, loss := range losses {
		nouns, figures = append(nouns, lossNoun(loss.Metric)), append(figures, diagnose.LossWords(loss))
	}
	return strings.Join(nouns, ", "), strings.Join(figures, "; ")
}

// lossNoun is what is lost, in a word.
func lossNoun(metric string) string {
	return map[string]string{
		stats.Crossed: "isolation", stats.KeptTCP: "throughput", stats.KeptRR: "latency", stats.KeptConnections: "new connections",
		stats.LostConnections: "connections", stats.Recovered: "time",
	}[metric]
}

// attackLine is an attack in the table of verdicts.
type attackLine struct {
	Case, Title string
	Cells       []attackCell
}

// Verdicts is the table: an attack a line, a target a column.
func (v attackView) Verdicts() []attackLine {
	var lines []attackLine
	for _, caseName := range stats.Cases(v.Result) {
		l := attackLine{Case: caseName, Title: v.Parameters[stats.AttackTitle+caseName]}
		for _, name := range v.Names() {
			l.Cells = append(l.Cells, v.verdict(name, caseName))
		}
		lines = append(lines, l)
	}
	return lines
}

// attackFigure is one figure of a line of the table of figures.
type attackFigure struct{ Class, Value string }

// attackFigures is a target's line of an attack.
type attackFigures struct {
	Case, Target, Color string
	First               bool
	Why                 string // why there are no figures
	Cells               []attackFigure
}

// Heads are those of the table of figures, with what has to be kept.
func (v attackView) Heads() []string {
	heads := []string{"rounds", "sent"}
	for _, limit := range stats.AttackLimits(v.Result) {
		heads = append(heads, map[string]string{
			stats.Crossed: "crossed", stats.KeptTCP: "TCP kept", stats.KeptRR: "round trip", stats.KeptConnections: "new conn. kept",
			stats.LostConnections: "conn. lost", stats.Recovered: "recovered, s",
		}[limit.Metric])
	}
	return heads
}

// Limits are what has to be kept, under the heads.
func (v attackView) Limits() []string {
	limits := []string{"", ""}
	for _, limit := range stats.AttackLimits(v.Result) {
		sign := "≤ "
		if limit.AtLeast {
			sign = "≥ "
		}
		limits = append(limits, sign+strconv.FormatFloat(limit.Limit, 'g', -1, 64))
	}
	return limits
}

// Columns is how many columns figures take.
func (v attackView) Columns() int { return len(v.Heads()) }

// Figures is the table of all metrics.
func (v attackView) Figures() []attackFigures {
	var lines []attackFigures
	for _, caseName := range stats.Cases(v.Result) {
		for i, name := range v.Names() {
			lines = append(lines, v.figuresOf(caseName, name, i == 0))
		}
	}
	return lines
}

func (v attackView) figuresOf(caseName, name string, first bool) attackFigures {
	l := attackFigures{Case: caseName, Target: name, Color: v.Color(name), First: first}
	if !v.outcome(name, caseName).Made() {
		cell := v.verdict(name, caseName)
		l.Why = strings.TrimSuffix(cell.Word+": "+cell.Detail, ": ")
		return l
	}
	lost := stats.Losses(v.Result, name, caseName)
	sent, _ := stats.Find(v.Summary, name, caseName, stats.Sent)
	l.Cells = []attackFigure{{"dim", fmt.Sprint(len(stats.Attacks(v.Result, name, caseName)))}, {"dim", stats.In(sent.Median, "count")}}
	for _, limit := range stats.AttackLimits(v.Result) {
		row, ok := stats.Find(v.Summary, name, caseName, limit.Metric)
		cell := attackFigure{Value: "–"}
		if ok {
			cell.Value = attackValue(row)
			if slices.ContainsFunc(lost, func(l stats.Loss) bool { return l.Metric == limit.Metric }) {
				cell.Class = "bad"
			}
		}
		l.Cells = append(l.Cells, cell)
	}
	return l
}

// attackValue writes a figure: counts whole, ratios with two decimals.
func attackValue(row result.Row) string {
	switch {
	case row.Unit == "packets" || row.Unit == "count":
		return stats.In(row.Median, "count")
	case row.Unit == "×" && row.Median < 100:
		return fmt.Sprintf("%.2f", row.Median)
	case row.Unit == "s":
		return fmt.Sprintf("%.1f", math.Round(row.Median*10)/10)
	}
	return stats.Figure(row.Median)
}

// Cards say how many attacks each target withstands.
func (v attackView) Cards() []card {
	var cards []card
	for _, name := range v.Names() {
		made, held, open := 0, 0, 0
		crossed := 0.0
		for _, caseName := range stats.Cases(v.Result) {
			at := v.outcome(name, caseName)
			if !at.Made() {
				continue
			}
			made++
			switch at {
			case stats.AttackHeld:
				held++
			case stats.AttackUnclear:
				open++
			}
			row, _ := stats.Find(v.Summary, name, caseName, stats.Crossed)
			crossed += row.Median
		}
		if made == 0 {
			continue
		}
		c := card{Title: name, Value: fmt.Sprint(held), Unit: fmt.Sprintf("of %d attacks", made), Class: "good", Note: "no packet crossed"}
		if crossed > 0 {
			c.Note = stats.In(crossed, "count") + " packets crossed"
		}
		if open > 0 {
			c.Note += fmt.Sprintf("; %d unclear", open)
		}
		if held+open < made {
			c.Class = "bad"
		}
		cards = append(cards, c)
	}
	return cards
}

// Confidence says what the figures are over.
func (v attackView) Confidence() string {
	return glue("Kept figures are ratios to the same pair just before the attack and after it, of the honest pair that lost more, as medians over rounds. Packets and connections are sums over rounds, times to recover the longest. " + v.chances())
}

// chances say how far apart unattacked slices are by themselves.
func (v attackView) chances() string {
	var words []string
	for _, name := range v.Names() {
		var of []string
		for _, limit := range stats.AttackLimits(v.Result) {
			if chance, known := stats.Chance(v.Result, name, limit); known && limit.Control != "" {
				of = append(of, fmt.Sprintf("%s %s ×", lossNoun(limit.Metric), stats.Figure(chance)))
			}
		}
		if len(of) > 0 {
			words = append(words, name+" "+strings.Join(of, ", "))
		}
	}
	if len(words) == 0 {
		return ""
	}
	return "Unattacked pairs differ from themselves, one time in fifty or at worst, by: " + strings.Join(words, "; ") + ". What is within that is unclear."
}

// Lengths is what one attack took.
func (v attackView) Lengths() string {
	var all []float64
	for _, s := range v.Samples {
		if s.Error == "" && s.Duration > 0 {
			all = append(all, s.Duration)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f s an attack, unattacked slices included", stats.Median(all).Median)
}

// Picture is the network.
func (v attackView) Picture() string {
	return `same1, attacker, loose ─── host A ══ switch ══ host B ─── same2      segment red, the attacker's
other1, bystander ──────── host A      ║       host B ─── other2     segment blue, another tenant's
outside ────────────────── host A   stranger
The ports of loose and bystander are not guarded; all others take their guest's own addresses alone.`
}

//go:embed attack.html
var attackPage string

// attackViewOf prepares r for drawing.
func attackViewOf(r result.Result) attackView {
	v := newView(r, "", diagnose.AttackDUT(r))
	return attackView{v}
}

// AttackPage writes r as one self-contained page.
func AttackPage(w io.Writer, r result.Result) error { return Page(w, attackPage, attackViewOf(r)) }

// AttackTable writes the summary of r for a terminal.
func AttackTable(w io.Writer, r result.Result) error { return attackTable(w, attackViewOf(r)) }

// AttackExperiment is the experiment.
func AttackExperiment() experiment.Experiment {
	return experiment.Experiment{Name: stats.Attack, Summarise: stats.AttackRows, Verdict: diagnose.AttackVerdict, Page: AttackPage, Table: AttackTable}
}
