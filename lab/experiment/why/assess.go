package why

import (
	"math"
	"slices"

	"github.com/selvage/selvage/lab/experiment/why/cause"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// figureOf is the metric of a case, and whether more is better.
func figureOf(kind string) (metric string, higher bool) {
	if kind == caseRR {
		return measure.RRP50, false
	}
	return measure.TCPThroughput, true
}

// kindOf is the case of a run, "" before the first sample.
func kindOf(r result.Result) string {
	if len(r.Samples) == 0 {
		return ""
	}
	return r.Samples[0].Case
}

// gains are by how much better target is than against in the rounds that both have, as logarithms of the ratio.
func gains(r result.Result, target, against string) (all []float64) {
	kind := kindOf(r)
	metric, higher := figureOf(kind)
	values, base := stats.Values(r, target, kind, metric), stats.Values(r, against, kind, metric)
	for _, round := range stats.SortedRounds(values) {
		v := values[round]
		b, both := base[round]
		if higher { // a path that stalls, as by an MTU hole, carries nothing
			v, b = max(v, cause.LeastGbits), max(b, cause.LeastGbits)
		}
		if !both || v <= 0 || b <= 0 {
			continue
		}
		gain := math.Log(v / b)
		if !higher {
			gain = -gain
		}
		all = append(all, gain)
	}
	return all
}

// paths are the names of the slow path and of the one beside it, "" where there is none.
func paths(r result.Result) (slow, plain string) {
	if len(r.Targets) == 0 {
		return "", ""
	}
	slow = r.Targets[0].Name
	if len(r.Targets) > 1 && !slices.ContainsFunc(r.Causes, func(c result.Cause) bool { return c.Target == r.Targets[1].Name }) {
		plain = r.Targets[1].Name
	}
	return slow, plain
}

// leastGain is so small that nobody asks why.
const leastGain = 0.02

// assess computes what each cause that was flipped explains.
func assess(r *result.Result) {
	loss, _ := lossOf(*r)
	for i := range r.Causes {
		c := &r.Causes[i]
		if c.Target == "" {
			continue
		}
		g := gains(*r, c.Target, c.Against)
		iv := stats.Center(g)
		c.Share, c.Lo, c.Hi = share(g, loss)
		c.Proved = iv.N >= stats.LeastPairs && iv.Lo > 0 && iv.Median > math.Log1p(leastGain) && c.Share > 0
	}
}

// lossOf is what is explained, by round: how much better the path beside it is. Where there is none, or it is as slow,
// which causes that both share make it, it is how much better the path is with all causes flipped that gained.
func lossOf(r result.Result) (sum []float64, beside bool) {
	slow, plain := paths(r)
	if loss := gains(r, plain, slow); plain != "" && stats.Center(loss).Lo > 0 {
		return loss, true
	}
	for _, c := range r.Causes {
		g := gains(r, c.Target, c.Against)
		if iv := stats.Center(g); c.Target == "" || iv.N < stats.LeastPairs || iv.Lo <= 0 {
			continue
		}
		if sum == nil {
			sum = make([]float64, len(g))
		}
		for i := range min(len(sum), len(g)) {
			sum[i] += g[i]
		}
	}
	return sum, false
}

// mostShare bounds the search: a cause that gains more than eight times the loss has a loss that was not measured.
const mostShare = 8

// share is the part s of the loss that gains are: that for which gains less s times the loss are centred on zero. The
// interval has those s for which zero is within the interval of the centre, as by E. C. Fieller (1954), with signed ranks
// for normal errors. All are zero where the loss is not distinguishable from none.
func share(gains, loss []float64) (s, lo, hi float64) {
	n := min(len(gains), len(loss))
	if iv := stats.Center(loss); n == 0 || iv.Lo <= 0 {
		return 0, 0, 0
	}
	at := func(s float64) stats.Interval {
		rest := make([]float64, n)
		for i := range rest {
			rest[i] = gains[i] - s*loss[i]
		}
		return stats.Center(rest)
	}
	return falls(func(s float64) float64 { return at(s).Median }), falls(func(s float64) float64 { return at(s).Lo }), falls(func(s float64) float64 { return at(s).Hi })
}

// falls is where a falling function of a share is zero.
func falls(f func(float64) float64) float64 {
	lo, hi := -float64(mostShare), float64(mostShare)
	for range 60 {
		if middle := (lo + hi) / 2; f(middle) > 0 {
			lo = middle
		} else {
			hi = middle
		}
	}
	return (lo + hi) / 2
}
