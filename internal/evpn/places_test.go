package evpn

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
)

// placesEdge is an edge whose router red has an address of each kind.
func placesEdge() overlay.Edge {
	e := edge()
	e.Remotes = []overlay.Remote{{Name: "r", Addrs: []netip.Addr{remote2}}}
	e.Segments[0].Gateway.Addresses = append(e.Segments[0].Gateway.Addresses, prefix("fe80::1/64"), prefix("2001:db8:a::1/64"))
	e.Segments[1].Gateway = &overlay.Gateway{Router: "red", MAC: overlay.AnycastMAC, Addresses: []netip.Prefix{prefix("10.0.1.1/24")}}
	e.Routers[0].Leaks = []overlay.Leak{{From: "shared", Prefixes: []netip.Prefix{prefix("10.20.0.0/16")}}}
	e.Routers = append(e.Routers, overlay.Router{Name: "shared", Uplinks: []overlay.Uplink{
		{Name: "lan", Addresses: []netip.Prefix{prefix("10.20.1.1/24"), prefix("10.21.1.1/24")}}}})
	e.Routers[0].Loopbacks = []netip.Addr{addr("10.255.0.1")}
	e.Egress = &overlay.Egress{Policies: []overlay.EgressPolicy{
		{Name: "out", Router: "red", Pool: []overlay.AddrRange{{First: addr("203.0.113.10"), Last: addr("203.0.113.12")}}},
		{Name: "other", Router: "grey", Pool: []overlay.AddrRange{{First: addr("203.0.113.20"), Last: addr("203.0.113.20")}}},
	}}
	return e
}

// What a host says of its addresses becomes a route only inside the networks of its segment's gateway; within the segment it is told
// as before.
func TestClaimedAddressesAreNotRouted(t *testing.T) {
	for _, c := range []struct {
		segment, addr string
		routed        bool
		foreign       bool
		owner         string
	}{
		{"blue", "10.0.0.11", true, false, ""},
		{"blue", "2001:db8:a::b", true, false, ""},
		{"blue", "198.51.101.77", false, true, ""}, // a server on the Internet
		{"blue", "172.17.0.1", false, true, ""},
		{"blue", "2001:db8:f::99", false, true, ""},
		{"blue", "10.0.1.5", false, true, "in the network 10.0.1.0/24 of segment green"},
		{"blue", "10.0.1.1", false, true, "the address of the gateway of segment green"},
		{"blue", "198.51.100.1", false, true, "in the network 198.51.100.0/24 of uplink wan"}, // the provider's router
		{"blue", "198.51.100.5", false, true, "the address of uplink wan"},
		{"blue", "10.255.0.1", false, true, "a loopback of this edge"},
		{"blue", "10.20.1.9", false, true, "in the network 10.20.1.0/24 of uplink lan, imported from router shared"},
		{"blue", "10.21.1.9", false, true, ""},
		{"blue", "203.0.113.11", false, true, "in the pool of egress policy out"},
		{"blue", "203.0.113.13", false, true, ""},
		{"blue", "203.0.113.20", false, true, ""}, // another router's
		{"blue", "192.0.2.5", false, true, "a tunnel endpoint"},
		{"blue", "192.0.2.8", false, true, "a tunnel endpoint"},
		{"blue", "10.0.0.255", false, false, ""}, // broadcast
		{"blue", "10.0.0.0", false, false, ""},
		{"blue", "2001:db8:a::", false, false, ""}, // of all routers
		{"blue", "2001:db8:a::ffff:ffff:ffff:ffff", true, false, ""},
		{"blue", "169.254.1.1", false, false, ""},
		{"blue", "fe80::b", false, false, ""},
		{"green", "10.0.1.5", true, false, ""},
		{"green", "2001:db8:f::99", false, false, ""}, // a family without a network
		{"green", "2001:db8:a::b", false, true, "in the network 2001:db8:a::/64 of segment blue"},
		{"far", "10.0.0.11", false, false, ""}, // no gateway
	} {
		e := placesEdge()
		e.Segments = append(e.Segments, overlay.Segment{Name: "far", VNI: 40, Tunnel: vxlan, EVPN: &overlay.EVPNInstance{}})
		w := newWorld(t, e)
		w.appear(at(c.segment, mac(1)), with(at(c.segment, mac(1)), c.addr))
		var routes, hosts int
		for _, s := range w.table.Routes() {
			if s.Route.MAC == mac(1) && s.Route.Addr == addr(c.addr) {
				hosts++
				if s.Route.L3VNI != 0 || s.Route.RouterMAC != (overlay.MAC{}) || len(s.Route.Targets) > 1 {
					routes++
				}
			}
		}
		if hosts != 1 || routes != flag(c.routed) {
			t.Errorf("%s in %s is told by %d routes, %d of them of the router, want it routed: %t", c.addr, c.segment, hosts, routes, c.routed)
		}
		d := w.table.in.routers["red"].destinations[netip.PrefixFrom(addr(c.addr), addr(c.addr).BitLen())]
		if here := d != nil && d.hosts > 0; here != c.routed {
			t.Errorf("%s in %s is a host of the router here: %t, want %t", c.addr, c.segment, here, c.routed)
		}
		if foreign, owner := w.table.Foreign(c.segment, addr(c.addr)); foreign != c.foreign || owner != c.owner {
			t.Errorf("%s in %s is foreign: %t, %q; want %t, %q", c.addr, c.segment, foreign, owner, c.foreign, c.owner)
		}
	}
}

// An operator may configure any neighbour, but no route leads to one outside the gateway's networks.
func TestConfiguredNeighboursAreRoutedInTheirNetworks(t *testing.T) {
	e := edge()
	e.Segments[0].Neighbours = []overlay.Neighbour{{Addr: addr("10.0.0.40"), MAC: mac(1)}, {Addr: addr("10.7.0.40"), MAC: mac(1)}}
	w := newWorld(t, e)
	w.appear(at("blue", mac(1)))
	w.announces(m1+" VNI 10 to [65000:10]",
		m1+" 10.0.0.40 VNI 10/99 by 02:00:00:00:00:ed to [65000:10 65000:99]", m1+" 10.7.0.40 VNI 10 to [65000:10]")
}

// A host that claims an address of another segment takes it from nobody: its owner's route is used.
func TestClaimTakesNoRoute(t *testing.T) {
	w := newWorld(t, placesEdge())
	w.appear(with(at("blue", mac(1)), "10.0.1.5"))
	owner := host(mac(2), remote2).addr("10.0.1.5").routed().with(func(r *Route) { r.VNI, r.Targets[0] = 20, target(20) })
	w.receive(rr1, owner)
	w.is("routes", w.routes, "red 10.0.1.5/32: ["+via(remote2)+"]")
}

// The route to a host is not used where its address is connected by something else than its segment.
func TestHostRoutesOfConnectedNetworks(t *testing.T) {
	green := func(r *Route) { r.VNI, r.Targets[0] = 20, target(20) }
	nowhere := func(r *Route) { r.VNI, r.Targets = 77, r.Targets[1:] } // its segment is not here
	for _, c := range []struct {
		addr string
		of   func(*Route)
		why  string // "": it is used
	}{
		{"10.0.0.11", nil, ""}, {"10.0.1.5", green, ""}, {"10.7.0.1", nil, ""}, {"10.7.0.1", nowhere, ""}, {"2001:db8:a::b", nil, ""},
		{"203.0.113.20", nil, ""}, {"169.254.0.9", nowhere, "not a host route"},
		{"10.0.1.5", nil, "10.0.1.5 is in the network 10.0.1.0/24 of segment green, which is connected here, and the route is of another segment (VNI 10)"},
		{"10.0.0.11", green, "of segment blue"}, {"10.0.0.11", nowhere, "of segment blue"}, {"2001:db8:a::b", green, "of segment blue"},
		{"10.0.0.1", nil, "the address of the gateway of segment blue"}, {"10.0.0.1", nowhere, "the address of the gateway"},
		{"10.0.0.255", nil, "the first or last address of 10.0.0.0/24"}, {"2001:db8:a::", nil, "the first or last address of 2001:db8:a::/64"},
		{"198.51.100.1", nil, "in the network 198.51.100.0/24 of uplink wan"}, {"198.51.100.5", nowhere, "the address of uplink wan"},
		{"10.20.1.9", nil, "imported from router shared"}, {"10.21.1.9", nil, ""},
		{"10.255.0.1", nil, "a loopback of this edge"}, {"203.0.113.12", nowhere, "in the pool of egress policy out"},
		{"192.0.2.5", nil, "a tunnel endpoint"}, {"192.0.2.8", nowhere, "a tunnel endpoint"},
	} {
		w := newWorld(t, placesEdge())
		r := host(mac(2), remote3).addr(c.addr).routed()
		if c.of != nil {
			r = r.with(c.of)
		}
		w.receive(rr1, r)
		if c.why == "not a host route" {
			w.is("routes", w.routes)
			continue
		}
		s := w.status(rr1, r.Key, "red")
		if used := len(w.routes) == 1; used != (c.why == "") || s.Used != used || !strings.Contains(s.Why, c.why) {
			t.Errorf("%s: routes %v, used %t, why %q; want %q", c.addr, w.routes, s.Used, s.Why, c.why)
		}
		if want := []string{"address connected elsewhere", ""}[flag(c.why == "")]; s.Problem != want {
			t.Errorf("%s: problem %q, want %q", c.addr, s.Problem, want)
		}
	}
}

// Other edges may tell of the anycast gateway with the VNI of the router, too: that is as it should be.
func TestGatewaysOfOthersAreNoClaim(t *testing.T) {
	for _, r := range []Route{
		host(overlay.AnycastMAC, remote3).addr("10.0.0.1").routed(),
		host(mac(2), remote3).addr("10.0.0.1").routed().with(func(r *Route) { r.DefaultGateway = true }),
	} {
		w := newWorld(t, placesEdge())
		w.receive(rr1, r)
		if s := w.status(rr1, r.Key, "red"); s.Used || s.Problem != "" || !strings.Contains(s.Why, "anycast") {
			t.Errorf("used %t, why %q, problem %q", s.Used, s.Why, s.Problem)
		}
	}
}

// When another configuration connects the address elsewhere, a route that was used is not, and comes back with the former one.
func TestHostRoutesAreReevaluated(t *testing.T) {
	without := placesEdge()
	without.Segments[1].Gateway = nil
	w := newWorld(t, without)
	w.receive(rr1, host(mac(2), remote3).addr("10.0.1.5").routed())
	w.appear(with(at("blue", mac(1)), "10.0.0.11"))
	want := "red 10.0.1.5/32: [" + via(remote3) + "]"
	w.is("routes", w.routes, want)
	w.configure(placesEdge())
	w.is("routes", w.routes)
	w.configure(without)
	w.is("routes", w.routes, want)

	w.announces(m1 + " 10.0.0.11 VNI 10/99 by 02:00:00:00:00:ed to [65000:10 65000:99]")
	renumbered := placesEdge()
	renumbered.Segments[0].Gateway.Addresses = []netip.Prefix{prefix("10.6.0.1/24")}
	w.configure(renumbered)
	w.announces(m1 + " 10.0.0.11 VNI 10 to [65000:10]")
}
