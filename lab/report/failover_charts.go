package report

import (
	"fmt"
	"html/template"
	"slices"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// stepColor is the colour of a step, by its place.
func stepColor(i int) string { return []string{"k-x1", "k-x0", "k-ovs", "k-plain", "k-selvage"}[i%5] }

// faultColor is the colour of a way to kill, by its place.
func faultColor(i int) string { return []string{"k-plain", "k-kernel", "k-x1", "k-ovs"}[i%4] }

// longest is the end of the time axes, in ms.
func (v failoverView) longest() float64 {
	top := 1.0
	for _, k := range v.kills() {
		sum := 0.0
		for _, step := range stats.FailoverSteps() {
			sum += k.Metrics[step.Metric]
		}
		top = max(top, sum, k.Metrics[stats.OutageMax])
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
	if !v.affected() {
		return f
	}
	f.Title, f.Unit = "From fault to forwarding", "ms since the first lost packet; the tick is the longest outage of a flow"
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
		if k.Metrics[stats.AffectedFlows] == 0 {
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
			c.open(stepColor(s), fmt.Sprintf("%s ms %s", stats.Figure(ms), step.Title))
			c.rect(x(at), y+5, x(at+ms)-x(at), thick, 0, "bar")
			c.close()
			at += ms
			words += fmt.Sprintf("%s ms %s, ", stats.Figure(ms), step.Title)
		}
		outage := k.Metrics[stats.OutageMax]
		c.line(x(outage), y+3, x(outage), y+thick+7, "mark")
		c.text(width-right+8, y+16, "small", stats.Figure(outage)+" ms")
		if survived := k.Metrics[stats.Survived]; right > 60 && survived < 1 {
			c.text(width, y+16, "alarm e", surviving(survived))
		}
		words += fmt.Sprintf("longest outage %s ms. ", stats.Figure(outage))
	}
	return c.svg(class, words)
}

// StepKey explains the colours of Timeline.
func (v failoverView) StepKey() []stepLine { return v.StepLines() }

// Spread draws every outage as a dot, one row a way to kill, with p50 and p99 marked.
func (v failoverView) Spread() (f figure) {
	if !v.affected() {
		return f
	}
	f.Title, f.Unit = "Outages of the affected flows", "ms; each dot is a flow in a kill, the ticks are p50 and p99"
	f.Wide, f.Narrow = v.spread(1104, 150, 10, "wide"), v.spread(358, 88, 4, "narrow")
	return f
}

func (v failoverView) spread(width, left float64, steps int, class string) template.HTML {
	const pitch, above = 46.0, 4.0
	cases := slices.DeleteFunc(stats.Cases(v.Result), func(caseName string) bool {
		return len(stats.Pooled(stats.Kills(v.Result, v.dut, caseName), stats.OutageSeries)) == 0
	})
	below := above + float64(len(cases))*pitch
	c := newCanvas(width, below+22)
	x := timeAxis(c, v.longest(), left, width-20, above, below, steps)
	words := ""
	for i, caseName := range cases {
		_, how := stats.Killed(caseName)
		outages := stats.Pooled(stats.Kills(v.Result, v.dut, caseName), stats.OutageSeries)
		mid := above + (float64(i)+0.5)*pitch
		p50, p99 := stats.Quantile(outages, 0.5), stats.Quantile(outages, 0.99)
		label := fmt.Sprintf("%s: %d outages, p50 %s ms, p99 %s ms, longest %s ms", how, len(outages), stats.Figure(p50), stats.Figure(p99), stats.Figure(outages[len(outages)-1]))
		words += label + ". "
		c.text(0, mid+4, "name", clip(how, int((left-8)/7.5)))
		c.open(faultColor(i)+" cloud", label)
		for n, outage := range outages {
			c.dot(x(outage), mid+float64(n*7%19-9), 2.4, "spot")
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
	outages := stats.Pooled(v.kills(), stats.OutageSeries)
	if len(stalls) == 0 || len(outages) == 0 {
		return f
	}
	f.Title, f.Unit = "What UDP and TCP saw", "share of flows and connections by longest silence, ms"
	f.Wide = v.shares(map[string][]float64{"UDP flows": outages, "TCP connections": stalls})
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
		color := []string{"k-selvage", "k-kernel"}[i]
		c.open(color, name)
		c.polyline(points, "strong")
		c.text(right-8, below-16-18*float64(i), "own e", name)
		c.close()
		words += fmt.Sprintf("%s: p50 %s ms, p99 %s ms. ", name, stats.Figure(stats.Quantile(values, 0.5)), stats.Figure(stats.Quantile(values, 0.99)))
	}
	return c.svg("any", words)
}
