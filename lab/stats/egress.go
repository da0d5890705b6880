package stats

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/result"
)

// Egress is the name of the experiment on the way out of the overlay.
const Egress = "egress"

// Rungs of study S1's ladder, from the bottom, and RungRouted, which is RungEgress
// without translation.
const (
	RungNode   = "node"   // host to host on the underlay
	RungTunnel = "tunnel" // tunnel endpoint to tunnel endpoint
	RungRouted = "routed" // workload, gateway, target outside; addresses stay
	RungEgress = "egress" // the same, translated
)

// Routing is the contender without a tunnel: what the hops alone cost.
const Routing = "plain"

// ChecksumOff ends the names of contenders whose tunnel checksum offload is off.
const ChecksumOff = "-csum-off"

// FreeWire ends the names of cases in which the wires have no rate, before Reverse.
const FreeWire = "-free"

// Rung is what a case of the egress experiment measures.
type Rung struct {
	Name          string
	Free, Reverse bool // without the wires' rate; towards the workload
}

// Case is the name of r's samples.
func (r Rung) Case() string {
	name := r.Name
	if r.Free {
		name += FreeWire
	}
	if r.Reverse {
		name += Reverse
	}
	return name
}

// At is another rung in the same setting.
func (r Rung) At(name string) Rung {
	r.Name = name
	return r
}

// Below is the rung that r stands on, "" for the lowest.
func (r Rung) Below() string {
	switch r.Name {
	case RungTunnel:
		return RungNode
	case RungRouted, RungEgress:
		return RungTunnel
	}
	return ""
}

// Climbed reads a case of the egress experiment.
func Climbed(kase string) (Rung, bool) {
	var r Rung
	r.Name, r.Reverse = strings.CutSuffix(kase, Reverse)
	r.Name, r.Free = strings.CutSuffix(r.Name, FreeWire)
	return r, slices.Contains(Ladder(), r.Name)
}

// Ladder is all rungs from the bottom.
func Ladder() []string { return []string{RungNode, RungTunnel, RungRouted, RungEgress} }

// Metrics of the egress experiment's rows beside those of samples. Summarise computes them
// from the ratios of same rounds.
const (
	LossBelow = "loss_below"     // share lost against the rung below, 0 … 1
	NATKept   = "nat_vs_routed"  // throughput with translation to that without, on the same path
	NATConn   = "conn_vs_routed" // connections a second likewise
	TCPRival  = "tcp_vs_kernel"  // against Nftables in the same case
	ConnRival = "conn_vs_kernel" // connections a second likewise
	ConnAdded = "conn_added"     // µs a connection beyond node to node
	HopsRival = "tcp_vs_plain"   // against Routing over as many hops
)

// EgressMetrics are the figures of a case, without its name, in the order of the rows.
func EgressMetrics() []Metric {
	return []Metric{
		{"", Decisive, "Gbit/s", "TCP throughput", true},
		{"", "tcp_sent", "Gbit/s", "TCP sent", true},
		{"", "cpu_per_gb", "CPU s/GB", "CPU per gigabyte", false},
		{"", "retransmits", "count", "TCP retransmits", false},
		{"", "mss", "bytes", "TCP segment size", true},
		{"", RRP50, "µs", "TCP round trip p50, 1 B", false},
		{"", "rr_p99", "µs", "TCP round trip p99, 1 B", false},
		{"", ConnRate, "1/s", "Connections", true},
	}
}

// EgressCases are the cases of r: rung by rung from the bottom, each with the wires' rate and
// without, to the target and back.
func EgressCases(r result.Result) []Rung {
	present := Cases(r)
	var cases []Rung
	for _, free := range []bool{false, true} {
		for _, reverse := range []bool{false, true} {
			for _, name := range Ladder() {
				if rung := (Rung{name, free, reverse}); slices.Contains(present, rung.Case()) {
					cases = append(cases, rung)
				}
			}
		}
	}
	return cases
}

// EgressBase is the contender whose node-to-node rung a contender's ratios are against: its
// own, or that of its path with all offloads.
func EgressBase(contender string) string { return strings.TrimSuffix(contender, ChecksumOff) }

// egressRows summarise the egress experiment. The baseline of a row is the same contender's
// node-to-node rung in the same setting, as "contender:case". After the metrics come the rows
// of what is computed.
func egressRows(r result.Result) []result.Row {
	var rows []result.Row
	for _, m := range EgressMetrics() {
		for _, rung := range EgressCases(r) {
			for _, name := range Names(r) {
				if row, ok := egressRow(r, name, rung, m); ok {
					rows = append(rows, row)
				}
			}
		}
	}
	for _, c := range egressRatios() {
		for _, rung := range EgressCases(r) {
			for _, name := range Names(r) {
				if row, ok := c.row(r, name, rung); ok {
					rows = append(rows, row)
				}
			}
		}
	}
	return append(rows, connectionRows(r)...)
}

// connectionRows hold what a connection takes on a rung beyond what it takes from node to
// node, where end systems are all that there is, in µs: 1/rate less 1/rate.
func connectionRows(r result.Result) []result.Row {
	var rows []result.Row
	for _, rung := range EgressCases(r) {
		for _, name := range Names(r) {
			times := inMicroseconds(ConnRate, Values(r, name, rung.Case(), ConnRate))
			base := rung.At(RungNode).Case()
			_, differences, _ := pair(times, inMicroseconds(ConnRate, Values(r, name, base, ConnRate)))
			iv := Median(differences)
			if iv.N == 0 || rung.Name == RungNode {
				continue
			}
			rows = append(rows, result.Row{
				Contender: name, Case: rung.Case(), Metric: ConnAdded, Unit: "µs", Median: iv.Median, Lo: iv.Lo, Hi: iv.Hi, N: iv.N,
				Baseline: name + ":" + base, Distinguishable: apart(iv, 0),
			})
		}
	}
	return rows
}

func egressRow(r result.Result, name string, rung Rung, m Metric) (result.Row, bool) {
	values := Values(r, name, rung.Case(), m.Name)
	if len(values) == 0 {
		return result.Row{}, false
	}
	iv := Median(list(values))
	row := result.Row{Contender: name, Case: rung.Case(), Metric: m.Name, Unit: m.Unit, Median: iv.Median, Lo: iv.Lo, Hi: iv.Hi, N: iv.N}
	base := rung.At(RungNode)
	if base == rung && EgressBase(name) == name {
		row.Ratio, row.RatioLo, row.RatioHi = 1, 1, 1
		return row, true
	}
	if below := Values(r, EgressBase(name), base.Case(), m.Name); len(below) > 0 {
		row.Baseline = EgressBase(name) + ":" + base.Case()
		compare(&row, values, below)
	}
	return row, true
}

// egressRatio is a row of ratios that is no sample's metric.
type egressRatio struct {
	name, of string
	// loss has the row hold one less the ratio.
	loss bool
	// against names what a contender's rung is held against, "" for nothing.
	against func(name string, rung Rung) (contender, kase string)
}

func egressRatios() []egressRatio {
	rival := func(name string, rung Rung) (string, string) {
		if name == Nftables || name == Routing {
			return "", ""
		}
		return Nftables, rung.Case()
	}
	untranslated := func(name string, rung Rung) (string, string) {
		if rung.Name != RungEgress {
			return "", ""
		}
		return name, rung.At(RungRouted).Case()
	}
	return []egressRatio{
		{LossBelow, Decisive, true, func(name string, rung Rung) (string, string) {
			if rung.Below() == "" || name == Routing {
				return "", ""
			}
			if rung.Below() == RungNode {
				name = EgressBase(name)
			}
			return name, rung.At(rung.Below()).Case()
		}},
		{NATKept, Decisive, false, untranslated},
		{NATConn, ConnRate, false, untranslated},
		{TCPRival, Decisive, false, rival},
		{ConnRival, ConnRate, false, rival},
		{HopsRival, Decisive, false, func(name string, rung Rung) (string, string) {
			if name == Routing || rung.Below() != RungTunnel {
				return "", ""
			}
			return Routing, rung.At(RungRouted).Case()
		}},
	}
}

func (c egressRatio) row(r result.Result, name string, rung Rung) (result.Row, bool) {
	rival, kase := c.against(name, rung)
	if rival == "" {
		return result.Row{}, false
	}
	ratios, _, divisible := pair(Values(r, name, rung.Case(), c.of), Values(r, rival, kase, c.of))
	iv := Median(ratios)
	if iv.N == 0 || !divisible {
		return result.Row{}, false
	}
	row := result.Row{
		Contender: name, Case: rung.Case(), Metric: c.name, Unit: "×", Median: iv.Median, Lo: iv.Lo, Hi: iv.Hi, N: iv.N,
		Baseline: rival + ":" + kase, Ratio: iv.Median, RatioLo: iv.Lo, RatioHi: iv.Hi, Distinguishable: apart(iv, 1),
	}
	if c.loss {
		row.Unit, row.Median, row.Lo, row.Hi = "share", 1-iv.Median, 1-iv.Hi, 1-iv.Lo
	}
	return row, true
}

// egressReason is why a verdict on the ladder needs quiet figures.
const egressReason = "A rung loses a few percent on good paths, which such noise hides or feigns"

// RefuseEgress says, without a final stop, why nothing may be concluded about the ladder of a
// contender in a setting, or "" when something may.
func RefuseEgress(r result.Result, contender string, setting Rung) string {
	for _, name := range []string{RungNode, RungTunnel, RungEgress} {
		kase := setting.At(name).Case()
		if why := unreliable(r, contender, decisive{kase, Decisive, "throughput", egressReason}); why != "" {
			return why + " (" + kase + ")"
		}
	}
	node := setting.At(RungNode).Case()
	if iv := Against(r, contender, contender, node, Decisive); iv.N == 0 {
		return fmt.Sprintf("%s moved nothing in at least one round (%s)", contender, node)
	}
	return ""
}
