package experiment

import (
	"context"
	"fmt"
	"time"

	"github.com/selvage/selvage/lab/result"
)

// Planned is a step with what an experiment adds to it.
type Planned interface {
	fmt.Stringer
	Basic() Step
}

// Basic is the step without what an experiment adds.
func (s Step) Basic() Step { return s }

// Steps are plans as far as the estimate of time needs them.
func Steps[S Planned](plan []S) []Step {
	steps := make([]Step, len(plan))
	for i, s := range plan {
		steps[i] = s.Basic()
	}
	return steps
}

// Taking is how the samples of a plan are taken.
type Taking[S Planned] struct {
	Pace *Pace
	// Take takes one. What failed in it is in the sample; an error ends the run after it.
	Take func(context.Context, S) (result.Sample, error)
	// Outcome is a sample in a few words.
	Outcome func(result.Sample) string
}

// All takes the samples of a plan and appends them to r, until ctx ends: the sample that this
// cuts short does not count.
func (t Taking[S]) All(ctx context.Context, plan []S, r *result.Result, p *Progress) error {
	left := Steps(plan)
	for i, s := range plan {
		p.Begin(s.String(), t.Pace.Left(left[i:]))
		began := time.Now()
		sample, err := t.Take(ctx, s)
		if ctx.Err() != nil {
			Interrupt(r, "case %s, round %d", left[i].CaseName, left[i].Round)
			return ctx.Err()
		}
		sample.Target, sample.Case, sample.Round = left[i].Target, left[i].CaseName, left[i].Round
		sample.Start = began.Sub(r.Started).Seconds()
		result.Add(r, sample)
		if left[i].Planned > 0 {
			t.Pace.Took(left[i], time.Since(began))
		}
		p.Ended(t.Outcome(r.Samples[len(r.Samples)-1]), t.Pace.Left(left[i+1:]))
		if err != nil {
			return err
		}
	}
	return nil
}

// Attempted is the sample of an attempt that began then: what it measured, or why it failed.
func Attempted(began time.Time, sample result.Sample, err error) result.Sample {
	if sample.Metrics == nil {
		sample.Metrics = map[string]float64{}
	}
	if err != nil {
		sample.Error, sample.Duration = err.Error(), time.Since(began).Seconds()
	}
	return sample
}
