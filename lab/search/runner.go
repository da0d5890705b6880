package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// runner makes trials and keeps what they said.
type runner struct {
	trial   Trial
	options Options
	max     float64 // highest rate that the generator is still believed to offer
	behind  bool    // the generator fell behind, so max is less than Options.Max
	trials  []Record
	made    int
	voids   int
	lastWhy string
}

// errSpent ends a search whose number of trials is spent; what was found stays.
var errSpent = errors.New("the number of trials is spent")

// attempt makes one trial and repeats it while it is void or the generator falls
// behind. The record that it returns may still be one in which that fell behind.
func (r *runner) attempt(ctx context.Context, pps float64, length time.Duration) (Record, error) {
	var record Record
	for range r.options.Retries + 1 {
		if err := ctx.Err(); err != nil {
			return record, err
		}
		if r.made >= r.options.Most {
			return record, errSpent
		}
		r.made++
		out, err := r.trial(ctx, pps, length)
		if err != nil {
			return record, fmt.Errorf("trial at %.0f frames a second for %s: %w", pps, length, err)
		}
		if out.Void == "" && out.Sent+out.Unsent == 0 {
			out.Void = "nothing was sent: the rate is too low for so short a trial"
		}
		if out.Void == "" && out.Lost > out.Sent {
			out.Void = fmt.Sprintf("%d frames lost of %d sent", out.Lost, out.Sent)
		}
		record = Record{PPS: pps, Length: length, Outcome: out}
		if r.options.Observe != nil {
			r.options.Observe(record)
		}
		if out.Void == "" && out.UnsentRatio() <= r.options.Unsent {
			return record, nil
		}
		if out.Void != "" {
			r.voids++
			r.lastWhy = out.Void
		}
	}
	if record.Outcome.Void != "" {
		return record, fmt.Errorf("trial at %.0f frames a second for %s, %d times: %w: %s", pps, length, r.options.Retries+1, ErrVoid, record.Outcome.Void)
	}
	return record, nil
}

// offer makes a trial that counts. Where the generator falls behind, the trial does
// not, and the highest rate becomes what it did send.
func (r *runner) offer(ctx context.Context, pps float64, length time.Duration) (Record, error) {
	record, err := r.attempt(ctx, pps, length)
	if err != nil {
		return record, err
	}
	if unsent := record.Outcome.UnsentRatio(); unsent > r.options.Unsent {
		r.behind = true
		sent := pps * (1 - unsent)
		if sent < r.options.Min || pps <= r.options.Min {
			return record, fmt.Errorf("the generator sends %.0f frames a second where %.0f were requested, less than the lowest rate %.0f", sent, pps, r.options.Min)
		}
		r.max = r.round(sent * (1 - r.options.Unsent))
		return record, nil
	}
	r.trials = append(r.trials, record)
	return record, nil
}

// at are the trials that were made at a load.
func (r *runner) at(pps float64) []Record {
	var found []Record
	for _, t := range r.trials {
		if t.PPS == pps {
			found = append(found, t)
		}
	}
	return found
}

// loads are all rates that were tried, ascending.
func (r *runner) loads() []float64 {
	var loads []float64
	for _, t := range r.trials {
		loads = append(loads, t.PPS)
	}
	slices.Sort(loads)
	return slices.Compact(loads)
}

// bounds are the relevant bounds of a goal, 0 for none: the lowest load that fails it,
// and the highest below that which satisfies it. above are loads that satisfy it over
// the former.
func (r *runner) bounds(g Goal, decide decide) (lower, upper float64, above []float64) {
	for _, load := range r.loads() {
		switch c := decide(g, r.at(load)); {
		case c == upperBound && upper == 0:
			upper = load
		case c == lowerBound && upper == 0:
			lower = load
		case c == lowerBound:
			above = append(above, load)
		}
	}
	return lower, upper, above
}

// round puts a rate on the grid of the resolution, within the range.
func (r *runner) round(pps float64) float64 {
	res := r.options.Resolution
	return max(r.options.Min, math.Floor(pps/res+slack)*res)
}

// decide classifies a load by its trials.
type decide func(Goal, []Record) class
