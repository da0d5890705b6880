package paths

import (
	"slices"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// figures are the metrics of the paths, in the order of the rows. The first of a case is its main one.
func figures() []stats.Metric {
	return []stats.Metric{
		{Case: caseTCP, Name: measure.TCPThroughput, Unit: "Gbit/s", Title: "TCP throughput", Higher: true},
		{Case: caseTCP, Name: measure.Retransmits, Unit: "count", Title: "TCP retransmits"},
		{Case: caseTCP, Name: measure.MSS, Unit: "bytes", Title: "MSS used", Higher: true},
		{Case: caseReverse, Name: measure.TCPThroughput, Unit: "Gbit/s", Title: "TCP throughput, reverse", Higher: true},
		{Case: caseReverse, Name: measure.Retransmits, Unit: "count", Title: "TCP retransmits, reverse"},
		{Case: caseReverse, Name: measure.MSS, Unit: "bytes", Title: "MSS used, reverse", Higher: true},
		{Case: caseRR, Name: measure.RRP50, Unit: "µs", Title: "Request/response p50"},
		{Case: caseRR, Name: measure.RRP99, Unit: "µs", Title: "Request/response p99"},
		{Case: caseLoad, Name: measure.RRP50, Unit: "µs", Title: "Request/response p50, under load"},
		{Case: caseLoad, Name: measure.RRP99, Unit: "µs", Title: "Request/response p99, under load"},
		{Case: caseLoad, Name: loadRate, Unit: "Gbit/s", Title: "TCP throughput meanwhile", Higher: true},
		{Case: caseCRR, Name: measure.CRRRate, Unit: "1/s", Title: "Connect/request/response", Higher: true},
		{Case: caseCRR, Name: measure.ConnFailed, Unit: "count", Title: "Connections failed"},
		{Case: caseUDP, Name: measure.UDPRate, Unit: "kpps", Title: "Small packets received", Higher: true},
		{Case: caseUDP, Name: measure.UDPLossPPM, Unit: "ppm", Title: "Small packets lost, of a million"},
	}
}

// mainMetric is the first of a case.
func mainMetric(caseName string) stats.Metric {
	all := figures()
	return all[max(0, slices.IndexFunc(all, func(m stats.Metric) bool { return m.Case == caseName }))]
}

// costs are the metrics of the places' cores in a result.
func costs(r result.Result) (all []stats.Metric) {
	for _, name := range stats.Cases(r) {
		for _, p := range r.Places {
			title := ", " + p.Role + ", " + name
			if name == caseTCP || name == caseReverse {
				all = append(all, stats.Metric{Case: name, Name: cpuMetric(p.Role, secondsByGB), Unit: "CPU s/GB", Title: "CPU per gigabyte" + title})
			}
			all = append(all, stats.Metric{Case: name, Name: cpuMetric(p.Role, busyCores), Unit: "cores", Title: "Cores busy" + title})
		}
	}
	return all
}

// metrics are all rows of a result.
func metrics(r result.Result) []stats.Metric { return append(figures(), costs(r)...) }

// baseline is the path that ratios are against: the first.
func baseline(r result.Result) string {
	if names := stats.Names(r); len(names) > 0 {
		return names[0]
	}
	return ""
}

// summarise computes the rows. Ratios are of slices of one round to the baseline's, by Hodges and
// Lehmann's estimate as in the A/B experiment.
func summarise(r result.Result) []result.Row { return stats.Summarise(r, baseline(r), metrics(r)) }
