package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// canvas collects the elements of one SVG picture. Lengths are in user units,
// which the page shows as about one CSS pixel each.
type canvas struct {
	b    strings.Builder
	w, h float64
}

func newCanvas(w, h float64) *canvas { return &canvas{w: w, h: h} }

// svg returns the picture. label is its text alternative; class tells the page
// at which width to show it.
func (c *canvas) svg(class, label string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg class=%q viewBox="0 0 %s %s" role="img" aria-label="%s">%s</svg>`,
		class, num(c.w), num(c.h), html.EscapeString(label), c.b.String()))
}

// open starts a group; title, when not empty, is its tooltip.
func (c *canvas) open(class, title string) {
	fmt.Fprintf(&c.b, `<g class="%s">`, html.EscapeString(class))
	if title != "" {
		fmt.Fprintf(&c.b, `<title>%s</title>`, html.EscapeString(title))
	}
}

func (c *canvas) close() { c.b.WriteString("</g>") }

// text classes: "e" is end-aligned, "m" is centred.
func (c *canvas) text(x, y float64, class, s string) {
	fmt.Fprintf(&c.b, `<text x="%s" y="%s" class="%s">%s</text>`, num(x), num(y), class, html.EscapeString(glue(s)))
}

func (c *canvas) rect(x, y, w, h, r float64, class string) {
	fmt.Fprintf(&c.b, `<rect x="%s" y="%s" width="%s" height="%s" rx="%s" class="%s"/>`,
		num(x), num(y), num(max(w, 0)), num(h), num(r), class)
}

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(&c.b, `<line x1="%s" y1="%s" x2="%s" y2="%s" class="%s"/>`, num(x1), num(y1), num(x2), num(y2), class)
}

func (c *canvas) dot(x, y, r float64, class string) {
	fmt.Fprintf(&c.b, `<circle cx="%s" cy="%s" r="%s" class="%s"/>`, num(x), num(y), num(r), class)
}

// point is a place on a canvas.
type point struct{ x, y float64 }

func (c *canvas) polyline(points []point, class string) {
	pairs := make([]string, len(points))
	for i, p := range points {
		pairs[i] = num(p.x) + "," + num(p.y)
	}
	fmt.Fprintf(&c.b, `<polyline points="%s" class="%s"/>`, strings.Join(pairs, " "), class)
}

// whisker draws the interval x1 … x2 with caps at height y.
func (c *canvas) whisker(x1, x2, y float64) {
	if x2-x1 < 0.5 {
		return
	}
	c.line(x1, y, x2, y, "whisker")
	c.line(x1, y-3.5, x1, y+3.5, "whisker")
	c.line(x2, y-3.5, x2, y+3.5, "whisker")
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

// glue keeps units and ratio signs on the line of their number, and sets the
// apostrophe of prose.
func glue(s string) string {
	return strings.NewReplacer(" ×", "\u00a0×", " %", "\u00a0%", " Gbit/s", "\u00a0Gbit/s", " µs", "\u00a0µs", " kpps", "\u00a0kpps", "n = ", "n\u00a0=\u00a0", " kB", "\u00a0kB", "'s ", "’s ").Replace(s)
}

// ticks returns round numbers from 0 to at least top, about n steps of them.
func ticks(top float64, n int) []float64 {
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

// logTicks returns 1, 2 and 5 times powers of ten that enclose lo … hi; only
// powers of ten when that would be many.
func logTicks(lo, hi float64) []float64 {
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

// spread moves labels apart so that neighbours (sorted by the wanted place) are
// at least outage from each other, within lo … hi as far as there is room.
func spread(wanted []float64, outage, lo, hi float64) []float64 {
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
