package failover

import (
	"fmt"
	"html/template"
	"slices"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// faultColor is the colour of a way to kill, by its place.
func faultColor(i int) string { return []string{"k-plain", "k-kernel", "k-x1", "k-ovs"}[i%4] }

// longest is the end of the time axes, in ms.
func (v view) longest() float64 {
	top := 1.0
	for _, k := range v.kills() {
		sum := 0.0
		for _, step := range Steps() {
			sum += k.Metrics[step.Metric]
		}
		top = max(top, sum, k.Metrics[inject.OutageMax])
	}
	return top
}

// Timeline draws each kill from the fault to the last flow that went on, in steps.
func (v view) Timeline() (f chart.Figure) {
	kills := v.kills()
	if !v.affected() {
		return f
	}
	f.Title, f.Unit = "From fault to forwarding", "ms since the first lost packet; the tick is the longest outage of a flow"
	f.Wide, f.Narrow = v.timeline(kills, 1104, 150, 90, 10, "wide"), v.timeline(kills, 358, 88, 44, 4, "narrow")
	return f
}

func (v view) timeline(kills []result.Sample, width, left, right float64, steps int, class string) template.HTML {
	const pitch, thick, above = 24.0, 13.0, 4.0
	below := above + float64(len(kills))*pitch
	c := chart.NewCanvas(width, below+22)
	x := inject.TimeAxis(c, v.longest(), left, width-right, above, below, steps)
	words := "Each kill in steps. "
	for i, k := range kills {
		y := above + float64(i)*pitch
		_, how := Killed(k.Case)
		c.Text(0, y+16, "small", fmt.Sprintf("%d", k.Round))
		c.Text(22, y+16, "name", chart.Clip(how, int((left-24)/7.5)))
		if k.Metrics[inject.AffectedFlows] == 0 {
			c.Text(left+6, y+16, "small", "no packet lost")
			words += fmt.Sprintf("Kill %d, %s: no packet lost. ", k.Round, how)
			continue
		}
		words += fmt.Sprintf("Kill %d, %s: ", k.Round, how)
		at := 0.0
		for s, step := range Steps() {
			ms, ok := k.Metrics[step.Metric]
			if !ok {
				continue
			}
			c.Open(inject.StepColor(s), fmt.Sprintf("%s ms %s", stats.Figure(ms), step.Title))
			c.Rect(x(at), y+5, x(at+ms)-x(at), thick, 0, "bar")
			c.Close()
			at += ms
			words += fmt.Sprintf("%s ms %s, ", stats.Figure(ms), step.Title)
		}
		outage := k.Metrics[inject.OutageMax]
		c.Line(x(outage), y+3, x(outage), y+thick+7, "mark")
		c.Text(width-right+8, y+16, "small", stats.Figure(outage)+" ms")
		if survived := k.Metrics[inject.Survived]; right > 60 && survived < 1 {
			c.Text(width, y+16, "alarm e", surviving(survived))
		}
		words += fmt.Sprintf("longest outage %s ms. ", stats.Figure(outage))
	}
	return c.SVG(class, words)
}

// StepKey explains the colours of Timeline.
func (v view) StepKey() []inject.StepLine { return v.StepLines() }

// Spread draws every outage as a dot, one row a way to kill, with p50 and p99 marked.
func (v view) Spread() (f chart.Figure) {
	if !v.affected() {
		return f
	}
	f.Title, f.Unit = "Outages of the affected flows", "ms; each dot is a flow in a kill, the ticks are p50 and p99"
	f.Wide, f.Narrow = v.spread(1104, 150, 10, "wide"), v.spread(358, 88, 4, "narrow")
	return f
}

func (v view) spread(width, left float64, steps int, class string) template.HTML {
	const pitch, above = 46.0, 4.0
	cases := slices.DeleteFunc(stats.Cases(v.Result), func(caseName string) bool {
		return len(stats.Pooled(Kills(v.Result, v.DUT, caseName), inject.OutageSeries)) == 0
	})
	below := above + float64(len(cases))*pitch
	c := chart.NewCanvas(width, below+22)
	x := inject.TimeAxis(c, v.longest(), left, width-20, above, below, steps)
	words := ""
	for i, caseName := range cases {
		_, how := Killed(caseName)
		outages := stats.Pooled(Kills(v.Result, v.DUT, caseName), inject.OutageSeries)
		mid := above + (float64(i)+0.5)*pitch
		p50, p99 := stats.Quantile(outages, 0.5), stats.Quantile(outages, 0.99)
		label := fmt.Sprintf("%s: %d outages, p50 %s ms, p99 %s ms, longest %s ms", how, len(outages), stats.Figure(p50), stats.Figure(p99), stats.Figure(outages[len(outages)-1]))
		words += label + ". "
		c.Text(0, mid+4, "name", chart.Clip(how, int((left-8)/7.5)))
		c.Open(faultColor(i)+" cloud", label)
		for n, outage := range outages {
			c.Dot(x(outage), mid+float64(n*7%19-9), 2.4, "spot")
		}
		c.Close()
		c.Line(x(p50), mid-17, x(p50), mid+17, "mark")
		c.Line(x(p99), mid-17, x(p99), mid+17, "mark")
		c.Text(x(p50), mid-19, "tiny m", "p50")
		if x(p99)-x(p50) > 26 {
			c.Text(x(p99), mid-19, "tiny m", "p99")
		}
	}
	return c.SVG(class, words)
}

// Stalls draws how long TCP connections waited, as shares that had waited no longer.
func (v view) Stalls() (f chart.Figure) {
	stalls := stats.Pooled(v.kills(), inject.StallSeries)
	outages := stats.Pooled(v.kills(), inject.OutageSeries)
	if len(stalls) == 0 || len(outages) == 0 {
		return f
	}
	f.Title, f.Unit = "What UDP and TCP saw", "share of flows and connections by longest silence, ms"
	f.Wide = v.shares(map[string][]float64{"UDP flows": outages, "TCP connections": stalls})
	return f
}

func (v view) shares(all map[string][]float64) template.HTML {
	const width, height, left, right, above = 560.0, 240.0, 46.0, 545.0, 8.0
	below := height - 24
	top := max(slices.Max(all["UDP flows"]), stats.Quantile(all["TCP connections"], 0.999))
	c := chart.NewCanvas(width, height)
	x := inject.TimeAxis(c, top, left, right, above, below, 6)
	y := func(share float64) float64 { return below - share*(below-above) }
	for _, share := range []float64{0, 0.25, 0.5, 0.75, 1} {
		c.Line(left, y(share), right, y(share), "grid")
		c.Text(left-6, y(share)+4, "tick e", fmt.Sprintf("%g %%", 100*share))
	}
	words := ""
	for i, name := range []string{"UDP flows", "TCP connections"} {
		values := all[name]
		points := []chart.Point{{X: x(0), Y: y(0)}}
		for n, value := range values {
			at := min(x(value), right)
			points = append(points, chart.Point{X: at, Y: points[len(points)-1].Y}, chart.Point{X: at, Y: y(float64(n+1) / float64(len(values)))})
		}
		color := []string{"k-selvage", "k-kernel"}[i]
		c.Open(color, name)
		c.Polyline(points, "strong")
		c.Text(right-8, below-16-18*float64(i), "own e", name)
		c.Close()
		words += fmt.Sprintf("%s: p50 %s ms, p99 %s ms. ", name, stats.Figure(stats.Quantile(values, 0.5)), stats.Figure(stats.Quantile(values, 0.99)))
	}
	return c.SVG("any", words)
}
