package metrics

import (
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Kind is what a metric is.
type Kind = prometheus.ValueType

// The kinds.
const (
	Counter = prometheus.CounterValue
	Gauge   = prometheus.GaugeValue
)

// Page is metrics in the making. The samples of a family follow its head. The zero value is empty.
type Page struct {
	list       []prometheus.Metric
	kind       Kind
	name, help string
	desc       *prometheus.Desc // of the last sample
	labels     []string         // that it has
}

// Family begins a metric.
func (p *Page) Family(kind Kind, name, help string) {
	p.kind, p.name, p.help, p.desc = kind, name, help, nil
}

// Sample is one value of the family; labels are names and values in turn.
func (p *Page) Sample(value float64, labels ...string) {
	names, values := make([]string, 0, len(labels)/2), make([]string, 0, len(labels)/2)
	for i := 0; i+1 < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, strings.ToValidUTF8(labels[i+1], "?"))
	}
	if p.desc == nil || !slices.Equal(names, p.labels) {
		p.desc, p.labels = prometheus.NewDesc(p.name, p.help, names, nil), names
	}
	m, err := prometheus.NewConstMetric(p.desc, p.kind, value, values...)
	if err != nil {
		m = prometheus.NewInvalidMetric(p.desc, err)
	}
	p.list = append(p.list, m)
}

// Count is a sample of a counter, or of a gauge that is whole.
func (p *Page) Count(value uint64, labels ...string) { p.Sample(float64(value), labels...) }

// Flag is a sample that is 1 while something is so.
func (p *Page) Flag(is bool, labels ...string) { p.Sample(flag(is), labels...) }

// Single is a family of one sample.
func (p *Page) Single(kind Kind, name, help string, value uint64, labels ...string) {
	p.Family(kind, name, help)
	p.Count(value, labels...)
}

// Histogram is one of a histogram without labels: how many took no longer than each bound, in seconds.
func (p *Page) Histogram(name, help string, count uint64, sum float64, buckets map[float64]uint64) {
	desc := prometheus.NewDesc(name, help, nil, nil)
	m, err := prometheus.NewConstHistogram(desc, count, sum, maps.Clone(buckets))
	if err != nil {
		m = prometheus.NewInvalidMetric(desc, err)
	}
	p.list = append(p.list, m)
}

// Len is how many series the page has.
func (p *Page) Len() int { return len(p.list) }

// flag is 1 for what is true.
func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
