package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// strategy is what tells MLRsearch and the binary search apart; rates, trials and
// bounds are the same.
type strategy struct {
	decide decide
	// targets are the goals on the way to a goal, coarse ones first; the last decides.
	targets func(Goal) []Goal
	// next is the load to try between or beyond bounds.
	next func(*runner, bracket) float64
	// loss is the loss ratio at the lower bound.
	loss func(Goal, []Record) float64
}

// bracket is where the search for a target stands.
type bracket struct {
	target       Goal
	lower, upper float64 // relevant bounds, 0 for none
	// hintLower and hintUpper are the bounds of a coarser target.
	hintLower, hintUpper float64
	step                 int // loads tried outside the bounds so far
}

// width is the distance of the bounds at which a target is reached.
func (r *runner) width(g Goal, upper float64) float64 {
	return max(g.Width*upper, r.options.Resolution) * (1 + slack)
}

// run searches all goals and returns what was found, also with an error.
func run(ctx context.Context, trial Trial, o Options, s strategy) (Result, error) {
	o.Goals = slices.Clone(o.Goals)
	o = o.defaults()
	if err := o.check(); err != nil {
		return Result{}, err
	}
	r := &runner{trial: trial, options: o}
	r.max = r.round(o.Max)
	err := r.goals(ctx, s)
	if err == nil {
		err = r.probe(ctx, s)
	}
	if errors.Is(err, errSpent) {
		err = nil
	}
	return r.result(s), err
}

// goals searches every goal, until none needs another trial: a trial for one goal may
// move the bounds of another.
func (r *runner) goals(ctx context.Context, s strategy) error {
	for range 5 {
		before := r.made
		for _, g := range r.options.Goals {
			lower, upper := 0.0, 0.0
			for _, target := range s.targets(g) {
				var err error
				if lower, upper, err = r.reach(ctx, s, target, lower, upper); err != nil {
					return err
				}
			}
		}
		if r.made == before {
			break
		}
	}
	return nil
}

// reach makes trials until the bounds of a target are as close as it asks, or until
// there is no rate left to try.
func (r *runner) reach(ctx context.Context, s strategy, target Goal, hintLower, hintUpper float64) (lower, upper float64, err error) {
	b := bracket{target: target, hintLower: hintLower, hintUpper: hintUpper}
	for {
		b.lower, b.upper, _ = r.bounds(target, s.decide)
		if r.stop(b) != "" {
			return b.lower, b.upper, nil
		}
		load := r.inside(b, s.next(r, b))
		b.step++
		for s.decide(target, r.at(load)) == undecided && load <= r.max {
			if _, err := r.offer(ctx, load, target.Final); err != nil {
				return b.lower, b.upper, err
			}
		}
	}
}

// stop is why there is nothing left to try, "" while there is.
func (r *runner) stop(b bracket) Stop {
	switch {
	case b.lower > 0 && b.upper > 0 && b.upper-b.lower <= r.width(b.target, b.upper):
		return Width
	case b.lower >= r.max && (r.behind || r.options.MaxIsGenerator):
		return Generator
	case b.lower >= r.max:
		return Maximum
	case b.lower == 0 && b.upper > 0 && b.upper <= r.options.Min:
		return Minimum
	}
	return ""
}

// inside puts a load on the grid, within the range and strictly between the bounds.
func (r *runner) inside(b bracket, load float64) float64 {
	res := r.options.Resolution
	load = min(r.round(load), r.max)
	if b.upper > 0 && load >= b.upper {
		load = max(b.upper-res, r.options.Min)
	}
	if b.lower > 0 && load <= b.lower {
		load = min(b.lower+res, r.max)
	}
	return load
}

// probe looks below the throughput for loss that a search from above does not meet. Where
// a short trial loses too much, the load is decided, and goals are searched again.
func (r *runner) probe(ctx context.Context, s strategy) error {
	again := false
	for _, share := range r.options.Probes {
		for _, g := range r.options.Goals {
			lower, _, _ := r.bounds(g, s.decide)
			load := r.round(share * lower)
			if lower == 0 || load >= lower || len(r.at(load)) > 0 {
				continue
			}
			record, err := r.offer(ctx, load, g.Initial)
			if err != nil {
				return err
			}
			if record.Outcome.LossRatio() <= g.LossRatio {
				continue
			}
			again = true
			for s.decide(g, r.at(load)) == undecided && load <= r.max {
				if _, err := r.offer(ctx, load, g.Final); err != nil {
					return err
				}
			}
		}
	}
	if !again {
		return nil
	}
	return r.goals(ctx, s)
}

// result is what all trials say.
func (r *runner) result(s strategy) Result {
	out := Result{Trials: r.trials, Max: r.max, Behind: r.behind}
	for _, g := range r.options.Goals {
		f := Found{Goal: g}
		f.Lower, f.Upper, f.Above = r.bounds(g, s.decide)
		f.Stop = r.stop(bracket{target: g, lower: f.Lower, upper: f.Upper})
		if f.Stop == "" {
			f.Stop = Spent
		}
		if f.Lower > 0 {
			f.LossRatio = s.loss(g, r.at(f.Lower))
			f.Throughput = f.Lower * (1 - f.LossRatio)
		}
		out.Goals = append(out.Goals, f)
		if len(f.Above) > 0 {
			out.Notes = append(out.Notes, fmt.Sprintf("Not monotonic: %.4g frames a second fail the goal %s, yet %.4g satisfy it. Its figure is that below the first loss.",
				f.Upper, g.Name, slices.Max(f.Above)))
		}
	}
	if r.behind {
		out.Notes = append(out.Notes, fmt.Sprintf("The generator fell behind above %.4g frames a second, so higher rates were not tried.", r.max))
	}
	if r.voids > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%d of %d trials were void and repeated; the last because %s.", r.voids, r.made, r.lastWhy))
	}
	return out
}

// geometric is the middle of two rates on a logarithmic scale.
func geometric(a, b float64) float64 { return math.Sqrt(a * b) }
