package latency

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/breakdown"
	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/stats"
)

// partName is a part of a round trip in words, with the classes of its colour.
type partName struct{ Words, Color, Class string }

func nameOf(part string) partName {
	return map[string]partName{
		breakdown.StackPart:    {"the guests’ own stacks", "k-wire", "bar mid"},
		breakdown.WakePart:     {"wake-ups", "k-wire", "bar light"},
		breakdown.ProgramPart:  {"the server’s program", "k-x0", "bar"},
		breakdown.PortPart:     {"guest to port", "k-x0", "bar mid"},
		breakdown.ParsePart:    {"parse", "k-plain", "bar"},
		breakdown.CachePart:    {"flow cache", "k-selvage", "bar"},
		breakdown.DecidePart:   {"switch or route", "k-x1", "bar"},
		breakdown.FirewallPart: {"firewall", "k-x2", "bar"},
		breakdown.KeepPart:     {"into the flow cache", "k-selvage", "bar mid"},
		breakdown.EncapPart:    {"into the tunnel", "k-kernel", "bar"},
		breakdown.DecapPart:    {"out of the tunnel", "k-kernel", "bar mid"},
		breakdown.DeliverPart:  {"from port to port", "k-kernel", "bar"},
		breakdown.UnderlayPart: {"underlay", "k-ovs", "bar"},
		restPart:               {"not explained", "k-none", "node"},
	}[part]
}

// restPart is what the steps leave of the measured round trip.
const restPart = "rest"

// brokenWords is what a breakdown is of.
func brokenWords(b Breakdown) string {
	words := map[string]string{RequestKind: "Request and answer", ConnectKind: "Opening a connection"}[b.Kind]
	where := map[string]string{SameHost: "on one host", TwoHosts: "between two hosts"}[b.Scenario]
	return fmt.Sprintf("%s %s, %s", words, where, rulesWords(b.Rules))
}

// key is an entry of the legend.
type key struct {
	partName
	Part string
}

// share is a part of a round trip.
type share struct {
	key
	US float64
}

// shares are a breakdown's parts in the order of charts, the rest last.
func shares(b Breakdown) []share {
	var all []share
	for _, part := range append(Parts(), restPart) {
		us := b.Of(part)
		if part == restPart {
			us = b.Unexplained()
		}
		if us != 0 {
			all = append(all, share{key{nameOf(part), part}, us})
		}
	}
	return all
}

// PartKeys is the legend of all breakdowns.
func (v view) PartKeys() []key {
	var keys []key
	for _, part := range append(Parts(), restPart) {
		if slices.ContainsFunc(v.breakdowns, func(b Breakdown) bool {
			return slices.ContainsFunc(shares(b), func(s share) bool { return s.Part == part })
		}) {
			keys = append(keys, key{nameOf(part), part})
		}
	}
	return keys
}

// Shares draws each breakdown as one bar of its parts, all on one axis.
func (v view) Shares() (f chart.Figure) {
	if len(v.breakdowns) == 0 {
		return f
	}
	f.Title, f.Unit = "Where the time goes", "µs of the median round trip, without what stamps cost"
	f.Wide, f.Narrow = shareBars(v.breakdowns, 1104, "wide"), shareBars(v.breakdowns, 360, "narrow")
	return f
}

func shareBars(all []Breakdown, width float64, class string) template.HTML {
	const pitch, thick = 56.0, 22.0
	top := 0.0
	for _, b := range all {
		top = max(top, b.RTT.Median, positive(b))
	}
	x := chart.Axis(0, max(top, 0.001), 0, width-64, false)
	c := chart.NewCanvas(width, float64(len(all))*pitch)
	words := "Parts of the round trip. "
	for i, b := range all {
		y := float64(i) * pitch
		c.Text(0, y+14, "name", chart.Clip(brokenWords(b), int(width/6.6)))
		at := 0.0
		for _, s := range shares(b) {
			percent := 100 * s.US / b.RTT.Median
			label := fmt.Sprintf("%s: %s µs, %s %%", s.Words, stats.Figure(s.US), stats.Figure(percent))
			words += brokenWords(b) + ", " + label + ". "
			if s.US < 0 { // less than nothing cannot be drawn; the waterfall says so
				continue
			}
			c.Open(s.Color, label)
			c.Rect(x(at)+0.5, y+22, x(at+s.US)-x(at)-0.5, thick, 1, s.Class)
			if x(at+s.US)-x(at) > 52 {
				on := "strong-text"
				if s.Class == "bar" {
					on = "on-bar"
				}
				c.Text(x(at)+6, y+37, on, fmt.Sprintf("%.0f %%", percent))
			}
			c.Close()
			at += s.US
		}
		c.Text(x(at)+6, y+38, "value", stats.Figure(b.RTT.Median))
	}
	return c.SVG(class, words)
}

// positive is the sum of the parts that can be drawn.
func positive(b Breakdown) float64 {
	sum := 0.0
	for _, s := range shares(b) {
		sum += max(0, s.US)
	}
	return sum
}

// waterfall is a breakdown drawn step by step, with the sum in words.
type waterfall struct {
	chart.Figure
	Sum  string
	Open bool // shown at once
}

// Waterfalls draws every breakdown step by step. Those with a firewall between two hosts
// are shown at once.
func (v view) Waterfalls() []waterfall {
	var all []waterfall
	for _, b := range v.breakdowns {
		w := waterfall{Sum: chart.Glue(sumWords(b)), Open: b.Scenario == TwoHosts && b.Rules > 0}
		w.Title, w.Unit = brokenWords(b), "µs from the client’s call on, each step behind the one before"
		w.Wide, w.Narrow = stepBars(b, 528, "wide"), stepBars(b, 360, "narrow")
		all = append(all, w)
	}
	return all
}

// sumWords hold the steps against the measured round trip.
func sumWords(b Breakdown) string {
	rest := fmt.Sprintf("%s µs (%.1f %%) are not explained", stepTime(b.Unexplained()), 100*b.Unexplained()/b.RTT.Median)
	if b.Unexplained() < 0 {
		rest = fmt.Sprintf("the steps are %s µs (%.1f %%) too long", stepTime(-b.Unexplained()), -100*b.Unexplained()/b.RTT.Median)
	}
	return fmt.Sprintf("The %d steps make %s µs; measured without stamps are %s µs [%s, %s], so %s; medians do not add up exactly. "+
		"With stamps it is %s µs: each of the %d costs %s ns [%s, %s], which is taken out of the step that it is in. %.2g %% of the round trips could not be followed.",
		len(b.Steps), stats.Figure(b.Sum()), stats.Figure(b.RTT.Median), stats.Figure(b.RTT.Lo), stats.Figure(b.RTT.Hi), rest,
		stats.Figure(b.Timed.Median), b.Stamps, stats.Figure(1e3*b.PerStamp.Median), stats.Figure(1e3*b.PerStamp.Lo), stats.Figure(1e3*b.PerStamp.Hi),
		100*b.LeftOut)
}

// stepName is a step in words.
func stepName(s Step) string {
	switch {
	case s.Part == breakdown.StackPart && s.Place == breakdown.BothPlace:
		return "server: stack, for the ACK"
	case s.Part == breakdown.WakePart && s.Place == breakdown.BothPlace:
		return "both: wake-up"
	case s.Part == breakdown.StackPart:
		return s.Place + ": stack"
	case s.Part == breakdown.PortPart:
		return s.Place + ": to its port"
	case s.Part == breakdown.WakePart:
		return s.Place + ": wake-up"
	case s.Part == breakdown.ProgramPart:
		return s.Place + ": program"
	case s.Part == breakdown.UnderlayPart:
		return "underlay"
	}
	return s.Place + ": " + nameOf(s.Part).Words
}

// stepBars draws the steps below each other, each from where the one before ends.
func stepBars(b Breakdown, width float64, class string) template.HTML {
	const pitch, thick, above = 19.0, 12.0, 4.0
	left := 178.0
	if width < 400 {
		left = 150
	}
	right := width - 48
	x := chart.Axis(0, max(b.RTT.Median, positive(b), 0.001), left, right, false)
	c := chart.NewCanvas(width, float64(len(b.Steps)+2)*pitch+above+24)
	bottom := above + float64(len(b.Steps)+2)*pitch
	for _, t := range chart.Ticks(b.RTT.Median, 5) {
		if x(t) <= right+1 {
			c.Line(x(t), above, x(t), bottom, "grid")
			c.Text(x(t), bottom+16, "tick m", fmt.Sprintf("%g", t))
		}
	}
	words := brokenWords(b) + ", step by step. "
	at := 0.0
	row := func(i int, name, color, class, label, value string, us float64) {
		y := above + float64(i)*pitch
		c.Open(color, label)
		c.Rect(0, y, width, pitch, 0, "hit")
		c.Text(left-8, y+13, "small e", name)
		from, to := x(min(at, at+us)), x(max(at, at+us))
		c.Rect(from, y+3, max(to-from, 1), thick, 1, class)
		c.Text(width, y+13, "value e", value)
		c.Close()
		words += label + ". "
	}
	for i, s := range b.Steps {
		name := nameOf(s.Part)
		label := fmt.Sprintf("%s %s µs, interval %s to %s", stepName(s), stats.Figure(s.Time.Median), stats.Figure(s.Time.Lo), stats.Figure(s.Time.Hi))
		row(i, chart.Clip(stepName(s), int(left/6.4)), name.Color, name.Class, label, stepTime(s.Time.Median), s.Time.Median)
		at += s.Time.Median
	}
	rest := nameOf(restPart)
	row(len(b.Steps), rest.Words, rest.Color, rest.Class, fmt.Sprintf("not explained %s µs", stats.Figure(b.Unexplained())), stepTime(b.Unexplained()), b.Unexplained())
	at = 0
	row(len(b.Steps)+1, "measured", "k-none", "bar", fmt.Sprintf("measured %s µs", stats.Figure(b.RTT.Median)), stats.Figure(b.RTT.Median), b.RTT.Median)
	return c.SVG(class, words)
}

// stepTime writes the time of a step: what is within a stamp's own error of 0 is that.
func stepTime(us float64) string {
	if math.Abs(us) < 0.005 {
		return "0"
	}
	s := fmt.Sprintf("%.2f", math.Abs(us))
	if us < 0 {
		return "−" + s
	}
	return s
}

// shareOf is a time's share of the measured round trip.
func shareOf(us float64, b Breakdown) string {
	if b.RTT.Median == 0 {
		return "–"
	}
	return strings.Replace(fmt.Sprintf("%.1f %%", 100*us/b.RTT.Median), "-", "−", 1)
}

// partLine is a part of all breakdowns, for the table.
type partLine struct {
	Words, Color string
	Values       []string
}

// PartHeads are the columns of Parts: all breakdowns.
func (v view) PartHeads() []string {
	var heads []string
	for _, b := range v.breakdowns {
		heads = append(heads, brokenWords(b))
	}
	return heads
}

// Parts are those of every breakdown, in µs and percent, and the measured whole.
func (v view) Parts() []partLine {
	var lines []partLine
	for _, key := range v.PartKeys() {
		l := partLine{Words: key.Words, Color: key.Color}
		for _, b := range v.breakdowns {
			words := "–"
			for _, s := range shares(b) {
				if s.Part == key.Part {
					words = fmt.Sprintf("%s (%s)", stepTime(s.US), shareOf(s.US, b))
				}
			}
			l.Values = append(l.Values, words)
		}
		lines = append(lines, l)
	}
	if len(lines) == 0 {
		return nil
	}
	total := partLine{Words: "measured round trip", Color: "k-none"}
	for _, b := range v.breakdowns {
		total.Values = append(total.Values, stats.Figure(b.RTT.Median))
	}
	return append(lines, total)
}
