package steer_test

import (
	"net/netip"
	"slices"
	"testing"
)

// What is held reaches the cluster and nothing else, whatever the table of nftables says, until it is released; others go on.
func TestHold(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	both := addrs("10.244.1.2", "fd02::2")
	s.must(s.node.AddRoute("u0", netip.MustParsePrefix("10.244.2.0/24"), netip.MustParseAddr("192.0.2.9")))
	want := func(when, way string) {
		t.Helper()
		for _, far := range []netip.Addr{far4, far6} {
			if got, _, _ := s.goes(far); got != way {
				t.Errorf("%s: to %s: %s, want %s", when, far, got, way)
			}
		}
		if got, _, _ := s.goes(netip.MustParseAddr("10.244.2.5")); got != byNode {
			t.Errorf("%s: to another pod: %s", when, got)
		}
	}
	s.setup()
	s.must(s.node.Do(func() error { return s.Hold(addrs("10.244.1.77")) }))
	want("another is held", byNode)
	for range 2 {
		s.must(s.node.Do(func() error { return s.Hold(both) }))
	}
	want("held", refused)
	s.must(s.node.Do(func() error {
		list, err := s.Held()
		if slices.SortFunc(list, netip.Addr.Compare); !slices.Equal(list, addrs("10.244.1.2", "10.244.1.77", "fd02::2")) {
			t.Errorf("held: %v", list)
		}
		return err
	}))
	s.apply(all)
	want("held and steered", refused)
	for range 2 {
		s.must(s.node.Do(func() error { return s.Release(both) }))
	}
	want("steered", toEdge)
	s.apply(nil)
	want("released", byNode)
}
