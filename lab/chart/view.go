package chart

import (
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// SampleTimes is how long samples took, where cases are too many to name.
func (v View) SampleTimes() string {
	var all []float64
	for _, s := range v.Samples {
		all = append(all, s.Duration)
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f to %.1f s, %d samples", slices.Min(all), slices.Max(all), len(all))
}

// View is a result prepared for drawing: the page asks it for its parts.
type View struct {
	result.Result
	names    []string // targets that have samples or are listed
	baseline string
	DUT      string
	Colors   map[string]string // CSS classes of targets that only this experiment has
}

// NewView prepares a complete result whose ratios are against baseline and whose verdict is
// about dut.
func NewView(r result.Result, baseline, dut string) View {
	return View{Result: r, names: stats.Names(r), baseline: baseline, DUT: dut}
}

// Baseline is the target that ratios are against.
func (v View) Baseline() string { return v.baseline }

// Sliced says whether the targets took turns in slices.
func (v View) Sliced() bool { return stats.Sliced(v.Result) }

// Row is the summary line of a target's metric.
func (v View) Row(target string, m stats.Metric) (result.Row, bool) {
	return stats.Find(v.Summary, target, m.Case, m.Name)
}

// Color is the CSS class with the colour of a target; names that the page does
// not know get spare colours in their order.
func (v View) Color(name string) string {
	if class, ok := v.Colors[name]; ok {
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
func (v View) Names() []string { return v.names }

// Wired says whether the bare wire was measured.
func (v View) Wired() bool { return slices.Contains(v.names, "wire") }

// Headline is the verdict's with its intervals set apart.
func (v View) Headline() template.HTML {
	escaped := template.HTMLEscapeString(Glue(v.Verdict.Headline))
	return template.HTML(intervals().ReplaceAllString(escaped, `<span class="iv">$0</span>`))
}

// intervals matches "[1.01, 1.04]" and "[−0.05, +0.09]".
func intervals() *regexp.Regexp { return regexp.MustCompile(`\[[-−+0-9.]+, [-−+0-9.]+\]`) }

// Lead is what follows the verdict's headline.
func (v View) Lead() string { return Glue(v.Verdict.Explanation) }

// Finding is what the run shows on one topic.
type Finding struct {
	Topic string
	Texts []string
}

// Findings joins neighbours of one topic.
func (v View) Findings() []Finding {
	var out []Finding
	for _, f := range v.Verdict.Findings {
		text := Glue(upperFirst(f.Text))
		if last := len(out) - 1; last >= 0 && out[last].Topic == f.Topic {
			out[last].Texts = append(out[last].Texts, text)
			continue
		}
		out = append(out, Finding{f.Topic, []string{text}})
	}
	return out
}

func upperFirst(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// Card is one key figure.
type Card struct {
	Title, Value, Unit string
	Note               string // the ratio in words
	Class              string // "good", "bad" or "even"
	Strip              template.HTML
}
