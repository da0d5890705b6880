package background

import (
	"slices"
	"testing"
	"testing/synctest"
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
