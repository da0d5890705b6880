package places

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/turns"
)

// Metrics of rows alone: what the firewall adds to the median, in µs.
const (
	rrAdded  = "rr_added"
	rr1Added = "rr1_added"
	crrAdded = "crr_added"

	rr1P50 = "rr1_p50"
)

// added are those metrics, with what they are of.
var added = []struct{ name, of, title string }{
	{rrAdded, measure.RRP50, "Added to a round trip, 1024 B"},
	{rr1Added, rr1P50, "Added to a round trip, 1 B"},
	{crrAdded, measure.CRRP50, "Added to a connection"},
}

// metrics are the figures of both states, in their order.
func metrics() []stats.Metric {
	list := []stats.Metric{
		{Name: measure.RRP50, Unit: "µs", Title: "TCP round trip p50, 1024 B"},
		{Name: measure.RRP99, Unit: "µs", Title: "TCP round trip p99, 1024 B"},
		{Name: measure.RRP999, Unit: "µs", Title: "TCP round trip p99.9, 1024 B"},
		{Name: rr1P50, Unit: "µs", Title: "TCP round trip p50, 1 B"},
		{Name: "rr1_p99", Unit: "µs", Title: "TCP round trip p99, 1 B"},
		{Name: measure.CRRP50, Unit: "µs", Title: "Connect, ask and close p50"},
		{Name: measure.CRRP99, Unit: "µs", Title: "Connect, ask and close p99"},
		{Name: measure.CRRRate, Unit: "1/s", Title: "Connections, one at a time", Higher: true},
		{Name: measure.ConnFailed, Unit: "count", Title: "Connections failed"},
	}
	for _, i := range instruments {
		for _, role := range []string{client, server, firewall} {
			list = append(list, stats.Metric{Name: turns.CPUMetric(i.name+"_", role), Unit: "cores", Title: "Cores busy, " + role + ", " + i.words})
		}
	}
	return list
}

// summarise makes a row of each metric, state and path. On is against off of the same path; off of
// a path against off of the first. After the metrics come the rows of what is added.
func summarise(r result.Result) []result.Row {
	var rows []result.Row
	names := stats.Names(r)
	for _, m := range metrics() {
		for _, m.Case = range []string{off, on} {
			for _, name := range names {
				row, ok := turns.Row(r, name, m)
				if !ok {
					continue
				}
				baseline := name
				if m.Case == off {
					baseline = names[0]
				}
				if m.Case == on || name != baseline {
					turns.Against(&row, baseline+":"+off, stats.Values(r, name, m.Case, m.Name), stats.Values(r, baseline, off, m.Name))
				}
				rows = append(rows, row)
			}
		}
	}
	for _, a := range added {
		for _, name := range names {
			iv := addedTo(r, name, a.of)
			if iv.N == 0 {
				continue
			}
			rows = append(rows, result.Row{
				Target: name, Case: on, Metric: a.name, Unit: "µs", Median: iv.Median, Lo: iv.Lo, Hi: iv.Hi, N: iv.N, Baseline: name + ":" + off, Distinguishable: turns.Apart(iv),
			})
		}
	}
	return rows
}

// addedTo is what the firewall adds to a metric of a path, by rounds.
func addedTo(r result.Result, path, metric string) stats.Interval {
	return turns.Difference(stats.Values(r, path, on, metric), stats.Values(r, path, off, metric))
}

// verdict answers what the firewall adds, about the first path.
func verdict(r result.Result) result.Verdict {
	e := evidence{diagnose.Summed(r, summarise, "")}
	v := result.Verdict{Findings: e.findings()}
	names := stats.Names(r)
	if len(names) == 0 {
		v.Refuse("nothing was measured", "")
		return v
	}
	if why := refuse(r, names[0], measure.RRP50); why != "" {
		v.Refuse(why, "Quiet the machines, or raise --rounds or --slice: a firewall's part of a round trip is a few percent, which such noise hides or mimics.")
		return v
	}
	var words []string
	for i, name := range names {
		if i > 0 && refuse(r, name, measure.RRP50) != "" {
			words = append(words, fmt.Sprintf("over %s there is no reliable figure", name))
			continue
		}
		words = append(words, e.sentence(name, i == 0))
	}
	v.Headline = strings.Join(words, "; ") + "."
	return v
}

type evidence struct{ diagnose.Evidence }

// refuse says why nothing may be concluded about a metric of a path, "" when something may.
func refuse(r result.Result, path, metric string) string {
	words := map[string]string{measure.RRP50: "round trip", measure.CRRP50: "time of a connection"}[metric]
	for _, state := range []string{off, on} {
		if why := stats.UnreliableFor(r, path, stats.Basis{CaseName: state, Metric: metric, Words: words}); why != "" {
			return why + " (firewall " + state + ")"
		}
	}
	return ""
}

func (e evidence) sentence(path string, first bool) string {
	bare, _ := stats.Find(e.Rows, path, off, measure.RRP50)
	if first {
		return fmt.Sprintf("The firewall adds %s to the round trip of %s µs over %s, and %s", e.added(path, rrAdded), stats.Figure(bare.Median), path, e.connection(path))
	}
	return fmt.Sprintf("over %s %s to %s µs, and %s", path, e.added(path, rrAdded), stats.Figure(bare.Median), e.connection(path))
}

// connection is what is added to one that is opened, asked and closed.
func (e evidence) connection(path string) string {
	bare, ok := stats.Find(e.Rows, path, off, measure.CRRP50)
	if !ok || refuse(e.Result, path, measure.CRRP50) != "" {
		return "no reliable figure to a connection"
	}
	return fmt.Sprintf("%s to a connection of %s µs", e.added(path, crrAdded), stats.Figure(bare.Median))
}

// added is a difference in words: "+0.31 µs [+0.10, +0.52]", or that it is not one.
func (e evidence) added(path, metric string) string {
	row, ok := stats.Find(e.Rows, path, on, metric)
	if !ok {
		return "an unknown time"
	}
	text := fmt.Sprintf("%s µs %s", signed(row.Median), between(row))
	if !row.Distinguishable {
		text += " (not distinguishable from zero)"
	}
	return text
}

// signed is a difference with its sign, below 10 to hundredths.
func signed(v float64) string {
	text := stats.Figure(math.Abs(v))
	if math.Abs(v) < 9.995 {
		text = fmt.Sprintf("%.2f", math.Abs(v))
	}
	switch {
	case text == "0.00":
		return "0"
	case v < 0:
		return "−" + text
	}
	return "+" + text
}

func between(row result.Row) string { return fmt.Sprintf("[%s, %s]", signed(row.Lo), signed(row.Hi)) }

func (e evidence) findings() []result.Finding {
	return diagnose.Collect(e.Failed, e.Stolen, e.FewRounds, e.noisy, e.established, e.rates, e.tail, e.study)
}

// noisy says which figures are not to be relied on. The verdict says why it is refused itself.
func (e evidence) noisy() []result.Finding {
	var out []result.Finding
	for i, name := range stats.Names(e.Result) {
		for _, metric := range []string{measure.RRP50, measure.CRRP50} {
			if why := refuse(e.Result, name, metric); why != "" && (i > 0 || metric != measure.RRP50) {
				out = append(out, result.Finding{Topic: "Noise", Text: why + "."})
			}
		}
	}
	return out
}

// established holds the established path against the making of state.
func (e evidence) established() []result.Finding {
	var words []string
	for _, name := range stats.Names(e.Result) {
		rr, ok := stats.Find(e.Rows, name, on, rrAdded)
		crr, okCRR := stats.Find(e.Rows, name, on, crrAdded)
		if !ok || !okCRR || !crr.Distinguishable {
			continue
		}
		switch {
		case !rr.Distinguishable:
			words = append(words, "over "+name+" connections alone take longer: the firewall's cost is the making of state, and established flows hardly pay")
		case crr.Lo > rr.Hi:
			words = append(words, fmt.Sprintf("over %s a connection pays %s µs and a transaction on an open one %s µs: what opens many connections is hit most", name, signed(crr.Median), signed(rr.Median)))
		}
	}
	if len(words) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "State", Text: strings.Join(words, "; ") + "."}}
}

// rates are the connections a second.
func (e evidence) rates() []result.Finding {
	var words []string
	for _, name := range stats.Names(e.Result) {
		row, ok := stats.Find(e.Rows, name, on, measure.CRRRate)
		if !ok || row.Ratio == 0 {
			continue
		}
		text := fmt.Sprintf("%s a second over %s, %s of those without [%.2f, %.2f]", stats.Figure(row.Median), name, stats.Ratio(row.Ratio), row.RatioLo, row.RatioHi)
		if !row.Distinguishable {
			text += " (not distinguishable)"
		}
		words = append(words, text)
	}
	if len(words) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "Connections", Text: "one at a time, with the firewall: " + strings.Join(words, "; ") + "."}}
}

// longTail is a multiple of the p99.9 without the firewall that is worth a word.
const longTail = 2

// tail says where the firewall shows in the slowest transactions.
func (e evidence) tail() []result.Finding {
	var words []string
	for _, name := range stats.Names(e.Result) {
		if row, ok := stats.Find(e.Rows, name, on, measure.RRP999); ok && row.Distinguishable && row.Ratio >= longTail {
			words = append(words, fmt.Sprintf("%s of the p99.9 over %s (%s µs)", stats.Ratio(row.Ratio), name, stats.Figure(row.Median)))
		}
	}
	if len(words) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "Tail", Text: "the slowest of a thousand transactions take longer with the firewall: " + strings.Join(words, "; ") + "."}}
}

// What the NSX firewall study's firewall of 100 rules added to a round trip, in µs.
const studyLeast, studyMost = 13.3, 15.7

// study sets the figure beside the study's.
func (e evidence) study() []result.Finding {
	names := stats.Names(e.Result)
	if !slices.ContainsFunc(e.Rows, func(row result.Row) bool { return row.Metric == rrAdded }) {
		return nil
	}
	return []result.Finding{{Topic: "NSX firewall study", Text: fmt.Sprintf("that firewall added %.1f to %.1f µs with 100 rules, between virtual machines; this one adds %s over %s. Compare what was added, not round trips of other machines.",
		studyLeast, studyMost, e.added(names[0], rrAdded), names[0])}}
}
