package ab

import (
	"fmt"
	"html/template"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Figures of the FortiGate study (a FortiGate 70F against a Proxmox EVPN zone): facts to
// set beside this run, by ratio only.
const (
	studyPlain, studyTunnel = 934.0, 546.0 // Mbit/s received
	studyTax                = 1 - 909.0/941.0
)

// taxLine is what one tunnel keeps of the plain path's throughput.
type taxLine struct {
	Name, Color        string
	InnerMTU           int
	Expected, Measured string
	Interval           string
	Beyond             string // measured loss that headers do not explain
	ratio, lo, hi, tax float64
}

// Tax lists the tunnels of the run that have a ratio.
func (v view) Tax() []taxLine {
	var lines []taxLine
	if v.Baseline() != stats.Baseline {
		return nil
	}
	for _, k := range v.Targets {
		row, ok := v.Row(k.Name, metric(stats.DecisiveCase, stats.Decisive))
		if !ok || row.Ratio == 0 || k.HeaderTax == 0 {
			continue
		}
		lines = append(lines, taxLine{
			Name: k.Name, Color: v.Color(k.Name), InnerMTU: k.InnerMTU,
			Expected: stats.Percent(-k.HeaderTax), Measured: stats.Percent(row.Ratio - 1),
			Interval: fmt.Sprintf("%s … %s", stats.Percent(row.RatioLo-1), stats.Percent(row.RatioHi-1)),
			Beyond:   stats.Percent(row.Ratio - (1 - k.HeaderTax)),
			ratio:    row.Ratio, lo: row.RatioLo, hi: row.RatioHi, tax: k.HeaderTax,
		})
	}
	return lines
}

// Kept draws the share of plain's throughput that each tunnel keeps, with what
// headers alone would leave, and the FortiGate study's own pair for scale.
func (v view) Kept() (f chart.Figure) {
	lines := v.Tax()
	if len(lines) == 0 {
		return f
	}
	f.Title, f.Unit = "What a tunnel keeps of the plain throughput", "ratio to plain; tick: what headers alone would leave"
	f.Wide, f.Narrow = v.kept(lines, 528, "wide"), v.kept(lines, 360, "narrow")
	return f
}

func (v view) kept(lines []taxLine, width float64, class string) template.HTML {
	const left, pitch, above = 88, 40, 20
	right := width - 62
	study := taxLine{Name: "FortiGate study", Color: "k-none", ratio: studyTunnel / studyPlain, tax: studyTax}
	all := append([]taxLine{study}, lines...)
	top := 1.05
	for _, l := range all {
		top = max(top, l.hi*1.02)
	}
	c := chart.NewCanvas(width, float64(above+len(all)*pitch+4))
	x := func(ratio float64) float64 { return left + ratio/top*(right-left) }
	c.Line(x(1), above-6, x(1), c.Height, "baseline")
	c.Text(x(1), 10, "tick m", "plain = 1")
	words := "Share of the plain throughput that a tunnel keeps. "
	for i, l := range all {
		y := float64(above + i*pitch)
		row := result.Row{Ratio: l.ratio}
		label := fmt.Sprintf("%s keeps %s plain, headers alone would leave %.3f", l.Name, stats.Ratio(row.Ratio), 1-l.tax)
		words += label + ". "
		c.Open(l.Color, label)
		c.Rect(0, y, width, pitch-4, 0, "hit")
		c.Text(0, y+22, "name", chart.Brief(l.Name, 9))
		shade := "bar"
		if i == 0 {
			shade = "bar mid"
		}
		c.Rect(left, y+9, x(l.ratio)-left, 17, 2, shade)
		if i > 0 {
			c.Whisker(x(l.lo), x(l.hi), y+17.5)
		}
		c.Line(x(1-l.tax), y+3, x(1-l.tax), y+32, "mark")
		c.Text(width, y+22, "ratio e", stats.Ratio(l.ratio))
		c.Close()
	}
	return c.SVG(class, words)
}
