package evpn

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

func TestAutomaticTargets(t *testing.T) {
	for _, c := range []struct {
		style overlay.TargetStyle
		as    uint32
		encap overlay.Encapsulation
		want  string
	}{
		{overlay.TargetsVNI, 65000, overlay.VXLAN, "65000:10010"},
		{overlay.TargetsVNI, 4200000001, overlay.VXLAN, "59905:10010"},
		{overlay.TargetsRFC8365, 65000, overlay.VXLAN, "65000:268445466"}, // 1 << 28 | 10010
		{overlay.TargetsRFC8365, 65000, overlay.NVGRE, "65000:536880922"}, // 2 << 28 | 10010
	} {
		if got := automaticTarget(c.style, c.as, 10010, c.encap).String(); got != c.want {
			t.Errorf("%s of AS %d, %s: %s, want %s", c.style, c.as, c.encap, got, c.want)
		}
	}
}

// An automatic target is imported from any AS, a configured one as it is.
func TestImports(t *testing.T) {
	e := edge()
	e.Segments[1].EVPN.Import = []overlay.RouteTarget{target(20), target(21)}
	w := newWorld(t, e)
	green := func(m byte, targets ...overlay.RouteTarget) Route {
		return host(mac(m), remote2).with(func(r *Route) { r.VNI, r.Targets = 20, targets })
	}
	w.receive(rr1, host(mac(1), remote2).with(func(r *Route) { r.Targets[0] = overlay.ASTarget(64999, 10) }),
		host(mac(2), remote2).with(func(r *Route) { r.Targets[0] = overlay.ASTarget(70000, 10) }), // 4-octet form
		green(3, target(7), target(21)), green(4, overlay.ASTarget(64999, 20)))
	w.is("stations", w.macEntries, "blue 02:00:00:00:00:01: 192.0.2.8 false", "green 02:00:00:00:00:03: 192.0.2.8 false")
	if s, want := w.status(rr1, green(4).Key, ""), "segment green, which has its VNI, imports 65000:20, 65000:21"; !strings.Contains(s.Why, want) {
		t.Errorf("why is %q, want %q", s.Why, want)
	}
}

func TestRouteDistinguishers(t *testing.T) {
	e := edge()
	e.Segments = append(e.Segments, overlay.Segment{Name: "far", VNI: 0x1000a, Tunnel: vxlan, EVPN: &overlay.EVPNInstance{}},
		overlay.Segment{Name: "own", VNI: 40, Tunnel: vxlan, EVPN: &overlay.EVPNInstance{RD: overlay.AddrDistinguisher(here, 99)}})
	in := newInstances(e)
	for name, want := range map[string]string{"blue": "192.0.2.5:10", "green": "192.0.2.5:20", "far": "192.0.2.5:11", "own": "192.0.2.5:99"} {
		if got := in.segments[name].rd.String(); got != want {
			t.Errorf("%s has %s, want %s", name, got, want)
		}
	}
	if got := in.routers["red"].rd.String(); got != "192.0.2.5:100" {
		t.Errorf("red has %s, want the next to the one that is configured", got)
	}
}

// What a segment itself announces goes from the endpoint that it is pinned to.
func TestSegmentIsAnnounced(t *testing.T) {
	e := edge()
	e.Underlay.TEPs = []overlay.TEP{{Name: "a", Addr: here}, {Name: "b", Addr: addr("192.0.2.6")}}
	e.Segments[1].TEPs = []string{"b"}
	table := NewTable(e)
	var got []string
	for _, r := range table.Configure(e, start).Announce {
		got = append(got, fmt.Sprintf("%d %s %s %s %s %d %v %s %v",
			r.Type, r.RD, r.Addr, r.MAC, r.NextHop, r.VNI, r.Targets, r.Encapsulation, r.DefaultGateway))
	}
	slices.Sort(got)
	want := []string{
		"2 192.0.2.5:10 10.0.0.1 02:00:5e:00:01:01 192.0.2.5 10 [65000:10] vxlan true",
		"3 192.0.2.5:10 192.0.2.5 00:00:00:00:00:00 192.0.2.5 10 [65000:10] vxlan false",
		"3 192.0.2.5:20 192.0.2.6 00:00:00:00:00:00 192.0.2.6 20 [65000:20] vxlan false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("announced are\n%q\nwant\n%q", got, want)
	}
}

func TestLinkLocalAddressesAreNotRouted(t *testing.T) {
	w := newWorld(t, edge())
	w.appear(with(at("blue", mac(1)), "fe80::1"))
	w.announces(m1 + " fe80::1 VNI 10 to [65000:10]")
	w.receive(rr1, host(mac(2), remote2).addr("fe80::2").routed())
	w.is("residents", w.arpEntries, "blue fe80::2: 02:00:00:00:00:02")
	w.is("routes", w.routes)
}

// A reload tells what is different by it, and no more.
func TestReloadTellsOnlyWhatChanged(t *testing.T) {
	e := edge()
	w := newWorld(t, e)
	w.appear(at("blue", mac(1)), with(at("blue", mac(1)), "10.0.0.11"), at("green", mac(2)))
	w.receive(rr1, host(mac(3), remote2).addr("10.0.0.13").routed(), network("10.9.0.0/16", remote2))
	w.receive(tor1, unicast("0.0.0.0/0", tor1))
	w.configure(e)
	if !reflect.DeepEqual(w.last, Changes{}) {
		t.Errorf("the same edge changes %+v", w.last)
	}

	e.Routers[0].L3 = &overlay.L3{VNI: 99, Tunnel: vxlan, MAC: mac(0xef), EVPN: e.Routers[0].L3.EVPN}
	w.configure(e)
	var changed []string
	for _, r := range w.last.Announce {
		changed = append(changed, fmt.Sprint(r.Type, r.Prefix, r.Addr, r.RouterMAC))
	}
	slices.Sort(changed)
	want := []string{
		"2 invalid Prefix 10.0.0.11 02:00:00:00:00:ef",
		"5 0.0.0.0/0 invalid IP 02:00:00:00:00:ef",
	}
	if !slices.Equal(changed, want) {
		t.Errorf("another router MAC changes %q, want %q", changed, want)
	}
	w.last.Announce = nil
	if !reflect.DeepEqual(w.last, Changes{Announce: nil}) {
		t.Errorf("another router MAC changes %+v too", w.last)
	}

	e.Segments = slices.Clone(e.Segments)
	e.Segments[0].EVPN = nil
	w.configure(e)
	if n := len(w.last.Withdraw); n != 4 || len(w.last.Announce)+len(w.last.MACs)+len(w.last.Neighbours) != 0 {
		t.Errorf("a segment without EVPN changes %+v, want type 3, the gateway and two of a host withdrawn", w.last)
	}
}

func TestRemotesByTheirFirstAddress(t *testing.T) {
	e := edge()
	e.Remotes = []overlay.Remote{{Name: "r2", Addrs: []netip.Addr{remote2, remote3}}}
	w := newWorld(t, e)
	w.receive(rr1, host(mac(1), remote3), network("10.9.0.0/16", remote3))
	w.is("stations", w.macEntries, "blue "+m1+": 192.0.2.8 false")
	w.is("routes", w.routes, "red 10.9.0.0/16: ["+via(remote2)+"]")
}

// What the table does not look at may change; all else is news to it.
func TestIsFor(t *testing.T) {
	w := newWorld(t, edge())
	for name, change := range map[string]func(e *overlay.Edge){
		"nothing": func(*overlay.Edge) {}, "ports": func(e *overlay.Edge) { e.Ports = append(e.Ports, overlay.Port{Name: "another"}) },
		"the firewall": func(e *overlay.Edge) { e.Firewall = &overlay.Firewall{} },
	} {
		e := edge()
		if change(&e); !w.table.IsFor(e) {
			t.Errorf("a change of %s is none of the table's", name)
		}
	}
	for name, change := range map[string]func(e *overlay.Edge){
		"a segment": func(e *overlay.Edge) { e.Segments[0].VNI++ }, "a router": func(e *overlay.Edge) { e.Routers[0].L3 = nil },
		"BGP": func(e *overlay.Edge) { e.BGP.AS++ }, "the remotes": func(e *overlay.Edge) { e.Remotes = append(e.Remotes, overlay.Remote{Name: "x"}) },
		"the tunnel endpoint": func(e *overlay.Edge) { e.Underlay.TEP = remote3 },
	} {
		e := edge()
		if change(&e); w.table.IsFor(e) {
			t.Errorf("a change of %s is not seen", name)
		}
	}
}

func TestMerge(t *testing.T) {
	e := edge()
	e.Segments[0].Remotes = []netip.Addr{remote3, remote1}
	e.Routers[0].L3.Remotes = []netip.Addr{remote1}
	w := newWorld(t, e)
	w.receive(rr1, host(mac(1), remote1), host(mac(2), remote2), network("10.9.0.0/16", remote2))
	merged := rib.Snapshot{Configured: e, Learned: w.table.Learned()}.Edge()
	if got, want := merged.Segments[0].Remotes, []netip.Addr{remote3, remote1, remote2}; !slices.Equal(got, want) {
		t.Errorf("remotes of blue are %v, want %v", got, want)
	}
	red := merged.Routers[0]
	if want := []netip.Addr{remote1, remote2}; !slices.Equal(red.L3.Remotes, want) {
		t.Errorf("remotes of red are %v, want %v", red.L3.Remotes, want)
	}
	if len(e.Segments[0].Remotes) != 2 || len(e.Routers[0].L3.Remotes) != 1 {
		t.Errorf("the configured edge was changed: %+v", e)
	}
	w.session(Session{Neighbour: rr1, Ended: true})
	if !w.last.Remotes {
		t.Error("that remotes are gone is not told")
	}
	if got := (rib.Snapshot{Configured: e, Learned: w.table.Learned()}).Edge(); !reflect.DeepEqual(got, e) || len(got.Segments[0].Remotes) != 2 {
		t.Errorf("without routes the edge is %+v", got)
	}
}

func TestCounts(t *testing.T) {
	w := newWorld(t, edge())
	w.receive(rr1, host(mac(1), remote2), host(mac(1), remote3).sequence(1), network("10.9.0.0/16", remote2),
		network("10.8.0.0/16", remote2).with(func(r *Route) { r.RouterMAC = overlay.MAC{} }),
		host(mac(2), remote2).with(func(r *Route) { r.Targets = nil }))
	if got, want := w.table.Counts(), (Counts{Advertised: 4, Received: 5, Used: 2, NoTarget: 1, NoRouterMAC: 1}); got != want {
		t.Errorf("counts are %+v, want %+v", got, want)
	}
}
