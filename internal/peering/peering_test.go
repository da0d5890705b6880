package peering

import (
	"log/slog"
	"net/netip"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
)

// edge is one that a former process told of a remote.
type edge struct {
	config, merged overlay.Edge
	previous       map[string][]netip.Addr
}

func (e *edge) Configured() overlay.Edge      { return e.config }
func (e *edge) SetConfig(merged overlay.Edge) { e.merged = merged }
func (e *edge) Hosts() Hosts                  { return nil }
func (e *edge) PreviousRemotes([]overlay.Segment) (map[string][]netip.Addr, error) {
	return e.previous, nil
}

// Remotes of a former process are used until neighbours said all, where that process left its tables and the edge still
// speaks BGP.
func TestRemotesOfAPreviousProcess(t *testing.T) {
	here, there := netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")
	for name, test := range map[string]struct {
		adopted, bgp bool
		want         []netip.Addr
	}{
		"adopted": {true, true, []netip.Addr{here, there}}, "from nothing": {false, true, []netip.Addr{here}}, "without BGP now": {true, false, []netip.Addr{here}},
	} {
		e := &edge{
			config:   overlay.Edge{Segments: []overlay.Segment{{Name: "blue", EVPN: &overlay.EVPNInstance{}, Remotes: []netip.Addr{here}}}},
			previous: map[string][]netip.Addr{"blue": {there}},
		}
		if test.bgp {
			e.config.BGP = &overlay.BGP{}
		}
		p := New(Options{Edge: e, Log: slog.New(slog.DiscardHandler), Report: func(what string, err error) {
			if err != nil {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}})
		p.Remember(test.adopted)
		p.Merge()
		if got := e.merged.Segments[0].Remotes; !slices.Equal(got, test.want) || p.IsSettling() != (len(test.want) > 1) {
			t.Errorf("%s: remotes %v, want %v; settling %t", name, got, test.want, p.IsSettling())
		}
	}
}
