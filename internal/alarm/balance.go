package alarm

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
)

// The packets to a remote are spread unevenly when one of the equal paths differs by
// more than unevenBy from the even share between two readings. It takes at least
// enoughPackets, and so many flows that chance alone does not do it: of n flows that
// fall on k paths at random, the part on one has a standard deviation of √((k−1)/n) of
// its mean, and three of them are unevenBy at n = 900 (k−1). And the paths must have
// been the same for settled intervals: a decision that was taken for a path stays for
// some seconds after another came back.
const (
	unevenBy      = 0.10
	enoughPackets = 10_000
	enoughFlows   = 900 // times the number of paths less one
	settled       = 2
)

// PathCounters are what was sent by each path.
type PathCounters interface {
	Paths() (map[overlay.Pair]datapath.Counters, error)
}

// Balance watches over how packets are spread over the paths to a remote.
type Balance struct {
	o    Options
	mu   sync.Mutex
	last balance
}

// NewBalance has seen nothing.
func NewBalance(o Options) *Balance { return &Balance{o: o} }

// Look takes a reading, of so many flows on the paths in force; moves is how often flows were
// given to other paths so far.
func (b *Balance) Look(counters PathCounters, inForce plan.PathPolicies, moves, flows int) {
	sent, err := counters.Paths()
	b.o.Report(readCounters, err)
	if err != nil {
		return
	}
	was := b.now()
	next := was.after(sent, inForce, moves, flows)
	b.mu.Lock()
	b.last = next
	b.mu.Unlock()
	LogChanges(b.o.Log, was.problems, next.problems)
}

func (b *Balance) now() balance {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// Shares are the parts of the packets to a remote that its paths took between the last two
// readings.
func (b *Balance) Shares() map[overlay.Pair]float64 { return b.now().shares }

// Problems are the remotes whose paths carry uneven shares.
func (b *Balance) Problems() []problem.Problem { return b.now().problems }

// balance is how the packets were spread between two readings. It is replaced, never changed.
type balance struct {
	sent     map[overlay.Pair]uint64  // at the last reading
	moves    int                      // of flows to other paths by then
	steady   int                      // intervals without another
	shares   map[overlay.Pair]float64 // of the packets to the same remote in between
	problems []problem.Problem
}

// after is the balance with one more reading, of so many packets on each path.
func (b balance) after(counters map[overlay.Pair]datapath.Counters, inForce plan.PathPolicies, moves, flows int) balance {
	next := balance{sent: make(map[overlay.Pair]uint64), shares: make(map[overlay.Pair]float64), moves: moves}
	if moves == b.moves {
		next.steady = b.steady + 1
	}
	moved, sums := make(map[overlay.Pair]uint64), make(map[netip.Addr]uint64)
	for _, path := range inForce.Paths {
		next.sent[path.Pair] = counters[path.Pair].Packets
		if was, ok := b.sent[path.Pair]; ok && next.sent[path.Pair] >= was {
			moved[path.Pair] = next.sent[path.Pair] - was
			sums[path.Edge] += moved[path.Pair]
		}
	}
	for _, path := range inForce.Paths {
		if sums[path.Edge] > 0 {
			next.shares[path.Pair] = float64(moved[path.Pair]) / float64(sums[path.Edge])
		}
	}
	if next.steady < settled {
		return next
	}
	for _, spread := range evenSpreads(inForce) {
		if sums[spread.Remote] < enoughPackets || flows < enoughFlows*(len(spread.Paths)-1) {
			continue
		}
		if text := next.uneven(spread); text != "" {
			next.problems = append(next.problems, problem.Warning("%s", text))
		}
	}
	return next
}

// evenSpreads are those by flow over several paths, to remotes to which no pinned
// segment sends: its packets are not meant to be spread.
func evenSpreads(pathPolicies plan.PathPolicies) (spreads []plan.PathGroup) {
	if len(pathPolicies.PathPolicies) == 0 || pathPolicies.PathPolicies[0].Teaming != overlay.PathPolicyFlow {
		return nil
	}
	for _, s := range pathPolicies.PathPolicies[0].PathGroups {
		pinned := slices.ContainsFunc(pathPolicies.PathPolicies[1:], func(t plan.PathPolicy) bool {
			return slices.ContainsFunc(t.PathGroups, func(o plan.PathGroup) bool { return o.Remote == s.Remote })
		})
		if len(s.Paths) > 1 && !pinned && isEven(s) {
			spreads = append(spreads, s)
		}
	}
	return spreads
}

// isEven reports whether the paths of s have the same part of the flows: weights may say otherwise.
func isEven(s plan.PathGroup) bool {
	counts := make([]int, len(s.Paths))
	for _, b := range s.Buckets {
		counts[b]++
	}
	return slices.Max(counts)-slices.Min(counts) <= 1
}

// uneven names the path of s that is farthest from the even share, if that is too far.
func (b balance) uneven(s plan.PathGroup) string {
	even := 1 / float64(len(s.Paths))
	off := func(p overlay.Pair) float64 { return b.shares[p]/even - 1 }
	worst := slices.MaxFunc(s.Paths, func(a, c overlay.Pair) int {
		return int(math.Copysign(1, math.Abs(off(a))-math.Abs(off(c))))
	})
	if math.Abs(off(worst)) <= unevenBy {
		return ""
	}
	return fmt.Sprintf("remote %s: its %d paths carry uneven shares of the packets, the one from %s %.0f %% instead of %.0f %%: "+
		"find the large flows with `selvage flows`", s.Remote, len(s.Paths), worst, 100*b.shares[worst], 100*even)
}
