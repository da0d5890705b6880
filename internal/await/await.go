// Package await waits for facts: for what is so a little later than it was asked for, in
// another process, thread or the kernel.
//
// Its one invariant: every wait is bounded, looks again and again, and says at its end what
// was missing last. It is the one place that sleeps. Do not use it to keep a pace (a ticker
// does) nor to give something time (wait for what that time is for).
package await

import (
	"context"
	"fmt"
	"time"
)

// Patience is how long That waits: far more than a loaded machine takes. An edge's start is a second of a core for the verifier,
// and half a minute where twenty others want the core too.
const Patience = 30 * time.Second

// mostPause is the longest time between two looks.
const mostPause = 20 * time.Millisecond

// That calls try until it returns nil, and fails with what it returned last when ctx ends
// or, at the latest, after Patience.
func That(ctx context.Context, what string, try func() error) error {
	return Within(ctx, Patience, what, try)
}

// Within is That with a bound of its own.
func Within(ctx context.Context, limit time.Duration, what string, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	pause := time.Millisecond
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: %w", what, context.Cause(ctx), err)
		case <-time.After(pause):
			pause = min(2*pause, mostPause)
		}
	}
}
