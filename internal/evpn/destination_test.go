package evpn

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
)

const (
	viaTor1 = "{198.51.100.1  invalid IP 00:00:00:00:00:00}"
	viaTor2 = "{198.51.100.2  invalid IP 00:00:00:00:00:00}"
)

func via(remote netip.Addr) string {
	return fmt.Sprintf("{invalid IP  %s 02:00:00:00:00:a0}", remote)
}

// Each rule against the one above it, in the order of RFC 4271 section 9.1.2.2.
func TestBestPaths(t *testing.T) {
	const p = "10.9.0.0/16"
	type advertised struct {
		from  netip.Addr
		route Route
	}
	med := func(r Route, n uint32) Route { return r.with(func(r *Route) { r.MED = n }) }
	pref := func(r Route, n uint32) Route { return r.with(func(r *Route) { r.LocalPref = n }) }
	stale := func(r Route) Route {
		return r.with(func(r *Route) { r.Communities = []overlay.Community{llgrStale} })
	}
	for name, c := range map[string]struct {
		advertised []advertised
		want       string
	}{
		"equal ones of two ASes are shared": {
			[]advertised{{tor1, unicast(p, tor1, 64901, 1)}, {tor2, unicast(p, tor2, 64902, 1)}}, viaTor1 + " " + viaTor2},
		"a stale one is for want of another": {
			[]advertised{{tor1, stale(pref(unicast(p, tor1, 64901), 200))}, {tor2, unicast(p, tor2, 64902, 1)}}, viaTor2},
		"local preference, though the AS path is longer": {
			[]advertised{{tor1, unicast(p, tor1, 64901)}, {tor2, pref(unicast(p, tor2, 64902, 1, 2), 101)}}, viaTor2},
		"AS path, though MED is higher": {
			[]advertised{{tor1, unicast(p, tor1, 64901, 1)}, {tor2, med(unicast(p, tor2, 64902), 9)}}, viaTor2},
		"MED within an AS": {
			[]advertised{{tor1, med(unicast(p, tor1, 64901), 2)}, {tor2, med(unicast(p, tor2, 64901), 1)}}, viaTor2},
		"MED between ASes is not compared": {
			[]advertised{{tor1, med(unicast(p, tor1, 64901), 2)}, {tor2, med(unicast(p, tor2, 64902), 1)}}, viaTor1 + " " + viaTor2},
		"an uplink before a tunnel": {
			[]advertised{{tor1, unicast(p, tor1)}, {rr1, network(p, remote1)}}, viaTor1},
		"a tunnel with the shorter AS path before an uplink": {
			[]advertised{{tor1, unicast(p, tor1, 64901)}, {rr1, network(p, remote1)}}, via(remote1)},
		"of another AS before of this one": {
			[]advertised{{rr1, unicast(p, tor1)}, {tor2, unicast(p, tor2)}}, viaTor2},
		"tunnels are shared": {
			[]advertised{{rr1, network(p, remote1)}, {rr2, network(p, remote1)}, {rr1, network(p, remote2)}}, via(remote1) + " " + via(remote2)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, edge())
			for _, advertised := range c.advertised {
				w.receive(advertised.from, advertised.route)
			}
			w.is("routes", w.routes, "red "+p+": ["+c.want+"]")
		})
	}
}

func TestPathsAreShared64Ways(t *testing.T) {
	w := newWorld(t, edge())
	var advertised []Route
	for i := range 70 {
		advertised = append(advertised, network("10.9.0.0/16", netip.AddrFrom4([4]byte{203, 0, 113, byte(i)})))
	}
	w.receive(rr1, advertised...)
	hops := w.table.All().Routes[0].Via
	if len(hops) != 64 || len(w.table.Learned().Routers["red"]) != 70 {
		t.Errorf("%d next hops of %d remotes", len(hops), len(w.table.Learned().Routers["red"]))
	}
	if s := w.status(rr1, advertised[69].Key, "red"); s.Used || s.Why == "" {
		t.Errorf("status of the 70th is %+v", s)
	}
}

func TestHostRoutesFollowTheHost(t *testing.T) {
	w := newWorld(t, edge())
	known := host(mac(1), remote2).addr("10.0.0.11").routed()
	w.receive(rr1, known, network("10.0.0.11/32", remote3))
	w.is("routes", w.routes, "red 10.0.0.11/32: ["+via(remote2)+"]")
	// It moved: its address was not said yet by its new edge, so that there is no host route.
	w.withdraw(rr1, network("10.0.0.11/32", remote3))
	w.receive(rr1, host(mac(1), remote3).sequence(1))
	w.is("routes", w.routes)
	w.receive(rr1, host(mac(1), remote3).addr("10.0.0.11").routed().sequence(1))
	w.is("routes", w.routes, "red 10.0.0.11/32: ["+via(remote3)+"]")
	// It comes here.
	w.appear(at("blue", mac(1)))
	w.is("routes", w.routes)
	w.vanish(at("blue", mac(1)))
	w.is("routes", w.routes, "red 10.0.0.11/32: ["+via(remote3)+"]")
	w.appear(with(at("blue", mac(3)), "10.0.0.11"))
	w.is("routes", w.routes)
}

func TestOwnRoutesWin(t *testing.T) {
	w := newWorld(t, edge())
	w.receive(rr1, network("10.0.0.0/24", remote1))
	w.is("routes", w.routes, "red 10.0.0.0/24: ["+via(remote1)+"]")
	w.take(w.table.Prefixes("red", overlay.SourceConnected, []netip.Prefix{prefix("10.0.0.1/24")}))
	w.is("routes", w.routes)
	w.take(w.table.Prefixes("red", overlay.SourceConnected, nil))
	w.is("routes", w.routes, "red 10.0.0.0/24: ["+via(remote1)+"]")
	if c := w.table.Prefixes("blue", overlay.SourceConnected, nil); len(c.Routes) != 0 {
		t.Errorf("a router that there is not: %+v", c)
	}
}

// A type 5 route by a gateway address leads to a host of a segment (RFC 9136 section 4.1).
func TestPrefixBehindAHost(t *testing.T) {
	w := newWorld(t, edge())
	w.receive(rr1, network("10.9.0.0/16", remote1).with(func(r *Route) { r.Gateway, r.RouterMAC = addr("10.0.0.7"), overlay.MAC{} }))
	w.is("routes", w.routes, "red 10.9.0.0/16: [{10.0.0.7  invalid IP 00:00:00:00:00:00}]")
	if f := w.table.Learned(); len(f.Routers["red"]) != 0 {
		t.Errorf("remotes of the L3 segment are %v", f.Routers["red"])
	}
}

// announced are the keys of routes to prefixes, and what they carry.
func (w *world) prefixes() map[string]string {
	advertised := map[string]string{}
	for _, s := range w.table.Routes() {
		if r := s.Route; !s.Neighbour.IsValid() && r.Prefix.IsValid() {
			advertised[fmt.Sprintf("type %d %s", r.Type, r.Prefix)] = fmt.Sprint(r.NextHop, " ", r.ASPath, " ", s.For)
		}
	}
	return advertised
}

func TestPrefixesAreAnnounced(t *testing.T) {
	w := newWorld(t, edge())
	for source, p := range map[overlay.RouteSource]string{
		overlay.SourceConnected: "10.0.0.0/24", overlay.SourceStatic: "10.7.0.0/16", overlay.SourceLoopback: "10.255.0.1/32",
		overlay.SourceUplink: "198.51.100.0/24", overlay.SourceEgress: "203.0.113.7/32",
	} {
		w.take(w.table.Prefixes("red", source, []netip.Prefix{prefix(p)}))
	}
	own := []string{
		"type 5 10.0.0.0/24: 192.0.2.5 [] red", "type 5 10.7.0.0/16: 192.0.2.5 [] red", "type 5 10.255.0.1/32: 192.0.2.5 [] red",
		"type 5 198.51.100.0/24: 192.0.2.5 [] red",
		"type 0 10.0.0.0/24: 198.51.100.5 [] red", "type 0 10.255.0.1/32: 198.51.100.5 [] red", "type 0 203.0.113.7/32: 198.51.100.5 [] red",
	}
	w.is("prefixes", w.prefixes(), own...)

	// What an uplink's neighbour told goes to the other edges, and the other way round, each
	// with the ASes that it came through; never back.
	w.receive(tor1, unicast("0.0.0.0/0", tor1, 64901))
	w.receive(rr1, network("10.9.0.0/16", remote1).with(func(r *Route) { r.ASPath = []uint32{64777} }))
	w.is("prefixes", w.prefixes(), append(own,
		"type 5 0.0.0.0/0: 192.0.2.5 [64901] red", "type 0 10.9.0.0/16: 198.51.100.5 [64777] red")...)

	w.withdraw(tor1, unicast("0.0.0.0/0", tor1))
	w.withdraw(rr1, network("10.9.0.0/16", remote1))
	w.is("prefixes", w.prefixes(), own...)
	w.take(w.table.Prefixes("red", overlay.SourceEgress, nil))
	if len(w.last.Withdraw) != 1 || w.last.Withdraw[0] != (Key{Type: Unicast, Prefix: prefix("203.0.113.7/32"), Uplink: "wan"}) {
		t.Errorf("a pool's address that went: withdrawn is %+v", w.last.Withdraw)
	}
}
