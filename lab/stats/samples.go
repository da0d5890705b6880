package stats

import (
	"math"
	"slices"

	"github.com/selvage/selvage/lab/result"
)

// Good are the good samples of a target in a case.
func Good(r result.Result, target, caseName string) []result.Sample {
	return slices.DeleteFunc(slices.Clone(r.Samples), func(s result.Sample) bool {
		return s.Target != target || s.Case != caseName || s.Error != ""
	})
}

// Pooled are the values of a series of all samples, ascending.
func Pooled(samples []result.Sample, series string) []float64 {
	var all []float64
	for _, s := range samples {
		all = append(all, s.Series[series]...)
	}
	slices.Sort(all)
	return all
}

// Quantile is the least of sorted values that the share q of them does not exceed, 0 of
// none: no interpolation between an outage and a larger one.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, max(0, int(math.Ceil(q*float64(len(sorted))))-1))]
}

// MetricOf is one metric of each sample that has it.
func MetricOf(samples []result.Sample, metric string) []float64 {
	var values []float64
	for _, s := range samples {
		if v, ok := s.Metrics[metric]; ok {
			values = append(values, v)
		}
	}
	return values
}

// Extremes is a row of a value over all samples, between the least and the largest of one.
func Extremes(samples []result.Sample, metric, unit string, value float64) result.Row {
	each := MetricOf(samples, metric)
	if len(each) == 0 {
		return result.Row{}
	}
	return result.Row{Metric: metric, Unit: unit, Median: value, Lo: slices.Min(each), Hi: slices.Max(each), N: len(each)}
}

// OverSamples is a row of the median over samples.
func OverSamples(samples []result.Sample, metric, unit string) result.Row {
	iv := Median(MetricOf(samples, metric))
	return result.Row{Metric: metric, Unit: unit, Median: iv.Median, Lo: iv.Lo, Hi: iv.Hi, N: iv.N}
}

// silence is the share of a transfer at whose end nothing at all arrives when it has
// stalled. TCP tries again after 0.2, 0.4, 0.8 … s: half of three seconds is no
// pause that it makes on a path that works.
const silence = 0.5

// Stalled says whether a transfer went silent for good though its sender had more to
// send, and when: seconds since its start after which nothing arrived.
func Stalled(s result.Sample) (at float64, stalled bool) {
	received := s.Series[result.TCPSeries]
	if len(received) == 0 || s.Duration <= 0 {
		return 0, false
	}
	last := len(received)
	for last > 0 && received[last-1] == 0 {
		last--
	}
	step := s.Duration / float64(len(received))
	return float64(last) * step, float64(len(received)-last) >= silence*float64(len(received))
}
