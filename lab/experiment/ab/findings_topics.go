package ab

import (
	"fmt"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Limits of what findings call remarkable.
const (
	climb    = 0.10 // a core's softirq share above plain's, in shares of its time
	nearWire = 0.95 // of wire's throughput: the machine is the limit
	overTax  = 0.05 // loss beyond the headers that needs an explanation
)

// findings goes through what the FortiGate study asks of an A/B run, in the order in which a
// reader needs it. Each is "Topic: evidence and cause. Advice."
func (e evidence) findings() []result.Finding {
	return diagnose.Collect(
		e.Failed, e.control, e.noisy, e.Stolen, e.FewRounds, e.BridgeNetfilter, e.processor, e.latency, e.packets,
		e.retransmits, e.segments, e.limit, e.tax, e.equal, e.placement,
	)
}

// noisy speaks of targets besides those that the verdict stands on.
func (e evidence) noisy() []result.Finding {
	var out []result.Finding
	for _, name := range stats.Names(e.Result) {
		if name == diagnose.Plain || name == e.DUT {
			continue
		}
		if why := stats.Unreliable(e.Result, name); why != "" {
			out = append(out, result.Finding{Topic: "Noise", Text: fmt.Sprintf("%s. Do not rely on the figures of %s.", why, e.Title(name))})
		}
	}
	return out
}

// retransmits compares with plain and names the usual cause.
func (e evidence) retransmits() []result.Finding {
	row, ok := stats.Find(e.Rows, e.DUT, "tcp", measure.Retransmits)
	base, okBase := stats.Find(e.Rows, diagnose.Plain, "tcp", measure.Retransmits)
	if !ok || !okBase {
		return nil
	}
	per := "run"
	if stats.Sliced(e.Result) {
		per = "round"
	}
	against := fmt.Sprintf("%s a %s [%s, %s] with %s against %s [%s, %s] with %s",
		stats.In(row.Median, row.Unit), per, stats.In(row.Lo, row.Unit), stats.In(row.Hi, row.Unit), e.Title(e.DUT),
		stats.In(base.Median, base.Unit), stats.In(base.Lo, base.Unit), stats.In(base.Hi, base.Unit), e.Title(diagnose.Plain))
	switch {
	case !row.Distinguishable:
		return []result.Finding{{Topic: "Retransmits", Text: against + ", not distinguishable: the tunnel neither loses nor reorders."}}
	case row.Median > base.Median:
		return []result.Finding{{Topic: "Retransmits", Text: against + ". Without drops, that is reordering between cores: check whether TcpExtTCPDSACKRecv and TcpExtTCPOFOQueue rise (nstat), and keep the receive processing of one flow on one core."}}
	}
	return []result.Finding{{Topic: "Retransmits", Text: against + ": fewer than without a tunnel, so its throughput is not bought with loss."}}
}

// segments checks that the inner MTU was used: without that no conclusion about
// per-packet or per-flow limits holds (the FortiGate study, Care).
func (e evidence) segments() []result.Finding {
	var out []result.Finding
	for _, name := range stats.Names(e.Result) {
		c, ok := e.Target(name)
		mss := stats.Median(values(e, name, measure.MSS))
		if !ok || mss.N == 0 || c.InnerMTU == 0 {
			continue
		}
		// A full segment leaves 40 (IPv4, no options) to 72 bytes (IPv6, timestamps) of headers.
		switch most, least := float64(c.InnerMTU-40), float64(c.InnerMTU-72); {
		case mss.Median > most:
			out = append(out, result.Finding{Topic: "Segment size", Text: fmt.Sprintf("%s uses an MSS of %s bytes on an inner MTU of %d, which does not fit: large packets are dropped or fragmented on the path. Lower the guest's MTU or clamp the MSS to %s.",
				e.Title(name), stats.Figure(mss.Median), c.InnerMTU, stats.Figure(most-12))})
		case mss.Median < least:
			out = append(out, result.Finding{Topic: "Segment size", Text: fmt.Sprintf("%s uses an MSS of only %s bytes although an inner MTU of %d has room for %s: something on the path keeps the segments small, so this run says nothing about per-packet against per-byte cost. Look for a smaller MTU on the path.",
				e.Title(name), stats.Figure(mss.Median), c.InnerMTU, stats.Figure(most-12))})
		}
	}
	return out
}

// limit says when the machine and not the data path was measured.
func (e evidence) limit() []result.Finding {
	top, ok := e.tcp(diagnose.Wire)
	if !ok || top.Median == 0 {
		return []result.Finding{{Topic: "Limit", Text: "the bare wire was not measured, so whether the machine itself was the limit is unknown. Add wire to --targets."}}
	}
	var near []string
	for _, name := range append([]string{diagnose.Plain}, e.Tunnels()...) {
		if row, ok := e.tcp(name); ok && row.Median >= nearWire*top.Median {
			near = append(near, fmt.Sprintf("%s (%s of it)", e.Title(name), stats.Share(row.Median/top.Median)))
		}
	}
	if len(near) > 0 {
		return []result.Finding{{Topic: "Limit", Text: fmt.Sprintf("the bare wire carries %s Gbit/s; close behind: %s. The machine and its TCP stack, not the data path, are the limit there, so real differences may be larger than shown. Compare the CPU per gigabyte instead.",
			stats.Figure(top.Median), strings.Join(near, ", "))}}
	}
	best, _ := e.tcp(e.DUT)
	return []result.Finding{{Topic: "Limit", Text: fmt.Sprintf("the bare wire carries %s Gbit/s, %s × the fastest data path of the verdict, so the generator was not the limit.",
		stats.Figure(top.Median), stats.Figure(top.Median/max(best.Median, baseMedian(e))))}}
}

func baseMedian(e evidence) float64 {
	row, _ := e.tcp(diagnose.Plain)
	return row.Median
}

// tax sets the loss that headers explain beside the one that was measured.
func (e evidence) tax() []result.Finding {
	var out []result.Finding
	for _, name := range e.Tunnels() {
		c, ok := e.Target(name)
		row, measured := e.tcp(name)
		if !ok || !measured || row.Ratio == 0 || stats.Unreliable(e.Result, name) != "" {
			continue
		}
		loss := 1 - row.Ratio
		switch {
		case loss > c.HeaderTax+overTax:
			out = append(out, result.Finding{Topic: "Header tax", Text: fmt.Sprintf("%s loses %s against %s, of which headers explain %s; the rest is work per packet in the tunnel, not bytes on the wire.",
				e.Title(name), stats.Share(loss), e.Title(diagnose.Plain), stats.Share(c.HeaderTax))})
		case row.RatioLo > 1-c.HeaderTax:
			out = append(out, result.Finding{Topic: "Header tax", Text: fmt.Sprintf("%s loses less than the %s that headers cost where the wire is the limit; here the processor is, and a tunnel that keeps segments whole costs once per 64 kB, not once per packet. Expect the tax on a saturated physical link.",
				e.Title(name), stats.Share(c.HeaderTax))})
		}
	}
	return out
}

// equal lists the subject's metrics that differ from plain by less than noise.
func (e evidence) equal() []result.Finding {
	var names []string
	for _, m := range Metrics() {
		row, ok := stats.Find(e.Rows, e.DUT, m.Case, m.Name)
		if ok && row.Baseline != "" && !row.Distinguishable && m.Name != measure.Retransmits {
			names = append(names, fmt.Sprintf("%s (%s)", diagnose.LowerFirst(m.Title), stats.Ratio(row.Ratio)))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "No difference shown", Text: fmt.Sprintf("%s of %s cannot be told from %s in %s.",
		strings.Join(names, ", "), e.Title(e.DUT), e.Title(diagnose.Plain), result.Counted(stats.Rounds(e.Result), "round"))}}
}

// placement advises what belongs on the overlay and what beside it.
func (e evidence) placement() []result.Finding {
	row, ok := e.tcp(e.DUT)
	if !ok || row.Ratio == 0 || stats.Refuse(e.Result, e.DUT) != "" {
		return nil
	}
	c, _ := e.Target(e.DUT)
	rr, okRR := stats.Find(e.Rows, e.DUT, "rr-1", measure.RRP50)
	switch {
	case row.Ratio < 1-c.HeaderTax-overTax:
		return []result.Finding{{Topic: "Placement", Text: fmt.Sprintf("bulk transfers (backup, storage, migration) lose %s here. Keep them on a plain VLAN, and put on the overlay what needs to move between hosts.", stats.Share(1-row.Ratio))}}
	case okRR && rr.Distinguishable && rr.Ratio > 1.1:
		return []result.Finding{{Topic: "Placement", Text: fmt.Sprintf("bulk transfers can use the overlay; chatty request/response traffic pays %s the plain latency and is better placed on one host or on a plain VLAN.", stats.Ratio(rr.Ratio))}}
	}
	return []result.Finding{{Topic: "Placement", Text: "neither bulk nor request/response traffic has to be kept off the overlay on this machine; on a saturated physical link, keep off it what cannot afford the header tax."}}
}
