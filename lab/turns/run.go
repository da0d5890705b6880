package turns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Step is one sample to take. Take returns the error of the sample.
type Step struct {
	experiment.Step
	Take func(context.Context) (result.Sample, error)
}

// Plan is a run: what is compared, and how.
type Plan struct {
	Experiment experiment.Experiment
	Flags      *Flags
	Rounds     int
	Roles      []Role
	Targets    []result.Target
	Parameters result.Parameters // what this experiment has besides the places
	// Words are for the first line of progress.
	Words string
	// Explore finds out, before the first line of progress, what the steps depend on. nil is nothing,
	// and a dry run does not.
	Explore func(context.Context, *Sessions, *result.Result) error
	// Prepare makes the changes that are there from the first slice to the last, or in a dry run
	// prints them. nil is none.
	Prepare func(context.Context, *Sessions, *result.Result, *experiment.Progress) error
	// Changes prints what a run would change at its places.
	Changes func(context.Context, *Sessions, io.Writer) error
	// Steps are the samples, with Round, CaseName, Target and Planned.
	Steps func(*Sessions) []Step
	// More are the samples after those, by what they say; it is asked until there are none. nil is none.
	More func(context.Context, *Sessions, *result.Result) ([]Step, error)
}

// Run opens the places, takes all samples, closes the places and writes and prints what came of it. An
// interrupted run keeps what it has. It fails when a sample did.
func (p Plan) Run(ctx context.Context, console *experiment.Console, to experiment.Destination) error {
	if p.Flags.DryRun {
		return p.dryRun(ctx, console)
	}
	return experiment.RunBetweenPlaces(ctx, console, p.Experiment, to, p.measure)
}

func (p Plan) dryRun(ctx context.Context, console *experiment.Console) (err error) {
	s, err := Open(ctx, console, p.Flags, p.Roles...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	s.WouldPut(console)
	if p.Changes == nil {
		return nil
	}
	return p.Changes(ctx, s, console.Out)
}

// rest is how long a sample takes besides measuring, before any was measured.
const rest = 300 * time.Millisecond

func (p Plan) measure(ctx context.Context, console *experiment.Console, began time.Time) (r result.Result, err error) {
	r = p.describe(console, began)
	s, err := Open(ctx, console, p.Flags, p.Roles...)
	if err != nil {
		return r, err
	}
	if p.Explore != nil {
		if err := p.Explore(ctx, s, &r); err != nil {
			return r, experiment.Removed(ctx, err, s.Close())
		}
	}
	steps := p.Steps(s)
	progress := experiment.NewProgress(console.Err, len(steps))
	defer progress.Close()
	pace := &experiment.Pace{First: rest}
	progress.Note("%s: %s, about %s", p.Words, result.Counted(len(steps), "sample"), experiment.About(pace.Left(bare(steps))))
	err = s.Describe(ctx, progress.Note, &r)
	if err == nil && p.Prepare != nil {
		err = p.Prepare(ctx, s, &r, progress)
	}
	for err == nil && len(steps) > 0 {
		if err = takeAll(ctx, s, steps, &r, progress, pace); err != nil || p.More == nil {
			break
		}
		if steps, err = p.More(ctx, s, &r); len(steps) > 0 {
			progress.Grow(len(steps))
		}
	}
	if ctx.Err() != nil {
		experiment.Interrupt(&r, "round %d of %d", lastRound(r), p.Rounds)
		err = ctx.Err()
	}
	progress.Begin("restoring", 0)
	r.Duration = time.Since(began).Seconds()
	return r, experiment.Removed(ctx, err, s.Close())
}

func lastRound(r result.Result) int {
	if len(r.Samples) == 0 {
		return 1
	}
	return r.Samples[len(r.Samples)-1].Round
}

// describe is the result before anything was measured.
func (p Plan) describe(console *experiment.Console, began time.Time) result.Result {
	parameters := result.Parameters{
		stats.RoundsParameter: result.Count(p.Rounds), stats.SliceParameter: result.Time(p.Flags.Slice), "port": result.Count(p.Flags.Port),
	}
	if p.Flags.MaxRate > 0 {
		parameters["max_rate"] = result.Of(result.Number(p.Flags.MaxRate)).In("bit/s")
	}
	maps.Copy(parameters, p.Parameters)
	r := console.Blank(p.Experiment.Name, began, parameters)
	r.Targets, r.Environment.Versions = p.Targets, map[string]string{"selvage": console.Version}
	return r
}

func bare(steps []Step) []experiment.Step {
	all := make([]experiment.Step, len(steps))
	for i, s := range steps {
		all[i] = s.Step
	}
	return all
}

// takeAll takes the samples and appends them to r, until ctx ends or a place is lost.
func takeAll(ctx context.Context, s *Sessions, steps []Step, r *result.Result, p *experiment.Progress, pace *experiment.Pace) error {
	left := bare(steps)
	for i, step := range steps {
		p.Begin(step.String(), pace.Left(left[i:]))
		began := time.Now()
		sample, err := step.Take(ctx)
		if err := ctx.Err(); err != nil { // the sample is half a one
			return err
		}
		if lost := s.Err(); lost != nil {
			return lost
		}
		var fatal Fatal
		if errors.As(err, &fatal) {
			return fmt.Errorf("%s: %w", step, fatal.Cause)
		}
		if sample.Metrics == nil {
			sample.Metrics = map[string]float64{}
		}
		sample.Target, sample.Case, sample.Round, sample.Start = step.Target, step.CaseName, step.Round, began.Sub(r.Started).Seconds()
		outcome := "measured"
		if err != nil {
			sample.Error, sample.Duration = err.Error(), time.Since(began).Seconds()
		}
		result.Add(r, sample)
		if sample = r.Samples[len(r.Samples)-1]; sample.Error != "" {
			outcome = experiment.Failure(sample)
		}
		pace.Took(step.Step, time.Since(began))
		p.Ended(outcome, pace.Left(left[i+1:]))
	}
	return nil
}

// Fatal is an error after which no further sample says anything: a change that failed.
type Fatal struct{ Cause error }

// Error is its cause.
func (f Fatal) Error() string { return f.Cause.Error() }
