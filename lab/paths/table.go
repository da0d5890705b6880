package paths

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// metrics are the rows, in their order. All but the last few are of one case.
func (c *Command) metrics() []stats.Metric {
	metrics := []stats.Metric{
		{Case: "tcp", Name: measure.TCPThroughput, Unit: "Gbit/s", Title: "TCP throughput", Higher: true},
		{Case: "tcp", Name: measure.Retransmits, Unit: "count", Title: "TCP retransmits"},
		{Case: "tcp-reverse", Name: measure.TCPThroughput, Unit: "Gbit/s", Title: "TCP throughput, reverse", Higher: true},
		{Case: "tcp-reverse", Name: measure.Retransmits, Unit: "count", Title: "TCP retransmits, reverse"},
		{Case: "rr", Name: measure.RRP50, Unit: "µs", Title: "Request/response p50"},
		{Case: "rr", Name: measure.RRP99, Unit: "µs", Title: "Request/response p99"},
		{Case: "crr", Name: measure.CRRRate, Unit: "1/s", Title: "Connect/request/response", Higher: true},
		{Case: "crr", Name: measure.ConnFailed, Unit: "count", Title: "Connections failed"},
		{Case: "udp", Name: measure.UDPRate, Unit: "kpps", Title: "Small packets received", Higher: true},
		{Case: "udp", Name: measure.UDPLossPPM, Unit: "ppm", Title: "Small packets lost, of a million"},
	}
	for _, name := range c.Cases {
		metrics = append(metrics,
			stats.Metric{Case: name, Name: clientCPU, Unit: "cores", Title: "Cores busy, client, " + name},
			stats.Metric{Case: name, Name: serverCPU, Unit: "cores", Title: "Cores busy, server, " + name})
		for i, p := range c.Watch {
			metrics = append(metrics, stats.Metric{Case: name, Name: watchedCPU(i), Unit: "cores", Title: "Cores busy, " + p.String() + ", " + name})
		}
	}
	return metrics
}

// summarise makes a row of each metric and path. Ratios are of slices of one round to the
// baseline's, by Hodges and Lehmann's estimate as in the A/B experiment.
func (c *Command) summarise(r result.Result) (rows []result.Row) {
	baseline := c.Path[0].Name
	for _, m := range c.metrics() {
		base := stats.Values(r, baseline, m.Case, m.Name)
		for _, p := range c.Path {
			values := stats.Values(r, p.Name, m.Case, m.Name)
			if len(values) == 0 {
				continue
			}
			var list []float64
			for round := range c.Rounds {
				if v, ok := values[round+1]; ok {
					list = append(list, v)
				}
			}
			iv := stats.Median(list)
			row := result.Row{
				Target: p.Name, Case: m.Case, Metric: m.Name, Unit: m.Unit, Median: iv.Median, Lo: iv.Lo, Hi: iv.Hi, N: iv.N, Ratio: 1, RatioLo: 1, RatioHi: 1,
			}
			if p.Name != baseline {
				row.Baseline, row.Ratio, row.RatioLo, row.RatioHi = baseline, 0, 0, 0
				c.compare(&row, values, base)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// compare fills the ratio of a row, or where a value is 0 the difference.
func (c *Command) compare(row *result.Row, values, base map[int]float64) {
	var logs, differences []float64
	divisible := true
	for round := range c.Rounds {
		v, ok := values[round+1]
		b, both := base[round+1]
		if !ok || !both {
			continue
		}
		divisible = divisible && v > 0 && b > 0
		logs, differences = append(logs, math.Log(v/b)), append(differences, v-b)
	}
	switch {
	case len(differences) == 0:
	case divisible:
		stats.Ratios(row, logs)
	default:
		iv := stats.Center(differences)
		row.Difference = iv.Median
		row.Distinguishable = iv.N >= stats.LeastPairs && (iv.Lo > 0 || iv.Hi < 0)
	}
}

// table prints the rows, and what each core did.
func (c *Command) table(out io.Writer, r result.Result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "METRIC\tUNIT\tPATH\tMEDIAN\tINTERVAL\tRATIO TO %s\tINTERVAL\tVERDICT\n", strings.ToUpper(c.Path[0].Name))
	metrics := c.metrics()
	for _, row := range r.Summary {
		m := metrics[slices.IndexFunc(metrics, func(m stats.Metric) bool { return m.Case == row.Case && m.Name == row.Metric })]
		ratio, interval, verdict := "", "", ""
		if row.Baseline != "" {
			ratio, verdict = stats.Ratio(row.Ratio), stats.ChangeOf(row, m.Higher).String()
			if row.Ratio > 0 {
				interval = fmt.Sprintf("%.3f … %.3f", row.RatioLo, row.RatioHi)
			}
			if row.N < stats.LeastPairs {
				verdict = fmt.Sprintf("none: fewer than %d rounds", stats.LeastPairs)
			} else if !row.Distinguishable && row.SmallestEffect > 0 {
				verdict += fmt.Sprintf(" (sees %.1f %%)", 100*row.SmallestEffect)
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s … %s\t%s\t%s\t%s\n", m.Title, row.Unit, row.Target,
			stats.In(row.Median, row.Unit), stats.In(row.Lo, row.Unit), stats.In(row.Hi, row.Unit), ratio, interval, verdict)
	}
	c.cores(w, r)
	return w.Flush()
}

// cores prints the median share of time that each core was busy, at each place.
func (c *Command) cores(w io.Writer, r result.Result) {
	fmt.Fprint(w, "\nCORES BUSY\tPLACE\tPATH\tBY CORE, %\n")
	places := map[string]string{clientCPU: c.Client.String(), serverCPU: c.Server.String()}
	names := []string{clientCPU, serverCPU}
	for i, p := range c.Watch {
		names = append(names, watchedCPU(i))
		places[watchedCPU(i)] = p.String()
	}
	for _, caseName := range c.Cases {
		for _, name := range names {
			for _, p := range c.Path {
				if shares := coresOf(r, p.Name, caseName, name); len(shares) > 0 {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", caseName, places[name], p.Name, strings.Join(shares, " "))
				}
			}
		}
	}
}

// coresOf are the medians of a place's cores.
func coresOf(r result.Result, path, caseName, name string) (shares []string) {
	for core := 0; ; core++ {
		var list []float64
		for _, v := range stats.Values(r, path, caseName, fmt.Sprintf("%s_%d", name, core)) {
			list = append(list, v)
		}
		if len(list) == 0 {
			return shares
		}
		shares = append(shares, fmt.Sprintf("%.0f", 100*stats.Median(list).Median))
	}
}
