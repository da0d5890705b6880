package offload

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// findings are what the run shows besides the verdict.
func (e evidence) findings() []result.Finding {
	return diagnose.Collect(
		e.Failed, e.Stolen, e.Busy, e.FewRounds, e.worstOwn, e.misses, e.gains, e.attribution, e.saturation, e.identity, e.partly, e.absent,
	)
}

// worstOwn names the state in which the subject itself carries least, and why.
func (e evidence) worstOwn() []result.Finding {
	var out []result.Finding
	for _, group := range e.groups() {
		var worst, best result.Row
		for _, s := range group {
			row, ok := stats.Find(e.Rows, e.DUT, s.Case(), Throughput)
			if !ok {
				continue
			}
			if worst.N == 0 || row.Median < worst.Median {
				worst = row
			}
			if best.N == 0 || row.Median > best.Median {
				best = row
			}
		}
		if worst.N == 0 || worst.Case == best.Case {
			continue
		}
		s, _ := Streamed(worst.Case)
		out = append(out, result.Finding{Topic: "Worst state", Text: fmt.Sprintf("%s itself carries least %s: %s Gbit/s over all sizes [%s, %s] (n = %d), %s what it carries %s.%s%s",
			e.Title(e.DUT), e.place(s), stats.Figure(worst.Median), stats.Figure(worst.Lo), stats.Figure(worst.Hi), worst.N,
			stats.Ratio(worst.Median/best.Median), e.state(best), e.why(s), e.spent(s))})
	}
	return out
}

// why is the cause of a slow state: of the offloads that it lacks the one that brings most, or
// where none was measured apart the one that takes most with it.
func (e evidence) why(s Stream) string {
	most, cause, measured := 0.0, "", false
	for _, kind := range allKinds() {
		if isOn(s.State, kind) {
			continue
		}
		of := s
		of.State = kind
		row, ok := stats.Find(e.Rows, e.DUT, of.Case(), GainLeftOut)
		if !ok {
			row, ok = stats.Find(e.Rows, e.DUT, of.Case(), GainAlone)
		}
		measured = measured || ok
		if ok && row.Median > most && row.Median > 1 {
			most, cause = row.Median, kind
		}
	}
	if !measured {
		for _, kind := range []string{Coalescing, Segmentation, Checksums} {
			if !isOn(s.State, kind) {
				cause = kind
			}
		}
	}
	because := map[string]string{
		Segmentation: "Without segmentation in the devices, what the guests hand over is cut to the MTU before it reaches the tunnel, or right behind it, and every step is paid once per packet, not once per 64 kB.",
		Coalescing:   "Without coalescing what arrives cut stays cut, and the receiver's stack works packet by packet.",
		Checksums:    "Without checksums in the devices the processor adds up every byte, and Linux leaves no segmentation to such a device either, so it cuts by itself.",
	}[cause]
	switch {
	case because == "":
		return ""
	case !measured:
		return " Cause, which no other state here isolates: " + diagnose.LowerFirst(because)
	}
	verb := "brings"
	if cause == Checksums {
		verb = "bring"
	}
	return fmt.Sprintf(" Cause: what it lacks most is %s, which %s %s. %s", KindWords(cause), verb, stats.Ratio(most), because)
}

// spent says where the processor's time goes in a state, with the largest writes.
func (e evidence) spent(s Stream) string {
	sizes := Sizes(e.Result)
	s.Size = sizes[len(sizes)-1]
	cores := stats.Cores(e.Result, e.DUT, s.Case())
	if len(cores) == 0 {
		return ""
	}
	var user, system, softirq float64
	for _, c := range cores {
		n := float64(len(cores))
		user, system, softirq = user+c.User/n, system+c.System/n, softirq+c.SoftIRQ/n
	}
	return fmt.Sprintf(" With writes of %sB the cores spend %s in softirq, where packets are received and forwarded, %s in system calls and %s in programs.",
		SizeWords(s.Size), stats.Share(softirq), stats.Share(system), stats.Share(user))
}

// groups are the means by encapsulation and ways.
func (e evidence) groups() [][]Stream {
	var groups [][]Stream
	for _, s := range Means(e.Result) {
		last := len(groups) - 1
		if last < 0 || groups[last][0].Encapsulation != s.Encapsulation || groups[last][0].BothWays != s.BothWays {
			groups = append(groups, nil)
			last++
		}
		groups[last] = append(groups[last], s)
	}
	return groups
}

// misses lists single sizes that stay below the aim though they can be told from it.
func (e evidence) misses() []result.Finding {
	var words []string
	cells := 0
	for _, s := range Streams(e.Result) {
		row, ok := stats.Find(e.Rows, e.DUT, s.Case(), Throughput)
		if !ok || row.Ratio == 0 {
			continue
		}
		cells++
		if row.RatioHi < aim && pairs(e.Result, e.DUT, s) >= stats.MinRounds {
			words = append(words, fmt.Sprintf("%s %s %s", e.place(s), stats.Ratio(row.Ratio), diagnose.Bounds(row)))
		}
	}
	switch {
	case cells == 0:
		return nil
	case len(words) == 0:
		return []result.Finding{{Topic: "Single sizes", Text: fmt.Sprintf("in none of %d cases is %s shown to be below %s the kernel.", cells, e.Title(e.DUT), stats.Ratio(aim))}}
	}
	more := ""
	if n := len(words); n > 6 {
		words, more = words[:6], fmt.Sprintf("; and %d more", n-6)
	}
	return []result.Finding{{Topic: "Single sizes", Text: fmt.Sprintf("below %s the kernel are, of %d cases, %s%s.", stats.Ratio(aim), cells, strings.Join(words, "; "), more)}}
}

// gains sets what all offloads together bring beside the study's figures.
func (e evidence) gains() []result.Finding {
	var out []result.Finding
	for _, name := range stats.Names(e.Result) {
		for _, s := range Means(e.Result) {
			rate, ok := stats.Find(e.Rows, name, s.Case(), ThroughputGain)
			cpu, okCPU := stats.Find(e.Rows, name, s.Case(), ProcessorChange)
			efficiency, okEfficiency := stats.Find(e.Rows, name, s.Case(), EfficiencyGain)
			if s.State != AllOn || !ok || !okCPU || !okEfficiency {
				continue
			}
			out = append(out, result.Finding{Topic: "Gain", Text: fmt.Sprintf("all offloads together bring %s %s of throughput over all sizes [%s, %s] (%s), with %s of processor time and %s of efficiency%s.",
				e.Title(name), stats.Percent(rate.Median-1), stats.Percent(rate.Lo-1), stats.Percent(rate.Hi-1), e.ends(name, s),
				stats.Percent(cpu.Median-1), stats.Percent(efficiency.Median-1), e.among(s))})
		}
	}
	if len(out) > 0 {
		out = append(out, result.Finding{Topic: "Gain", Text: "the QLogic study's adapters brought +7 % with writes of 1 kB, +32 % with 64 kB, +19 % in the mean, and +6 % of efficiency at 10 Gbit/s; +18 %, and with −24 % of processor time +55 % of efficiency, at 25. There the link was the limit and hardware did the work. Here software does it, and the processor is the limit."})
	}
	return out
}

// among tells apart what a result has several of.
func (e evidence) among(s Stream) string {
	if len(e.groups()) < 2 {
		return ""
	}
	return " (" + diagnose.InWords(s.Encapsulation) + ", " + waysWords(s.BothWays) + ")"
}

// ends are the gains with the smallest and the largest writes.
func (e evidence) ends(name string, s Stream) string {
	var words []string
	sizes := Sizes(e.Result)
	for _, size := range slices.Compact([]int{sizes[0], sizes[len(sizes)-1]}) {
		s.Size = size
		if row, ok := stats.Find(e.Rows, name, s.Case(), ThroughputGain); ok {
			words = append(words, fmt.Sprintf("%sB %s", SizeWords(size), stats.Percent(row.Median-1)))
		}
	}
	return strings.Join(words, ", ")
}

// attribution says what each offload brings alone and what is lost where it alone is left out.
func (e evidence) attribution() []result.Finding {
	var out []result.Finding
	for _, name := range stats.Names(e.Result) {
		for _, group := range e.groups() {
			var words []string
			for _, kind := range allKinds() {
				s := group[0]
				s.State = kind
				var parts []string
				if row, ok := stats.Find(e.Rows, name, s.Case(), GainAlone); ok {
					parts = append(parts, stats.Percent(row.Median-1)+" alone")
				}
				if row, ok := stats.Find(e.Rows, name, s.Case(), GainLeftOut); ok {
					parts = append(parts, stats.Percent(row.Median-1)+" against all the others")
				}
				if len(parts) > 0 {
					words = append(words, KindWords(kind)+" "+strings.Join(parts, ", "))
				}
			}
			if len(words) > 0 {
				out = append(out, result.Finding{Topic: "Attribution", Text: fmt.Sprintf("of throughput over all sizes %s owes%s: %s.", e.Title(name), e.among(group[0]), strings.Join(words, "; "))})
			}
		}
	}
	if len(out) > 0 {
		out = append(out, result.Finding{Topic: "Attribution", Text: "segmentation alone is against checksums alone, since Linux segments in no device without them; for the same reason what checksums bring against all the others holds TCP's segmentation too. Offloads help each other, so the parts do not add up to the whole."})
	}
	return out
}

// fullMachine is the share of all cores, in percent, from which they are the limit.
const fullMachine = 90

// saturation says when processor time could not fall.
func (e evidence) saturation() []result.Finding {
	full, cases := 0, 0
	for _, s := range Streams(e.Result) {
		if row, ok := stats.Find(e.Rows, e.DUT, s.Case(), Processor); ok {
			cases++
			if row.Median >= fullMachine {
				full++
			}
		}
	}
	if cases == 0 || 2*full < cases {
		return nil
	}
	return []result.Finding{{Topic: "Processor", Text: fmt.Sprintf("in %d of %d cases of %s all cores are %d %% busy or more: there is no link to fill, so offloads turn into throughput and not into idle cores, and throughput and efficiency say nearly the same.",
		full, cases, e.Title(e.DUT), fullMachine)}}
}

// identity checks the study's identity on every row.
func (e evidence) identity() []result.Finding {
	all := Identities(e.Rows)
	if len(all) == 0 {
		return nil
	}
	holds, worst := 0, all[0]
	for _, i := range all {
		if i.Holds() {
			holds++
		}
		if math.Abs(i.Off()) > math.Abs(worst.Off()) {
			worst = i
		}
	}
	found := result.Finding{Topic: "Identity", Text: fmt.Sprintf("the gain of efficiency is that of throughput over the change of processor time within %.0f %% on %d of %d rows", 100*IdentityLimit, holds, len(all))}
	if holds == len(all) {
		return []result.Finding{found.And(fmt.Sprintf(" (at most %s off).", stats.Share(math.Abs(worst.Off()))))}
	}
	return []result.Finding{found.And(fmt.Sprintf("; it misses most for %s %s: %s where %s was to be expected. It holds exactly within a round; medians of different rounds need not obey it, so such a row is noise.",
		e.Title(worst.Target), e.place(worst.Stream), stats.Ratio(worst.Efficiency), stats.Ratio(worst.Expected)))}
}

// partly says where a state is not all of what its name says.
func (e evidence) partly() []result.Finding {
	var words []string
	for _, state := range states() {
		if len(e.Parameters.Texts(partlyParameter(e.DUT, state))) > 0 {
			words = append(words, fmt.Sprintf("%s (%s)", state, e.Parameters.Text(forceParameter(e.DUT, state))))
		}
	}
	if len(words) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "In force", Text: "some features follow others or cannot be changed: " + strings.Join(words, "; ") + "."}}
}

// absent says what the kernel could not take part in.
func (e evidence) absent() []result.Finding {
	without := e.Parameters.Texts(withoutParameter(diagnose.Kernel))
	if len(without) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "Left out", Text: fmt.Sprintf("this kernel has no device for %s, so %s has no ratio there.", strings.Join(without, ", "), e.Title(e.DUT))}}
}
