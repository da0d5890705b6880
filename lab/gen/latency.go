package gen

import (
	"math/bits"
	"time"
)

// Latency is a histogram of one-way latencies, from the making of a frame to the
// sink. A value of the histogram is at most 3.2 % below the true one; Min, Mean,
// Max and Jitter are exact.
type Latency struct {
	Count uint64        `json:"count"`
	Min   time.Duration `json:"min"`
	Mean  time.Duration `json:"mean"`
	Max   time.Duration `json:"max"`
	// Jitter is the mean difference, without sign, of the latencies of consecutive
	// frames (after RFC 3393 section 4.5).
	Jitter time.Duration `json:"jitter"`

	buckets []uint64
}

// Histogram are the frames by bucket, for SetHistogram of another process; nil without frames.
func (l Latency) Histogram() []uint64 {
	if l.Count == 0 {
		return nil
	}
	return l.buckets
}

// SetHistogram takes what Histogram returned.
func (l *Latency) SetHistogram(buckets []uint64) { l.buckets = buckets }

// bucketBits is the kernel program's BUCKET_BITS.
const bucketBits = 5

// lowest is the smallest latency in ns that falls into a bucket.
func lowest(bucket int) uint64 {
	if bucket < 2<<bucketBits {
		return uint64(bucket)
	}
	shift := bucket>>bucketBits - 1
	return uint64(bucket-shift<<bucketBits) << shift
}

// bucketOf is the bucket of a latency, as the kernel program finds it.
func bucketOf(ns uint64) int {
	shift := max(0, bits.Len64(ns)-bucketBits-1)
	return shift<<bucketBits + int(ns>>shift)
}

// Quantile is the latency that a share q (0 … 1) of the frames did not exceed: the
// middle of its bucket, within Min and Max; 0 without frames.
func (l Latency) Quantile(q float64) time.Duration {
	if l.Count == 0 {
		return 0
	}
	rank := uint64(q * float64(l.Count))
	seen := uint64(0)
	for i, n := range l.buckets {
		seen += n
		if seen > rank || seen == l.Count && n > 0 {
			middle := (lowest(i) + lowest(i+1)) / 2
			return min(max(time.Duration(middle), l.Min), l.Max)
		}
	}
	return l.Max
}

// Each calls f for each bucket that has frames, the shortest latency first: those
// frames took from … to, to excluded.
func (l Latency) Each(f func(from, to time.Duration, frames uint64)) {
	for i, n := range l.buckets {
		if n > 0 {
			f(time.Duration(lowest(i)), time.Duration(lowest(i+1)), n)
		}
	}
}

// latencyOf joins the counts of all cores.
func latencyOf(cores []genCounts) Latency {
	var l Latency
	var total, change, differences uint64
	for _, c := range cores {
		if c.Timed == 0 {
			continue
		}
		if least := time.Duration(c.LeastNs); l.Count == 0 || least < l.Min {
			l.Min = least
		}
		l.Max = max(l.Max, time.Duration(c.MostNs))
		l.Count += c.Timed
		total += c.SumNs
		change += c.ChangeNs
		differences += c.Timed - 1
		if l.buckets == nil {
			l.buckets = make([]uint64, len(c.Buckets))
		}
		for i, n := range c.Buckets {
			l.buckets[i] += n
		}
	}
	if l.Count > 0 {
		l.Mean = time.Duration(total / l.Count)
	}
	if differences > 0 {
		l.Jitter = time.Duration(change / differences)
	}
	return l
}
