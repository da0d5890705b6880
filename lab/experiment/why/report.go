package why

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/experiment/why/cause"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/turns"
)

//go:embed page.html
var pageTemplate string

func metrics() []stats.Metric {
	return []stats.Metric{
		{Name: measure.TCPThroughput, Case: caseTCP, Unit: "Gbit/s", Title: "TCP throughput", Higher: true},
		{Name: measure.RRP50, Case: caseRR, Unit: "µs", Title: "TCP round trip p50, 1 B"},
	}
}

// summarise makes a row of each target, against what it is compared with: a flipped path against the same without that
// flip, the path itself against the one beside it.
func summarise(r result.Result) (rows []result.Row) {
	slow, plain := paths(r)
	for _, m := range metrics() {
		for _, t := range r.Targets {
			row, ok := turns.Row(r, t.Name, m)
			if !ok {
				continue
			}
			base := plain
			if t.Name != slow {
				base = withoutLast(r, t.Name)
			}
			if base != "" {
				turns.Against(&row, base, stats.Values(r, t.Name, m.Case, m.Name), stats.Values(r, base, m.Case, m.Name))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// withoutLast is the target with all flips of another but the last, as overlay-1 of overlay-1-2; "" where there is none.
func withoutLast(r result.Result, name string) string {
	base := name[:max(0, strings.LastIndexByte(name, '-'))]
	if slices.ContainsFunc(r.Targets, func(t result.Target) bool { return t.Name == base }) {
		return base
	}
	return ""
}

// verdict says what explains the loss, how much of it, and how sure that is.
func verdict(r result.Result) result.Verdict {
	e := evidence{diagnose.Summed(r, summarise, "")}
	v := result.Verdict{Findings: diagnose.Collect(e.Failed, e.Stolen, e.FewRounds, e.causes, e.others)}
	slow, plain := paths(r)
	rounds := len(stats.Values(r, slow, kindOf(r), metricOf(r)))
	switch {
	case rounds == 0:
		v.Refuse("nothing was measured", "")
	case rounds < stats.LeastPairs:
		v.Refuse(fmt.Sprintf("%d rounds are fewer than the %d that a proof needs", rounds, stats.LeastPairs), "Raise --rounds.")
	default:
		v.Headline = e.headline(slow, plain, stats.Center(gains(r, plain, slow)))
	}
	return v
}

type evidence struct{ diagnose.Evidence }

func metricOf(r result.Result) string {
	metric, _ := figureOf(kindOf(r))
	return metric
}

// words are what the loss is in.
func words(r result.Result) string {
	if kindOf(r) == caseRR {
		return "round trips"
	}
	return "TCP throughput"
}

// factor is the ratio that a logarithm is of.
func factor(log float64) string { return stats.Ratio(math.Exp(log)) }

func (e evidence) headline(slow, plain string, loss stats.Interval) string {
	var proved []string
	for _, c := range e.Result.Causes {
		if c.Proved {
			proved = append(proved, fmt.Sprintf("%s of %s explains %s", c.Setting, c.Object, percent(c)))
		}
	}
	of := " of what the flips gain in " + words(e.Result)
	if _, beside := lossOf(e.Result); beside {
		of = fmt.Sprintf(" of what %s loses against %s in %s (%s)", slow, plain, words(e.Result), factor(-loss.Median))
	}
	switch {
	case len(proved) > 0:
		return strings.Join(proved, "; ") + of + "."
	case plain == "" || loss.N == 0:
		return fmt.Sprintf("No cause was proved: nothing that was flipped makes %s distinguishably better.", slow)
	case loss.Lo <= 0:
		return fmt.Sprintf("There is nothing to explain: %s is not distinguishably slower than %s in %s (%s).", slow, plain, words(e.Result), factor(-loss.Median))
	}
	return fmt.Sprintf("No cause was proved for what %s loses against %s in %s (%s): a tunnel's own work may be all of it.", slow, plain, words(e.Result), factor(-loss.Median))
}

// percent is a share with its interval.
func percent(c result.Cause) string {
	return fmt.Sprintf("%.0f %% [%.0f, %.0f]", 100*c.Share, 100*c.Lo, 100*c.Hi)
}

// causes are those that were flipped, and what they are for.
func (e evidence) causes() (out []result.Finding) {
	for _, c := range e.Result.Causes {
		if c.Target == "" {
			continue
		}
		text := "not proved"
		if c.Proved {
			text = "proved, " + percent(c)
		}
		text = fmt.Sprintf("%s of %s, %s: %s", c.Setting, c.Object, text, c.Why)
		if c.Proved {
			text += ". Flipped by " + strings.Join(c.Commands, "; ")
		}
		out = append(out, result.Finding{Topic: "Cause", Text: text + "."})
	}
	if slices.ContainsFunc(e.Result.Causes, func(c result.Cause) bool { return c.Proved && c.Lo > 1 }) {
		out = append(out, result.Finding{Topic: "More than all", Text: "a share above 100 % is of a cause that slows the path beside it too."})
	}
	return out
}

// others are those that were not flipped, with what to try.
func (e evidence) others() (out []result.Finding) {
	for _, c := range e.Result.Causes {
		if c.Target == "" {
			out = append(out, result.Finding{Topic: "To try", Text: fmt.Sprintf("%s of %s: %s. %s.", c.Setting, c.Object, c.Why, strings.Join(c.Commands, "; "))})
		}
	}
	return out
}

// view is a result prepared for drawing.
type view struct{ turns.View }

func viewOf(r result.Result) view {
	slow, plain := paths(r)
	v := turns.View{View: chart.NewView(r, plain, slow), Metrics: metrics()}
	for _, role := range []string{cause.Client, cause.Server} {
		v.Watched = append(v.Watched, turns.Watched{Role: role, Words: words(r)})
	}
	return view{v}
}

// Cards are the causes that were proved.
func (v view) Cards() (cards []chart.Card) {
	for _, c := range v.Causes {
		if c.Proved {
			cards = append(cards, chart.Card{Title: c.Setting + " of " + c.Object, Value: fmt.Sprintf("%.0f", 100*c.Share), Unit: "% of the loss", Class: "bad", Note: fmt.Sprintf("[%.0f, %.0f] %%", 100*c.Lo, 100*c.Hi)})
		}
	}
	return cards
}

// Bars draw the figure of each target.
func (v view) Bars() chart.Figure {
	var bars []turns.Bar
	title, unit := "", ""
	for _, row := range v.Summary {
		for _, m := range metrics() {
			if m.Name == row.Metric {
				title, unit = m.Title, m.Unit
			}
		}
		bar := turns.Bar{Name: row.Target, Color: v.Color(row.Target), Row: row, Same: !row.Distinguishable}
		if row.Baseline != "" && row.Ratio > 0 {
			bar.Note = stats.Ratio(row.Ratio)
		}
		bars = append(bars, bar)
	}
	return turns.Bars(title, unit+"; right: against the same without the flip, or the path beside it", bars)
}

// causeLine is a cause in the table.
type causeLine struct {
	Setting, Object, State, Share, Why, Target string
	Commands                                   []string
}

// Lines are all causes.
func (v view) Lines() (lines []causeLine) {
	for _, c := range v.Causes {
		l := causeLine{Setting: c.Setting, Object: c.Object, Why: c.Why, Target: c.Target, Commands: c.Commands, State: "not flipped", Share: "–"}
		if c.Target != "" {
			l.State, l.Share = "not proved", percent(c)
		}
		if c.Proved {
			l.State = "proved"
		}
		lines = append(lines, l)
	}
	return lines
}

// page writes r as one self-contained page.
func page(w io.Writer, r result.Result) error {
	return chart.Page(w, turns.Pieces+pageTemplate, viewOf(r))
}

// table writes the summary of r for a terminal.
func table(w io.Writer, r result.Result) error {
	var b strings.Builder
	turns.WriteRows(&b, r.Summary, metrics())
	if len(r.Causes) > 0 {
		fmt.Fprintf(&b, "%-18s %-34s %-12s %s\n", "Cause", "of", "", "share")
		for _, l := range viewOf(r).Lines() {
			fmt.Fprintf(&b, "  %-16s %-34s %-12s %s\n", l.Setting, l.Object, l.State, l.Share)
		}
		b.WriteByte('\n')
	}
	return chart.WriteText(w, &b, r.Verdict)
}
