package bgp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
)

// A survey is made when the table has changed, but not while the last one took its share of the time.
func TestSurvey(t *testing.T) {
	table := evpn.NewTable(overlay.Edge{Underlay: overlay.Underlay{TEP: netip.MustParseAddr("192.0.2.1")}})
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	receive := func(mac byte) {
		route := evpn.Route{Key: evpn.Key{Type: evpn.MACIP, MAC: overlay.MAC{2, 0, 0, 0, 0, mac}}, NextHop: netip.MustParseAddr("192.0.2.2")}
		table.Receive([]evpn.Update{{Neighbour: netip.MustParseAddr("192.0.2.9"), Route: route}}, now)
	}
	s := survey{changed: true}
	look := func(what string, want int) {
		t.Helper()
		if s.of(table); s.counts.Received != want {
			t.Errorf("%s: %d routes, want %d", what, s.counts.Received, want)
		}
	}
	receive(1)
	look("the first survey", 1)
	receive(2)
	look("nobody said that the table has changed", 1)
	s.changed, s.again = true, time.Now().Add(time.Hour)
	look("the last one took long", 1)
	s.again = time.Now()
	look("time has passed", 2)
	if s.changed || !s.again.IsZero() {
		t.Errorf("%+v: a small table may be looked at at any time", s)
	}
}
