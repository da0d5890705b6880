package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// mostScrapes are answered at once.
const mostScrapes = 8

// Handler serves the pages that there are by now, what instruments counted, and what this process takes of the machine.
// Who asks for OpenMetrics gets that.
func Handler(pages func() []*Page, instruments *Instruments) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(pageCollector(pages), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if instruments != nil {
		r.MustRegister(instruments.all()...)
	}
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: mostScrapes})
}

// pageCollector collects pages. What they have is not known before.
type pageCollector func() []*Page

// Describe implements prometheus.Collector.
func (pageCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c pageCollector) Collect(to chan<- prometheus.Metric) {
	for _, p := range c() {
		for _, m := range p.list {
			to <- m
		}
	}
}
