package background

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Each that comes is dealt with, those after the end are not, and a second end does nothing.
func TestOnEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := make(chan int, 4)
		var got []int
		end := OnEach(from, func(n int) { got = append(got, n) })
		from <- 1
		from <- 2
		synctest.Wait()
		end()
		end()
		from <- 3
		synctest.Wait()
		if want := []int{1, 2}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// Marks are not counted, and nobody waits to leave one.
func TestNotify(t *testing.T) {
	marks := make(chan struct{}, 1)
	Notify(marks)
	Notify(marks)
	if len(marks) != 1 {
		t.Errorf("%d marks, want 1", len(marks))
	}
}

// Another interval begins when it is set; one that stays goes on, however often it is set.
func TestTicker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tick := NewTicker(time.Second)
		defer tick.Stop()
		began := time.Now()
		at := func() time.Duration { return (<-tick.C).Sub(began) }
		if got := at(); got != time.Second {
			t.Errorf("the first tick after %s", got)
		}
		tick.Set(10 * time.Second)
		if got := at(); got != 11*time.Second || tick.Every() != 10*time.Second {
			t.Errorf("a tick at %s, each %s", got, tick.Every())
		}
		time.AfterFunc(9*time.Second, func() { tick.Set(10 * time.Second) })
		if got := at(); got != 21*time.Second {
			t.Errorf("a tick at %s, though the interval stayed", got)
		}
	})
}
