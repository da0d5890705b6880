package egress

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Limits of what the stages's findings call remarkable.
const (
	soundWire = 0.95 // of what a wire leaves to payload: node to node fills it
	stageLoss = 0.02 // share lost on a stage beyond what headers take
)

// findings go in the EgressGateway study's order of looking: node to node first, then the offloads of the
// interfaces, then the tunnel's checksum, then the stages above; and last which stage loses.
func (e evidence) findings() []result.Finding {
	return diagnose.Collect(
		e.Failed, e.Evidence.Busy, e.restless, e.Stolen, e.FewRounds, e.nodeToNode, e.interfaces, e.checksum, e.stages, e.translation,
		e.connections, e.roundTrips, e.hops, e.worst,
	)
}

// restless speaks of targets besides the one that the verdict stands on.
func (e evidence) restless() []result.Finding {
	var out []result.Finding
	for _, name := range e.rivals() {
		if why := refuse(e.Result, name, e.setting); why != "" {
			out = append(out, result.Finding{Topic: "Noise", Text: fmt.Sprintf("%s. Do not rely on the figures of %s.", why, e.title(name))})
		}
	}
	return out
}

// nodeToNode is the first step: what is wrong there is nobody's fault above.
func (e evidence) nodeToNode() []result.Finding {
	row, ok := e.find(e.DUT, e.at(StageNode), stats.Decisive)
	if !ok {
		return nil
	}
	text := fmt.Sprintf("%s Gbit/s [%s, %s]", stats.Figure(row.Median), stats.Figure(row.Lo), stats.Figure(row.Hi))
	most := e.payload()
	switch {
	case most == 0:
		text += " without a rate limit: the cores are the limit here, and each stage above adds hosts that share them."
	case row.Median >= soundWire*most:
		text += fmt.Sprintf(" of the %s that the wire leaves for payload: hosts and wire are sound, so any loss above belongs to the stages above.", stats.Figure(most))
	default:
		text += fmt.Sprintf(" of the %s that the wire leaves for payload: something below the tunnel is the limit, on this machine the cores. Fix that first, or lower --wire.", stats.Figure(most))
	}
	return []result.Finding{{Topic: "1 Node to node", Text: text}}
}

// payload is what the wires' rate leaves to TCP on the lowest stage in Gbit/s, 0 without a rate.
func (e evidence) payload() float64 {
	rate, mtu := e.Parameters.Number(wireRate), e.Parameters.Number("underlay_mtu")
	mss, ok := e.find(e.DUT, e.at(StageNode), measure.MSS)
	if e.setting.Free || !ok || mtu == 0 {
		return 0
	}
	const ethernet = 14 // what the token bucket counts beside the IP packet
	return rate * mss.Median / (mtu + ethernet)
}

// decisiveOffloads are those whose loss costs most, as the EgressGateway study names them.
func decisiveOffloads() []string {
	return []string{
		"tx-checksum-ip-generic", "rx-checksum", "tx-scatter-gather", "tx-generic-segmentation", "tx-tcp-segmentation",
		"tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation",
	}
}

// interfaces is the second step: which offloads are off where.
func (e evidence) interfaces() []result.Finding {
	if len(e.Environment.Offloads) == 0 {
		return nil
	}
	var off []string
	for _, role := range slices.Sorted(maps.Keys(e.Environment.Offloads)) {
		for _, name := range decisiveOffloads() {
			if on, known := e.Environment.Offloads[role][name]; known && !on {
				off = append(off, role+" "+name)
			}
		}
	}
	if len(off) == 0 {
		return []result.Finding{{Topic: "2 NIC offloads", Text: "checksums, segmentation and segmentation inside tunnels are on at every interface of the path."}}
	}
	return []result.Finding{{Topic: "2 NIC offloads", Text: "these are off: " + strings.Join(off, ", ") + ". Turn each on (ethtool -K) and measure again; selvage lab offload shows what each gains."}}
}

// checksum is the third step: each tunnel against itself without its checksum offload.
func (e evidence) checksum() []result.Finding {
	var out []result.Finding
	for _, name := range stats.Names(e.Result) {
		base := baseOf(name)
		if base == name {
			continue
		}
		for _, stage := range []Stage{unlimitedAt(StageTunnel), {Name: StageTunnel}} {
			iv := stats.Against(e.Result, name, base, stage.Case(), stats.Decisive)
			if iv.N == 0 {
				continue
			}
			advice := "keep it on"
			switch {
			case iv.Lo > 1:
				advice = "off is faster here: check that with a second run and with the driver's documentation"
			case iv.Hi >= 1:
				advice = "it makes no measurable difference here"
			}
			row, _ := e.find(name, stage, stats.Decisive)
			out = append(out, result.Finding{Topic: "3 Tunnel checksum", Text: fmt.Sprintf("without transmit checksum offload, %s carries %s Gbit/s from endpoint to endpoint, %s of its throughput with it [%.2f, %.2f]: %s.",
				e.title(base), stats.Figure(row.Median), stats.Ratio(iv.Median), iv.Lo, iv.Hi, advice)})
			break
		}
	}
	if len(out) == 0 {
		return []result.Finding{{Topic: "3 Tunnel checksum", Text: "not tested; --troubleshoot measures the tunnels without their checksum offload too."}}
	}
	return out
}

// stages is the fourth step: what each stage keeps of the one below.
func (e evidence) stages() []result.Finding {
	var out []result.Finding
	for _, name := range append([]string{e.DUT}, e.rivals()...) {
		var words []string
		for _, stage := range []string{StageTunnel, StageEgress} {
			loss, ok := e.find(name, e.at(stage), LossBelow)
			if !ok {
				continue
			}
			text := fmt.Sprintf("%s keeps %.3f × [%.3f, %.3f] of %s", stage, loss.Ratio, loss.RatioLo, loss.RatioHi, e.at(stage).Below())
			if c, ok := e.Target(name); ok && stage == StageTunnel {
				text += fmt.Sprintf(" (headers alone would leave %.3f ×)", 1-c.HeaderTax)
			}
			if cost, ok := e.find(name, e.at(stage), measure.CPUPerGB); ok {
				text += fmt.Sprintf(" at %s CPU s/GB", stats.Figure(cost.Median))
			}
			words = append(words, text)
		}
		if len(words) > 0 {
			out = append(out, result.Finding{Topic: "4 Stages", Text: fmt.Sprintf("%s: %s.", e.title(name), strings.Join(words, "; "))})
		}
	}
	return out
}

// translation compares with routing on the same path, without a rate where that was measured.
func (e evidence) translation() []result.Finding {
	var words []string
	for _, name := range append([]string{e.DUT}, e.rivals()...) {
		row, ok := e.find(name, unlimitedAt(StageEgress), NATKept)
		if !ok {
			row, ok = e.find(name, Stage{Name: StageEgress}, NATKept)
		}
		if !ok {
			continue
		}
		text := fmt.Sprintf("%s keeps %.3f × [%.3f, %.3f]", e.title(name), row.Ratio, row.RatioLo, row.RatioHi)
		if !row.Distinguishable {
			text += ", not distinguishable from 1"
		}
		words = append(words, text)
	}
	if len(words) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "5 NAT", Text: "of routed throughput on the same path, " + strings.Join(words, "; ") + "."}}
}

func (e evidence) connections() []result.Finding {
	var words []string
	for _, name := range append([]string{e.DUT}, e.rivals()...) {
		row, ok := stats.Find(e.Rows, name, StageEgress, ConnRate)
		if !ok {
			continue
		}
		text := fmt.Sprintf("%s opens %s a second with NAT", e.title(name), stats.Figure(row.Median))
		if kept, ok := stats.Find(e.Rows, name, StageEgress, NATConn); ok {
			text += fmt.Sprintf(", %s as many as without %s", stats.Ratio(kept.Ratio), diagnose.Bounds(kept))
		}
		if rival, ok := stats.Find(e.Rows, name, StageEgress, ConnRival); ok {
			text += fmt.Sprintf(" and %s as many as the kernel %s", stats.Ratio(rival.Ratio), diagnose.Bounds(rival))
		}
		if added, ok := stats.Find(e.Rows, name, StageEgress, ConnAdded); ok {
			text += fmt.Sprintf("; beyond what the end systems themselves take, each costs %s µs [%s, %s]", stats.Figure(added.Median), stats.Figure(added.Lo), stats.Figure(added.Hi))
		}
		words = append(words, diagnose.UpperFirst(text))
	}
	if len(words) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "Connections", Text: strings.Join(words, ". ") + "."}}
}

func (e evidence) roundTrips() []result.Finding {
	var words []string
	for _, name := range append([]string{e.DUT}, e.rivals()...) {
		var steps []string
		for _, stage := range Stages() {
			if row, ok := stats.Find(e.Rows, name, stage, RRP50); ok {
				steps = append(steps, stage+" "+stats.Figure(row.Median))
			}
		}
		if len(steps) > 0 {
			words = append(words, fmt.Sprintf("%s: %s µs", e.title(name), strings.Join(steps, ", ")))
		}
	}
	if len(words) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "Round trips", Text: "p50 by stage. " + diagnose.UpperFirst(strings.Join(words, "; ")) + "."}}
}

// hops says how much of what is lost without a rate is the lab's own doing.
func (e evidence) hops() []result.Finding {
	row, ok := e.find(Routing, unlimitedAt(StageRouted), stats.Decisive)
	if !ok || !row.Distinguishable || row.Ratio >= 1 {
		return nil
	}
	found := result.Finding{Topic: "Hops", Text: fmt.Sprintf("without a rate limit and a tunnel, the path over three links instead of one carries %s node to node %s: all hosts share this machine's %d cores, which separate hosts would not.",
		stats.Ratio(row.Ratio), diagnose.Bounds(row), e.Environment.Cores)}
	if own, ok := e.find(e.DUT, unlimitedAt(StageEgress), HopsRival); ok {
		found = found.And(fmt.Sprintf(" Compared with that, %s carries %s %s with tunnel and NAT.", e.title(e.DUT), stats.Ratio(own.Ratio), diagnose.Bounds(own)))
	}
	return []result.Finding{found}
}

// worst names the stage that loses most beyond what headers take, and why.
func (e evidence) worst() []result.Finding {
	var out []result.Finding
	for _, name := range append([]string{e.DUT}, e.rivals()...) {
		c, _ := e.Target(name)
		most, at := 0.0, ""
		for _, stage := range []string{StageTunnel, StageEgress} {
			loss, ok := e.find(name, e.at(stage), LossBelow)
			if stage == StageTunnel {
				loss.Median -= c.HeaderTax
			}
			if ok && (at == "" || loss.Median > most) {
				most, at = loss.Median, stage
			}
		}
		switch {
		case at == "":
		case most < stageLoss:
			out = append(out, result.Finding{Topic: "Which stage loses", Text: fmt.Sprintf("none with %s: beyond headers, the largest loss is %.1f %%, at %s.", e.title(name), 100*max(0, most), at)})
		default:
			out = append(out, result.Finding{Topic: "Which stage loses", Text: fmt.Sprintf("with %s it is %s, %.1f %% beyond headers. %s", e.title(name), at, 100*most, e.cause(name, at))})
		}
	}
	return out
}

// cause looks for what distinguishes a stage from the one below.
func (e evidence) cause(name, stage string) string {
	here, below := e.at(stage), e.at(e.at(stage).Below())
	mss, _ := e.find(name, here, measure.MSS)
	if c, ok := e.Target(name); ok && mss.N > 0 && mss.Median < float64(c.InnerMTU-72) {
		return fmt.Sprintf("Its segments are %s bytes although %d fit: something on the path keeps them small. Look for a smaller MTU.", stats.Figure(mss.Median), c.InnerMTU-52)
	}
	if busy := e.working(name, here); busy >= diagnose.BusyCore {
		return fmt.Sprintf("The cores are %.0f %% busy: they are the limit. See the CPU per gigabyte, and lower --wire to see the path itself.", 100*busy)
	}
	retransmitted, _ := e.find(name, here, measure.Retransmits)
	before, _ := e.find(name, below, measure.Retransmits)
	if retransmitted.Lo > before.Hi {
		return fmt.Sprintf("Retransmits rise from %s to %s a run: packets are lost or reordered there. Check the drop counters of queues and interfaces on both hosts (ip -s link, tc -s qdisc).",
			stats.In(before.Median, "count"), stats.In(retransmitted.Median, "count"))
	}
	cost, _ := e.find(name, here, measure.CPUPerGB)
	beneath, _ := e.find(name, below, measure.CPUPerGB)
	return fmt.Sprintf("Neither segments, retransmits nor full cores explain it; a gigabyte costs %s CPU seconds against %s below. Run it again with more rounds before you look further.",
		stats.Figure(cost.Median), stats.Figure(beneath.Median))
}

// working is the share of all cores' time during a stage's transfers.
func (e evidence) working(name string, stage Stage) float64 {
	transfers := e.Result
	transfers.Samples = slices.DeleteFunc(slices.Clone(e.Samples), func(s result.Sample) bool { return s.Metrics[stats.Decisive] == 0 })
	cores := stats.Cores(transfers, name, stage.Case())
	busy := 0.0
	for _, core := range cores {
		busy += (1 - core.Idle) / float64(len(cores))
	}
	return busy
}
