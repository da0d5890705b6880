package transaction

import (
	"context"
	"errors"
	"testing"
)

// Who has gone while it waited, or finds the edge ended, does not get the turn, and takes it from nobody.
func TestTurn(t *testing.T) {
	taken, ended := make(turn, 1), make(chan struct{})
	if err := taken.take(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := taken.take(gone, ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	taken.pass()
	if err := taken.take(gone, ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := taken.take(t.Context(), ended); err != nil {
		t.Error(err)
	}
	close(ended)
	if err := taken.take(t.Context(), ended); !errors.Is(err, ErrStopping) {
		t.Error(err)
	}
}
