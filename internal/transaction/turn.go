package transaction

import (
	"context"
)

// turn is of who reads a configuration and brings it into force. One has it at a time, so that
// none is replaced by one that was read before it.
type turn chan struct{}

// take waits for the turn. Who has gone meanwhile, or finds the edge ended, does not get it.
func (t turn) take(ctx context.Context, ended <-chan struct{}) error {
	select {
	case t <- struct{}{}:
	case <-ended:
		return ErrStopping
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		t.pass()
		return err
	}
	return nil
}

func (t turn) pass() { <-t }
