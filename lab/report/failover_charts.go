package report

import (
	"fmt"
	"html/template"
	"slices"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// stepTint is the colour of a step, by its place.
func stepTint(i int) string { return []string{"k-x1", "k-x0", "k-ovs", "k-plain", "k-selvage"}[i%5] }

// faultTint is the colour of a way to kill, by its place.
func faultTint(i int) string { return []string{"k-plain", "k-kernel", "k-x1", "k-ovs"}[i%4] }

// longest is the end of the time axes, in ms.
func (v failoverView) longest() float64 {
	top := 1.0
	for _, k := range v.kills() {
		sum := 0.0
		for _, step := range stats.FailoverSteps() {
			sum += k.Metrics[step.Metric]
		}
		top = max(top, sum, k.Metrics[stats.GapMax])
	}
	return top
}

// timeAxis draws ticks of ms between left and right and returns where a time is.
func timeAxis(c *canvas, top, left, right, above, below float64, steps int) func(float64) float64 {
	ts := ticks(top, steps)
	end := ts[len(ts)-1]
	x := func(ms float64) float64 { return left + ms/end*(right-left) }
	for _, t := range ts {
		c.line(x(t), above, x(t), below, "grid")
		c.text(x(t), below+16, "tick m", fmt.Sprintf("%g", t))
	}
	return x
}

// Timeline draws each kill from the fault to the last flow that went on, in steps.
func (v failoverView) Timeline() (f figure) {
	kills := v.kills()
	if !v.hit() {
		return f
	}
	f.Title, f.Unit = "From fault to forwarding", "ms since the first lost packet; the tick is the longest gap of a flow"
	f.Wide, f.Narrow = v.timeline(kills, 1104, 150, 90, 10, "wide"), v.timeline(kills, 358, 88, 44, 4, "narrow")
	return f
}

func (v failoverView) timeline(kills []result.Sample, width, left, right float64, steps int, class string) template.HTML {
	const pitch, thick, above = 24.0, 13.0, 4.0
	below := above + float64(len(kills))*pitch
	c := newCanvas(width, below+22)
	x := timeAxis(c, v.longest(), left, width-right, above, below, steps)
	words := "Each kill in steps. "
	for i, k := range kills {
		y := above + float64(i)*pitch
		_, how := stats.Killed(k.Case)
		c.text(0, y+16, "small", fmt.Sprintf("%d", k.Round))
		c.text(22, y+16, "name", clip(how, int((left-24)/7.5)))
		if k.Metrics[stats.HitFlows] == 0 {
			c.text(left+6, y+16, "small", "no packet lost")
			words += fmt.Sprintf("Kill %d, %s: no packet lost. ", k.Round, how)
			continue
		}
		words += fmt.Sprintf("Kill %d, %s: ", k.Round, how)
		at := 0.0
		for s, step := range stats.FailoverSteps() {
			ms, ok := k.Metrics[step.Metric]
			if !ok {
				continue
			}
			c.open(stepTint(s), fmt.Sprintf("%s ms %s", stats.Figure(ms), step.Title))
			c.rect(x(at), y+5, x(at+ms)-x(at), thick, 0, "bar")
			c.close()
			at += ms
			words += fmt.Sprintf("%s ms %s, ", stats.Figure(ms), step.Title)
		}
		gap := k.Metrics[stats.GapMax]
		c.line(x(gap), y+3, x(gap), y+thick+7, "mark")
		c.text(width-right+8, y+16, "small", stats.Figure(gap)+" ms")
		if survived := k.Metrics[stats.Survived]; right > 60 && survived < 1 {
			c.text(width, y+16, "alarm e", surviving(survived))
		}
		words += fmt.Sprintf("longest gap %s ms. ", stats.Figure(gap))
	}
	return c.svg(class, words)
}

// StepKey explains the colours of Timeline.
func (v failoverView) StepKey() []stepLine { return v.StepLines() }

// Spread draws every gap as a dot, one row a way to kill, with p50 and p99 marked.
func (v failoverView) Spread() (f figure) {
	if !v.hit() {
		return f
	}
	f.Title, f.Unit = "Gaps of the flows that were hit", "ms; each dot is a flow in a kill, the ticks are p50 and p99"
	f.Wide, f.Narrow = v.spread(1104, 150, 10, "wide"), v.spread(358, 88, 4, "narrow")
	return f
}

func (v failoverView) spread(width, left float64, steps int, class string) template.HTML {
	const pitch, above = 46.0, 4.0
	cases := slices.DeleteFunc(stats.Cases(v.Result), func(kase string) bool {
		return len(stats.Pooled(stats.Kills(v.Result, v.subject, kase), stats.GapSeries)) == 0
	})
	below := above + float64(len(cases))*pitch
	c := newCanvas(width, below+22)
	x := timeAxis(c, v.longest(), left, width-20, above, below, steps)
	words := ""
	for i, kase := range cases {
		_, how := stats.Killed(kase)
		gaps := stats.Pooled(stats.Kills(v.Result, v.subject, kase), stats.GapSeries)
		mid := above + (float64(i)+0.5)*pitch
		p50, p99 := stats.Quantile(gaps, 0.5), stats.Quantile(gaps, 0.99)
		label := fmt.Sprintf("%s: %d gaps, p50 %s ms, p99 %s ms, longest %s ms", how, len(gaps), stats.Figure(p50), stats.Figure(p99), stats.Figure(gaps[len(gaps)-1]))
		words += label + ". "
		c.text(0, mid+4, "name", clip(how, int((left-8)/7.5)))
		c.open(faultTint(i)+" cloud", label)
		for n, gap := range gaps {
			c.dot(x(gap), mid+float64(n*7%19-9), 2.4, "spot")
		}
		c.close()
		c.line(x(p50), mid-17, x(p50), mid+17, "mark")
		c.line(x(p99), mid-17, x(p99), mid+17, "mark")
		c.text(x(p50), mid-19, "tiny m", "p50")
		if x(p99)-x(p50) > 26 {
			c.text(x(p99), mid-19, "tiny m", "p99")
		}
	}
	return c.svg(class, words)
}

// Stalls draws how long TCP connections waited, as shares that had waited no longer.
func (v failoverView) Stalls() (f figure) {
	stalls := stats.Pooled(v.kills(), stats.StallSeries)
	gaps := stats.Pooled(v.kills(), stats.GapSeries)
	if len(stalls) == 0 || len(gaps) == 0 {
		return f
	}
	f.Title, f.Unit = "What UDP and TCP noticed", "share of flows and connections that were silent no longer than so many ms"
	f.Wide = v.shares(map[string][]float64{"UDP flows": gaps, "TCP connections": stalls})
	return f
}

func (v failoverView) shares(all map[string][]float64) template.HTML {
	const width, height, left, right, above = 560.0, 240.0, 46.0, 545.0, 8.0
	below := height - 24
	top := max(slices.Max(all["UDP flows"]), stats.Quantile(all["TCP connections"], 0.999))
	c := newCanvas(width, height)
	x := timeAxis(c, top, left, right, above, below, 6)
	y := func(share float64) float64 { return below - share*(below-above) }
	for _, share := range []float64{0, 0.25, 0.5, 0.75, 1} {
		c.line(left, y(share), right, y(share), "grid")
		c.text(left-6, y(share)+4, "tick e", fmt.Sprintf("%g %%", 100*share))
	}
	words := ""
	for i, name := range []string{"UDP flows", "TCP connections"} {
		values := all[name]
		points := []point{{x(0), y(0)}}
		for n, value := range values {
			at := min(x(value), right)
			points = append(points, point{at, points[len(points)-1].y}, point{at, y(float64(n+1) / float64(len(values)))})
		}
		tint := []string{"k-selvage", "k-kernel"}[i]
		c.open(tint, name)
		c.polyline(points, "strong")
		c.text(right-8, below-16-18*float64(i), "own e", name)
		c.close()
		words += fmt.Sprintf("%s: p50 %s ms, p99 %s ms. ", name, stats.Figure(stats.Quantile(values, 0.5)), stats.Figure(stats.Quantile(values, 0.99)))
	}
	return c.svg("any", words)
}
