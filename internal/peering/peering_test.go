package peering

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/background"
	"github.com/selvage/selvage/internal/bgp"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/evpn/speaker"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/writer"
)

// edge is one that a former process told of a remote.
type edge struct {
	config, merged overlay.Edge
	previous       map[string][]netip.Addr
	hosts          *hostTables
}

func (e *edge) Configured() overlay.Edge      { return e.config }
func (e *edge) SetConfig(merged overlay.Edge) { e.merged = merged }
func (e *edge) Hosts() Hosts                  { return e.hosts }
func (e *edge) PreviousRemotes([]overlay.Segment) (map[string][]netip.Addr, error) {
	return e.previous, nil
}

// Remotes of a former process are used until neighbours said all, where that process left its tables and the edge still
// speaks BGP, with a neighbour that it had.
func TestRemotesOfAPreviousProcess(t *testing.T) {
	here, there, neighbour := netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3"), netip.MustParseAddr("192.0.2.4")
	for name, test := range map[string]struct {
		adopted, bgp bool
		previous     []netip.Addr
		want         []netip.Addr
	}{
		"adopted": {true, true, nil, []netip.Addr{here, there}}, "from nothing": {false, true, nil, []netip.Addr{here}}, "without BGP now": {true, false, nil, []netip.Addr{here}},
		"a neighbour stayed":  {true, true, []netip.Addr{there, neighbour}, []netip.Addr{here, there}},
		"no neighbour stayed": {true, true, []netip.Addr{there}, []netip.Addr{here}},
	} {
		e := &edge{
			config:   overlay.Edge{Segments: []overlay.Segment{{Name: "blue", EVPN: &overlay.EVPNInstance{}, Remotes: []netip.Addr{here}}}},
			previous: map[string][]netip.Addr{"blue": {there}},
		}
		if test.bgp {
			e.config.BGP = &overlay.BGP{Neighbours: []overlay.BGPNeighbour{{Addr: neighbour}}}
		}
		p := New(Options{Edge: e, Log: slog.New(slog.DiscardHandler), Report: func(what string, err error) {
			if err != nil {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}})
		p.Remember(test.adopted, test.previous)
		p.Merge()
		if got := e.merged.Segments[0].Remotes; !slices.Equal(got, test.want) || p.IsSettling() != (len(test.want) > 1) {
			t.Errorf("%s: remotes %v, want %v; settling %t", name, got, test.want, p.IsSettling())
		}
	}
}

// hostTables are those of a data path, and how often hosts were looked for in them.
type hostTables struct{ looks int }

func (h *hostTables) Hosts() ([]datapath.LocalHost, error) {
	h.looks++
	return nil, nil
}
func (h *hostTables) FDB() ([]datapath.FDBEntry, error)         { return nil, nil }
func (h *hostTables) Neighbours() ([]datapath.Neighbour, error) { return nil, nil }

// Tables of another configuration may have forgotten hosts, by a guard or a limit. Those are looked for at once, and not after
// each reconciliation.
func TestHostsAreLookedForWhenAnotherConfigurationIsInForce(t *testing.T) {
	e := &edge{config: overlay.Edge{BGP: &overlay.BGP{}, Underlay: overlay.Underlay{TEP: netip.MustParseAddr("192.0.2.1")}}, hosts: &hostTables{}}
	w := writer.New(writer.Options{Edge: e.config})
	t.Cleanup(background.Start(context.Background(), func(ctx context.Context) { w.Run(ctx, func(error) {}) }))
	p := New(Options{
		Edge: e, Writer: w, Log: slog.New(slog.DiscardHandler), Report: func(string, error) {},
		Owned: func() map[gateway.Place]bool { return nil },
		Open:  func(context.Context, speaker.Options) (bgp.Speaker, error) { return nil, errors.New("no sessions") },
	})
	p.Follow()
	t.Cleanup(func() { _ = p.End(false) })
	steps := []struct {
		what string
		do   func()
		want int // looks
	}{
		{"followed", func() {}, 1}, {"applied", func() { p.Applied(time.Second) }, 1}, {"configured", p.Configure, 2},
		{"applied", func() { p.Applied(time.Second) }, 3}, {"applied again", func() { p.Applied(time.Second) }, 3},
	}
	for _, s := range steps {
		if s.do(); e.hosts.looks != s.want {
			t.Errorf("%s: hosts were looked for %d times, want %d", s.what, e.hosts.looks, s.want)
		}
	}
}
