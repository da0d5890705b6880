package chart

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"

	"github.com/selvage/selvage/lab/result"
)

// maxCores is how many cores of a group are drawn; the busiest are.
const maxCores = 8

// CoreGroup is the cores of one target, or of one at a place.
type CoreGroup struct {
	Name, Color string
	Cores       []result.CPUShare
}

// CoreBars draws how each core spent its time, stacked from softirq, the share that a tunnel drives
// up, so that it starts at a common line. Groups without cores are left out.
func CoreBars(title string, groups []CoreGroup) (f Figure) {
	lines := 0
	groups = slices.DeleteFunc(slices.Clone(groups), func(g CoreGroup) bool { return len(g.Cores) == 0 })
	for i := range groups {
		groups[i].Cores = busiest(groups[i].Cores)
		lines += len(groups[i].Cores)
	}
	if lines == 0 {
		return f
	}
	f.Title, f.Unit = title, "share of wall time, median of the rounds"
	draw := func(width float64, class string) template.HTML {
		const left, pitch, outage, above = 116, 19, 12, 26
		right := width - 66
		c := NewCanvas(width, float64(above+lines*pitch+len(groups)*outage+18))
		x := func(share float64) float64 { return left + min(share, 1)*(right-left) }
		legend(c, left)
		for _, share := range []float64{0, 0.25, 0.5, 0.75, 1} {
			c.Line(x(share), above-2, x(share), c.Height-20, "grid")
			c.Text(x(share), c.Height-6, "tick m", fmt.Sprintf("%g%%", 100*share))
		}
		words, y := "", float64(above)
		for _, g := range groups {
			for i, core := range g.Cores {
				label := fmt.Sprintf("%s, core %d: softirq %.0f %%, system %.0f %%, user %.0f %%, idle %.0f %%", g.Name, core.Core,
					100*core.SoftIRQ, 100*core.System, 100*core.User, 100*core.Idle)
				words += label + ". "
				c.Open(g.Color, label)
				if i == 0 {
					c.Text(0, y+13, "name", Brief(g.Name, 8))
				}
				c.Text(left-8, y+13, "tick e", fmt.Sprintf("core %d", core.Core))
				from := 0.0
				for _, part := range []struct {
					share float64
					class string
				}{{core.SoftIRQ, "bar"}, {core.System, "bar mid"}, {core.User, "bar light"}} {
					c.Rect(x(from), y+2, x(from+part.share)-x(from), 14, 0, part.class)
					from += part.share
				}
				c.Text(right+8, y+13, "value", fmt.Sprintf("%.0f%%", 100*core.SoftIRQ))
				c.Close()
				y += pitch
			}
			y += outage
		}
		return c.SVG(class, title+". "+words)
	}
	f.Wide, f.Narrow = draw(528, "wide"), draw(360, "narrow")
	return f
}

// legend explains the three shades above the bars, in neutral colour.
func legend(c *Canvas, x float64) {
	for _, part := range []struct{ class, word string }{{"bar", "softirq"}, {"bar mid", "system"}, {"bar light", "user"}} {
		c.Open("k-none", "")
		c.Rect(x, 4, 10, 10, 2, part.class)
		c.Text(x+15, 13, "tick", part.word)
		c.Close()
		x += 64
	}
	c.Text(c.Width-58, 13, "tick", "softirq")
}

// busiest returns at most maxCores cores, those with the least idle time, by
// number.
func busiest(cores []result.CPUShare) []result.CPUShare {
	if len(cores) <= maxCores {
		return cores
	}
	kept := slices.Clone(cores)
	slices.SortStableFunc(kept, func(a, b result.CPUShare) int { return cmp.Compare(a.Idle, b.Idle) })
	kept = kept[:maxCores]
	slices.SortFunc(kept, func(a, b result.CPUShare) int { return cmp.Compare(a.Core, b.Core) })
	return kept
}
