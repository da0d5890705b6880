package nat

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
)

// randomUplinkWorld is one whose policy has addresses of uplinks; not each gateway has one of IPv6.
func randomUplinkWorld(r *rand.Rand) world {
	w := randomWorld(r)
	w.policy.Pool, w.policy.UplinkAddress = nil, true
	w.own = map[netip.Addr][2]netip.Addr{}
	for i, m := range w.group.Members {
		own := [2]netip.Addr{netip.AddrFrom4([4]byte{198, 51, 100, byte(i + 1)})}
		if r.IntN(4) > 0 {
			own[1] = netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: byte(i + 1)})
		}
		w.own[m] = own
	}
	return w
}

// All edges find the same gateway for a source, who says that it is the one. It, and every other one, gives its own addresses,
// answers for none besides, and keeps the flows that it has while it is there.
func TestUplinkAddresses(t *testing.T) {
	for seed := range uint64(500) {
		w := randomUplinkWorld(rand.New(rand.NewPCG(seed, 2)))
		source := w.plan(addr(outsider))
		if len(source.Owned)+len(source.Addresses)+len(source.Pool[0])+len(source.Pool[1]) != 0 {
			t.Fatalf("seed %d: an edge that is no gateway has %+v", seed, source.Addresses)
		}
		var there []netip.Addr
		for _, m := range w.group.Members {
			if w.states[m] != Gone {
				there = append(there, m)
			}
		}
		if !slices.Equal(source.Kept, there) {
			t.Fatalf("seed %d: flows are kept with %v, want %v", seed, source.Kept, there)
		}
		for _, m := range w.group.Members {
			p := w.plan(m)
			for f := range p.Servers {
				w.checkOwn(t, seed, source.Servers[f], p, f, m)
			}
			if len(p.Owned) != 0 {
				t.Fatalf("seed %d: %s answers for %v in the place of others", seed, m, p.Owned)
			}
		}
	}
}

// checkOwn is checkServers for a gateway that has one address.
func (w world) checkOwn(t *testing.T, seed uint64, source [Buckets]Server, p Plan, f int, m netip.Addr) {
	t.Helper()
	own := w.own[m][f]
	if own.IsValid() != slices.Equal(p.Pool[f], []netip.Addr{own}) {
		t.Fatalf("seed %d: gateway %s gives %v, want %s", seed, m, p.Pool[f], own)
	}
	serves := false
	for b, server := range source {
		here := server.Remote == m
		if way := p.Servers[f][b]; way.Here != here || way.First != 0 || !here && way.Remote != server.Remote {
			t.Fatalf("seed %d: bucket %d goes to %v, and %s says %+v", seed, b, server.Remote, m, way)
		}
		serves = serves || here
	}
	for _, a := range p.Addresses {
		if a.Addr == own && (a.Owner != m || serves != (a.Server == m)) {
			t.Fatalf("seed %d: %s serves: %t, and says %+v", seed, m, serves, a)
		}
	}
}

// In an active-active group each gateway has sources, and who goes moves its own alone.
func TestUplinkAddressesShared(t *testing.T) {
	w := newWorld(overlay.ActiveActive, 4, 0, 0)
	w.policy.UplinkAddress = true
	was := w.plan(addr(outsider)).Servers[0]
	count := map[netip.Addr]int{}
	for _, s := range was {
		count[s.Remote]++
	}
	for _, m := range w.group.Members {
		if count[m] < Buckets/16 {
			t.Errorf("of %d buckets %s has %d", Buckets, m, count[m])
		}
	}
	gone := w.group.Members[1]
	w.states[gone] = Gone
	for b, s := range w.plan(addr(outsider)).Servers[0] {
		if s.Remote == gone || was[b].Remote != gone && s.Remote != was[b].Remote {
			t.Errorf("bucket %d went to %s, and goes to %s while %s is gone", b, was[b].Remote, s.Remote, gone)
		}
	}
}
