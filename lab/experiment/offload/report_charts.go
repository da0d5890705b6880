package offload

import (
	"github.com/selvage/selvage/lab/chart"
)

// charts are the study's four over the sizes of writes: throughput, gain, processor, efficiency.
func (v view) charts(s Stream) []chart.BundleChart {
	with := func(metric string, states ...string) []chart.Bundle {
		var all []chart.Bundle
		for _, size := range Sizes(v.Result) {
			one := chart.Bundle{Label: sizeLabel(size)}
			for _, name := range v.Names() {
				for _, state := range states {
					s.Size, s.State = size, state
					if row, ok := v.find(name, s, metric); ok {
						one.Bars = append(one.Bars, chart.Bundled{Row: row, Name: name, Words: name + ", " + state, Pale: state == AllOff})
					}
				}
			}
			all = append(all, one)
		}
		return all
	}
	gains := with(ThroughputGain, AllOn)
	for i := range gains {
		for k := range gains[i].Bars {
			gains[i].Bars[k].Percent = true
		}
	}
	return []chart.BundleChart{
		{Title: "Throughput", Unit: "Gbit/s by size of writes, higher is better; pale: all offloads off, full: all on", Bundles: with(Throughput, AllOff, AllOn)},
		{Title: "Gain of throughput", Unit: "% of all on over all off; dashed: mean of the QLogic study at 10 Gbit/s, +19 %", Bundles: gains, Rule: studyGain},
		{Title: "Processor time", Unit: "% of all cores, lower is better", Bundles: with(Processor, AllOff, AllOn)},
		{Title: "Efficiency", Unit: "Mbit/s per % of all cores, higher is better", Bundles: with(Efficiency, AllOff, AllOn)},
	}
}

// studyGain is the QLogic study's mean gain of throughput at 10 Gbit/s, in percent.
const studyGain = 19

// Attributions draw what each offload brings, one panel an encapsulation and way.
func (v view) Attributions() []chart.Figure {
	var figures []chart.Figure
	for _, s := range v.grouped() {
		panel := chart.BundleChart{Title: "What each offload brings, " + v.group(s), Unit: "% of throughput over all sizes; pale: one at a time, full: against all the others"}
		for _, kind := range allKinds() {
			s.State = kind
			one := chart.Bundle{Label: KindWords(kind)}
			for _, name := range v.Names() {
				for _, metric := range []string{GainAlone, GainLeftOut} {
					if row, ok := v.find(name, s, metric); ok {
						words := map[string]string{GainAlone: "alone", GainLeftOut: "against all the others"}[metric]
						one.Bars = append(one.Bars, chart.Bundled{Row: row, Name: name, Words: name + ", " + words, Pale: metric == GainAlone, Percent: true})
					}
				}
			}
			if len(one.Bars) > 0 {
				panel.Bundles = append(panel.Bundles, one)
			}
		}
		if f, ok := panel.Figure(v.Color); ok {
			figures = append(figures, f)
		}
	}
	return figures
}

// StatesChart draws every state's throughput over all sizes, one panel an encapsulation and way.
func (v view) StatesChart() []chart.Figure {
	var figures []chart.Figure
	for _, s := range v.grouped() {
		panel := chart.BundleChart{Title: "Throughput by state, " + v.group(s), Unit: "Gbit/s, mean over all sizes, higher is better"}
		for _, state := range v.states() {
			s.State = state
			one := chart.Bundle{Label: state}
			for _, name := range v.Names() {
				if row, ok := v.find(name, s, Throughput); ok {
					one.Bars = append(one.Bars, chart.Bundled{Row: row, Name: name, Words: name + ", " + state})
				}
			}
			panel.Bundles = append(panel.Bundles, one)
		}
		if f, ok := panel.Figure(v.Color); ok {
			figures = append(figures, f)
		}
	}
	return figures
}
