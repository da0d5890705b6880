package chart

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// Canvas collects the elements of one SVG picture. Lengths are in user units,
// which the page shows as about one CSS pixel each.
type Canvas struct {
	b             strings.Builder
	Width, Height float64
}

// NewCanvas is an empty one.
func NewCanvas(w, h float64) *Canvas { return &Canvas{Width: w, Height: h} }

// SVG returns the picture. label is its text alternative; class tells the page
// at which width to show it.
func (c *Canvas) SVG(class, label string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg class=%q viewBox="0 0 %s %s" role="img" aria-label="%s">%s</svg>`,
		class, num(c.Width), num(c.Height), html.EscapeString(label), c.b.String()))
}

// Open starts a group; title, when not empty, is its tooltip.
func (c *Canvas) Open(class, title string) {
	fmt.Fprintf(&c.b, `<g class="%s">`, html.EscapeString(class))
	if title != "" {
		fmt.Fprintf(&c.b, `<title>%s</title>`, html.EscapeString(title))
	}
}

// Close ends the group that Open began.
func (c *Canvas) Close() { c.b.WriteString("</g>") }

// Text classes: "e" is end-aligned, "m" is centred.
func (c *Canvas) Text(x, y float64, class, s string) {
	fmt.Fprintf(&c.b, `<text x="%s" y="%s" class="%s">%s</text>`, num(x), num(y), class, html.EscapeString(Glue(s)))
}

// Rect draws a rectangle with rounded corners.
func (c *Canvas) Rect(x, y, w, h, r float64, class string) {
	fmt.Fprintf(&c.b, `<rect x="%s" y="%s" width="%s" height="%s" rx="%s" class="%s"/>`,
		num(x), num(y), num(max(w, 0)), num(h), num(r), class)
}

// Line draws a straight line.
func (c *Canvas) Line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(&c.b, `<line x1="%s" y1="%s" x2="%s" y2="%s" class="%s"/>`, num(x1), num(y1), num(x2), num(y2), class)
}

// Dot draws a filled circle.
func (c *Canvas) Dot(x, y, r float64, class string) {
	fmt.Fprintf(&c.b, `<circle cx="%s" cy="%s" r="%s" class="%s"/>`, num(x), num(y), num(r), class)
}

// Point is a place on a canvas.
type Point struct{ X, Y float64 }

// Polyline draws a line through points.
func (c *Canvas) Polyline(points []Point, class string) {
	pairs := make([]string, len(points))
	for i, p := range points {
		pairs[i] = num(p.X) + "," + num(p.Y)
	}
	fmt.Fprintf(&c.b, `<polyline points="%s" class="%s"/>`, strings.Join(pairs, " "), class)
}

// Whisker draws the interval x1 … x2 with caps at height y.
func (c *Canvas) Whisker(x1, x2, y float64) {
	if x2-x1 < 0.5 {
		return
	}
	c.Line(x1, y, x2, y, "whisker")
	c.Line(x1, y-3.5, x1, y+3.5, "whisker")
	c.Line(x2, y-3.5, x2, y+3.5, "whisker")
}

// num writes a coordinate with at most one decimal, so files are small and the
// same on every machine.
func num(v float64) string {
	s := strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
	if s == "-0" {
		return "0"
	}
	return s
}

// Glue keeps units and ratio signs on the line of their number, and sets the
// apostrophe of prose.
func Glue(s string) string {
	return strings.NewReplacer(" ×", "\u00a0×", " %", "\u00a0%", " Gbit/s", "\u00a0Gbit/s", " µs", "\u00a0µs", " kpps", "\u00a0kpps", "n = ", "n\u00a0=\u00a0", " kB", "\u00a0kB", "'s ", "’s ").Replace(s)
}

// Ticks returns round numbers from 0 to at least top, about n steps of them.
func Ticks(top float64, n int) []float64 {
	if top <= 0 {
		return []float64{0, 1}
	}
	step := math.Pow(10, math.Floor(math.Log10(top/float64(n))))
	for _, m := range []float64{1, 2, 5, 10} {
		if top/(step*m) <= float64(n) {
			step *= m
			break
		}
	}
	var out []float64
	for i := 0; ; i++ {
		v := math.Round(float64(i)*step*1e9) / 1e9 // 0.6, not 0.6000000000000001
		out = append(out, v)
		if v >= top*0.999 {
			return out
		}
	}
}

// LogTicks returns 1, 2 and 5 times powers of ten that enclose lo … hi; only
// powers of ten when that would be many.
func LogTicks(lo, hi float64) []float64 {
	steps := []float64{1, 2, 5}
	if hi/lo > 300 {
		steps = []float64{1}
	}
	var out []float64
	for e := math.Floor(math.Log10(lo)) - 1; ; e++ {
		for _, s := range steps {
			v := s * math.Pow(10, e)
			if v <= lo*1.0001 {
				out = []float64{v}
				continue
			}
			out = append(out, v)
			if v >= hi*0.9999 {
				return out
			}
		}
	}
}

// Spread moves labels apart so that neighbours (sorted by the wanted place) are
// at least outage from each other, within lo … hi as far as there is room.
func Spread(wanted []float64, outage, lo, hi float64) []float64 {
	y := append([]float64(nil), wanted...)
	for i := range y {
		y[i] = max(y[i], lo)
		if i > 0 {
			y[i] = max(y[i], y[i-1]+outage)
		}
	}
	for i := len(y) - 1; i >= 0; i-- {
		limit := hi - outage*float64(len(y)-1-i)
		y[i] = min(y[i], limit)
	}
	return y
}
