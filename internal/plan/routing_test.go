package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

var (
	near, distant = netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")
	nearMAC       = overlay.MAC{2, 0, 0, 0, 2, 1}
	distantMAC    = overlay.MAC{2, 0, 0, 0, 3, 1}
)

// learned has tenant, which learns, and other, to which what is in 10.0.0.0/8 is leaked.
func learned() overlay.Edge {
	return overlay.Edge{
		Underlay: overlay.Underlay{TEP: netip.MustParseAddr("192.0.2.1")},
		Segments: []overlay.Segment{
			{Name: "blue", VNI: 100, Gateway: &overlay.Gateway{Router: "tenant", Addresses: []netip.Prefix{netip.MustParsePrefix("10.1.0.254/24")}}},
			{Name: "red", VNI: 200, Gateway: &overlay.Gateway{Router: "other", Addresses: []netip.Prefix{netip.MustParsePrefix("10.2.0.254/24")}}},
		},
		Routers: []overlay.Router{
			{
				Name: "tenant", L3: &overlay.L3{VNI: 5000, Remotes: []netip.Addr{near, distant}},
				Routes: []overlay.Route{
					{Prefix: netip.MustParsePrefix("10.9.0.0/16"), Kind: overlay.Unicast, Via: []overlay.NextHop{{Remote: near, MAC: nearMAC}, {Remote: distant, MAC: distantMAC}}},
				},
				Uplinks: []overlay.Uplink{{Name: "wan", Interface: "eth1", Addresses: []netip.Prefix{netip.MustParsePrefix("198.51.100.2/24")}}},
			},
			{Name: "other", Leaks: []overlay.Leak{{From: "tenant", Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}},
		},
	}
}

func learn(prefix string, via ...overlay.NextHop) rib.LearnedRoute {
	return rib.LearnedRoute{Router: "tenant", Route: overlay.Route{Prefix: netip.MustParsePrefix(prefix), Kind: overlay.Unicast, Via: via}}
}

// inWords is a route's origin and where it leads.
func inWords(all *Routing, router, prefix string) string {
	r, ok := all.At(rib.Place{Router: router, Prefix: netip.MustParsePrefix(prefix)})
	if !ok {
		return "none"
	}
	words := string(r.Origin) + r.From
	for _, h := range r.Hops {
		words += " " + h.Segment
		if h.Remote.IsValid() {
			words += "/" + h.Remote.String()
		}
	}
	return words
}

func TestRoutingLearns(t *testing.T) {
	all := NewRouting(learned(), nil)
	toNear := overlay.NextHop{Remote: near, MAC: nearMAC}
	changed := all.Learn([]rib.LearnedRoute{
		learn("10.7.0.0/16", toNear), learn("172.16.0.0/12", toNear), learn("10.9.0.0/16", toNear), learn("10.1.0.0/24", toNear),
		learn("10.2.0.0/24", toNear), learn("10.7.0.0/16", toNear),
		learn("0.0.0.0/0", overlay.NextHop{Addr: netip.MustParseAddr("198.51.100.1")}, overlay.NextHop{Addr: netip.MustParseAddr("203.0.113.1")}),
		learn("10.8.0.0/16", overlay.NextHop{Remote: netip.MustParseAddr("192.0.2.99")}),
		{Router: "gone", Route: overlay.Route{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Via: []overlay.NextHop{toNear}}},
	})
	if len(changed) != 7+5 { // those in 10.0.0.0/8 are leaked too
		t.Errorf("changed %v", changed)
	}
	for _, x := range []struct{ router, prefix, want string }{
		{"tenant", "10.7.0.0/16", "bgp tenant-l3/192.0.2.2"},
		{"other", "10.7.0.0/16", "leakedtenant tenant-l3/192.0.2.2"},
		{"tenant", "172.16.0.0/12", "bgp tenant-l3/192.0.2.2"},
		{"other", "172.16.0.0/12", "none"},
		{"tenant", "10.9.0.0/16", "static tenant-l3/192.0.2.2 tenant-l3/192.0.2.3"},
		{"tenant", "10.1.0.0/24", "connected blue"},
		{"tenant", "10.2.0.0/24", "bgp tenant-l3/192.0.2.2"},
		{"other", "10.2.0.0/24", "connected red"},
		{"tenant", "0.0.0.0/0", "bgp wan"}, // of the other next hop nobody knows the network
		{"tenant", "10.8.0.0/16", "none"},  // its remote comes with the next tables
	} {
		if got := inWords(all, x.router, x.prefix); got != x.want {
			t.Errorf("%s %s: %s, want %s", x.router, x.prefix, got, x.want)
		}
	}
	for _, table := range all.All() {
		for _, r := range table.Routes {
			if got, ok := all.At(rib.Place{Router: table.Router, Prefix: r.Prefix}); !ok || got.Origin != r.Origin || !slices.Equal(got.Hops, r.Hops) {
				t.Errorf("%s %s: %v alone and %v in the table", table.Router, r.Prefix, got, r)
			}
		}
	}
	all.Learn([]rib.LearnedRoute{learn("10.7.0.0/16")})
	if got := inWords(all, "other", "10.7.0.0/16"); got != "none" {
		t.Errorf("withdrawn: %s", got)
	}
	again := NewRouting(learned(), all.Learned())
	if got := inWords(again, "tenant", "172.16.0.0/12"); got != "bgp tenant-l3/192.0.2.2" {
		t.Errorf("after another reconciliation: %s", got)
	}
}

func TestRoutesLeaveDeadRemotesOut(t *testing.T) {
	all := NewRouting(learned(), nil)
	both := []overlay.NextHop{{Remote: near, MAC: nearMAC}, {Remote: distant, MAC: distantMAC}}
	all.Learn([]rib.LearnedRoute{learn("10.7.0.0/16", both...), learn("10.6.0.0/16", both[0])})
	changed := all.SetOutages(Outages{Remotes: map[netip.Addr]bool{near: false}})
	var places []string
	for _, p := range changed {
		places = append(places, p.Router+" "+p.Prefix.String())
	}
	slices.Sort(places)
	if want := []string{"other 10.7.0.0/16", "other 10.9.0.0/16", "tenant 10.7.0.0/16", "tenant 10.9.0.0/16"}; !slices.Equal(places, want) {
		t.Errorf("changed at %q, want %q", places, want)
	}
	for _, router := range all.Rewritten(append(changed, changed...)) {
		if len(router.Routes) != 2 {
			t.Errorf("%s has %v", router.Name, router.Routes)
		}
		for _, r := range router.Routes {
			if len(r.Hops) != 1 || r.Hops[0].Remote != distant {
				t.Errorf("%s %s leads by %v", router.Name, r.Prefix, r.Hops)
			}
		}
	}
	alone := all.Rewritten([]rib.Place{{Router: "tenant", Prefix: netip.MustParsePrefix("10.6.0.0/16")}, {Router: "tenant", Prefix: netip.MustParsePrefix("10.5.0.0/16")}})
	if r := alone[0].Routes; len(r) != 2 || len(r[0].Hops) != 1 || r[0].Hops[0].Remote != near || r[1].Kind != "" {
		t.Errorf("a route without another next hop, and none: %v", r)
	}
	pathPolicies := PathPolicies{Paths: []TunnelPath{{Edge: near, Down: "silence"}, {Edge: near, Down: "silence"}, {Edge: distant, Down: "silence"}, {Edge: distant}}}
	if got := OutagesOf(learned(), host.State{}, pathPolicies).Remotes; !maps.Equal(got, map[netip.Addr]bool{near: false}) {
		t.Errorf("dead %v", got)
	}
	tables, _ := Desired(learned(), host.State{}, pathPolicies)
	static := func(r fib.Route) bool {
		return r.Prefix == netip.MustParsePrefix("10.9.0.0/16") && len(r.Hops) == 1
	}
	if !slices.ContainsFunc(tables.Routers[0].Routes, static) {
		t.Errorf("the tables lead by a dead remote: %v", tables.Routers[0].Routes)
	}
}

func TestPrefixes(t *testing.T) {
	e := learned()
	e.Segments[0].Gateway.Addresses = append(e.Segments[0].Gateway.Addresses, netip.MustParsePrefix("fe80::1/64"), netip.MustParsePrefix("10.1.0.253/24"))
	e.Routers[0].Loopbacks = []netip.Addr{netip.MustParseAddr("10.255.0.1")}
	owned := []OwnedAddress{{"wan", netip.MustParseAddr("203.0.113.7")}, {"elsewhere", netip.MustParseAddr("203.0.113.8")}}
	got := fmt.Sprint(Prefixes(e, Outages{}, e.Routers[0], owned))
	if want := "map[connected:[10.1.0.0/24] egress:[203.0.113.7/32] loopback:[10.255.0.1/32] static:[10.9.0.0/16] uplink:[198.51.100.0/24]]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNoLearning(t *testing.T) {
	configured := learned()
	configured.Segments[0].EVPN, configured.Segments[0].Remotes = &overlay.EVPNInstance{}, []netip.Addr{near}
	configured.Routers[0].L3 = &overlay.L3{VNI: 5000, EVPN: &overlay.EVPNInstance{}}
	merged := configured
	merged.Segments, merged.Routers = slices.Clone(configured.Segments), slices.Clone(configured.Routers)
	merged.Segments[0].Remotes, merged.Segments[1].Remotes = []netip.Addr{near, distant}, []netip.Addr{near}
	merged.Routers[0].L3 = &overlay.L3{VNI: 5000, EVPN: &overlay.EVPNInstance{}, Remotes: []netip.Addr{distant}}
	got := NoLearning(configured, merged)
	if len(got) != 2 || !slices.Equal(got["blue"], []netip.Addr{distant}) || !slices.Equal(got["tenant-l3"], []netip.Addr{distant}) {
		t.Errorf("untaught %v", got)
	}
	if reach := Reach(merged); !reach["blue"][distant] || !reach["tenant-l3"][distant] || reach["tenant-l3"][near] {
		t.Errorf("reach %v", reach)
	}
}

// BenchmarkRouting is the part of a reconciliation that grows with what was learned.
func BenchmarkRouting(b *testing.B) {
	e, routes := learned(), rib.Routes{}
	for i := range 10_000 {
		routes["tenant"] = append(routes["tenant"], overlay.Route{
			Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{20, byte(i >> 16), byte(i >> 8), byte(i)}), 32), Kind: overlay.Unicast,
			Via: []overlay.NextHop{{Remote: near, MAC: nearMAC}},
		})
	}
	for b.Loop() {
		NewRouting(e, routes).All()
	}
}
