package alarm

import (
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
)

// Packets are not counted while flows that moved may still go where they went before.
func TestBalanceAfterMoves(t *testing.T) {
	remote := netip.MustParseAddr("192.0.2.2")
	group := plan.PathGroup{Remote: remote}
	var inForce plan.PathPolicies
	for i := range 4 {
		pair := overlay.Pair{Local: netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + i)}), Remote: remote}
		group.Paths = append(group.Paths, pair)
		inForce.Paths = append(inForce.Paths, plan.TunnelPath{Pair: pair, Edge: remote})
	}
	for i := range group.Buckets {
		group.Buckets[i] = uint8(i % 4)
	}
	inForce.PathPolicies = []plan.PathPolicy{{Teaming: overlay.PathPolicyFlow, PathGroups: []plan.PathGroup{group}}}
	var b balance
	var sent uint64
	reading := func(moves int) int {
		sent += 50_000
		b = b.after(map[overlay.Pair]datapath.Counters{group.Paths[0]: {Packets: sent}}, inForce, moves, 1e6)
		return len(b.problems)
	}
	for moves := 1; moves <= 2; moves++ {
		for i := range 4 {
			if got, want := reading(moves), i/settled; got > 0 != (want > 0) {
				t.Errorf("after %d moves, reading %d: %d problems, want %d", moves, i, got, want)
			}
		}
	}
	if reading(2) != 1 || b.steady <= settled {
		t.Errorf("steady %d after a plan that moves nothing", b.steady)
	}
}

// Weights are no imbalance.
func TestWeightsAreNoImbalance(t *testing.T) {
	s := plan.PathGroup{Paths: []overlay.Pair{{Via: overlay.Via{Interface: "eth0"}}, {Via: overlay.Via{Interface: "eth1"}}}}
	for i := range s.Buckets {
		s.Buckets[i] = uint8(i % 2)
	}
	if !isEven(s) {
		t.Error("halves are not even")
	}
	s.Buckets[0], s.Buckets[2] = 1, 1
	if isEven(s) {
		t.Error("30 and 34 of 64 are even")
	}
}
