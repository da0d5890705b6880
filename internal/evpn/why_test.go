package evpn

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
)

// whyEdge has what local entries can be in the way of routes.
func whyEdge() overlay.Edge {
	e := edge()
	e.Segments[0].Static = []overlay.StaticMAC{{MAC: mac(4), Remote: remote1}, {MAC: mac(5), Port: "p1"}}
	e.Segments[0].Neighbours = []overlay.Neighbour{{Addr: addr("10.0.0.40"), MAC: mac(9)}}
	return e
}

func TestWhyRoutesAreNotUsed(t *testing.T) {
	set := func(r Route, change func(*Route)) Route { return r.with(change) }
	blue, red := host(mac(1), remote2), network("10.9.0.0/16", remote2)
	for name, c := range map[string]struct {
		advertised   []Route // of which the first is looked at, by rr1
		also         []Route // by tor1, which is of another AS
		in           string
		used         bool
		why, problem string
	}{
		"used":       {advertised: []Route{blue}, in: "blue", used: true},
		"flooded to": {advertised: []Route{set(blue, func(r *Route) { r.Key = Key{Type: Multicast, Addr: remote2} })}, in: "blue", used: true},
		"targets of nobody": {advertised: []Route{set(blue, func(r *Route) { r.VNI, r.Targets = 77, []overlay.RouteTarget{target(77), target(78)} })},
			why: "nothing here imports its route targets 65000:77, 65000:78: blue imports ANY-AS:10, green imports ANY-AS:20"},
		"targets of no router": {advertised: []Route{set(red, func(r *Route) { r.VNI, r.Targets = 77, nil })},
			why: "it has no route target: red imports ANY-AS:99"},
		"a segment's VNI with other targets": {advertised: []Route{set(blue, func(r *Route) { r.Targets = []overlay.RouteTarget{target(77)} })},
			why:     "nothing here imports its route targets 65000:77: segment blue, which has its VNI, imports ANY-AS:10",
			problem: "route target differs"},
		"a router's VNI with other targets": {advertised: []Route{set(red, func(r *Route) { r.Targets = []overlay.RouteTarget{target(77)} })},
			why: "router red, which has its VNI, imports ANY-AS:99", problem: "route target differs"},
		"another encapsulation": {advertised: []Route{set(blue, func(r *Route) { r.Encapsulation = overlay.Geneve })}, in: "blue",
			why: "its encapsulation is geneve, that of segment blue vxlan", problem: "encapsulation differs"},
		"another VNI": {advertised: []Route{set(blue, func(r *Route) { r.VNI = 11 })}, in: "blue",
			why: "its VNI is 11 instead of 10", problem: "VNI differs"},
		"another L3 VNI": {advertised: []Route{set(blue.addr("10.0.0.11").routed(), func(r *Route) { r.L3VNI = 98 })}, in: "red",
			why: "its VNI is 98 instead of 99", problem: "VNI differs"},
		"another VNI of a prefix": {advertised: []Route{set(red, func(r *Route) { r.VNI = 98 })}, in: "red",
			why: "its VNI is 98 instead of 99", problem: "VNI differs"},
		"no VNI of a prefix": {advertised: []Route{set(red, func(r *Route) { r.VNI = 0 })}, in: "red", used: true},
		"our own address": {advertised: []Route{host(mac(1), here)}, in: "blue",
			why: "its next hop 192.0.2.5 is this edge", problem: "next hop is this edge"},
		"our own, by way of another": {advertised: []Route{set(blue, func(r *Route) { r.Key = Key{Type: Multicast, Addr: here} })}, in: "blue",
			why: "this edge", problem: "next hop is this edge"},
		"a host with the address of our endpoint": {advertised: []Route{blue.addr("192.0.2.5")}, in: "blue", used: true},
		"no next hop": {advertised: []Route{set(blue, func(r *Route) { r.NextHop = netip.Addr{} })}, in: "blue",
			why: "it has no next hop", problem: "no next hop"},
		"an IPv6 next hop": {advertised: []Route{set(blue, func(r *Route) { r.NextHop = addr("2001:db8::1") })}, in: "blue",
			why: "no tunnel endpoint of the family", problem: "next hop of another family"},
		"a group address": {advertised: []Route{host(overlay.MAC{1, 0, 0x5e}, remote2)}, in: "blue",
			why: "01:00:5e:00:00:00 is no MAC address of a host", problem: "no host's MAC address"},
		"the anycast gateway": {advertised: []Route{set(host(overlay.AnycastMAC, remote2).addr("10.0.0.1"), func(r *Route) { r.DefaultGateway = true })}, in: "blue",
			why: "it is the gateway, which is here too"},
		"another gateway": {advertised: []Route{host(mac(1), remote2).addr("10.0.0.1")}, in: "blue",
			why: "192.0.2.8 has the gateway's address with MAC address " + m1 + ", this edge with 02:00:5e:00:01:01", problem: "gateway differs"},
		"a gateway with another address": {advertised: []Route{set(blue.addr("10.0.0.254"), func(r *Route) { r.DefaultGateway = true })}, in: "blue",
			why: "192.0.2.8 advertises the gateway 10.0.0.254 (" + m1 + "), which segment blue has not here", problem: "gateway differs"},
		"no router MAC": {advertised: []Route{set(red, func(r *Route) { r.RouterMAC = overlay.MAC{} })}, in: "red",
			why: "it has no router MAC address", problem: "no router MAC"},
		"no router MAC of a host": {advertised: []Route{set(blue.addr("10.0.0.11").routed(), func(r *Route) { r.RouterMAC = overlay.MAC{} })}, in: "red",
			why: "it has no router MAC address", problem: "no router MAC"},
		"a gateway that is nowhere": {advertised: []Route{set(red, func(r *Route) { r.Gateway = addr("10.5.0.1") })}, in: "red",
			why: "its gateway 10.5.0.1 is on no network of router red", problem: "gateway unreachable"},
		"a next hop that is nowhere": {advertised: []Route{unicast("10.9.0.0/16", addr("203.0.113.1"))}, in: "red",
			why: "its next hop 203.0.113.1 is on no network of router red", problem: "next hop unreachable"},
		"an uplink that is gone": {advertised: []Route{set(unicast("10.9.0.0/16", tor1), func(r *Route) { r.Uplink = "lan" })},
			why: `there is no uplink "lan" here`, problem: "no uplink"},
		"a next hop of the other family": {advertised: []Route{unicast("10.9.0.0/16", addr("2001:db8::1"))}, in: "red",
			why: "its next hop 2001:db8::1 is not of the family of the prefix", problem: "next hop of another family"},
		"a host that is not routed": {advertised: []Route{set(blue.addr("10.0.0.11").routed(), func(r *Route) { r.Targets = r.Targets[:1] })}, in: "blue", used: true,
			why: "used, but not for routing: router red, which has its L3 VNI, imports ANY-AS:99", problem: "route target differs"},
		"multihomed": {advertised: []Route{set(blue, func(r *Route) { r.ESI[0] = 1 })}, in: "blue", used: true,
			why: "used by its next hop alone", problem: "multihomed"},
		"a lower sequence number": {advertised: []Route{blue, host(mac(1), remote3).sequence(2)}, in: "blue",
			why: "192.0.2.9 has it with the higher sequence number 2"},
		"a higher address": {advertised: []Route{blue, host(mac(1), remote1)}, in: "blue",
			why: "192.0.2.1 has it with the same sequence number, and is the lower address"},
		"a sticky one elsewhere": {advertised: []Route{blue.sequence(5), set(host(mac(1), remote3), func(r *Route) { r.Sticky = true })}, in: "blue",
			why: "192.0.2.9 says that it does not move from there (sticky)"},
		"a static remote": {advertised: []Route{host(mac(4), remote2)}, in: "blue", why: "a static entry of the segment says where"},
		"a static port":   {advertised: []Route{host(mac(5), remote2).sequence(9)}, in: "blue", why: "a static entry says that the host is at a port here"},
		"at a port": {advertised: []Route{host(mac(6), remote2)}, in: "blue",
			why: "the host is at a port here, with sequence number 0 against 0"},
		"a static neighbour": {advertised: []Route{blue.addr("10.0.0.40")}, in: "blue", used: true,
			why: "a static neighbour says that its IP address is at 02:00:00:00:00:09"},
		"an address at a port": {advertised: []Route{blue.addr("10.0.0.60")}, in: "blue", used: true,
			why: "its IP address is at a port here, at 02:00:00:00:00:06"},
		"an address of another": {advertised: []Route{blue.addr("10.0.0.11"), host(mac(2), remote1).addr("10.0.0.11").sequence(3)}, in: "blue", used: true,
			why: "02:00:00:00:00:02 at 192.0.2.1 has its IP address, with sequence number 3"},
		"a host route of a host here": {advertised: []Route{blue.addr("10.0.0.60").routed()}, in: "red", why: "the host is at a port here"},
		"a host route of one that moved": {advertised: []Route{blue.addr("10.0.0.11").routed(), host(mac(1), remote3).sequence(1)}, in: "red",
			why: "the host is elsewhere by now"},
		"a connected network": {advertised: []Route{network("10.0.0.0/24", remote2)}, in: "red", why: "a route of this edge wins (connected)"},
		"the host itself is known": {advertised: []Route{network("10.0.0.11/32", remote2), blue.addr("10.0.0.11").routed()}, in: "red",
			why: "the host itself is advertised (type 2)"},
		"preference": {advertised: []Route{red, set(network("10.9.0.0/16", remote3), func(r *Route) { r.LocalPref = 101 })}, in: "red",
			why: "local preference 100, another has 101"},
		"AS path": {advertised: []Route{set(red, func(r *Route) { r.ASPath = []uint32{1} }), network("10.9.0.0/16", remote3)}, in: "red",
			why: "AS path of 1, another has 0"},
		"MED": {advertised: []Route{set(red, func(r *Route) { r.MED = 7 }), network("10.9.0.0/16", remote3)}, in: "red", why: "MED 7, another has 0"},
		"a stale one": {advertised: []Route{set(red, func(r *Route) { r.Communities = []overlay.Community{llgrStale} }), network("10.9.0.0/16", remote3)},
			in: "red", why: "it is stale, and there is one that is not"},
		"within the AS": {advertised: []Route{unicast("10.9.0.0/16", tor1)}, also: []Route{unicast("10.9.0.0/16", tor2)}, in: "red",
			why: "it is from within the AS, another is not"},
		"MED of another path of its AS": {
			advertised: []Route{set(network("10.9.0.0/16", remote3), func(r *Route) { r.MED, r.ASPath = 9, []uint32{7} })},
			also: []Route{set(network("10.9.0.0/16", remote1), func(r *Route) { r.ASPath = []uint32{7} }),
				set(network("10.9.0.0/16", remote2), func(r *Route) { r.ASPath = []uint32{6} })},
			in: "red", why: "has"},
		"a host of a segment that is not here": {
			advertised: []Route{set(blue.addr("10.0.0.11").routed(), func(r *Route) { r.Targets = r.Targets[1:] })},
			also:       []Route{set(blue.addr("10.0.0.11").routed().sequence(2), func(r *Route) { r.RD, r.Targets = 9, r.Targets[1:] })},
			in:         "red", why: "192.0.2.8 has the host, with sequence number 2 against 0"},
		"a next hop that is this edge's uplink": {advertised: []Route{unicast("10.9.0.0/16", addr("198.51.100.5"))}, in: "red",
			why: "its next hop 198.51.100.5 is this edge", problem: "next hop is this edge"},
		"no next hop of a prefix": {advertised: []Route{unicast("10.9.0.0/16", netip.Addr{})}, in: "red",
			why: "it has no next hop", problem: "no next hop"},
		"an AS path with a loop": {advertised: []Route{set(red, func(r *Route) { r.Looped = true })}, why: "its AS path has this edge's AS 65000"},
		"a next hop that is broadcast": {advertised: []Route{network("10.9.0.0/16", addr("255.255.255.255"))},
			why: "its next hop 255.255.255.255 cannot be one", problem: "next hop that cannot be"},
		"a next hop that is loopback": {advertised: []Route{host(mac(1), addr("127.0.0.1"))},
			why: "its next hop 127.0.0.1 cannot be one", problem: "next hop that cannot be"},
		"a next hop that is link-local": {advertised: []Route{host(mac(1), addr("169.254.1.1"))},
			why: "its next hop 169.254.1.1 cannot be one", problem: "next hop that cannot be"},
		"a prefix of loopbacks": {advertised: []Route{network("127.0.0.0/8", remote2)},
			why: "127.0.0.0/8 is no network or host", problem: "prefix that cannot be"},
		"a prefix of groups": {advertised: []Route{network("ff00::/12", remote2)},
			why: "ff00::/12 is no network or host", problem: "prefix that cannot be"},
		"no address":          {advertised: []Route{network("0.0.0.0/32", remote2)}, why: "0.0.0.0/32 is no network or host", problem: "prefix that cannot be"},
		"a default route":     {advertised: []Route{network("0.0.0.0/0", remote2)}, in: "red", used: true},
		"a host of broadcast": {advertised: []Route{blue.addr("255.255.255.255")}, why: "255.255.255.255/32 is no network or host", problem: "prefix that cannot be"},
		"a link-local host":   {advertised: []Route{blue.addr("fe80::1")}, in: "blue", used: true},
		"an uplink's route of groups": {advertised: []Route{unicast("224.0.0.0/4", tor1)},
			why: "224.0.0.0/4 is no network or host", problem: "prefix that cannot be"},
		"a group's router MAC": {advertised: []Route{set(red, func(r *Route) { r.RouterMAC = overlay.MAC{1} })},
			why: "its router MAC address 01:00:00:00:00:00 is a group's", problem: "no router MAC"},
		"this router's MAC": {advertised: []Route{set(red, func(r *Route) { r.RouterMAC = edge().Routers[0].L3.MAC })}, in: "red",
			why: "is that of router red here", problem: "router MAC is this edge's"},
		"the gateway's address": {advertised: []Route{network("10.0.0.1/32", remote2)}, in: "red",
			why: "10.0.0.1 is an address of this edge", problem: "address of this edge"},
		"the broadcast address of a segment": {advertised: []Route{network("10.0.0.255/32", remote2)}, in: "red",
			why: "10.0.0.255 is the first or last address of a network here", problem: "prefix that cannot be"},
		"an uplink": {advertised: []Route{red, unicast("10.9.0.0/16", tor1)}, in: "red", why: "an uplink has it too"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, whyEdge())
			w.take(w.table.Prefixes("red", overlay.SourceConnected, []netip.Prefix{prefix("10.0.0.0/24")}))
			w.appear(at("blue", mac(6)), with(at("blue", mac(6)), "10.0.0.60"))
			w.receive(rr1, c.advertised...)
			w.receive(tor1, c.also...)
			s := w.status(rr1, c.advertised[0].Key, c.in)
			if s.Used != c.used || s.Problem != c.problem || (s.Why == "") != (c.why == "") || !strings.Contains(s.Why, c.why) {
				t.Errorf("used %v, why %q, problem %q;\nwant %v, %q, %q", s.Used, s.Why, s.Problem, c.used, c.why, c.problem)
			}
			if n := len(w.table.Problems()); (n > 0) != (c.problem != "") {
				t.Errorf("%d problems", n)
			}
		})
	}
}

// What a reflector sends back is no loop to tell of.
func TestOwnRouteThatComesBack(t *testing.T) {
	w := newWorld(t, edge())
	w.appear(at("blue", mac(1)))
	for _, r := range w.last.Announce {
		w.receive(rr1, r)
		if s := w.status(rr1, r.Key, "blue"); s.Used || s.Problem != "" || !strings.Contains(s.Why, "own") {
			t.Errorf("status is %+v", s)
		}
	}
	w.is("stations", w.macEntries)
}

func TestGatewaysThatDifferAreAdvertisedOnce(t *testing.T) {
	w := newWorld(t, edge())
	other := host(mac(0xee), remote2).addr("10.0.0.1").with(func(r *Route) { r.DefaultGateway = true })
	w.receive(rr1, other)
	w.receive(rr2, other)
	w.happened("gateway differs")
	w.configure(edge())
	w.happened()
	w.is("residents", w.arpEntries)
	w.withdraw(rr1, other)
	w.withdraw(rr2, other)
	w.receive(rr1, other)
	w.happened("gateway differs")

	// Where the segment has no gateway, that of another edge is a host like any other.
	bridge := edge()
	bridge.Segments[0].Gateway = nil
	w.configure(bridge)
	w.is("residents", w.arpEntries, "blue 10.0.0.1: 02:00:00:00:00:ee")
}
