package chart

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Figure is one chart of the page; Wide is shown where there is room and Narrow
// on a phone. Charts that fit both have Wide only and Class "any".
type Figure struct {
	Title, Unit  string
	Wide, Narrow template.HTML
}

// Describe is a row in words, for tooltips and text alternatives.
func Describe(row result.Row) string {
	s := fmt.Sprintf("%s: median %s %s, interval %s to %s, n = %d", row.Target,
		stats.In(row.Median, row.Unit), row.Unit, stats.In(row.Lo, row.Unit), stats.In(row.Hi, row.Unit), row.N)
	if row.Baseline == "" || row.Ratio == 0 {
		return s
	}
	s += fmt.Sprintf(", %s %s, interval %.2f to %.2f", stats.Ratio(row.Ratio), row.Baseline, row.RatioLo, row.RatioHi)
	if !row.Distinguishable {
		s += ", not distinguishable"
	}
	return s
}

// RatioLabel is a row's ratio, marked ≈ where it is not distinguishable.
func RatioLabel(row result.Row) string { return ratioLabel(row, stats.Ratio) }

// BareRatioLabel is RatioLabel without the sign ×, for columns whose head has it.
func BareRatioLabel(row result.Row) string { return ratioLabel(row, stats.BareRatio) }

func ratioLabel(row result.Row, write func(float64) string) string {
	switch {
	case row.Baseline == "" && row.Ratio == 1:
		return "1"
	case row.Ratio == 0:
		return "–"
	case !row.Distinguishable:
		return "≈ " + write(row.Ratio)
	}
	return write(row.Ratio)
}

// RatioClass is the CSS class of that label.
func RatioClass(row result.Row) string {
	if row.Distinguishable && row.Ratio > 0 {
		return "ratio"
	}
	return "ratio same"
}

// MedianBars draws one metric: a bar a target from zero, its interval, its median
// and ratio, and a rule at the baseline's median.
func MedianBars(v View, m stats.Metric) (Figure, bool) {
	const width, left, right, pitch, thick = 360, 68, 228, 30, 15
	var rows []result.Row
	top := 0.0
	for _, name := range v.Names() {
		if row, ok := v.Row(name, m); ok {
			rows = append(rows, row)
			top = max(top, row.Hi)
		}
	}
	if len(rows) == 0 {
		return Figure{}, false
	}
	scale := func(x float64) float64 {
		if top == 0 {
			return left
		}
		return left + x/top*(right-left)
	}
	c := NewCanvas(width, float64(len(rows)*pitch+6))
	if base, ok := v.Row(v.Baseline(), m); ok {
		c.Line(scale(base.Median), 0, scale(base.Median), c.Height-4, "baseline")
	}
	var words []string
	for i, row := range rows {
		y := float64(i*pitch) + 4
		mid := y + thick/2.0 + 1
		c.Open(v.Color(row.Target), Describe(row))
		c.Rect(0, y-4, width, pitch, 0, "hit")
		c.Text(0, mid+4, "name", Brief(row.Target, 8))
		c.Rect(left, y+1, max(scale(row.Median)-left, 1), thick, 2, "bar")
		c.Whisker(scale(row.Lo), scale(row.Hi), mid)
		c.Text(289, mid+4, "value e", stats.In(row.Median, row.Unit))
		c.Text(358, mid+4, RatioClass(row)+" e", RatioLabel(row))
		c.Close()
		words = append(words, Describe(row))
	}
	better := "lower is better"
	if m.Higher {
		better = "higher is better"
	}
	return Figure{
		Title: m.Title, Unit: m.Unit + ", " + better,
		Wide: c.SVG("any", m.Title+" by target. "+strings.Join(words, ". ")),
	}, true
}

// stripReach is how far from the baseline a card's axis goes at most, as a ratio: what
// lies beyond is drawn at its end, or a slow path would crowd all others.
const stripReach = 1.6

// Strip is the small picture of a card: all tunnels' ratios on one logarithmic
// axis with the baseline at 1. The subject is named, others where there is room.
func (v View) Strip(m stats.Metric) template.HTML {
	const width, height, pad, room = 184, 46, 24, 50
	var rows []result.Row // the subject last, so that it is drawn on top
	reach := math.Log(1.15)
	for _, name := range append(slices.DeleteFunc(slices.Clone(v.Names()), func(name string) bool { return name == v.DUT }), v.DUT) {
		row, ok := v.Row(name, m)
		if !ok || row.RatioLo <= 0 || name == v.Baseline() || name == "wire" {
			continue
		}
		rows = append(rows, row)
		reach = max(reach, math.Abs(math.Log(row.RatioLo)), math.Abs(math.Log(row.RatioHi)))
	}
	if len(rows) == 0 {
		return ""
	}
	reach = min(reach, math.Log(stripReach))
	x := func(ratio float64) float64 {
		return width/2 + max(-1, min(1, math.Log(ratio)/reach))*(width/2-pad)
	}
	c := NewCanvas(width, height)
	c.Line(0, 23, width, 23, "axis")
	c.Line(x(1), 13, x(1), 33, "baseline")
	c.Text(x(1), 44, "tiny m", v.Baseline())
	var words []string
	for _, row := range rows {
		c.Open(v.Color(row.Target), Describe(row))
		c.Line(x(row.RatioLo), 23, x(row.RatioHi), 23, "range")
		c.Dot(x(row.Ratio), 23, 5, "spot")
		c.Close()
		words = append(words, Describe(row))
	}
	var taken []float64
	for _, row := range slices.Backward(rows) {
		at := min(max(x(row.Ratio), 22), width-22)
		if slices.ContainsFunc(taken, func(t float64) bool { return math.Abs(t-at) < room }) {
			continue
		}
		taken = append(taken, at)
		c.Open(v.Color(row.Target), "")
		c.Text(at, 11, "tiny m own", Brief(row.Target, 8))
		c.Close()
	}
	return c.SVG("strip", "Ratios to "+v.Baseline()+". "+strings.Join(words, ". "))
}

// Brief fits a target's name into n characters: "s-geneve" of
// "selvage-geneve".
func Brief(name string, n int) string {
	path, encap, ok := strings.Cut(name, "-")
	if len(name) > n && ok && path != "" {
		name = path[:1] + "-" + encap
	}
	return Clip(name, n)
}

// Clip fits s into n characters.
func Clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}
