package places

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/turns"
)

// gain is a row of as-found: its throughput to that of all-off in the same rounds.
const gain = "throughput_gain"

// stateOf cuts a case into its state and size of writes in kB, 0 for the mean.
func stateOf(caseName string) (name string, kb int) {
	name, size, _ := strings.Cut(caseName, "/")
	kb, _ = strconv.Atoi(strings.TrimSuffix(size, "k")) // "mean" is 0
	return name, kb
}

// statesIn are the states of r, as-found first and all-off behind it.
func statesIn(r result.Result) []string {
	var names []string
	for _, caseName := range stats.Cases(r) {
		if name, _ := stateOf(caseName); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	rank := func(name string) int { return slices.Index([]string{AllOff, AsFound}, name) }
	slices.SortStableFunc(names, func(a, b string) int {
		if rank(a) != rank(b) {
			return rank(b) - rank(a)
		}
		return strings.Compare(a, b)
	})
	return names
}

// sizesIn are the sizes of writes of r in kB, ascending.
func sizesIn(r result.Result) []int {
	var sizes []int
	for _, caseName := range stats.Cases(r) {
		_, kb := stateOf(caseName)
		sizes = append(sizes, kb)
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// figures are those of a state, in the order of the rows.
func figures() []stats.Metric {
	return []stats.Metric{
		{Name: measure.TCPThroughput, Unit: "Gbit/s", Title: "TCP throughput", Higher: true},
		{Name: client + turns.CPUPerGB, Unit: "s/GB", Title: "CPU per GB, client"},
		{Name: server + turns.CPUPerGB, Unit: "s/GB", Title: "CPU per GB, server"},
		{Name: measure.Retransmits, Unit: "count", Title: "TCP retransmits"},
	}
}

// metrics are the titles of the rows.
func metrics(result.Result) []stats.Metric {
	return append(figures(), stats.Metric{Name: gain, Unit: "×", Title: "Throughput as found to all off", Higher: true})
}

// values are a figure by round; without a size the geometric mean over all of them, in which each size
// has the same weight, of rounds that have all.
func values(r result.Result, path, state string, kb int, metric string) map[int]float64 {
	if kb > 0 {
		return stats.Values(r, path, caseOf(state, kb), metric)
	}
	logs, counts := map[int]float64{}, map[int]int{}
	sizes := sizesIn(r)
	for _, kb := range sizes {
		for round, v := range stats.Values(r, path, caseOf(state, kb), metric) {
			if v > 0 {
				logs[round] += math.Log(v) / float64(len(sizes))
				counts[round]++
			}
		}
	}
	means := map[int]float64{}
	for round, n := range counts {
		if n == len(sizes) {
			means[round] = math.Exp(logs[round])
		}
	}
	return means
}

// summarise has the means over all sizes first, then each size. Rows are against as-found of the same
// path, size and round.
func summarise(r result.Result) []result.Row {
	var rows []result.Row
	for _, m := range figures() {
		for _, path := range stats.Names(r) {
			for _, kb := range append([]int{0}, sizesIn(r)...) {
				base := values(r, path, AsFound, kb, m.Name)
				for _, state := range statesIn(r) {
					of := values(r, path, state, kb, m.Name)
					if len(of) == 0 {
						continue
					}
					row := rowOf(path, caseOf(state, kb), m, of)
					if state != AsFound {
						turns.Against(&row, path+":"+caseOf(AsFound, kb), of, base)
					}
					rows = append(rows, row)
				}
			}
		}
	}
	return append(rows, gains(r)...)
}

func rowOf(path, caseName string, m stats.Metric, of map[int]float64) result.Row {
	iv := stats.Median(stats.ByRound(of))
	return result.Row{Target: path, Case: caseName, Metric: m.Name, Unit: m.Unit, Median: iv.Median, Lo: iv.Lo, Hi: iv.Hi, N: iv.N, Ratio: 1, RatioLo: 1, RatioHi: 1}
}

// gains are the study's: as found to all off.
func gains(r result.Result) []result.Row {
	var rows []result.Row
	for _, path := range stats.Names(r) {
		for _, kb := range append([]int{0}, sizesIn(r)...) {
			of, off := values(r, path, AsFound, kb, measure.TCPThroughput), values(r, path, AllOff, kb, measure.TCPThroughput)
			row := result.Row{Target: path, Case: caseOf(AsFound, kb), Metric: gain, Unit: "×"}
			turns.Against(&row, path+":"+caseOf(AllOff, kb), of, off)
			if row.Ratio == 0 {
				continue
			}
			row.Median, row.Lo, row.Hi = row.Ratio, row.RatioLo, row.RatioHi
			for round := range of {
				if _, both := off[round]; both {
					row.N++
				}
			}
			rows = append(rows, row)
		}
	}
	return rows
}

type evidence struct{ diagnose.Evidence }

// verdict answers which state carries more than what was found, and what costs most to lose. It
// stands on the means over all sizes.
func verdict(r result.Result) result.Verdict {
	e := evidence{diagnose.Summed(r, summarise, "")}
	v := result.Verdict{Findings: e.findings()}
	var sentences []string
	for _, path := range stats.Names(r) {
		base, ok := stats.Find(e.Rows, path, caseOf(AsFound, 0), measure.TCPThroughput)
		switch {
		case !ok:
			v.Refuse(fmt.Sprintf("no round over %s has the state as found with every size of writes", path), "See the errors, and run it again.")
			return v
		case len(e.states(path)) == 0:
			v.Refuse(fmt.Sprintf("over %s no other state than what was found was measured", path), "")
			return v
		case base.N < stats.LeastPairs:
			v.Refuse(fmt.Sprintf("n = %d over %s; a difference needs at least %d rounds", base.N, path, stats.LeastPairs), "Raise --rounds.")
			return v
		}
		sentences = append(sentences, e.sentence(path, base))
	}
	if len(sentences) == 0 {
		v.Refuse("nothing was measured", "")
		return v
	}
	v.Headline, v.Explanation = sentences[0], strings.Join(sentences[1:], " ")
	return v
}

// states are the rows of throughput of all other states over a path, the least ratio first.
func (e evidence) states(path string) []result.Row {
	var rows []result.Row
	for _, state := range statesIn(e.Result) {
		row, ok := stats.Find(e.Rows, path, caseOf(state, 0), measure.TCPThroughput)
		if ok && state != AsFound && row.Ratio > 0 {
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b result.Row) int {
		switch {
		case a.Ratio < b.Ratio:
			return -1
		case a.Ratio > b.Ratio:
			return 1
		}
		return 0
	})
	return rows
}

// sentence is what the states say over a path.
func (e evidence) sentence(path string, base result.Row) string {
	rows := e.states(path)
	text := fmt.Sprintf("Over %s the adapters carry %s Gbit/s as found (mean over the sizes of writes). ", path, stats.Figure(base.Median))
	best, worst := rows[len(rows)-1], rows[0]
	if best.Distinguishable && best.Ratio > 1 {
		text += fmt.Sprintf("%s it is most, %s.", diagnose.UpperFirst(in(best)), ratio(best))
	} else {
		text += "No other state is shown to carry more."
	}
	if worst.Distinguishable && worst.Ratio < 1 {
		text += fmt.Sprintf(" %s it is least, %s.", diagnose.UpperFirst(in(worst)), ratio(worst))
	} else {
		text += " None is shown to carry less."
	}
	return text
}

// in is the state of a row in words.
func in(row result.Row) string {
	name, _ := stateOf(row.Case)
	return wordsOf(name)
}

func ratio(row result.Row) string {
	return fmt.Sprintf("%s [%.2f, %.2f]", stats.Ratio(row.Ratio), row.RatioLo, row.RatioHi)
}

func (e evidence) findings() []result.Finding {
	return diagnose.Collect(e.Failed, e.Stolen, e.FewRounds, e.study, e.throughput, e.processor, e.limited, e.absent)
}

// study is the gain that the study had.
func (e evidence) study() []result.Finding {
	var out []result.Finding
	for _, path := range stats.Names(e.Result) {
		row, ok := stats.Find(e.Rows, path, caseOf(AsFound, 0), gain)
		if !ok {
			continue
		}
		text := fmt.Sprintf("over %s what was found carries %s what it does with all offloads off", path, ratio(row))
		if !row.Distinguishable {
			text += " (not distinguishable)"
		}
		out = append(out, result.Finding{Topic: "Gain", Text: text + ". The QLogic study's mean is +19 % at 10 Gbit/s and +18 % at 25 Gbit/s."})
	}
	return out
}

// throughput says what each state does to it that is distinguishable.
func (e evidence) throughput() []result.Finding {
	return e.byState("Throughput", measure.TCPThroughput, "throughput")
}

// processor says what each state does to the processors.
func (e evidence) processor() []result.Finding {
	return append(e.byState("CPU at the client", client+turns.CPUPerGB, "CPU per GB"), e.byState("CPU at the server", server+turns.CPUPerGB, "CPU per GB")...)
}

func (e evidence) byState(topic, metric, words string) []result.Finding {
	var out []result.Finding
	for _, path := range stats.Names(e.Result) {
		var parts, same []string
		for _, state := range statesIn(e.Result) {
			row, ok := stats.Find(e.Rows, path, caseOf(state, 0), metric)
			switch {
			case !ok || state == AsFound || row.Ratio <= 0:
			case row.Distinguishable:
				parts = append(parts, wordsOf(state)+" "+ratio(row))
			default:
				same = append(same, state)
			}
		}
		if len(parts)+len(same) == 0 {
			continue
		}
		text := fmt.Sprintf("over %s, %s to as found: ", path, words)
		if len(parts) > 0 {
			text += strings.Join(parts, "; ") + "."
		}
		if len(same) > 0 {
			text += " Not distinguishable: " + strings.Join(same, ", ") + "."
		}
		out = append(out, result.Finding{Topic: topic, Text: strings.Replace(text, ":  ", ": ", 1)})
	}
	return out
}

// limited says that --max-rate was the limit.
func (e evidence) limited() []result.Finding {
	if most, ok := e.Parameters["max_rate"]; ok {
		return []result.Finding{{Topic: "Limit", Text: "no more than " + most.String() + " was sent (--max-rate), so throughput shows losses alone. Look at the CPU per GB."}}
	}
	return nil
}

// absent says what there is not.
func (e evidence) absent() []result.Finding {
	missing := e.Parameters.Texts(missingKey)
	if len(missing) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "Not available", Text: strings.Join(missing, "; ") + "."}}
}
