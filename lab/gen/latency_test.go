package gen

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func clock(t *testing.T) uint64 {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
	return uint64(now.Nano())
}

// Latencies from 100 ns to 10 s are told within 3.2 % and the time of the test
// itself, which is measured.
func TestLatency(t *testing.T) {
	t.Parallel()
	for _, ns := range []uint64{100, 1_000, 12_345, 1_000_000, 99_999_999, 10_000_000_000} {
		s := testSink(t, SinkOptions{Latency: true})
		before := clock(t)
		s.take(t, crafted(marked(0, 0, before-ns), 0))
		least, most := ns, ns+clock(t)-before
		l := s.report(t).Latency
		if l.Count != 1 || l.Min != l.Max || l.Min != l.Mean || uint64(l.Min) < least || uint64(l.Max) > most || l.Jitter != 0 {
			t.Errorf("%d … %d ns: %+v", least, most, l)
		}
		if q := l.Quantile(0.5); q != l.Min { // one value is known exactly
			t.Errorf("median %s of one latency of %s", q, l.Min)
		}
		l.Each(func(from, to time.Duration, n uint64) {
			if n != 1 || l.Min < from || l.Min >= to {
				t.Errorf("%s is among %d in %s … %s", l.Min, n, from, to)
			}
		})
	}
}

// A time in the future, by clocks of cores that differ, is no time of 78 hours.
func TestLatencyOfTheFuture(t *testing.T) {
	t.Parallel()
	s := testSink(t, SinkOptions{Latency: true})
	s.take(t, crafted(marked(0, 0, clock(t)+1e9), 0))
	s.take(t, crafted(marked(0, 0, clock(t)-100e9), 0)) // more than the last bucket
	s.take(t, crafted(marked(0, 0, 0), 0))              // not timed
	if l := s.report(t).Latency; l.Count != 2 || l.Min != 0 || l.Max < 100e9 || l.Max > 110e9 || l.Jitter != l.Max {
		t.Errorf("%+v", l)
	}
}

// Every bucket of the kernel program begins where ours ends, and is at most 3.2 % wide.
func TestBuckets(t *testing.T) {
	for i := range 1000 {
		from, to := lowest(i), lowest(i+1)
		if bucketOf(from) != i || bucketOf(to-1) != i || to <= from || (from >= 64 && (to-from)*32 > from) {
			t.Fatalf("bucket %d is %d … %d", i, from, to)
		}
	}
}

// Quantiles of a known distribution.
func TestQuantiles(t *testing.T) {
	c := genCounts{LeastNs: 1000, MostNs: 100_000, Timed: 100, SumNs: 5_050_000, ChangeNs: 99_000}
	for i := 1; i <= 100; i++ {
		c.Buckets[bucketOf(uint64(i)*1000)]++
	}
	l := latencyOf([]genCounts{c, {}})
	for q, want := range map[float64]float64{0: 1000, 0.5: 51_000, 0.9: 91_000, 0.99: 100_000, 1: 100_000} {
		if have := float64(l.Quantile(q)); have < want*0.968 || have > want*1.032 {
			t.Errorf("quantile %v is %v, want %v", q, have, want)
		}
	}
	if l.Mean != 50_500 || l.Jitter != 1000 {
		t.Errorf("%+v", l)
	}
	if none := latencyOf(make([]genCounts, 2)); none.Quantile(0.5) != 0 || none.Mean != 0 {
		t.Errorf("without frames: %+v", none)
	}
}
