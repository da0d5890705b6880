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

// Rows besides those of the figures.
const (
	leak     = "leak"      // whether the target saw the node's own address over an egress path
	rrAdded  = "rr_added"  // µs to a round trip, of the first path
	crrAdded = "crr_added" // µs to a connection
)

var added = []struct{ name, caseName, of, title, words string }{
	{rrAdded, rr, measure.RRP50, "Added to a round trip", "a round trip"},
	{crrAdded, crr, measure.CRRP50, "Added to a connection", "a connection that is opened, asked and closed"},
}

// metrics are the figures of the samples, in the order of the rows.
func metrics() []stats.Metric {
	var throughput, retransmits, costs, cores []stats.Metric
	for _, way := range []struct{ caseName, words string }{{tcp, "to the target"}, {tcpReverse, "from the target"}} {
		throughput = append(throughput, stats.Metric{Case: way.caseName, Name: measure.TCPThroughput, Unit: "Gbit/s", Title: "TCP throughput, " + way.words, Higher: true})
		retransmits = append(retransmits, stats.Metric{Case: way.caseName, Name: measure.Retransmits, Unit: "count", Title: "TCP retransmits, " + way.words})
		for _, role := range roles() {
			costs = append(costs, stats.Metric{Case: way.caseName, Name: role + turns.CPUPerGB, Unit: "s/GB", Title: "CPU per GB, " + role + ", " + way.words})
		}
	}
	for _, caseName := range []string{tcp, tcpReverse, rr, crr} {
		for _, role := range roles() {
			cores = append(cores, stats.Metric{Case: caseName, Name: turns.CPUMetric("", role), Unit: "cores", Title: "Cores busy, " + role + ", " + caseName})
		}
	}
	times := []stats.Metric{
		{Case: rr, Name: measure.RRP50, Unit: "µs", Title: "Round trip, p50"},
		{Case: rr, Name: measure.RRP99, Unit: "µs", Title: "Round trip, p99"},
		{Case: crr, Name: measure.CRRP50, Unit: "µs", Title: "Connect, ask and close, p50"},
		{Case: crr, Name: measure.CRRP99, Unit: "µs", Title: "Connect, ask and close, p99"},
		{Case: crr, Name: measure.CRRRate, Unit: "1/s", Title: "Connections a second, one at a time", Higher: true},
	}
	return slices.Concat(throughput, times, retransmits, costs, cores)
}

// rowMetrics are those of the rows.
func rowMetrics() []stats.Metric {
	list := []stats.Metric{{Case: source, Name: leak, Unit: "1 or 0", Title: "Source address leaks"}}
	for _, a := range added {
		list = append(list, stats.Metric{Case: a.caseName, Name: a.name, Unit: "µs", Title: a.title})
	}
	return append(list, metrics()...)
}

// summarise has the leak of each egress path first, then what each path adds to the first one, then
// all figures, against the first path's of the same rounds.
func summarise(r result.Result) []result.Row {
	names := stats.Names(r)
	var rows []result.Row
	for _, name := range names {
		if src := sourcesOf(r, name); isEgress(name) && src.asked > 0 {
			row := result.Row{Target: name, Case: source, Metric: leak, Unit: "1 or 0", N: src.asked}
			if src.node > 0 {
				row.Median, row.Lo, row.Hi = 1, 1, 1
			}
			rows = append(rows, row)
		}
	}
	for _, a := range added {
		for _, name := range names[min(1, len(names)):] {
			iv := turns.Difference(stats.Values(r, name, a.caseName, a.of), stats.Values(r, names[0], a.caseName, a.of))
			if iv.N > 0 {
				rows = append(rows, result.Row{Target: name, Case: a.caseName, Metric: a.name, Unit: "µs", Baseline: names[0],
					Median: iv.Median, Lo: iv.Lo, Hi: iv.Hi, N: iv.N, Distinguishable: turns.Apart(iv)})
			}
		}
	}
	for _, m := range metrics() {
		for _, name := range names {
			row, ok := turns.Row(r, name, m)
			if !ok {
				continue
			}
			if name != names[0] {
				turns.Against(&row, names[0], stats.Values(r, name, m.Case, m.Name), stats.Values(r, names[0], m.Case, m.Name))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// sources are the source addresses that the target saw over a path.
type sources struct {
	asked, node, gateway, other int // connections
	seen                        []string
}

func sourcesOf(r result.Result, path string) (src sources) {
	for _, s := range r.Samples {
		if s.Target == path && s.Case == source && s.Error == "" {
			src.node += int(s.Metrics[seenNode])
			src.gateway += int(s.Metrics[seenGateway])
			src.other += int(s.Metrics[seenOther])
		}
	}
	src.asked = src.node + src.gateway + src.other
	src.seen, _ = r.Parameters[sourceKey+path].Value.(result.Texts)
	return src
}

// String is what was seen.
func (s sources) String() string {
	if len(s.seen) == 0 {
		return "an address that was not taken down"
	}
	return strings.Join(s.seen, ", ")
}

// pathsOf are the paths of the node.
func pathsOf(r result.Result) []string {
	return slices.DeleteFunc(stats.Names(r), func(name string) bool { return strings.HasPrefix(name, fromGateway) })
}

type evidence struct{ diagnose.Evidence }

// verdict answers what each egress path costs and which address it shows; a leak goes first.
func verdict(r result.Result) result.Verdict {
	e := evidence{diagnose.Summed(r, summarise, "")}
	v := result.Verdict{Findings: e.findings()}
	var leaks, carries, takes []string
	few := 0
	for _, path := range pathsOf(r) {
		if !isEgress(path) {
			continue
		}
		src := sourcesOf(r, path)
		row, ok := stats.Find(e.Rows, path, tcp, measure.TCPThroughput)
		switch {
		case src.asked == 0:
			v.Refuse(fmt.Sprintf("over %s the target never told the source address", path), "See the errors, and run it again.")
			return v
		case src.node > 0:
			leaks = append(leaks, leaking(path, src))
		}
		switch {
		case !ok:
			few = max(few, 1)
		case row.N < stats.LeastPairs:
			few = max(few, row.N)
		default:
			carries, takes = append(carries, e.carries(path, src)), append(takes, e.takes(path)...)
		}
	}
	switch {
	case len(leaks) > 0:
		v.Headline, v.Explanation = "A leak: "+strings.Join(leaks, "; ")+".", strings.Join(slices.Concat(carries, takes), " ")
	case few > 0:
		v.Refuse(fmt.Sprintf("n = %d; a difference needs at least %d rounds", few, stats.LeastPairs), "Raise --rounds.")
	case len(carries) == 0:
		v.Refuse("nothing was measured", "")
	default:
		v.Headline, v.Explanation = carries[0], strings.Join(slices.Concat(carries[1:], takes), " ")
	}
	return v
}

func leaking(path string, src sources) string {
	return fmt.Sprintf("over %s the target sees the node's own address in %d of %d connections (seen: %s)", path, src.node, src.asked, src)
}

// carries is what a path carries, and what the target sees.
func (e evidence) carries(path string, src sources) string {
	text := fmt.Sprintf("%s carries %s", diagnose.UpperFirst(path), e.throughput(path, tcp))
	if _, ok := stats.Find(e.Rows, path, tcpReverse, measure.TCPThroughput); ok {
		text += ", back " + e.throughput(path, tcpReverse)
	}
	return fmt.Sprintf("%s; the target sees %s.", text, src)
}

// takes is how long a round trip and a connection take over a path; nothing without either.
func (e evidence) takes(path string) []string {
	var times []string
	for _, a := range added {
		row, ok := stats.Find(e.Rows, path, a.caseName, a.of)
		if !ok {
			continue
		}
		text := fmt.Sprintf("%s takes %s µs", a.words, stats.Figure(row.Median))
		if more, ok := stats.Find(e.Rows, path, a.caseName, a.name); ok {
			text += fmt.Sprintf(", %s [%s, %s]%s", signed(more.Median), signed(more.Lo), signed(more.Hi), unless(more.Distinguishable))
		}
		times = append(times, text)
	}
	if len(times) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Over %s %s.", path, strings.Join(times, "; "))}
}

func (e evidence) throughput(path, caseName string) string {
	row, _ := stats.Find(e.Rows, path, caseName, measure.TCPThroughput)
	text := stats.Figure(row.Median) + " Gbit/s"
	if row.Baseline != "" && row.Ratio > 0 {
		text += fmt.Sprintf(", %s %s [%.2f, %.2f]%s", stats.Ratio(row.Ratio), row.Baseline, row.RatioLo, row.RatioHi, unless(row.Distinguishable))
	}
	return text
}

func unless(distinguishable bool) string {
	if distinguishable {
		return ""
	}
	return " (not distinguishable)"
}

// signed is a difference with its sign.
func signed(v float64) string {
	switch {
	case v > 0:
		return "+" + stats.Figure(v)
	case v < 0:
		return "−" + stats.Figure(-v)
	}
	return "0"
}

func (e evidence) findings() []result.Finding {
	return diagnose.Collect(e.Failed, e.Stolen, e.FewRounds, e.addresses, e.behind, e.full, e.costs, e.oneMachine)
}

// addresses say what the target saw over each path.
func (e evidence) addresses() []result.Finding {
	var out []result.Finding
	for _, path := range pathsOf(e.Result) {
		src := sourcesOf(e.Result, path)
		if src.asked == 0 {
			continue
		}
		text := fmt.Sprintf("over %s the target saw %s (%d connections: %d from the node's addresses, %d from the gateway's, %d from others)", path, src, src.asked, src.node, src.gateway, src.other)
		switch {
		case isEgress(path) && src.node > 0 && src.node < src.asked:
			text += ". Most often some packets are not translated because ports of the pool run out, or because a policy came late: count what leaves the gateway untranslated, and let it drop that"
		case isEgress(path) && src.node > 0:
			text += ". Nothing translates it: see whether the policy has this node and destination, whether the route goes over the gateway at all, and whether the rule has the interface by which packets leave"
		case isEgress(path) && src.other > 0:
			text += ". Interfaces of the gateway do not have such an address: it is one of a pool, or there is another NAT behind the gateway"
		case !isEgress(path) && src.gateway > 0:
			text += ". So this path, too, goes over the gateway: it is no baseline without one"
		}
		out = append(out, result.Finding{Topic: "Source address", Text: text + "."})
	}
	return out
}

// behind tells the part of the way behind the gateway from that before it.
func (e evidence) behind() []result.Finding {
	var out []result.Finding
	for _, path := range pathsOf(e.Result) {
		if why := e.Parameters.Text(gatewayErrorKey + path); why != "" {
			out = append(out, result.Finding{Topic: "Behind the gateway", Text: fmt.Sprintf("the gateway's own way to the address of %s is not measured, as its connections fail there: %s.", path, why)})
			continue
		}
		var row result.Row
		m := stats.Metric{Case: tcp, Name: measure.TCPThroughput}
		values, base := stats.Values(e.Result, path, m.Case, m.Name), stats.Values(e.Result, fromGateway+path, m.Case, m.Name)
		if turns.Against(&row, fromGateway+path, values, base); row.Ratio == 0 {
			continue
		}
		text := fmt.Sprintf("the gateway itself sends to the target of %s, and the node over it carries %s as much [%.2f, %.2f]%s", path, stats.Ratio(row.Ratio), row.RatioLo, row.RatioHi, unless(row.Distinguishable))
		if iv := turns.Difference(stats.Values(e.Result, path, rr, measure.RRP50), stats.Values(e.Result, fromGateway+path, rr, measure.RRP50)); iv.N > 0 {
			text += fmt.Sprintf("; its round trip differs by %s µs [%s, %s]%s", signed(iv.Median), signed(iv.Lo), signed(iv.Hi), unless(turns.Apart(iv)))
		}
		out = append(out, result.Finding{Topic: "Behind the gateway", Text: text + ". That is the way to the gateway, forwarding and translation."})
	}
	return out
}

// full names cores that a transfer fills.
func (e evidence) full() []result.Finding {
	var out []result.Finding
	for _, path := range pathsOf(e.Result) {
		for _, role := range roles() {
			for core := 0; ; core++ {
				share := stats.Median(stats.ByRound(stats.Values(e.Result, path, tcp, turns.CoreMetric("", role, core))))
				if share.N == 0 {
					break
				}
				if share.Median >= diagnose.BusyCore {
					out = append(out, result.Finding{Topic: "Limit", Text: fmt.Sprintf("while a transfer ran over %s, core %d at the %s was %s busy: one flow is handled by one core at a time, so more bandwidth needs a cheaper path or more flows.", path, core, role, stats.Share(share.Median))})
				}
			}
		}
	}
	return out
}

// costs are the processor's at the gateway.
func (e evidence) costs() []result.Finding {
	var out []result.Finding
	for _, path := range pathsOf(e.Result) {
		row, ok := stats.Find(e.Rows, path, tcp, gateway+turns.CPUPerGB)
		if !ok || !isEgress(path) {
			continue
		}
		text := fmt.Sprintf("for each GB over %s the gateway's cores are busy for %s s [%s, %s]", path, stats.Figure(row.Median), stats.Figure(row.Lo), stats.Figure(row.Hi))
		for _, role := range []string{node, target} {
			if other, ok := stats.Find(e.Rows, path, tcp, role+turns.CPUPerGB); ok {
				text += fmt.Sprintf(", the %s's for %s s", role, stats.Figure(other.Median))
			}
		}
		out = append(out, result.Finding{Topic: "CPU per GB", Text: text + ". What others do on these machines is in it."})
	}
	return out
}

// oneMachine says where cores are counted more than once.
func (e evidence) oneMachine() []result.Finding {
	shared, _ := e.Parameters[sharedKey].Value.(result.Texts)
	if len(shared) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "One machine", Text: fmt.Sprintf("%s are on machines that they share: their cores are the same, their CPU figures cannot be told apart, and paths compete for the cores that measure them.", strings.Join(shared, ", "))}}
}
