package datapath

import (
	"math"
	"testing"
	"time"
)

// Times are told apart by their difference, on both sides of when the clock began.
func TestTimes(t *testing.T) {
	for _, c := range []struct{ now, ns, then uint64 }{
		{1000, 0, 1000}, {1000, 1, 999}, {1000, 1000, 0}, {1000, 1001, math.MaxUint64},
		{0, uint64(time.Hour), math.MaxUint64 - uint64(time.Hour) + 1},
	} {
		if then := ago(c.now, c.ns); then != c.then || since(c.now, then) != c.ns || isBefore(then, c.now) != (c.ns > 0) || isBefore(c.now, then) {
			t.Errorf("%d ago at %d: %d, %d before", c.ns, c.now, then, since(c.now, then))
		}
	}
	if idle := since(1000, 1001); idle != 0 {
		t.Errorf("what another core has seen a moment later was %d ago", idle)
	}
	if then := ago(1000, math.MaxUint64); !isBefore(then, 1000) || since(1000, then) < uint64(100*365*24*time.Hour) {
		t.Errorf("what nobody can have seen was at %d", then)
	}
}
