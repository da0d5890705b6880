package mtu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// findings goes through the hole, who is told, the fixes and the ceiling.
func (e evidence) findings() []result.Finding {
	return diagnose.Collect(
		e.Failed, e.Stolen, e.holes, e.largest, e.probing, e.offloaded, e.fixes, e.jumbo, e.ceilings,
	)
}

// ways are the transfers that may fall into the hole, in words.
func ways() []struct{ suffix, words string } {
	return []struct{ suffix, words string }{
		{"", "client to server"}, {Reverse, "server to client"},
		{"-v6", "client to server over IPv6"}, {"-v6" + Reverse, "server to client over IPv6"},
	}
}

// holes says for each tunnel which transfers stalled, and how.
func (e evidence) holes() []result.Finding {
	var out []result.Finding
	for _, name := range e.Tunnels() {
		var stalled, passed []string
		detail := ""
		for _, way := range ways() {
			for _, s := range e.samples(name, HoleCase+way.suffix) {
				at, stalls := stats.Stalled(s)
				if !stalls {
					passed = append(passed, way.words)
					continue
				}
				stalled = append(stalled, way.words)
				if detail == "" {
					detail = fmt.Sprintf("%s, the sender wrote %s kB, and in %.1f s nothing arrived%s, while small packets passed throughout; TCP retransmitted %.0f segments and kept an MSS of %s bytes",
						diagnose.UpperFirst(way.words), stats.Figure(s.Metrics[measure.TCPSent]*s.Duration*1e9/8/1e3), s.Duration, after(at),
						s.Metrics[measure.Retransmits], stats.Figure(s.Metrics[measure.MSS]))
				}
			}
		}
		switch {
		case len(stalled) == 0 && len(passed) > 0:
			row, _ := stats.Find(e.Rows, name, HoleCase, stats.Decisive)
			out = append(out, result.Finding{Topic: "Black hole", Text: fmt.Sprintf("%s has none in %d transfers (%s Gbit/s client to server).", e.Title(name), len(passed), stats.Figure(row.Median))})
		case len(passed) > 0 && len(stalled) > 0:
			out = append(out, result.Finding{Topic: "Black hole", Text: fmt.Sprintf("%s has one %s, and none %s. %s.", e.Title(name), strings.Join(stalled, ", "), strings.Join(passed, ", "), detail)})
		case len(stalled) > 0:
			out = append(out, result.Finding{Topic: "Black hole", Text: fmt.Sprintf("%s has one in all %d transfers. %s.", e.Title(name), len(stalled), detail)})
		}
	}
	return out
}

// after says when silence began, where it was not at once.
func after(at float64) string {
	if at == 0 {
		return ""
	}
	return fmt.Sprintf(" after the first %.1f", at)
}

// largest says what arrives, whether it depends on the flow, and who is told.
func (e evidence) largest() []result.Finding {
	var out []result.Finding
	for _, name := range e.Tunnels() {
		least, best, flows, reported, silent := 0.0, 0.0, 0.0, []string{}, false
		for _, way := range ways() {
			for _, s := range e.samples(name, SizeCase+way.suffix) {
				if size := s.Metrics[measure.LargestSize]; least == 0 || size < least {
					least = size
				}
				best, flows = max(best, s.Metrics[measure.LargestBest]), max(flows, s.Metrics[measure.Flows])
				mtu := stats.Figure(s.Metrics[measure.ReportedMTU])
				switch {
				case s.Metrics[measure.ReportedFlows] == 0:
					silent = true
				case !slices.Contains(reported, mtu):
					reported = append(reported, mtu)
				}
			}
		}
		if flows == 0 {
			continue
		}
		found := result.Finding{Topic: "Largest packet", Text: fmt.Sprintf("with %s %s bytes arrive, both ways, over IPv4 and IPv6, and from each of %.0f source ports: no member of a LAG or of ECMP carries less.", e.Title(name), stats.Figure(least), flows)}
		if least != best {
			found = result.Finding{Topic: "Largest packet", Text: fmt.Sprintf("with %s %s to %s bytes arrive, by direction, family or source port: look for a member of a LAG or of ECMP, or one host, with a smaller MTU.", e.Title(name), stats.Figure(least), stats.Figure(best))}
		}
		switch {
		case silent && len(reported) == 0 && e.bytes("guest_mtu") != stats.Figure(least):
			found = found.And(" Larger ones are dropped silently.")
		case len(reported) > 0:
			found = found.And(fmt.Sprintf(" ICMP errors tell senders of larger ones %s.", strings.Join(reported, " or ")))
		}
		out = append(out, found)
	}
	return out
}

// probing says whether TCP would have found out by itself.
func (e evidence) probing() []result.Finding {
	holed, _ := e.split()
	value, known := e.Environment.Sysctls["net.ipv4.tcp_mtu_probing"]
	if len(holed) == 0 || !known || value != "0" {
		return nil
	}
	return []result.Finding{{Topic: "MTU probing", Text: "TCP never tries smaller segments by itself here (net.ipv4.tcp_mtu_probing is 0). With 1 in every guest (sysctl -w net.ipv4.tcp_mtu_probing=1) it does, but only after several timeouts and for TCP alone: a stopgap."}}
}

// offloaded compares with guests that leave segmentation to the host.
func (e evidence) offloaded() []result.Finding {
	var out []result.Finding
	for _, name := range e.Tunnels() {
		has, _ := e.hole(name)
		for _, s := range e.samples(name, OffloadCase) {
			if _, stalled := stats.Stalled(s); !has || stalled {
				continue
			}
			out = append(out, result.Finding{Topic: "Segmentation offload", Text: fmt.Sprintf("with it on in the guests the same transfer through %s gives %s Gbit/s with an MSS of %s bytes: the bridge passes whole segments, whatever the size of their packets, and the tunnel device answers with ICMP errors. So a test between two virtual machines looks fine while a physical host behind the same bridge gets nothing.",
				e.Title(name), stats.Figure(s.Metrics[stats.Decisive]), stats.Figure(s.Metrics[measure.MSS]))})
		}
	}
	return out
}

// fixes says what each gave, and how to do it.
func (e evidence) fixes() []result.Finding {
	holed, _ := e.split()
	var out []result.Finding
	for _, fix := range Fixes(e.Result) {
		if fix.Case == "" && len(holed) > 0 {
			out = append(out, result.Finding{Topic: "Fixes", Text: fmt.Sprintf("with %s everything fits; %s: %s. %s", fix.Short, fix.Where, strings.Join(fix.Commands, "; "), fix.Note)})
		}
		for _, name := range e.Tunnels() {
			row, ok := stats.Find(e.Rows, name, fix.Case, stats.Decisive)
			mss, _ := stats.Find(e.Rows, name, fix.Case, measure.MSS)
			if !ok {
				continue
			}
			how := ""
			if slices.Contains(holed, name) {
				how = fmt.Sprintf(" %s: %s.", diagnose.UpperFirst(fix.Where), strings.Join(fix.Commands, "; "))
			}
			for _, s := range e.samples(name, fix.Case) {
				if _, stalled := stats.Stalled(s); stalled {
					how = " In at least one round it did not help." + how
					break
				}
			}
			out = append(out, result.Finding{Topic: "Fixes", Text: fmt.Sprintf("with %s %s carries %s Gbit/s [%s, %s] (n = %d), its MSS being %s bytes%s.%s", fix.Short, e.Title(name),
				stats.Figure(row.Median), stats.Figure(row.Lo), stats.Figure(row.Hi), row.N, stats.Figure(mss.Median), e.against(row.Ratio, row.RatioLo, row.RatioHi), how)})
		}
	}
	return out
}

// against is a ratio to plain in words, "" without one.
func (e evidence) against(ratio, lo, hi float64) string {
	if ratio == 0 {
		return ""
	}
	return fmt.Sprintf(", %s plain with the same segments [%.2f, %.2f]", stats.Ratio(ratio), lo, hi)
}

// jumbo says what large packets brought, or why that cannot be said.
func (e evidence) jumbo() []result.Finding {
	var out []result.Finding
	for _, name := range append([]string{diagnose.Plain}, e.Tunnels()...) {
		now, ok := stats.Find(e.Rows, name, "jumbo", stats.Decisive)
		was, okWas := stats.Find(e.Rows, name, "guest-mtu", stats.Decisive)
		mss, _ := stats.Find(e.Rows, name, "jumbo", measure.MSS)
		old, _ := stats.Find(e.Rows, name, "guest-mtu", measure.MSS)
		if !ok || !okWas || was.Median == 0 || old.Median == 0 {
			continue
		}
		if mss.Median < sizesApart*old.Median {
			out = append(out, result.Finding{Topic: "Jumbo", Text: fmt.Sprintf("no conclusion for %s: the MSS in use stayed at %s bytes (%s before) on an underlay of %s. Something on the path keeps segments small, so a throughput that does not rise says nothing about packets, bytes or flows.",
				e.Title(name), stats.Figure(mss.Median), stats.Figure(old.Median), e.bytes("jumbo_mtu"))})
			continue
		}
		out = append(out, result.Finding{Topic: "Jumbo", Text: fmt.Sprintf("with an underlay of %s bytes the MSS of %s grew from %s to %s and throughput from %s to %s Gbit/s (%s).",
			e.bytes("jumbo_mtu"), e.Title(name), stats.Figure(old.Median), stats.Figure(mss.Median), stats.Figure(was.Median), stats.Figure(now.Median), stats.Ratio(now.Median/was.Median))})
	}
	return out
}

// ceilings classifies each target's.
func (e evidence) ceilings() []result.Finding {
	all := Ceilings(e.Result)
	var out []result.Finding
	for _, name := range stats.Names(e.Result) {
		c, ok := all[name]
		if !ok {
			continue
		}
		if c.Refused != "" {
			out = append(out, result.Finding{Topic: "Ceiling", Text: fmt.Sprintf("no conclusion for %s: %s.", e.Title(name), c.Refused)})
			continue
		}
		found := result.Finding{Topic: "Ceiling", Text: fmt.Sprintf("%s is limited %s: from segments of %s to %s bytes the rate grows with elasticity %.2f [%.2f, %.2f] (1: packets a second are constant, 0: bits are), about %s ns a packet and %s ns a kilobyte.",
			e.Title(name), c.Words(), stats.Figure(c.Least), stats.Figure(c.Most), c.Elasticity.Median, c.Elasticity.Lo, c.Elasticity.Hi,
			stats.Figure(c.PacketNS), stats.Figure(c.KilobyteNS))}
		switch {
		case c.Growth.N == 0:
		case c.Busy >= diagnose.BusyCore:
			found = found.And(fmt.Sprintf(" One flow fills the whole machine (%.0f %%), so this run cannot show whether more flows would carry more elsewhere.", 100*c.Busy))
		default:
			found = found.And(fmt.Sprintf(" %d flows carry %s what one does [%.2f, %.2f].", c.Flows, stats.Ratio(c.Growth.Median), c.Growth.Lo, c.Growth.Hi))
		}
		out = append(out, found)
	}
	return out
}
