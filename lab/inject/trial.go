// Package inject injects faults while flows run: what came when, how long flows were silent, and which steps
// ended that.
//
// Its invariant: a fault is undone, also when watching it failed. It knows no experiment by name.
// Do not use it to kill what has no flows through it.
package inject

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/topo"
)

const (
	// QuietBefore a kill the flows run undisturbed: what is silent then is noise.
	QuietBefore = time.Second
	// QuietAfter is for how long all must go on before the kill is undone, and after that.
	QuietAfter = 500 * time.Millisecond
	// Survival is how soon a connection goes on that has survived.
	Survival = 10 * time.Second
	// AffectedSilence is the silence that a flow without losses shows which was hit: it is longer
	// than what the scheduler of a busy machine does.
	AffectedSilence = 100 * time.Millisecond
	// InjectSlack is for how long after a fault's call its effect may begin.
	InjectSlack = 20 * time.Millisecond
)

// Times is a kill and when its parts were, by the flows' clock.
type Times struct {
	Quiet, Begin, Injected, Mend, End time.Duration
	Wall                              time.Time // at begin
	Steps                             Steps
}

// steadier are flows that can be waited for until all of them have gone on for a while.
type steadier interface {
	Steady(ctx context.Context, while time.Duration) error
}

// Trial is a fault that flows go through.
type Trial struct {
	Fault Fault
	Flows steadier
	Watch time.Duration // between the fault and its undoing
	// patience is for how much longer the flows may take to go on.
	Patience time.Duration
	Ready    func(context.Context) error
	Asked    func(context.Context, *Times) error // after the flows went on
}

// Perform injects the fault, watches what the flows do, and mends it, also when watching
// failed: the next one finds the network whole.
func (o Trial) Perform(ctx context.Context) (k Times, err error) {
	if err := steadily(ctx, o.Flows, QuietBefore, Survival); err != nil {
		return k, fmt.Errorf("before the fault: %w", err)
	}
	if k.Begin, err = measure.Monotonic(); err != nil {
		return k, err
	}
	k.Quiet, k.Wall = k.Begin-QuietBefore, time.Now().Round(0) // its wall clock alone: the edges' times have no other
	err = o.Fault.Inject(ctx)
	if err == nil {
		err = o.observe(ctx, &k)
	}
	var clock error
	k.Mend, clock = measure.Monotonic()
	if err := errors.Join(err, clock, o.Fault.Mend(ctx)); err != nil {
		return k, err
	}
	if err := o.Ready(ctx); err != nil {
		return k, err
	}
	if err := steadily(ctx, o.Flows, 2*QuietAfter, Survival); err != nil {
		return k, fmt.Errorf("after the fault was undone: %w", err)
	}
	k.End, err = measure.Monotonic()
	return k, err
}

// observe waits until the flows go on, and asks the edges what they did. Flows that stay
// silent are a finding and no error.
func (o Trial) observe(ctx context.Context, k *Times) (err error) {
	if k.Injected, err = measure.Monotonic(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(o.Watch):
	}
	if err := steadily(ctx, o.Flows, QuietAfter, o.Patience); err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return o.Asked(ctx, k)
}

// steadily waits until all flows have gone on for a while, and only so long.
func steadily(ctx context.Context, flows steadier, while, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience+while)
	defer cancel()
	return flows.Steady(ctx, while)
}

// InMS is a time in milliseconds.
func InMS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// At is a time of the edges by the flows' clock, 0 for none.
func (k Times) At(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return k.Begin + t.Sub(k.Wall)
}

// Environment records the machine with a network as the other experiments have it.
func Environment(ctx context.Context, version string) (result.Environment, error) {
	lab, err := topo.New(ctx, "failover environment")
	if err != nil {
		return result.Environment{}, err
	}
	n, err := topo.NewTwoHosts(ctx, lab, topo.TwoHostsOptions{})
	var env result.Environment
	if err == nil {
		env, err = measure.Environment(ctx, n, version)
	}
	return env, errors.Join(err, lab.Close())
}
