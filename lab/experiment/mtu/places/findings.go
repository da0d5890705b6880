package places

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/turns"
)

// blackHole is the row that says whether a path has one, either way.
const blackHole = "black_hole"

// metrics are the figures of r, in the order of the rows.
func metrics(r result.Result) []stats.Metric {
	var throughput, segments, retransmits, cpu, sizes []stats.Metric
	for _, caseName := range stats.Cases(r) {
		if isSize(caseName) {
			sizes = append(sizes,
				stats.Metric{Case: caseName, Name: measure.LargestSize, Unit: "bytes", Title: "Largest packet that arrives, " + caseName, Higher: true},
				stats.Metric{Case: caseName, Name: measure.BelievedMTU, Unit: "bytes", Title: "MTU that the sender believes in, " + caseName, Higher: true},
				stats.Metric{Case: caseName, Name: measure.ReportedMTU, Unit: "bytes", Title: "MTU that ICMP reports, " + caseName, Higher: true})
			continue
		}
		throughput = append(throughput, stats.Metric{Case: caseName, Name: measure.TCPThroughput, Unit: "Gbit/s", Title: "TCP throughput, " + caseName, Higher: true})
		segments = append(segments, stats.Metric{Case: caseName, Name: measure.MSS, Unit: "bytes", Title: "TCP segment size, " + caseName, Higher: true})
		retransmits = append(retransmits, stats.Metric{Case: caseName, Name: measure.Retransmits, Unit: "count", Title: "TCP retransmits, " + caseName})
		for _, role := range []string{client, server} {
			cpu = append(cpu, stats.Metric{Case: caseName, Name: turns.CPUMetric("", role), Unit: "cores", Title: "Cores busy, " + role + ", " + caseName})
		}
	}
	return slices.Concat(throughput, segments, retransmits, sizes, cpu)
}

func isSize(caseName string) bool { return caseName == size || caseName == size+reverse }

// summarise has blackHole of each path first. Transfers as it is are against the first path, those
// with another MTU against the same path as it is.
func summarise(r result.Result) []result.Row {
	var rows []result.Row
	names := stats.Names(r)
	for _, name := range names {
		if row, ok := holeRow(r, name); ok {
			rows = append(rows, row)
		}
	}
	for _, m := range metrics(r) {
		for _, name := range names {
			row, ok := turns.Row(r, name, m)
			if !ok {
				continue
			}
			values := stats.Values(r, name, m.Case, m.Name)
			switch {
			case strings.HasPrefix(m.Case, mtuPrefix):
				turns.Against(&row, name+":"+tcp, values, stats.Values(r, name, tcp, m.Name))
			case name != names[0] && !isSize(m.Case):
				turns.Against(&row, names[0], values, stats.Values(r, names[0], m.Case, m.Name))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// holeRow says whether a path has a hole. n is the number of its transfers.
func holeRow(r result.Result, name string) (row result.Row, ok bool) {
	row = result.Row{Target: name, Case: tcp, Metric: blackHole, Unit: "1 or 0"}
	for _, w := range waysOf(r, name) {
		row.N += w.transfers
		if w.hole() {
			row.Median, row.Lo, row.Hi = 1, 1, 1
		}
	}
	return row, row.N > 0
}

// way is a path in one direction.
type way struct {
	path, suffix string

	transfers, stalled int
	mss                float64 // of a transfer that stalled, else of any
	searched           bool
	least, best        float64 // largest packets that arrive, by source port
	believed, reported float64 // bytes
}

// words is its direction.
func (w way) words() string {
	if w.suffix == reverse {
		return "server to client"
	}
	return "client to server"
}

// silent says whether packets that the sender believes in vanish without a message.
func (w way) silent() bool { return w.searched && w.least < w.believed && w.reported == 0 }

// hole says whether TCP falls into one: transfers stall, and the size that the sender believes in
// does not arrive. Without a search most have to stall.
func (w way) hole() bool {
	if w.searched {
		return w.stalled > 0 && w.least < w.believed
	}
	return 2*w.stalled > w.transfers
}

// waysOf are both directions of a path.
func waysOf(r result.Result, path string) []way {
	var all []way
	for _, suffix := range []string{"", reverse} {
		w := way{path: path, suffix: suffix}
		for _, s := range r.Samples {
			if s.Target != path || s.Error != "" {
				continue
			}
			switch s.Case {
			case tcp + suffix:
				w.transfers++
				_, stalled := stats.Stalled(s)
				if stalled {
					w.stalled++
				}
				if stalled || w.stalled == 0 {
					w.mss = s.Metrics[measure.MSS]
				}
			case size + suffix:
				w.searched = true
				w.least, w.best = s.Metrics[measure.LargestSize], s.Metrics[measure.LargestBest]
				w.believed, w.reported = s.Metrics[measure.BelievedMTU], s.Metrics[measure.ReportedMTU]
			}
		}
		all = append(all, w)
	}
	return all
}

type evidence struct{ diagnose.Evidence }

// verdict answers which paths have a black hole, and what those that have none carry.
func verdict(r result.Result) result.Verdict {
	e := evidence{diagnose.Summed(r, summarise, "")}
	v := result.Verdict{Findings: e.findings()}
	var holed, whole []string
	for _, name := range stats.Names(r) {
		for _, w := range waysOf(r, name) {
			switch {
			case w.transfers == 0:
				v.Refuse(fmt.Sprintf("no transfer over %s succeeded, %s", name, w.words()), "See the errors, and run it again.")
				return v
			case w.hole():
				holed = append(holed, hole(w))
			}
		}
		if !slices.ContainsFunc(waysOf(r, name), way.hole) {
			whole = append(whole, e.carries(name))
		}
	}
	switch {
	case len(holed)+len(whole) == 0:
		v.Refuse("nothing was measured", "")
	case len(holed) == 0:
		v.Headline = "No black hole: " + strings.Join(whole, "; ") + "."
	default:
		v.Headline = "An MTU black hole: " + strings.Join(holed, "; ") + "."
		if len(whole) > 0 {
			v.Explanation = "None: " + strings.Join(whole, "; ") + "."
		}
	}
	return v
}

// hole is what happens in one.
func hole(w way) string {
	text := fmt.Sprintf("over %s, %s, %d of %d transfers stall with an MSS of %s bytes", w.path, w.words(), w.stalled, w.transfers, stats.Figure(w.mss))
	if w.searched {
		text += fmt.Sprintf(", as %s bytes arrive where the sender believes in %s", stats.Figure(w.least), stats.Figure(w.believed))
	}
	if w.silent() {
		text += " and no ICMP error tells it"
	}
	return text
}

// carries is what a path without one does.
func (e evidence) carries(name string) string {
	row, _ := stats.Find(e.Rows, name, tcp, measure.TCPThroughput)
	text := fmt.Sprintf("%s carries %s Gbit/s", name, stats.Figure(row.Median))
	ways := waysOf(e.Result, name)
	if ways[0].searched && ways[1].searched {
		text += fmt.Sprintf(" and packets of %s bytes", stats.Figure(min(ways[0].least, ways[1].least)))
	}
	if row.Baseline != "" && row.Ratio > 0 {
		text += fmt.Sprintf(", %s %s [%.2f, %.2f]", stats.Ratio(row.Ratio), row.Baseline, row.RatioLo, row.RatioHi)
		if !row.Distinguishable {
			text += " (not distinguishable)"
		}
	}
	return text
}

func (e evidence) findings() []result.Finding {
	return diagnose.Collect(e.Failed, e.Stolen, e.FewRounds, e.stalls, e.largest, e.fixes, e.tax, e.byMTU)
}

// largest says what arrives over each path, and who is told.
func (e evidence) largest() []result.Finding {
	var out []result.Finding
	for _, name := range stats.Names(e.Result) {
		for _, w := range waysOf(e.Result, name) {
			if !w.searched {
				continue
			}
			text := fmt.Sprintf("over %s, %s, %s bytes arrive", name, w.words(), stats.Figure(w.least))
			switch {
			case w.least != w.best:
				text += fmt.Sprintf(" from some source ports and %s from others: look for a member of a LAG or of ECMP with a smaller MTU", stats.Figure(w.best))
			default:
				text += fmt.Sprintf(" from each of %d source ports", flows)
			}
			switch {
			case w.reported > 0:
				text += fmt.Sprintf(", and ICMP errors tell the sender of %s", stats.Figure(w.reported))
			case w.silent() && !w.hole():
				text += fmt.Sprintf(". Larger ones, up to the %s that the sender believes in, vanish silently. TCP lives, as its MSS is %s bytes (a clamp, or an MTU at the other end); QUIC, DNS and tunnels do not", stats.Figure(w.believed), stats.Figure(w.mss))
			case w.silent():
				text += ". Larger ones vanish silently"
			}
			out = append(out, result.Finding{Topic: "Largest packet", Text: text + "."})
		}
	}
	return out
}

// stalls are those that no size explains.
func (e evidence) stalls() []result.Finding {
	var out []result.Finding
	for _, name := range stats.Names(e.Result) {
		for _, w := range waysOf(e.Result, name) {
			if w.stalled > 0 && !w.hole() {
				out = append(out, result.Finding{Topic: "Stalls", Text: fmt.Sprintf("over %s, %s, %d of %d transfers went silent for the rest of their slice, and not for their size: loss, load, or slices shorter than TCP's timeouts. Raise --slice.",
					name, w.words(), w.stalled, w.transfers)})
			}
		}
	}
	return out
}

// fixes are for paths with a hole.
func (e evidence) fixes() []result.Finding {
	var out []result.Finding
	for _, name := range stats.Names(e.Result) {
		for _, w := range waysOf(e.Result, name) {
			if !w.hole() || !w.searched {
				continue
			}
			headers, family := 40, "ip"
			if e.isIPv6(name) {
				headers, family = 60, "ip6"
			}
			out = append(out, result.Finding{Topic: "Fixes", Text: fmt.Sprintf(
				"over %s, %s: an MTU of %.0f at the senders (ip link set dev IFACE mtu %.0f) fixes all protocols; ICMP errors that nobody drops on the way tell senders; a clamp on a hop (nft add rule inet filter forward meta nfproto %s tcp flags syn tcp option maxseg size set %.0f) fixes TCP alone. Run this again afterwards.",
				name, w.words(), w.least, w.least, map[string]string{"ip": "ipv4", "ip6": "ipv6"}[family], w.least-float64(headers))})
		}
	}
	return out
}

func (e evidence) isIPv6(name string) bool {
	return slices.Contains(stats.ByRound(stats.Values(e.Result, name, tcp, ipVersion)), 6)
}

// tax holds the loss against the first path beside what its headers cost.
func (e evidence) tax() []result.Finding {
	var out []result.Finding
	names := stats.Names(e.Result)
	for _, name := range names[min(1, len(names)):] {
		row, ok := stats.Find(e.Rows, name, tcp, measure.TCPThroughput)
		of, over := waysOf(e.Result, name)[0], waysOf(e.Result, names[0])[0]
		if !ok || row.Ratio <= 0 || !of.searched || !over.searched || of.least >= over.least || e.isIPv6(name) != e.isIPv6(names[0]) {
			continue
		}
		plain := stats.Path{MTU: int(over.least), IPv6: e.isIPv6(names[0]), Timestamps: true}
		tunnel := stats.Path{MTU: int(of.least), IPv6: plain.IPv6, Timestamps: true, Outer: int(over.least - of.least)}
		same := ""
		if !row.Distinguishable {
			same = ", no difference shown"
		}
		out = append(out, result.Finding{Topic: "Header tax", Text: fmt.Sprintf("if %s is a tunnel over %s, its headers of %d bytes cost %s where the wire is the limit; measured is %s [%s, %s]%s.",
			name, names[0], tunnel.Outer, stats.Share(stats.HeaderTax(plain, tunnel)), stats.Percent(row.Ratio-1), stats.Percent(row.RatioLo-1), stats.Percent(row.RatioHi-1), same)})
	}
	return out
}

// byMTU says what other MTUs gave, where segments followed.
func (e evidence) byMTU() []result.Finding {
	var out []result.Finding
	for _, caseName := range stats.Cases(e.Result) {
		if !strings.HasPrefix(caseName, mtuPrefix) {
			continue
		}
		for _, name := range stats.Names(e.Result) {
			row, ok := stats.Find(e.Rows, name, caseName, measure.TCPThroughput)
			mss, _ := stats.Find(e.Rows, name, caseName, measure.MSS)
			was, okWas := stats.Find(e.Rows, name, tcp, measure.MSS)
			if !ok || !okWas {
				continue
			}
			mtu := strings.TrimPrefix(caseName, mtuPrefix)
			switch {
			case mss.Median == was.Median:
				out = append(out, result.Finding{Topic: "By MTU", Text: fmt.Sprintf("with an MTU of %s the MSS over %s stayed at %s bytes: the interfaces are not on that path, or something keeps segments as they are. Its throughput says nothing about the MTU.", mtu, name, stats.Figure(mss.Median))})
			case row.Ratio > 0:
				text := fmt.Sprintf("with an MTU of %s the MSS over %s went from %s to %s bytes, and throughput is %s [%.2f, %.2f]", mtu, name, stats.Figure(was.Median), stats.Figure(mss.Median), stats.Ratio(row.Ratio), row.RatioLo, row.RatioHi)
				if !row.Distinguishable {
					text += " (not distinguishable)"
				}
				out = append(out, result.Finding{Topic: "By MTU", Text: text + "."})
			}
		}
	}
	return out
}
