package attack

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// view is a result of the attack experiment prepared for drawing.
type view struct{ chart.View }

func (v view) outcome(name, caseName string) Outcome {
	return OutcomeOf(v.Result, name, caseName)
}

// attackCell is the verdict on an attack on a target.
type attackCell struct{ Class, Word, Detail string }

// verdict of an attack on a target, in words.
func (v view) verdict(name, caseName string) attackCell {
	switch v.outcome(name, caseName) {
	case AttackNotApplicable:
		return attackCell{"dim", "not applicable", WhyNot(v.Result, name, caseName)}
	case Failed:
		return attackCell{"bad", "failed", refuse(v.Result, name, caseName)}
	case Held:
		return attackCell{"good", "holds", ""}
	case AttackUnclear:
		words, details := lossWords(Unclear(v.Result, name, caseName))
		return attackCell{"dim", "unclear: " + words, details + "; so are unattacked pairs by chance"}
	case AttackLost:
		words, details := lossWords(Losses(v.Result, name, caseName))
		return attackCell{"bad", "loses " + words, details}
	}
	return attackCell{"dim", "–", ""}
}

// lossWords are what is lost, in a word each and with figures.
func lossWords(losses []Loss) (words, details string) {
	var nouns, figures []string
	for _, loss := range losses {
		nouns, figures = append(nouns, lossNoun(loss.Metric)), append(figures, LossWords(loss))
	}
	return strings.Join(nouns, ", "), strings.Join(figures, "; ")
}

// lossNoun is what is lost, in a word.
func lossNoun(metric string) string {
	return map[string]string{
		Crossed: "isolation", KeptTCP: "throughput", KeptRR: "latency", KeptConnections: "new connections",
		LostConnections: "connections", Recovered: "time",
	}[metric]
}

// attackLine is an attack in the table of verdicts.
type attackLine struct {
	Case, Title string
	Cells       []attackCell
}

// Verdicts is the table: an attack a line, a target a column.
func (v view) Verdicts() []attackLine {
	var lines []attackLine
	for _, caseName := range stats.Cases(v.Result) {
		l := attackLine{Case: caseName, Title: v.Parameters.Text(titleParameter(caseName))}
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
func (v view) Heads() []string {
	heads := []string{"rounds", "sent"}
	for _, limit := range Limits(v.Result) {
		heads = append(heads, map[string]string{
			Crossed: "crossed", KeptTCP: "TCP kept", KeptRR: "round trip", KeptConnections: "new conn. kept",
			LostConnections: "conn. lost", Recovered: "recovered, s",
		}[limit.Metric])
	}
	return heads
}

// Limits are what has to be kept, under the heads.
func (v view) Limits() []string {
	limits := []string{"", ""}
	for _, limit := range Limits(v.Result) {
		sign := "≤ "
		if limit.AtLeast {
			sign = "≥ "
		}
		limits = append(limits, sign+strconv.FormatFloat(limit.Limit, 'g', -1, 64))
	}
	return limits
}

// Columns is how many columns figures take.
func (v view) Columns() int { return len(v.Heads()) }

// Figures is the table of all metrics.
func (v view) Figures() []attackFigures {
	var lines []attackFigures
	for _, caseName := range stats.Cases(v.Result) {
		for i, name := range v.Names() {
			lines = append(lines, v.figuresOf(caseName, name, i == 0))
		}
	}
	return lines
}

func (v view) figuresOf(caseName, name string, first bool) attackFigures {
	l := attackFigures{Case: caseName, Target: name, Color: v.Color(name), First: first}
	if !v.outcome(name, caseName).Made() {
		cell := v.verdict(name, caseName)
		if l.Why = cell.Word; cell.Detail != "" {
			l.Why += ": " + cell.Detail
		}
		return l
	}
	lost := Losses(v.Result, name, caseName)
	sent, _ := stats.Find(v.Summary, name, caseName, Sent)
	l.Cells = []attackFigure{{"dim", fmt.Sprint(len(Attacks(v.Result, name, caseName)))}, {"dim", stats.In(sent.Median, "count")}}
	for _, limit := range Limits(v.Result) {
		row, ok := stats.Find(v.Summary, name, caseName, limit.Metric)
		cell := attackFigure{Value: "–"}
		if ok {
			cell.Value = attackValue(row)
			if slices.ContainsFunc(lost, func(l Loss) bool { return l.Metric == limit.Metric }) {
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
func (v view) Cards() []chart.Card {
	var cards []chart.Card
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
			case Held:
				held++
			case AttackUnclear:
				open++
			}
			row, _ := stats.Find(v.Summary, name, caseName, Crossed)
			crossed += row.Median
		}
		if made == 0 {
			continue
		}
		c := chart.Card{Title: name, Value: fmt.Sprint(held), Unit: fmt.Sprintf("of %d attacks", made), Class: "good", Note: "no packet crossed"}
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
func (v view) Confidence() string {
	return chart.Glue("Kept figures are ratios to the same pair just before the attack and after it, of the honest pair that lost more, as medians over rounds. Packets and connections are sums over rounds, times to recover the longest. " + v.chances())
}

// chances say how far apart unattacked slices are by themselves.
func (v view) chances() string {
	var words []string
	for _, name := range v.Names() {
		var of []string
		for _, limit := range Limits(v.Result) {
			if chance, known := Chance(v.Result, name, limit); known && limit.Control != "" {
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
func (v view) Lengths() string {
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
func (v view) Picture() string {
	return `same1, attacker, loose ─── host A ══ switch ══ host B ─── same2      segment red, the attacker's
other1, bystander ──────── host A      ║       host B ─── other2     segment blue, another tenant's
outside ────────────────── host A   stranger
The ports of loose and bystander are not guarded; all others take their guest's own addresses alone.`
}

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
