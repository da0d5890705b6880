package stats

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/result"
)

// SpreadLimit is the largest relative spread with which a verdict is given. The
// smallest effect that the experiment has to tell from none is the kernel's own
// tunnel, which costs about 18 % of plain's throughput on the machines that we
// know; noise of more than about half of that could hide it or feign it.
const SpreadLimit = 0.10

// MinRounds is the fewest rounds that carry a verdict at all; of slices it is LeastPairs.
const MinRounds = 3

// Refuse says, without a final stop, why no conclusion may be drawn about subject
// against the baseline, or "" when one may. It looks at the decisive metric of
// these two alone; Unreliable judges any other target.
func Refuse(r result.Result, dut string) string {
	if r.Samples == nil {
		return "the result holds no samples"
	}
	for _, name := range []string{Baseline, dut} {
		if why := Unreliable(r, name); why != "" {
			return why
		}
	}
	row := result.Row{Target: dut, Baseline: Baseline}
	compareRow(&row, r, Metric{Case: DecisiveCase, Name: Decisive})
	if row.Ratio == 0 {
		return fmt.Sprintf("%s moved nothing in at least one round", Baseline)
	}
	half := (row.RatioHi - row.RatioLo) / 2
	if row.RatioLo <= 1 && row.RatioHi >= 1 && half > SpreadLimit {
		return fmt.Sprintf("the ratio of %s to %s lies anywhere in [%.2f, %.2f], which is wider than ±%.0f %% and so shows neither a difference nor its absence",
			dut, Baseline, row.RatioLo, row.RatioHi, 100*SpreadLimit)
	}
	return ""
}

// leastRounds is the fewest rounds that carry a verdict on r.
func leastRounds(r result.Result) int {
	if Sliced(r) {
		return LeastPairs
	}
	return MinRounds
}

// Unreliable says, without a final stop, why the decisive metric of a target carries
// no conclusion: samples with errors, missing rounds, too few rounds, or a
// spread above SpreadLimit. It is "" when it does carry one.
func Unreliable(r result.Result, target string) string {
	return UnreliableFor(r, target, Basis{DecisiveCase, Decisive, "throughput"})
}

// Basis is what a verdict stands on: a metric of a case, and that metric in words.
type Basis struct{ CaseName, Metric, Words string }

// UnreliableFor is Unreliable by another metric than the decisive one.
func UnreliableFor(r result.Result, target string, d Basis) string {
	for _, s := range r.Samples {
		if s.Target == target && s.Case == d.CaseName && s.Error != "" {
			return fmt.Sprintf("round %d of %s has an error (%s)", s.Round, target, strings.TrimSpace(s.Error))
		}
	}
	values := Values(r, target, d.CaseName, d.Metric)
	if len(values) == 0 {
		return fmt.Sprintf("%s was not measured", target)
	}
	rounds := Rounds(r)
	var missing []int
	for round := 1; round <= rounds; round++ {
		if _, ok := values[round]; !ok {
			missing = append(missing, round)
		}
	}
	if len(missing) > 0 {
		return fmt.Sprintf("%s has no sample of round %s of %d", target, join(missing), rounds)
	}
	if len(values) < leastRounds(r) {
		return fmt.Sprintf("%s has %d of the at least %d rounds that a comparison needs", target, len(values), leastRounds(r))
	}
	if s := Spread(ByRound(values)); s > SpreadLimit {
		return fmt.Sprintf("the %s of %s spreads by ±%.0f %% (1.48 × median absolute deviation, n = %d), and the limit is ±%.0f %%",
			d.Words, target, 100*s, len(values), 100*SpreadLimit)
	}
	return ""
}

// Errors lists the samples that failed, one line each, in a stable order.
func Errors(r result.Result) []string {
	var lines []string
	for _, s := range r.Samples {
		if s.Error != "" {
			lines = append(lines, fmt.Sprintf("%s of %s in round %d: %s", s.Case, s.Target, s.Round, strings.TrimSpace(s.Error)))
		}
	}
	slices.Sort(lines)
	return lines
}

func join(rounds []int) string {
	words := make([]string, len(rounds))
	for i, round := range rounds {
		words[i] = fmt.Sprint(round)
	}
	return strings.Join(words, ", ")
}
