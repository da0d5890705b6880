package search

import (
	"context"
	"fmt"
	"slices"
)

// Binary is the search that RFC 2544 section 26.1 is usually done by: a final trial at the
// maximum, then the middle of what is left, one goal after the other. Goals use each
// other's trials. A load that fails is tried again up to repeats times (3 in the NSX edge study)
// and satisfies its goal when one trial does: with repeats the figure is the best of
// several, which the notes say. ExceedRatio, Initial and Sum do not count here. Errors
// are MLR's.
func Binary(ctx context.Context, trial Trial, o Options, repeats int) (Result, error) {
	if repeats < 0 {
		return Result{}, fmt.Errorf("search: %d repeats are less than 0", repeats)
	}
	s := strategy{
		decide:  anyOf(repeats),
		targets: func(g Goal) []Goal { return []Goal{g} },
		next: func(r *runner, b bracket) float64 {
			switch {
			case b.upper == 0:
				return r.max
			case b.lower == 0 && b.upper-r.options.Min <= r.width(b.target, b.upper):
				return r.options.Min
			case b.lower == 0:
				return (r.options.Min + b.upper) / 2
			}
			return (b.lower + b.upper) / 2
		},
		loss: leastLoss,
	}
	result, err := run(ctx, trial, o, s)
	if repeats > 0 {
		result.Notes = append(result.Notes, fmt.Sprintf("A load that failed was tried up to %d more times: figures are the best of these.", repeats))
	}
	return result, err
}

// anyOf lets a load satisfy a goal when one final trial does, and fail it after
// repeats more.
func anyOf(repeats int) decide {
	return func(g Goal, trials []Record) class {
		s := g.sum(trials)
		switch {
		case s.longLow > 0:
			return lowerBound
		case fails(g, trials) > repeats:
			return upperBound
		}
		return undecided
	}
}

func fails(g Goal, trials []Record) int {
	n := 0
	for _, t := range trials {
		if t.Length >= g.Final && t.Outcome.LossRatio() > g.LossRatio {
			n++
		}
	}
	return n
}

func leastLoss(g Goal, trials []Record) float64 {
	full := slices.DeleteFunc(slices.Clone(trials), func(t Record) bool { return t.Length < g.Final })
	if len(full) == 0 {
		return 1
	}
	least := full[0].Outcome.LossRatio()
	for _, t := range full {
		least = min(least, t.Outcome.LossRatio())
	}
	return least
}
