package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
)

// Run is Keep for an experiment that builds networks here, which needs root.
func Run(ctx context.Context, console *Console, e Experiment, to Destination, measure func(context.Context, *Console, time.Time) (result.Result, error)) error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces and BPF need root: run it with sudo")
	}
	ctx, stop := WithHangup(ctx)
	defer stop()
	RestoreDead(ctx, console.Err)
	return Keep(ctx, console, e, to, withPreflight(measure))
}

// RunBetweenPlaces is Run of what is measured between places that exist. It needs no root here.
func RunBetweenPlaces(ctx context.Context, console *Console, e Experiment, to Destination, measure func(context.Context, *Console, time.Time) (result.Result, error)) error {
	ctx, stop := WithHangup(ctx)
	defer stop()
	return Keep(ctx, console, e, to, measure)
}

// Keep makes the directory of a run under to.Results, measures, writes and prints what came of it,
// and evaluates the conditions.
func Keep(ctx context.Context, console *Console, e Experiment, to Destination, measure func(context.Context, *Console, time.Time) (result.Result, error)) error {
	began := time.Now()
	dir, err := newRunDir(to.Results, e.Name, began)
	if err != nil {
		return err
	}
	r, failed := measure(ctx, console, began)
	return finish(console, e, dir, to, r, failed)
}

// finish concludes a run, writes its files and prints it. It fails when the run did
// (failed), a sample, or a condition.
func finish(console *Console, e Experiment, dir string, to Destination, r result.Result, failed error) error {
	if len(r.Samples) == 0 {
		return errors.Join(failed, os.Remove(dir))
	}
	if failed != nil && r.Parameters.Text(interrupted) == "" {
		Interrupt(&r, "sample %d: %v", len(r.Samples)+1, failed)
	}
	Conclude(e, &r)
	err := errors.Join(save(e, dir, r, console.Err), printTo(console.Out, to, e, r))
	if lines := stats.Errors(r); len(lines) > 0 {
		failed = errors.Join(failed, fmt.Errorf("%d of %d samples failed; the first: %s", len(lines), len(r.Samples), lines[0]))
	}
	return errors.Join(failed, err, Gate(console.Err, r, to.FailIf))
}

// WithHangup ends ctx also when the terminal goes away, which would otherwise kill this process and leave its networks behind.
func WithHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) { // as nohup(1) has it
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// RestoreDead removes what killed labs left. A failure is no reason not to
// measure: new labs have names of their own.
func RestoreDead(ctx context.Context, log io.Writer) {
	ids, err := topo.Restore(ctx)
	if len(ids) > 0 {
		fmt.Fprintf(log, "removed what killed labs had left: %s\n", strings.Join(ids, ", "))
	}
	if err != nil {
		fmt.Fprintf(log, "left by killed labs and not removed: %v\n", err)
	}
}

// RemoveAll removes the networks of a run that ended with err, and says how it ended then.
func RemoveAll(ctx context.Context, err error, remove func() error, p *Progress) error {
	p.Begin("removing networks", 0)
	return Removed(ctx, err, remove())
}

// Removed is how a run ended that had ended with err and then removed its networks; left is what
// of them could not be.
func Removed(ctx context.Context, err, left error) error {
	if ctx.Err() != nil { // whatever else that broke
		err = ctx.Err()
	}
	switch {
	case left == nil:
		return err
	case ctx.Err() != nil:
		return left // an interruption is known to who caused it, and must not hide this
	}
	return errors.Join(err, left)
}
