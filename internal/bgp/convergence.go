package bgp

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/bgp/counters"
)

// spread is how long updates took until the maps said what they do.
type spread struct {
	times *hdrhistogram.Histogram // µs
	sum   time.Duration
}

// longest is what is told apart.
const longest = time.Minute

// bounds are those of a histogram's buckets.
var bounds = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second,
}

func newSpread() spread {
	return spread{times: hdrhistogram.New(1, longest.Microseconds(), 2)}
}

// add counts so many that took so long.
func (s *spread) add(n int, took time.Duration) {
	s.sum += took * time.Duration(n)
	_ = s.times.RecordValues(min(max(took, time.Microsecond), longest).Microseconds(), int64(n)) // never out of range
}

func (s *spread) info() api.BGPConvergence {
	at := func(q float64) float64 {
		return (time.Duration(s.times.ValueAtQuantile(q)) * time.Microsecond).Seconds()
	}
	return api.BGPConvergence{Count: uint64(s.times.TotalCount()), P50: at(50), P99: at(99), Max: (time.Duration(s.times.Max()) * time.Microsecond).Seconds()}
}

func (s *spread) histogram() counters.Convergence {
	h := counters.Convergence{Count: uint64(s.times.TotalCount()), Sum: s.sum}
	bars := s.times.Distribution()
	var below uint64
	for _, bound := range bounds {
		for len(bars) > 0 && bars[0].To <= bound.Microseconds() {
			below += uint64(bars[0].Count)
			bars = bars[1:]
		}
		h.Buckets = append(h.Buckets, counters.Bucket{Bound: bound, Count: below})
	}
	return h
}
