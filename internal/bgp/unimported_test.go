package bgp

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// Routes that no segment imports are a warning while a segment that is not routed has no remote.
func TestUnimportedProblems(t *testing.T) {
	peer, tep := netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("192.0.2.2")
	e := overlay.Edge{
		Underlay: overlay.Underlay{TEP: netip.MustParseAddr("192.0.2.1")},
		Segments: []overlay.Segment{{Name: "blue", VNI: 100, Tunnel: overlay.Tunnel{Encapsulation: overlay.VXLAN}, EVPN: &overlay.EVPNInstance{}}},
		BGP:      &overlay.BGP{AS: 65000, Neighbours: []overlay.BGPNeighbour{{Name: "peer", Addr: peer, AS: 65000}}},
	}
	table := evpn.NewTable(e)
	receive := func(mac byte, vni overlay.VNI) {
		route := evpn.Route{Key: evpn.Key{Type: evpn.MACIP, MAC: overlay.MAC{2, 5: mac}}, NextHop: tep, VNI: vni, Targets: []overlay.RouteTarget{overlay.ASTarget(65000, uint32(vni))}}
		table.Receive([]evpn.Update{{Neighbour: peer, Route: route}}, time.Now())
	}
	problems := func() []problem.Problem {
		s := survey{changed: true}
		s.of(table)
		return unimportedProblems(*e.BGP, s)
	}
	receive(1, 101)
	receive(2, 101)
	list := problems()
	if len(list) != 1 || list[0].Severity != problem.SeverityWarning ||
		!strings.HasPrefix(list[0].Text, "BGP: 2 routes of peer are not used: no segment imports 65000:101; no remote is known of segment blue:") {
		t.Errorf("%v, want a warning about both routes", list)
	}
	routed := e
	routed.Segments = []overlay.Segment{e.Segments[0]}
	routed.Segments[0].Gateway = &overlay.Gateway{Router: "red", Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}}
	routed.Routers = []overlay.Router{{Name: "red", L3: &overlay.L3{VNI: 9, EVPN: &overlay.EVPNInstance{}}}}
	table.Configure(routed, time.Now())
	if list = problems(); len(list) != 0 {
		t.Errorf("%v, want none: blue is routed", list)
	}
	table.Configure(e, time.Now())
	receive(3, 100)
	if list = problems(); len(list) != 0 {
		t.Errorf("%v, want none, as blue has a remote", list)
	}
}
