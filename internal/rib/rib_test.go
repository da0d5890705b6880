package rib

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
)

var (
	first  = netip.MustParseAddr("192.0.2.1")
	second = netip.MustParseAddr("192.0.2.2")
	third  = netip.MustParseAddr("192.0.2.3")
)

func configured() overlay.Edge {
	return overlay.Edge{
		Segments: []overlay.Segment{{Name: "blue", Remotes: []netip.Addr{third, first}}, {Name: "red"}},
		Routers:  []overlay.Router{{Name: "tenant", L3: &overlay.L3{Remotes: []netip.Addr{first}}}, {Name: "plain"}},
	}
}

// The configured remotes come first, in their order; each is there once, whoever tells of it.
func TestSnapshotMergesByOrigin(t *testing.T) {
	e := configured()
	s := Snapshot{
		Configured: e,
		Learned:    Remotes{Segments: map[string][]netip.Addr{"blue": {first, second}}, Routers: map[string][]netip.Addr{"tenant": {first, second}}},
		Previous:   map[string][]netip.Addr{"red": {second, first}, e.Routers[0].SegmentName(): {third, second}},
	}
	merged := s.Edge()
	for _, c := range []struct{ got, want []netip.Addr }{
		{merged.Segments[0].Remotes, []netip.Addr{third, first, second}},
		{merged.Segments[1].Remotes, []netip.Addr{first, second}},
		{merged.Routers[0].L3.Remotes, []netip.Addr{first, second, third}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("remotes %v, want %v", c.got, c.want)
		}
	}
	if !reflect.DeepEqual(e, configured()) || !slices.Equal(s.Previous["red"], []netip.Addr{second, first}) {
		t.Errorf("what was merged is changed: %+v, %v", e, s.Previous)
	}
	if !s.IsSettling() {
		t.Error("remotes of a former process do not count as unconfirmed")
	}
}

// Without BGP the edge is the configured one, and nothing is copied.
func TestSnapshotWithoutBGP(t *testing.T) {
	s := Snapshot{Configured: configured()}
	if got := s.Edge(); !reflect.DeepEqual(got, configured()) || &got.Segments[0] != &s.Configured.Segments[0] || s.IsSettling() {
		t.Errorf("%+v", got)
	}
}
