package harness

import (
	"testing"
	"time"
)

// The measure of what was lost is right: a gap is the time between what was sent
// last before a loss and first after it.
func TestFlowRecord(t *testing.T) {
	ms := func(n int64) int64 { return n * int64(time.Millisecond) }
	var f flowRecord
	for i := range int64(3) {
		f.came(uint64(i), ms(10*i))
	}
	f.came(9, ms(90))
	if f.Lost != 6 || f.Gap != 70*time.Millisecond {
		t.Errorf("lost %d in %s, want 6 in 70ms", f.Lost, f.Gap)
	}
	f.came(5, ms(50)) // overtaken
	f.came(11, ms(110))
	if f.Lost != 6 || f.Gap != 70*time.Millisecond || f.Next != 12 {
		t.Errorf("lost %d in %s up to %d, want 6 in 70ms up to 12", f.Lost, f.Gap, f.Next)
	}
}
