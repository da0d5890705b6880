package await

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var errNotYet = errors.New("not yet")

func TestThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, looks := time.Now(), 0
		err := That(t.Context(), "the third look", func() error {
			if looks++; looks < 3 {
				return errNotYet
			}
			return nil
		})
		if err != nil || looks != 3 || time.Since(began) != 3*time.Millisecond {
			t.Errorf("%v after %d looks and %s", err, looks, time.Since(began))
		}
	})
}

func TestThatGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := That(t.Context(), "a miracle", func() error { return errNotYet })
		if !errors.Is(err, errNotYet) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "a miracle") {
			t.Error(err)
		}
		if took := time.Since(began); took != Patience {
			t.Errorf("after %s", took)
		}
	})
}

func TestWithinEndsWithItsContext(t *testing.T) {
	stop := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	err := Within(ctx, time.Hour, "it", func() error { return errNotYet })
	if !errors.Is(err, stop) || !errors.Is(err, errNotYet) {
		t.Error(err)
	}
}
