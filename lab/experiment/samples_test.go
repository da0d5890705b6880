package experiment

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/result"
)

// takeThree takes three samples, of which the second does something first.
func takeThree(ctx context.Context, second func() error) (result.Result, error) {
	r := result.Result{Parameters: result.Parameters{}}
	var plan []Step
	for round := 1; round <= 3; round++ {
		plan = append(plan, Step{Round: round, CaseName: "tcp", Target: "plain", Planned: time.Second})
	}
	taking := Taking[Step]{
		Pace: &Pace{}, Outcome: func(result.Sample) string { return "well" },
		Take: func(_ context.Context, s Step) (result.Sample, error) {
			if s.Round == 2 {
				return Attempted(time.Now(), result.Sample{}, errors.New("no route")), second()
			}
			return Attempted(time.Now(), result.Sample{Metrics: map[string]float64{"v": 1}}, nil), nil
		},
	}
	err := taking.All(ctx, plan, &r, NewProgress(io.Discard, len(plan)))
	return r, err
}

func TestTaking(t *testing.T) {
	var r result.Result
	run := func(second func(cancel context.CancelFunc) error) (err error) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		r, err = takeThree(ctx, func() error { return second(cancel) })
		return err
	}

	if err := run(func(context.CancelFunc) error { return nil }); err != nil || len(r.Samples) != 3 {
		t.Errorf("a failed sample: %v, %+v", err, r.Samples)
	}
	if s := r.Samples[1]; s.Error != "no route" || s.Metrics == nil || s.Target != "plain" || s.Case != "tcp" || s.Round != 2 {
		t.Errorf("a failed sample: %+v", s)
	}
	broken := errors.New("broken")
	if err := run(func(context.CancelFunc) error { return broken }); !errors.Is(err, broken) || len(r.Samples) != 2 || r.Parameters.Text(interrupted) != "" {
		t.Errorf("a run that cannot go on: %v, %+v", err, r)
	}
	err := run(func(cancel context.CancelFunc) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) || len(r.Samples) != 1 || r.Parameters.Text(interrupted) != "case tcp, round 2" {
		t.Errorf("an interrupted run: %v, %+v", err, r)
	}
}
