package ab

import (
	"fmt"
	"slices"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// values are one TCP metric of a target over all good samples.
func values(e evidence, target, metric string) []float64 {
	var xs []float64
	for _, v := range stats.Values(e.Result, target, stats.DecisiveCase, metric) {
		xs = append(xs, v)
	}
	return xs
}

// processor names the core whose softirq share climbs during the transfer, the
// mark of a tunnel that is switched in software on one core (the FortiGate study).
func (e evidence) processor() []result.Finding {
	base := stats.Cores(e.Result, diagnose.Plain, stats.DecisiveCase)
	var out []result.Finding
	names := slices.DeleteFunc(e.Tunnels(), func(name string) bool { return name == e.DUT })
	if e.DUT != "" {
		names = append([]string{e.DUT}, names...)
	}
	for _, name := range names {
		cores := stats.Cores(e.Result, name, stats.DecisiveCase)
		cost, ok := stats.Find(e.Rows, name, "tcp", measure.CPUPerGB)
		if !ok && len(cores) == 0 {
			continue
		}
		text := e.Title(name)
		if ok {
			text += fmt.Sprintf(" spends %s CPU s/GB", stats.Figure(cost.Median))
			if cost.Ratio > 0 {
				text += fmt.Sprintf(", %s plain %s", stats.Ratio(cost.Ratio), diagnose.Bounds(cost))
			}
		} else {
			text += " has no CPU figure per gigabyte"
		}
		out = append(out, result.Finding{Topic: "CPU", Text: text + softirq(cores, base) + full(cores)})
	}
	return out
}

// softirq is the clause on the core that climbs most against plain.
func softirq(cores, base []result.CPUShare) string {
	core, by, of := -1, 0.0, result.CPUShare{}
	for _, c := range cores {
		i := slices.IndexFunc(base, func(b result.CPUShare) bool { return b.Core == c.Core })
		if i >= 0 && (core < 0 || c.SoftIRQ-base[i].SoftIRQ > by) {
			core, by, of = c.Core, c.SoftIRQ-base[i].SoftIRQ, c
		}
	}
	switch {
	case core < 0:
		return "."
	case by >= climb:
		return fmt.Sprintf("; core %d rises to %.0f %% softirq, %.0f points above plain: the tunnel is processed there in software, and one flow uses one core. Spread flows by source port (RSS, RPS) or keep segments whole through the tunnel.",
			core, 100*of.SoftIRQ, 100*by)
	}
	if by < 0.005 {
		return "; no core's softirq share is above plain's."
	}
	return fmt.Sprintf("; no core's softirq share is more than %.0f points above plain's (core %d).", 100*by, core)
}

// full says when no core has time left.
func full(cores []result.CPUShare) string {
	if len(cores) == 0 {
		return ""
	}
	busy, fullest := 0.0, result.CPUShare{Idle: 1}
	for _, c := range cores {
		busy += 1 - c.Idle
		if c.Idle < fullest.Idle {
			fullest = c
		}
	}
	busy /= float64(len(cores))
	switch {
	case busy >= diagnose.BusyCore:
		return fmt.Sprintf(" All %d cores are %.0f %% busy: the processor is the limit, and throughput and CPU per gigabyte say the same.", len(cores), 100*busy)
	case 1-fullest.Idle >= diagnose.BusyCore:
		return fmt.Sprintf(" Core %d is full (%.0f %%, all cores together %.0f %%): one core is the limit.", fullest.Core, 100*(1-fullest.Idle), 100*busy)
	}
	return ""
}

// latency compares request/response p50 of every tunnel with plain.
func (e evidence) latency() []result.Finding {
	return e.compare("Latency", "rr-1", measure.RRP50,
		"A tunnel's own work shows here undiluted, since one small transaction is outstanding and both ends share a core.")
}

// packets compares the small-packet rate.
func (e evidence) packets() []result.Finding {
	return e.compare("Small packets", "udp", measure.UDPRate,
		"This is cost per packet, which segmentation offload cannot hide.")
}

// compare puts one metric of the subject and of the other tunnels in a line.
func (e evidence) compare(topic, caseName, metric, meaning string) []result.Finding {
	row, ok := stats.Find(e.Rows, e.DUT, caseName, metric)
	base, okBase := stats.Find(e.Rows, diagnose.Plain, caseName, metric)
	if !ok || !okBase || row.Ratio == 0 {
		return nil
	}
	text := fmt.Sprintf("%s %s with %s against %s with %s, %s %s",
		stats.Figure(row.Median), row.Unit, e.Title(e.DUT), stats.Figure(base.Median), e.Title(diagnose.Plain), stats.Ratio(row.Ratio), diagnose.Bounds(row))
	if !row.Distinguishable {
		text += ", not distinguishable"
	}
	for _, name := range e.Tunnels() {
		if other, ok := stats.Find(e.Rows, name, caseName, metric); ok && name != e.DUT && other.Ratio > 0 {
			text += fmt.Sprintf("; %s %s", e.Title(name), stats.Ratio(other.Ratio))
		}
	}
	return []result.Finding{{Topic: topic, Text: text + ". " + meaning}}
}
