package evpn

import (
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// What is known of a router's advertisements goes with its address to those who answer for it
// (RFC 9047).
func TestRouterFlagIsAdvertised(t *testing.T) {
	const router = rib.NDRouter | rib.NDOverride
	e := edge()
	e.Segments[0].Neighbours = append(e.Segments[0].Neighbours, overlay.Neighbour{Addr: netip.MustParseAddr("2001:db8::2"), MAC: mac(1)})
	w := newWorld(t, e)
	says := func(address string) rib.NDFlags {
		return w.table.adjOut.own[Key{Type: MACIP, RD: w.table.in.segments["blue"].rd, MAC: mac(1), Addr: netip.MustParseAddr(address)}].ND
	}
	told := func(address string, nd rib.NDFlags) Host {
		h := with(at("blue", mac(1)), address)
		h.ND = nd
		return h
	}
	w.appear(told("2001:db8::1", router), told("2001:db8::2", router), told("2001:db8::3", rib.NDOverride), told("2001:db8::4", 0))
	for address, want := range map[string]rib.NDFlags{
		"2001:db8::1": router, "2001:db8::2": router | rib.NDImmutable, "2001:db8::3": 0, "2001:db8::4": 0,
	} {
		if got := says(address); got != want {
			t.Errorf("%s is advertised with flags %d, want %d", address, got, want)
		}
	}
	w.appear(told("2001:db8::1", rib.NDOverride), told("2001:db8::3", router))
	if a, b := says("2001:db8::1"), says("2001:db8::3"); a != 0 || b != router || len(w.last.Announce) != 2 {
		t.Errorf("flags are %d and %d after they changed: %+v", a, b, w.last)
	}
	w.vanish(told("2001:db8::3", 0))
	w.appear(told("2001:db8::3", 0))
	if got := says("2001:db8::3"); got != 0 {
		t.Errorf("flags of a host that went are %d", got)
	}
}

func TestRouterFlagIsLearned(t *testing.T) {
	w := newWorld(t, edge())
	r := host(mac(1), remote2).addr("2001:db8::1")
	for _, nd := range []rib.NDFlags{0, rib.NDRouter, 0} {
		r.ND = nd
		w.receive(rr1, r)
		if len(w.last.Neighbours) != 1 || w.last.Neighbours[0].ND != nd || w.last.Neighbours[0].MAC != mac(1) {
			t.Errorf("flags %d: neighbours are %+v", nd, w.last.Neighbours)
		}
	}
	r.ND = rib.NDRouter
	w.receive(rr1, r)
	if all := w.table.All().Neighbours; len(all) != 1 || all[0].ND != rib.NDRouter {
		t.Errorf("all neighbours are %+v", all)
	}
}
