package egress

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Name is the name of the experiment on the way out of the overlay.
const Name = "egress"

// Stages of the EgressGateway study's stages, from the bottom, and StageRouted, which is StageEgress
// without translation.
const (
	StageNode   = "node"   // host to host on the underlay
	StageTunnel = "tunnel" // tunnel endpoint to tunnel endpoint
	StageRouted = "routed" // workload, gateway, target outside; addresses stay
	StageEgress = "egress" // the same, translated
)

// Routing is the target without a tunnel: what the hops alone cost.
const Routing = "plain"

// ChecksumOff ends the names of targets whose tunnel checksum offload is off.
const ChecksumOff = "-csum-off"

// Metrics of the instruments.
const (
	RRP50    = measure.RRP50    // µs
	ConnRate = measure.ConnRate // a second
)

// reverse ends the names of cases towards the workload.
const reverse = "-reverse"

// FreeWire ends the names of cases in which the wires have no rate, before reverse.
const FreeWire = "-free"

// wireRate is the parameter that is the rate of the wires, 0 without a limit.
const wireRate = "wire_rate"

// Stage is what a case of the egress experiment measures.
type Stage struct {
	Name          string
	Free, Reverse bool // without the wires' rate; towards the workload
}

// Case is the name of r's samples.
func (r Stage) Case() string {
	name := r.Name
	if r.Free {
		name += FreeWire
	}
	if r.Reverse {
		name += reverse
	}
	return name
}

// At is another stage in the same setting.
func (r Stage) At(name string) Stage {
	r.Name = name
	return r
}

// Below is the stage that r stands on, "" for the lowest.
func (r Stage) Below() string {
	switch r.Name {
	case StageTunnel:
		return StageNode
	case StageRouted, StageEgress:
		return StageTunnel
	}
	return ""
}

// Climbed reads a case of the egress experiment.
func Climbed(caseName string) (Stage, bool) {
	var r Stage
	r.Name, r.Reverse = strings.CutSuffix(caseName, reverse)
	r.Name, r.Free = strings.CutSuffix(r.Name, FreeWire)
	return r, slices.Contains(Stages(), r.Name)
}

// Stages is all stages from the bottom.
func Stages() []string { return []string{StageNode, StageTunnel, StageRouted, StageEgress} }

// Metrics of the egress experiment's rows beside those of samples. Summarise computes them
// from the ratios of same rounds.
const (
	LossBelow = "loss_below"     // share lost against the stage below, 0 … 1
	NATKept   = "nat_vs_routed"  // throughput with translation to that without, on the same path
	NATConn   = "conn_vs_routed" // connections a second likewise
	TCPRival  = "tcp_vs_kernel"  // against Kernel in the same case
	ConnRival = "conn_vs_kernel" // connections a second likewise
	ConnAdded = "conn_added"     // µs a connection beyond node to node
	HopsRival = "tcp_vs_plain"   // against Routing over as many hops
)

// figures are the figures of a case, without its name, in the order of the rows.
func figures() []stats.Metric {
	return []stats.Metric{
		{Case: "", Name: stats.Decisive, Unit: "Gbit/s", Title: "TCP throughput", Higher: true},
		{Case: "", Name: measure.TCPSent, Unit: "Gbit/s", Title: "TCP sent", Higher: true},
		{Case: "", Name: measure.CPUPerGB, Unit: "CPU s/GB", Title: "CPU per gigabyte", Higher: false},
		{Case: "", Name: measure.Retransmits, Unit: "count", Title: "TCP retransmits", Higher: false},
		{Case: "", Name: measure.MSS, Unit: "bytes", Title: "TCP segment size", Higher: true},
		{Case: "", Name: RRP50, Unit: "µs", Title: "TCP round trip p50, 1 B", Higher: false},
		{Case: "", Name: measure.RRP99, Unit: "µs", Title: "TCP round trip p99, 1 B", Higher: false},
		{Case: "", Name: ConnRate, Unit: "1/s", Title: "Connections", Higher: true},
	}
}

// Cases are the cases of r: stage by stage from the bottom, each with the wires' rate and
// without, to the target and back.
func Cases(r result.Result) []Stage {
	present := stats.Cases(r)
	var cases []Stage
	for _, free := range []bool{false, true} {
		for _, reverse := range []bool{false, true} {
			for _, name := range Stages() {
				if stage := (Stage{name, free, reverse}); slices.Contains(present, stage.Case()) {
					cases = append(cases, stage)
				}
			}
		}
	}
	return cases
}

// baseOf is the target whose node-to-node stage a target's ratios are against: its
// own, or that of its path with all offloads.
func baseOf(target string) string { return strings.TrimSuffix(target, ChecksumOff) }

// summarise summarise the egress experiment. The baseline of a row is the same target's
// node-to-node stage in the same setting, as "target:case". After the metrics come the rows
// of what is computed.
func summarise(r result.Result) []result.Row {
	var rows []result.Row
	for _, m := range figures() {
		for _, stage := range Cases(r) {
			for _, name := range stats.Names(r) {
				if row, ok := egressRow(r, name, stage, m); ok {
					rows = append(rows, row)
				}
			}
		}
	}
	for _, c := range egressRatios() {
		for _, stage := range Cases(r) {
			for _, name := range stats.Names(r) {
				if row, ok := c.row(r, name, stage); ok {
					rows = append(rows, row)
				}
			}
		}
	}
	return append(rows, connectionRows(r)...)
}

// connectionRows hold what a connection takes on a stage beyond what it takes from node to
// node, where end systems are all that there is, in µs: 1/rate less 1/rate.
func connectionRows(r result.Result) []result.Row {
	var rows []result.Row
	for _, stage := range Cases(r) {
		for _, name := range stats.Names(r) {
			times := perConnection(stats.Values(r, name, stage.Case(), ConnRate))
			base := stage.At(StageNode).Case()
			_, differences, _ := stats.Pair(times, perConnection(stats.Values(r, name, base, ConnRate)))
			iv := stats.Median(differences)
			if iv.N == 0 || stage.Name == StageNode {
				continue
			}
			rows = append(rows, result.Row{
				Target: name, Case: stage.Case(), Metric: ConnAdded, Unit: "µs", Median: iv.Median, Lo: iv.Lo, Hi: iv.Hi, N: iv.N,
				Baseline: name + ":" + base, Distinguishable: stats.Excludes(iv, 0),
			})
		}
	}
	return rows
}

func egressRow(r result.Result, name string, stage Stage, m stats.Metric) (result.Row, bool) {
	values := stats.Values(r, name, stage.Case(), m.Name)
	if len(values) == 0 {
		return result.Row{}, false
	}
	iv := stats.Median(stats.ByRound(values))
	row := result.Row{Target: name, Case: stage.Case(), Metric: m.Name, Unit: m.Unit, Median: iv.Median, Lo: iv.Lo, Hi: iv.Hi, N: iv.N}
	base := stage.At(StageNode)
	if base == stage && baseOf(name) == name {
		row.Ratio, row.RatioLo, row.RatioHi = 1, 1, 1
		return row, true
	}
	if below := stats.Values(r, baseOf(name), base.Case(), m.Name); len(below) > 0 {
		row.Baseline = baseOf(name) + ":" + base.Case()
		stats.Compare(&row, values, below)
	}
	return row, true
}

// egressRatio is a row of ratios that is no sample's metric.
type egressRatio struct {
	name, of string
	// loss has the row hold one less the ratio.
	loss bool
	// against names what a target's stage is held against, "" for nothing.
	against func(name string, stage Stage) (target, caseName string)
}

func egressRatios() []egressRatio {
	rival := func(name string, stage Stage) (string, string) {
		if name == stats.Kernel || name == Routing {
			return "", ""
		}
		return stats.Kernel, stage.Case()
	}
	untranslated := func(name string, stage Stage) (string, string) {
		if stage.Name != StageEgress {
			return "", ""
		}
		return name, stage.At(StageRouted).Case()
	}
	return []egressRatio{
		{LossBelow, stats.Decisive, true, func(name string, stage Stage) (string, string) {
			if stage.Below() == "" || name == Routing {
				return "", ""
			}
			if stage.Below() == StageNode {
				name = baseOf(name)
			}
			return name, stage.At(stage.Below()).Case()
		}},
		{NATKept, stats.Decisive, false, untranslated},
		{NATConn, ConnRate, false, untranslated},
		{TCPRival, stats.Decisive, false, rival},
		{ConnRival, ConnRate, false, rival},
		{HopsRival, stats.Decisive, false, func(name string, stage Stage) (string, string) {
			if name == Routing || stage.Below() != StageTunnel {
				return "", ""
			}
			return Routing, stage.At(StageRouted).Case()
		}},
	}
}

func (c egressRatio) row(r result.Result, name string, stage Stage) (result.Row, bool) {
	rival, caseName := c.against(name, stage)
	if rival == "" {
		return result.Row{}, false
	}
	ratios, _, divisible := stats.Pair(stats.Values(r, name, stage.Case(), c.of), stats.Values(r, rival, caseName, c.of))
	iv := stats.Median(ratios)
	if iv.N == 0 || !divisible {
		return result.Row{}, false
	}
	row := result.Row{
		Target: name, Case: stage.Case(), Metric: c.name, Unit: "×", Median: iv.Median, Lo: iv.Lo, Hi: iv.Hi, N: iv.N,
		Baseline: rival + ":" + caseName, Ratio: iv.Median, RatioLo: iv.Lo, RatioHi: iv.Hi, Distinguishable: stats.Excludes(iv, 1),
	}
	if c.loss {
		row.Unit, row.Median, row.Lo, row.Hi = "share", 1-iv.Median, 1-iv.Hi, 1-iv.Lo
	}
	return row, true
}

// refuse says, without a final stop, why nothing may be concluded about the stages of a
// target in a setting, or "" when something may.
func refuse(r result.Result, target string, setting Stage) string {
	for _, name := range []string{StageNode, StageTunnel, StageEgress} {
		caseName := setting.At(name).Case()
		if why := stats.UnreliableFor(r, target, stats.Basis{CaseName: caseName, Metric: stats.Decisive, Words: "throughput"}); why != "" {
			return why + " (" + caseName + ")"
		}
	}
	node := setting.At(StageNode).Case()
	if iv := stats.Against(r, target, target, node, stats.Decisive); iv.N == 0 {
		return fmt.Sprintf("%s moved nothing in at least one round (%s)", target, node)
	}
	return ""
}

// perConnection is the time of one in µs, of rates.
func perConnection(rates map[int]float64) map[int]float64 {
	times := map[int]float64{}
	for round, v := range rates {
		if v > 0 {
			times[round] = 1e6 / v
		}
	}
	return times
}
