package rfc2544

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
)

// Limits of what findings on transit call remarkable.
const (
	spareCeiling = 1.5  // of the limit's rate: below it the generator may be what was measured
	closeRates   = 0.9  // of the PDR: an NDR below it is burst loss
	sizeNoise    = 0.95 // of a larger frame's rate: fewer packets than that contradict cost per packet
	queueing     = 3    // times the p99 at 90 % of the NDR: at the NDR queues stand
	fullLine     = 0.95 // of the line rate
)

// findings goes through what the NSX edge study asks of a transit run.
func (e evidence) findings() []result.Finding {
	return diagnose.Collect(
		e.Failed, e.noisy, e.Stolen, e.Busy, e.FewRounds, e.generator, e.cores, e.kernels, e.outage, e.lossy, e.sizes, e.line,
		e.latency, e.curve, e.sweep, e.tests,
	)
}

// noisy speaks of targets besides those that the verdict stands on.
func (e evidence) noisy() []result.Finding {
	key, ok := e.key()
	var out []result.Finding
	for _, name := range stats.Names(e.Result) {
		if !ok || name == stats.Limit || name == e.DUT {
			continue
		}
		if why := transit.RefuseRate(e.Result, key.Case(), e.metric(name, key), name); why != "" {
			out = append(out, result.Finding{Topic: "Noise", Text: fmt.Sprintf("%s. Do not rely on the figures of %s.", why, e.title(name))})
		}
	}
	return out
}

// generator says whether the generator or the device was measured.
func (e evidence) generator() []result.Finding {
	worst, at, limit, ceiling := 0.0, Traffic{}, 0.0, 0.0
	for _, t := range Transits(e.Result) {
		rate, ok := e.rate(stats.Limit, t, transit.NDR)
		top, okTop := e.rate(stats.Limit, t, transit.GeneratorCeiling)
		if !ok || !okTop || rate.Median == 0 {
			continue
		}
		if ratio := top.Median / rate.Median; worst == 0 || ratio < worst {
			worst, at, limit, ceiling = ratio, t, rate.Median, top.Median
		}
	}
	var out []result.Finding
	switch {
	case worst == 0:
		out = append(out, result.Finding{Topic: "Generator", Text: "its own ceiling beside the limit was not measured, so whether it was the limit is unknown. Add limit to --targets."})
	case worst < spareCeiling:
		out = append(out, result.Finding{Topic: "Generator", Text: fmt.Sprintf("generator-bound. Alone it reaches %s Mpps, only %s the limit's %s (%s); below %g × a device's cost hides behind the generator's. Compare the device's ns per packet, and do not read rates close to the limit as equal to it.",
			stats.Figure(ceiling), stats.Ratio(worst), stats.Figure(limit), at.Case(), spareCeiling)})
	default:
		out = append(out, result.Finding{Topic: "Generator", Text: fmt.Sprintf("alone it reaches at least %s the limit's rate (%s Mpps against %s, %s), so it was not the limit.",
			stats.Ratio(worst), stats.Figure(ceiling), stats.Figure(limit), at.Case())})
	}
	return append(out, e.bound()...)
}

// bound names targets whose search ended at the highest rate that could be offered.
// On one core that is how every search ends: the device's time is the generator's.
func (e evidence) bound() []result.Finding {
	if SharedCore(e.Result) {
		return nil
	}
	var names []string
	for _, s := range e.Samples {
		if s.Error == "" && s.Metrics[limitedBy] > 0 {
			if name := e.title(s.Target) + " in " + s.Case; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "Generator", Text: "the highest rate that could be offered passed without loss, so the figure is a lower bound, with " + strings.Join(names, ", ") + "."}}
}

// cores says what shared a core.
func (e evidence) cores() []result.Finding {
	words := e.Parameters.Text(coresParameter)
	switch {
	case words == "":
		return nil
	case SharedCore(e.Result):
		return []result.Finding{{Topic: "Cores", Text: words + ". So nothing is lost in queues between them, and each rate includes the time of all three. The device's own time is ns per packet less that of generator and sink alone; a device with a core to itself forwards more."}}
	}
	return []result.Finding{{Topic: "Cores", Text: words + ". Queues between cores lose a little at any rate (0.3 to 0.8 % was seen with rings of 256), which lowers rates without loss."}}
}

// kernels sets the subject beside the kernel and its like, at the case of the verdict.
func (e evidence) kernels() []result.Finding {
	key, ok := e.key()
	if !ok {
		return nil
	}
	metric := e.metric(e.DUT, key)
	var words []string
	for _, name := range e.Tunnels() {
		iv := stats.Against(e.Result, e.DUT, name, key.Case(), metric)
		if name == e.DUT || iv.N == 0 {
			continue
		}
		words = append(words, fmt.Sprintf("%s %s [%.2f, %.2f]", stats.Ratio(iv.Median), e.title(name), iv.Lo, iv.Hi))
	}
	if len(words) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "Rate", Text: fmt.Sprintf("with %s %s, %s reaches %s.", frames(key), e.way(key), e.title(e.DUT), strings.Join(words, ", "))}}
}

// outage compares the rate without loss with that at the tolerance.
func (e evidence) outage() []result.Finding {
	worst, at, seen := 1.0, Traffic{}, false
	for _, t := range Transits(e.Result) {
		ndr, ok := e.rate(e.DUT, t, transit.NDR)
		pdr, okPDR := e.rate(e.DUT, t, transit.PDR)
		if !ok || !okPDR || pdr.Median == 0 || ndr.Median == 0 {
			continue
		}
		if share := ndr.Median / pdr.Median; !seen || share < worst {
			worst, at, seen = share, t, true
		}
	}
	switch {
	case !seen:
		return nil
	case worst < closeRates:
		return []result.Finding{{Topic: "Loss", Text: fmt.Sprintf("the rate without loss is only %s of that with %s loss (%s): bursts overflow a queue long before the path is busy. Check ring sizes, the NAPI budget, and what else runs on the core.",
			stats.Share(worst), e.tolerance(), at.Case())}}
	}
	least := stats.Share(worst) + " or more of"
	if worst > 0.999 {
		least = "the same as"
	}
	return []result.Finding{{Topic: "Loss", Text: fmt.Sprintf("rates without loss are %s those with %s loss, so no queue overflows before the path is busy.", least, e.tolerance())}}
}

// lossy names targets that lose at every rate.
func (e evidence) lossy() []result.Finding {
	var out []result.Finding
	for _, name := range stats.Names(e.Result) {
		var cases []string
		for _, t := range Transits(e.Result) {
			ndr, ok := e.rate(name, t, transit.NDR)
			if pdr, okPDR := e.rate(name, t, transit.PDR); ok && okPDR && ndr.Median == 0 && pdr.Median > 0 {
				cases = append(cases, t.Case())
			}
		}
		if more := len(cases) - 3; more > 0 {
			cases = append(cases[:3], fmt.Sprintf("and %d more", more))
		}
		if len(cases) > 0 {
			out = append(out, result.Finding{Topic: "Loss", Text: fmt.Sprintf("%s has no rate without loss (NDR not met) but one with up to %s (PDR met): %s. A loss that does not depend on the rate is no overload: look for a policy, a checksum or a link that drops.",
				e.title(name), e.tolerance(), strings.Join(cases, ", "))})
		}
	}
	return out
}

// sizes finds sizes that move fewer packets than larger ones do, which cost per packet
// cannot explain (the NSX edge study's 128-byte row).
func (e evidence) sizes() []result.Finding {
	var out []result.Finding
	all := Transits(e.Result)
	for _, name := range stats.Names(e.Result) {
		for i, small := range all {
			row, ok := e.rate(name, small, transit.PDR)
			if !ok || small.Size == 0 {
				continue
			}
			for _, large := range all[i+1:] {
				other, ok := e.rate(name, large, transit.PDR)
				same := large.Direction == small.Direction && large.Flows == small.Flows && large.Pairs == small.Pairs && large.Size > small.Size
				if ok && same && row.Median < sizeNoise*other.Median && row.Hi < other.Lo {
					out = append(out, result.Finding{Topic: "Sizes", Text: fmt.Sprintf("%s moves fewer packets at %d bytes (%s Mpps) than at %d (%s, %s), which contradicts a cost per packet, as the 128-byte row of the NSX edge study does: something else limits the smaller frames, such as a ring, an offload or a minimum size. Measure it again before you quote it.",
						e.title(name), small.Size, stats.Figure(row.Median), large.Size, stats.Figure(other.Median), small.Direction)})
					break
				}
			}
		}
	}
	return out
}

// line says where the line and not the device was the limit.
func (e evidence) line() []result.Finding {
	var cases []string
	for _, t := range Transits(e.Result) {
		if row, ok := e.rate(e.DUT, t, lineShare); ok && row.Median >= fullLine {
			cases = append(cases, t.Case())
		}
	}
	if len(cases) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "Line", Text: fmt.Sprintf("at %s of the line rate and more the line is the limit (%s): the device may do more, and flows that a hash spreads unevenly lose there first.", stats.Share(fullLine), strings.Join(cases, ", "))}}
}

// latency looks for the queue that stands at the full rate.
func (e evidence) latency() []result.Finding {
	key, ok := e.key()
	full, okFull := e.rate(e.DUT, key, transit.LatencyP99)
	less, okLess := e.rate(e.DUT, key, latencyP99At90)
	half, _ := e.rate(e.DUT, key, transit.LatencyP50)
	if !ok || !okFull || !okLess || less.Median == 0 {
		return nil
	}
	found := result.Finding{Topic: "Latency", Text: fmt.Sprintf("p50 %s and p99 %s µs at the no-drop rate, p99 %s at 90 %% of it (%s)", stats.Figure(half.Median), stats.Figure(full.Median), stats.Figure(less.Median), key.Case())}
	if limit, ok := e.rate(stats.Limit, key, transit.LatencyP99); ok {
		found = found.And(fmt.Sprintf("; the limit's p99 is %s", stats.Figure(limit.Median)))
	}
	if jump := full.Median / less.Median; jump >= queueing {
		return []result.Finding{found.And(fmt.Sprintf(". The step of %s in the last tenth is a standing queue: plan with 90 %% of the rate where latency counts.", stats.Ratio(jump)))}
	}
	return []result.Finding{found.And(". There is no standing queue at the full rate.")}
}

// curve says where less was lost at a higher rate.
func (e evidence) curve() []result.Finding {
	var out []result.Finding
	for _, s := range e.Samples {
		loads, losses := s.Series[transit.LossLoad], s.Series[transit.LossShare]
		if s.Error != "" || len(loads) != len(losses) {
			continue
		}
		for i := 1; i < len(loads); i++ {
			low, high := i, i-1
			if loads[low] > loads[high] {
				low, high = high, low
			}
			if losses[low] > 2*losses[high] && losses[low] > 1e-6 {
				out = append(out, result.Finding{Topic: "Loss curve", Text: fmt.Sprintf("%s is not monotonic in %s (round %d): %.2g %% are lost at %.0f %% of the rate, %.2g %% at %.0f %%. A binary search can miss that; find the cause before you trust the rate.",
					e.title(s.Target), s.Case, s.Round, 100*losses[low], 100*loads[low], 100*losses[high], 100*loads[high])})
				break
			}
		}
	}
	return out
}

// sweep says what many flows cost.
func (e evidence) sweep() []result.Finding {
	var first, last result.Row
	var few, many Traffic
	for _, t := range Transits(e.Result) {
		row, ok := e.rate(e.DUT, t, transit.PDR)
		if !ok || t.Flows == 0 || row.Median == 0 {
			continue
		}
		// Compare with the study's 1,280 flows where they were sent, else with the fewest.
		if few.Flows == 0 || t.Flows <= 1280 {
			first, few = row, t
		}
		last, many = row, t
	}
	if few.Flows == 0 || many.Flows <= few.Flows {
		return nil
	}
	return []result.Finding{{Topic: "Flows", Text: fmt.Sprintf("%s forwards %s Mpps with %s and %s with %s, %s of it: beyond the CPU's caches, a look-up is a miss.",
		e.title(e.DUT), stats.Figure(first.Median), diagnose.Flows(few.Flows), stats.Figure(last.Median), diagnose.Flows(many.Flows), stats.Share(last.Median/first.Median))}}
}

// tests are the figures of RFC 2544's other tests, where they were made.
func (e evidence) tests() []result.Finding {
	var out []result.Finding
	for _, test := range []struct{ metric, topic, text string }{
		{backToBack, "Bursts", "%s takes %s frames back to back without loss (%s)."},
		{recoveryMS, "Recovery", "%s loses frames for %s ms after an overload (%s)."},
		{resetMS, "Reset", "%s forwards again %s ms after a restart (%s)."},
	} {
		for _, t := range Transits(e.Result) {
			if row, ok := e.rate(e.DUT, t, test.metric); ok {
				out = append(out, result.Finding{Topic: test.topic, Text: fmt.Sprintf(test.text, e.title(e.DUT), stats.Figure(row.Median), t.Case())})
				break
			}
		}
	}
	return out
}
