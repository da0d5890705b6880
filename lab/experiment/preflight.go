package experiment

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/doctor"
	"github.com/selvage/selvage/lab/result"
)

// withPreflight is measure with this host's facts in the result, read before.
func withPreflight(measure func(context.Context, *Console, time.Time) (result.Result, error)) func(context.Context, *Console, time.Time) (result.Result, error) {
	return func(ctx context.Context, console *Console, began time.Time) (result.Result, error) {
		preflight := readPreflight(ctx, console.Err)
		r, err := measure(ctx, console, began)
		r.Preflight = append(preflight, r.Preflight...)
		return r, err
	}
}

// readPreflight describes this host. One that cannot be described is no reason not to measure.
func readPreflight(ctx context.Context, log io.Writer) result.Preflight {
	e, err := doctor.ExamineHost(ctx, doctor.Options{RuntimeDir: api.DefaultRuntimeDir})
	if err != nil {
		fmt.Fprintf(log, "the result is without a preflight: %v\n", err)
		return nil
	}
	return result.Preflight{e.Facts}
}
