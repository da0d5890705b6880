package report

import (
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// view is a result prepared for drawing: the page asks it for its parts.
type view struct {
	result.Result
	names    []string // targets that have samples or are listed
	baseline string
	dut      string
	colors   map[string]string // CSS classes of targets that only this experiment has
}

// newView prepares a complete result whose ratios are against baseline and whose verdict is
// about dut.
func newView(r result.Result, baseline, dut string) view {
	return view{Result: r, names: stats.Names(r), baseline: baseline, dut: dut}
}

// Baseline is the target that ratios are against.
func (v view) Baseline() string { return v.baseline }

// Sliced says whether the targets took turns in slices.
func (v view) Sliced() bool { return stats.Sliced(v.Result) }

// row is the summary line of a target's metric.
func (v view) row(target string, m stats.Metric) (result.Row, bool) {
	return stats.Find(v.Summary, target, m.Case, m.Name)
}

// Color is the CSS class with the colour of a target; names that the page does
// not know get spare colours in their order.
func (v view) Color(name string) string {
	if class, ok := v.colors[name]; ok {
		return class
	}
	if name == stats.Limit && !v.Wired() {
		return "k-wire"
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
