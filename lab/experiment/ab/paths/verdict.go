package paths

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/watch"
)

// evidence is a result of paths that exist.
type evidence struct{ diagnose.Evidence }

// verdict answers what each path costs against the first, by the main metric of the first case that
// was measured. It is refused where errors, too few rounds or noise forbid a conclusion.
func verdict(r result.Result) result.Verdict {
	e := evidence{diagnose.Gather(r, summarise, baseline(r))}
	v := result.Verdict{Findings: diagnose.Collect(
		e.Failed, e.Stolen, e.FewRounds, e.oneMachine, e.throughput, e.segments, e.processor, e.retransmits, e.losses,
		e.latency, e.devices, e.placement, e.unread,
	)}
	if why, remedy := e.refusal(); why != "" {
		v.Refuse(why, remedy)
		return v
	}
	var sentences []string
	for _, name := range e.others() {
		sentences = append(sentences, e.sentence(name))
	}
	v.Headline, v.Explanation = sentences[0], strings.Join(sentences[1:], " ")
	return v
}

// others are the paths besides the baseline.
func (e evidence) others() []string {
	return slices.DeleteFunc(stats.Names(e.Result), func(name string) bool { return name == e.Baseline })
}

// main is the metric that the verdict is about.
func (e evidence) main() stats.Metric {
	cases := stats.Cases(e.Result)
	if len(cases) == 0 || slices.Contains(cases, caseTCP) {
		return mainMetric(caseTCP)
	}
	return mainMetric(cases[0])
}

func (e evidence) row(path, caseName, metric string) (result.Row, bool) {
	return stats.Find(e.Rows, path, caseName, metric)
}

// refusal says, without a final stop, why no path is judged, or "", and what to do.
func (e evidence) refusal() (why, remedy string) {
	others := e.others()
	if len(e.Samples) == 0 {
		return "the result holds no samples", ""
	}
	if len(others) == 0 {
		return "there is one path, so there is nothing to compare", "Name another with --path; the same address a second time shows what the method sees where there is no difference."
	}
	m := e.main()
	for _, s := range e.Samples {
		if s.Case == m.Case && s.Error != "" {
			return fmt.Sprintf("round %d of %s has an error (%s)", s.Round, s.Target, s.Error), ""
		}
	}
	basis := stats.Basis{CaseName: m.Case, Metric: m.Name, Words: diagnose.LowerFirst(m.Title)}
	for _, name := range append([]string{e.Baseline}, others...) {
		if why := stats.UnreliableFor(e.Result, name, basis); why != "" {
			return why, "Fix or quiet what disturbs the hosts, or raise --rounds and --slice: noise above that could hide or mimic what an overlay costs."
		}
	}
	for _, name := range others {
		row, _ := e.row(name, m.Case, m.Name)
		if half := (row.RatioHi - row.RatioLo) / 2; !row.Distinguishable && half > stats.SpreadLimit {
			return fmt.Sprintf("the ratio of %s to %s lies anywhere in %s, which shows neither a difference nor its absence",
				name, e.Baseline, diagnose.Bounds(row)), "Raise --rounds or --slice."
		}
	}
	return "", ""
}

// sentence is the verdict on one path.
func (e evidence) sentence(name string) string {
	m := e.main()
	row, _ := e.row(name, m.Case, m.Name)
	what := fmt.Sprintf("%s of %s is %s %s", m.Title, name, stats.In(row.Median, row.Unit), row.Unit)
	if e.same(name) {
		what = "A/A: " + what
	}
	switch {
	case row.Ratio == 0:
		return what + "; there is no ratio to " + e.Baseline + "."
	case !row.Distinguishable:
		return fmt.Sprintf("%s, not distinguishable from %s (%s %s; a difference of %s would have been found).", what, e.Baseline, stats.Ratio(row.Ratio), diagnose.Bounds(row), stats.Share(row.SmallestEffect))
	}
	return fmt.Sprintf("%s, %s %s %s.", what, stats.Ratio(row.Ratio), e.Baseline, diagnose.Bounds(row))
}

// same says whether a path is the baseline under another name.
func (e evidence) same(name string) bool {
	path, ok := e.Target(name)
	base, okBase := e.Target(e.Baseline)
	return ok && okBase && path.Description == base.Description
}

func (e evidence) oneMachine() []result.Finding {
	var words []string
	for i, p := range e.Places {
		if first := sameMachine(e.Result, i); first != "" {
			words = append(words, fmt.Sprintf("%s (%s) is on the machine of %s", p.Role, p.Name, first))
		}
	}
	if len(words) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "One machine", Text: strings.Join(words, ", ") + ": their cores are the same ones and show what all of them do. CPU per gigabyte is that of all together; do not add it up."}}
}

// headerTax is what the headers alone must cost where both paths fill the same wire's packets: the
// tunnel's are missing in the payload of each. Without a smaller path MTU nothing says how large they are.
func (e evidence) headerTax(name, caseName string) (tax float64, ok bool) {
	of := func(path, metric string) float64 {
		return stats.Median(stats.MetricOf(stats.Good(e.Result, path, caseName), metric)).Median
	}
	mss, base := of(name, measure.MSS), of(e.Baseline, measure.MSS)
	if mss <= 0 || base <= mss || of(name, measure.PathMTU) >= of(e.Baseline, measure.PathMTU) {
		return 0, false
	}
	return 1 - mss/base, true
}

// throughput sets the loss that headers explain beside the one that was measured.
func (e evidence) throughput() (out []result.Finding) {
	for _, caseName := range []string{caseTCP, caseReverse} {
		for _, name := range e.others() {
			row, ok := e.row(name, caseName, measure.TCPThroughput)
			if !ok || row.Ratio == 0 || !row.Distinguishable {
				continue
			}
			text := fmt.Sprintf("%s over %s is %s of %s %s", diagnose.LowerFirst(mainMetric(caseName).Title), name, stats.Ratio(row.Ratio), e.Baseline, diagnose.Bounds(row))
			if tax, ok := e.headerTax(name, caseName); ok {
				text += fmt.Sprintf(": measured %s, of which headers must cost %s where the wire is the limit", stats.Percent(row.Ratio-1), stats.Percent(-tax))
				if row.Ratio < 1-tax-overTax {
					text += ". The rest is work per packet somewhere on the way, not bytes on the wire: see which core climbs"
				}
			}
			out = append(out, result.Finding{Topic: "Throughput", Text: text + "."})
		}
	}
	return out
}

// Limits of what findings call remarkable.
const (
	overTax    = 0.05 // loss beyond the headers that needs an explanation
	remarkable = 0.10 // a core's time above the baseline's, as a share
	chatty     = 1.10 // ratio of a round trip to the baseline's that applications may feel
	bloat      = 2.0  // ratio of a round trip under load to one without
)

// segments says what MSS was used, without which nothing is known of costs by packet or by byte.
func (e evidence) segments() (out []result.Finding) {
	var words []string
	var sizes []float64
	for _, name := range stats.Names(e.Result) {
		mss := stats.MetricOf(stats.Good(e.Result, name, caseTCP), measure.MSS)
		if len(mss) == 0 {
			continue
		}
		words = append(words, fmt.Sprintf("%s %s bytes", name, band(mss, counted)))
		sizes = append(sizes, stats.Median(mss).Median)
	}
	if len(sizes) == 0 {
		return nil
	}
	text := "used were " + strings.Join(words, ", ")
	if len(sizes) > 1 && slices.Min(sizes) == slices.Max(sizes) {
		text += ". They are the same, so a difference is none of their size. To tell a cost by packet from one by byte or flow, the segments themselves have to change: a larger MTU on an interface is not enough"
	}
	return []result.Finding{{Topic: "Segment size", Text: text + "."}}
}

// processor names the core that climbs, and what a gigabyte costs at each place.
func (e evidence) processor() (out []result.Finding) {
	for _, c := range climbs(e.Result) {
		rise := c.Busy - c.Baseline
		text := fmt.Sprintf("over %s, core %d of %s (%s) is %.0f %% busy, %.0f %% in softirq, against %.0f %% over %s", c.Path, c.Core, c.Role, c.Place, 100*c.Busy, 100*c.SoftIRQ, 100*c.Baseline, e.Baseline)
		switch {
		case rise < remarkable && c.Busy < diagnose.BusyCore:
			continue
		case rise < remarkable:
			text += ". It is full over both: that core, and not the path, may be the limit"
		case c.Busy >= diagnose.BusyCore:
			text += ". It is full: the path is processed there in software, one flow on one core. Spread flows by source port (RSS, RPS), or look for the offload that is missing"
		default:
			text += ": the path is processed there in software"
		}
		out = append(out, result.Finding{Topic: "CPU", Text: text + "."})
	}
	for _, name := range e.others() {
		for i, p := range e.Places {
			row, ok := e.row(name, caseTCP, cpuMetric(p.Role, secondsByGB))
			if ok && row.Distinguishable && row.Ratio > 0 && sameMachine(e.Result, i) == "" {
				out = append(out, result.Finding{Topic: "CPU", Text: fmt.Sprintf("a gigabyte over %s takes %s CPU s at %s, %s %s %s.",
					name, stats.Figure(row.Median), p.Role, stats.Ratio(row.Ratio), e.Baseline, diagnose.Bounds(row))})
			}
		}
	}
	return out
}

func (e evidence) retransmits() (out []result.Finding) {
	for _, caseName := range []string{caseTCP, caseReverse} {
		for _, name := range e.others() {
			row, ok := e.row(name, caseName, measure.Retransmits)
			base, okBase := e.row(e.Baseline, caseName, measure.Retransmits)
			if !ok || !okBase || !row.Distinguishable {
				continue
			}
			text := fmt.Sprintf("%s a slice over %s, %s over %s", counted(row.Median), name, counted(base.Median), e.Baseline)
			if caseName == caseReverse {
				text = "in reverse, " + text
			}
			if row.Median > base.Median && len(lost(e.Result, name, roleServer))+len(lost(e.Result, name, roleClient)) == 0 {
				text += ". Neither end lost a packet: they are lost on the way, or reordered"
			}
			out = append(out, result.Finding{Topic: "Retransmits", Text: text + "."})
		}
	}
	return out
}

// mostLosses are told of each place.
const mostLosses = 4

// losses says where packets were lost, of each path and place.
func (e evidence) losses() (out []result.Finding) {
	for _, name := range stats.Names(e.Result) {
		for _, p := range e.Places {
			drops := lost(e.Result, name, p.Role)
			if len(drops) == 0 {
				continue
			}
			var words []string
			for _, d := range drops[:min(len(drops), mostLosses)] {
				words = append(words, dropText(d))
			}
			text := fmt.Sprintf("over %s, %s (%s) lost %s", name, p.Role, p.Name, strings.Join(words, "; "))
			if more := len(drops) - mostLosses; more > 0 {
				text += fmt.Sprintf("; and %d counters more", more)
			}
			out = append(out, result.Finding{Topic: "Drops", Text: text + "."})
		}
	}
	return out
}

// dropText is a counter in words.
func dropText(d result.Drop) string {
	at := d.Stage
	if d.Where != "" {
		at += " " + d.Where
	}
	return fmt.Sprintf("%s at %s: %s", counted(float64(d.Packets)), at, d.Counter)
}

// latency compares round trips with the baseline's, and with those under load.
func (e evidence) latency() (out []result.Finding) {
	for _, name := range stats.Names(e.Result) {
		row, ok := e.row(name, caseRR, measure.RRP50)
		if !ok {
			continue
		}
		if row.Distinguishable && row.Ratio > 0 {
			out = append(out, result.Finding{Topic: "Latency", Text: fmt.Sprintf("a round trip over %s takes %s µs, %s %s %s.", name, stats.Figure(row.Median), stats.Ratio(row.Ratio), e.Baseline, diagnose.Bounds(row))})
		}
		if load, ok := e.row(name, caseLoad, measure.RRP50); ok && row.Median > 0 && load.Median > bloat*row.Median {
			out = append(out, result.Finding{Topic: "Latency under load", Text: fmt.Sprintf("while a transfer fills %s, a round trip takes %s µs instead of %s: a queue on the way, or a core that both share, is full.", name, stats.Figure(load.Median), stats.Figure(row.Median))})
		}
	}
	return out
}

// devices compares what the boxes said during transfers over each path.
func (e evidence) devices() (out []result.Finding) {
	for _, d := range e.Devices {
		out = append(out, watch.Failed(d)...)
		for _, s := range d.Series {
			var words []string
			for _, name := range stats.Names(e.Result) {
				if values := during(e.Result, s, name); len(values) > 0 {
					words = append(words, fmt.Sprintf("%s over %s", stats.Figure(stats.Median(values).Median), name))
				}
			}
			if idle := during(e.Result, s, ""); len(idle) > 0 {
				words = append(words, stats.Figure(stats.Median(idle).Median)+" at other times")
			}
			out = append(out, result.Finding{Topic: "Watched", Text: fmt.Sprintf("%s of %s: %s (medians during TCP).", watch.Name(d, s), d.Place, strings.Join(words, ", "))})
		}
	}
	return out
}

// during are the values of a series while TCP was sent over a path, or for "" over none.
func during(r result.Result, s result.DeviceSeries, path string) (values []float64) {
	for i, at := range s.Times {
		over := ""
		for _, sample := range r.Samples {
			if (sample.Case == caseTCP || sample.Case == caseReverse) && at >= sample.Start && at <= sample.Start+sample.Duration {
				over = sample.Target
			}
		}
		if over == path {
			values = append(values, s.Values[i])
		}
	}
	return values
}

// placement advises what belongs on which path.
func (e evidence) placement() (out []result.Finding) {
	if why, _ := e.refusal(); why != "" {
		return nil
	}
	for _, name := range e.others() {
		row, ok := e.row(name, caseTCP, measure.TCPThroughput)
		tax, _ := e.headerTax(name, caseTCP)
		rr, okRR := e.row(name, caseRR, measure.RRP50)
		switch {
		case e.same(name):
		case ok && row.Distinguishable && row.Ratio < 1-tax-overTax:
			out = append(out, result.Finding{Topic: "Placement", Text: fmt.Sprintf("bulk transfers (backup, storage, migration) lose %s over %s. Keep them on %s.", stats.Share(1-row.Ratio), name, e.Baseline)})
		case okRR && rr.Distinguishable && rr.Ratio > chatty:
			out = append(out, result.Finding{Topic: "Placement", Text: fmt.Sprintf("bulk transfers can use %s; chatty request/response traffic pays %s the round trip of %s.", name, stats.Ratio(rr.Ratio), e.Baseline)})
		}
	}
	return out
}

// unread lists what places did not let the agent read.
func (e evidence) unread() (out []result.Finding) {
	var seen []string
	for _, p := range e.Profiles {
		for _, what := range p.NotRead {
			if text := p.Role + ": " + what; !slices.Contains(seen, text) {
				seen = append(seen, text)
			}
		}
	}
	if len(seen) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "Not read", Text: strings.Join(seen, "; ") + "."}}
}
