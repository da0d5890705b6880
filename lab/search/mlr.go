package search

import (
	"context"
	"math"
	"time"
)

// MLR searches all goals at once by MLRsearch (RFC 9971, formerly
// draft-ietf-bmwg-mlrsearch): short trials find where to look, final ones decide, and
// several may be needed at one load. Which loads are tried is left to implementations
// there; here the rate that came through at the maximum is the first guess, then bounds
// of coarser targets, then steps that double, then bisection.
//
// An error comes with what was found until then. It wraps ErrVoid when a trial stayed
// void, and that of ctx when that ended.
func MLR(ctx context.Context, trial Trial, o Options) (Result, error) {
	return run(ctx, trial, o, strategy{decide: Goal.classify, targets: coarse, next: mlrNext, loss: Goal.quantileLoss})
}

// coarse are the targets on the way to g: each decides with one trial about a load,
// and bounds come half as close as with the next.
func coarse(g Goal) []Goal {
	lengths := []time.Duration{g.Initial}
	if g.Final >= 4*g.Initial {
		lengths = append(lengths, time.Duration(math.Sqrt(float64(g.Initial)*float64(g.Final))))
	}
	if g.Final > g.Initial && g.Sum > g.Final {
		lengths = append(lengths, g.Final)
	}
	if g.Initial == g.Final && g.Sum == g.Final {
		return []Goal{g}
	}
	var targets []Goal
	for i, length := range lengths {
		t := g
		t.Initial, t.Final, t.Sum = length, length, length
		t.Width = min(g.Width*math.Pow(2, float64(len(lengths)-i)), 0.5)
		targets = append(targets, t)
	}
	return append(targets, g)
}

// mlrNext is the load to try.
func mlrNext(r *runner, b bracket) float64 {
	jump := math.Min(b.target.Width*math.Pow(2, float64(b.step)), 0.5)
	within := func(load float64) bool {
		return load > b.lower && load <= r.max && (b.upper == 0 || load < b.upper)
	}
	switch {
	case b.hintLower > 0 && within(b.hintLower): // from below, since it is the lower bound that is reported
		return b.hintLower
	case b.hintUpper > 0 && b.lower > 0 && within(b.hintUpper):
		return b.hintUpper
	case b.lower > 0 && b.upper > 0:
		return geometric(b.lower, b.upper)
	case b.lower > 0:
		return math.Min(r.max, b.lower/(1-jump))
	case b.upper > 0:
		if through := r.forwarded(b.upper); through < b.upper*(1-b.target.Width) && through > r.options.Min {
			return through
		}
		return math.Max(r.options.Min, b.upper*(1-jump))
	}
	return r.max
}

// forwarded is the rate that came through at a load, on average: at the maximum it is
// RFC 2285's forwarding rate at maximum offered load.
func (r *runner) forwarded(load float64) float64 {
	sent, lost := 0.0, 0.0
	for _, t := range r.at(load) {
		sent, lost = sent+float64(t.Outcome.Sent), lost+float64(t.Outcome.Lost)
	}
	if sent == 0 {
		return 0
	}
	return load * (1 - lost/sent)
}
