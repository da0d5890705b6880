package report

import (
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// view is a result prepared for drawing: the page asks it for its parts.
type view struct {
	result.Result
	names []string // targets that have samples or are listed
	dut   string
}

// complete fills what an older or interrupted run may have left out.
func complete(r result.Result) result.Result {
	if len(r.Summary) == 0 {
		r.Summary = stats.Summarise(r)
	}
	if r.Verdict.Sentence == "" {
		r.Verdict = diagnose.Verdict(r)
	}
	return r
}

func newView(r result.Result) view {
	r = complete(r)
	return view{Result: r, names: stats.Names(r), dut: diagnose.DUT(r)}
}

// baseline is the target that ratios are against.
func (v view) baseline() string { return stats.BaselineOf(v.Result) }

// Baseline is baseline for the page.
func (v view) Baseline() string { return v.baseline() }

// Sliced says whether the targets took turns in slices.
func (v view) Sliced() bool { return stats.Sliced(v.Result) }

// row is the summary line of a target's metric.
func (v view) row(target string, m stats.Metric) (result.Row, bool) {
	return stats.Find(v.Summary, target, m.Case, m.Name)
}

// metric looks a metric up by case and name.
func metric(caseName, name string) stats.Metric {
	all := stats.Metrics()
	i := slices.IndexFunc(all, func(m stats.Metric) bool { return m.Case == caseName && m.Name == name })
	return all[i]
}

// color is the CSS class with the colour of a target; names that the page does
// not know get spare colours in their order.
func (v view) color(name string) string {
	switch name {
	case stats.CacheOff:
		return "k-wire"
	case stats.Limit: // of lab rfc2544 it is the wire's
		if !v.Wired() {
			return "k-wire"
		}
	case stats.CacheOn:
		return "k-selvage"
	}
	known := []string{"wire", "plain", "kernel", "selvage", "ovs"}
	if slices.Contains(known, name) {
		return "k-" + name
	}
	spare := 0
	for _, other := range v.names {
		if other == name {
			break
		}
		if !slices.Contains(known, other) {
			spare++
		}
	}
	return fmt.Sprintf("k-x%d", spare%3)
}

// Names are the targets in the result's order.
func (v view) Names() []string { return v.names }

// Wired says whether the bare wire was measured.
func (v view) Wired() bool { return slices.Contains(v.names, "wire") }

// Color is tint for the page.
func (v view) Color(name string) string { return v.color(name) }

// Headline is the verdict's first sentence with its intervals set apart.
func (v view) Headline() template.HTML {
	first, _ := v.split()
	escaped := template.HTMLEscapeString(glue(first))
	return template.HTML(intervals().ReplaceAllString(escaped, `<span class="iv">$0</span>`))
}

// intervals matches "[1.01, 1.04]" and "[−0.05, +0.09]".
func intervals() *regexp.Regexp { return regexp.MustCompile(`\[[-−+0-9.]+, [-−+0-9.]+\]`) }

// Lead is what follows the verdict's first sentence.
func (v view) Lead() string {
	_, rest := v.split()
	return glue(rest)
}

func (v view) split() (first, rest string) {
	first, rest, found := strings.Cut(v.Verdict.Sentence, ". ")
	if found {
		first += "."
	}
	return first, rest
}

// finding is what the run shows on one topic.
type finding struct {
	Topic string
	Texts []string
}

// Findings splits "Topic: text" and joins neighbours of one topic; a finding
// without a topic keeps its text.
func (v view) Findings() []finding {
	var out []finding
	for _, s := range v.Verdict.Findings {
		topic, text, found := strings.Cut(s, ": ")
		if !found || len(topic) > 24 {
			topic, text = "", s
		}
		text = glue(upperFirst(text))
		if last := len(out) - 1; last >= 0 && out[last].Topic == topic {
			out[last].Texts = append(out[last].Texts, text)
			continue
		}
		out = append(out, finding{topic, []string{text}})
	}
	return out
}

func upperFirst(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// card is one key figure.
type card struct {
	Title, Value, Unit string
	Note               string // the ratio in words
	Class              string // "good", "bad" or "even"
	Strip              template.HTML
}

// Cards are the subject's key figures.
func (v view) Cards() []card {
	var cards []card
	for _, m := range []stats.Metric{
		metric("tcp", "tcp_throughput"), metric("tcp", "cpu_per_gb"), metric("rr-1", "rr_p50"), metric("udp", "udp_pps"), metric(stats.TransitEncap, stats.NDR),
	} {
		row, ok := v.row(v.dut, m)
		if !ok {
			continue
		}
		c := card{Title: cardTitle(m), Value: stats.In(row.Median, row.Unit), Unit: m.Unit, Class: "even", Strip: v.strip(m)}
		switch {
		case row.Ratio == 0:
			c.Note = "no ratio to " + v.baseline()
		case !row.Distinguishable:
			c.Note = glue(stats.Ratio(row.Ratio)) + " " + v.baseline() + ", no difference shown"
		default:
			change := stats.ChangeOf(row, m.Higher)
			c.Class = map[stats.Change]string{stats.Better: "good", stats.Worse: "bad"}[change]
			c.Note = glue(stats.Ratio(row.Ratio)) + " " + v.baseline() + ", " + change.String()
		}
		cards = append(cards, c)
	}
	return cards
}

func cardTitle(m stats.Metric) string {
	if m.Name == "rr_p50" {
		return "Request/response p50"
	}
	if m.Name == stats.NDR {
		return "Transit, no-drop rate"
	}
	return m.Title
}
