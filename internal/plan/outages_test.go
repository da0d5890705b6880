package plan

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// exits has tenant with a default route by two uplinks, of which wan2 is a VLAN, and other, to which it is leaked.
func exits() overlay.Edge {
	e := learned()
	e.Routers[0].Uplinks = []overlay.Uplink{
		{Name: "wan", Interface: "eth1", Addresses: []netip.Prefix{prefix("203.0.113.2/24")}},
		{Name: "wan2", Interface: "eth2", VLAN: 12, Addresses: []netip.Prefix{prefix("203.0.115.2/24")}},
	}
	e.Routers[0].Routes = []overlay.Route{
		{Prefix: prefix("0.0.0.0/0"), Kind: overlay.Unicast, Via: []overlay.NextHop{{Addr: addr("203.0.113.1")}, {Addr: addr("203.0.115.1")}}},
		{Prefix: prefix("10.8.0.0/16"), Kind: overlay.Unicast, Via: []overlay.NextHop{{Addr: addr("203.0.113.7")}}},
		{Prefix: prefix("10.9.0.0/16"), Kind: overlay.Unicast, Via: []overlay.NextHop{{Remote: near, MAC: nearMAC}}},
		{Prefix: prefix("10.10.0.0/16"), Kind: overlay.Unicast, Via: []overlay.NextHop{{Addr: addr("10.1.0.7")}}}, // behind a port
		{Prefix: prefix("10.11.0.0/16"), Kind: overlay.Blackhole},
	}
	e.Routers[1].Leaks[0].Prefixes = []netip.Prefix{prefix("0.0.0.0/0")}
	e.Ports = []overlay.Port{{Name: "p0", Interface: "tap0", Segment: "blue"}}
	return e
}

// exitsHost has the links that are up; those that are down have a minus sign, and the rest does not exist.
func exitsHost(links string) host.State {
	v := host.State{Links: map[string]host.Link{}}
	for i, name := range strings.Fields(links) {
		name, down := strings.CutPrefix(name, "-")
		v.Links[name] = host.Link{Name: name, Index: i + 1, Up: !down}
	}
	return v
}

// exitsPaths has remotes with a path, those with a minus sign a dead one.
func exitsPaths(remotes ...string) (t PathPolicies) {
	for _, r := range remotes {
		r, dead := strings.CutPrefix(r, "-")
		p := TunnelPath{Edge: addr(r)}
		if dead {
			p.Down = "silence"
		}
		t.Paths = append(t.Paths, p)
	}
	return t
}

// What is derived from an uplink, a remote or the ports of a segment goes with it: static, connected and leaked routes,
// learned ones by it, and what is advertised.
func TestOutages(t *testing.T) {
	const both = "192.0.2.2 192.0.2.3"
	for _, x := range []struct {
		name, links, remotes string
		static               [4]string // of 0.0.0.0/0, 10.8.0.0/16, 10.9.0.0/16, 10.10.0.0/16
		uplinks, advertised  string
	}{
		{"all well", "eth1 eth2 tap0", both, [4]string{"wan wan2", "wan", "tenant-l3", "blue"},
			"wan wan2", "connected 10.1.0.0/24 static 0.0.0.0/0 10.8.0.0/16 10.9.0.0/16 10.10.0.0/16 10.11.0.0/16 uplink 203.0.113.0/24 203.0.115.0/24"},
		{"an uplink is down", "-eth1 eth2 tap0", both, [4]string{"wan2", "none", "tenant-l3", "blue"},
			"wan2", "connected 10.1.0.0/24 static 0.0.0.0/0 10.9.0.0/16 10.10.0.0/16 10.11.0.0/16 uplink 203.0.115.0/24"},
		{"that of a VLAN does not exist", "eth1 tap0", both, [4]string{"wan", "wan", "tenant-l3", "blue"},
			"wan", "connected 10.1.0.0/24 static 0.0.0.0/0 10.8.0.0/16 10.9.0.0/16 10.10.0.0/16 10.11.0.0/16 uplink 203.0.113.0/24"},
		{"no uplink", "-eth1 -eth2 tap0", both, [4]string{"none", "none", "tenant-l3", "blue"},
			"", "connected 10.1.0.0/24 static 10.9.0.0/16 10.10.0.0/16 10.11.0.0/16"},
		{"no port", "eth1 eth2 -tap0", both, [4]string{"wan wan2", "wan", "tenant-l3", "none"},
			"wan wan2", "static 0.0.0.0/0 10.8.0.0/16 10.9.0.0/16 10.11.0.0/16 uplink 203.0.113.0/24 203.0.115.0/24"},
		{"a dead remote", "eth1 eth2 tap0", "-192.0.2.2 192.0.2.3", [4]string{"wan wan2", "wan", "none", "blue"},
			"wan wan2", "connected 10.1.0.0/24 static 0.0.0.0/0 10.8.0.0/16 10.10.0.0/16 10.11.0.0/16 uplink 203.0.113.0/24 203.0.115.0/24"},
		{"a remote without a path", "eth1 eth2 tap0", "192.0.2.3", [4]string{"wan wan2", "wan", "none", "blue"},
			"wan wan2", "connected 10.1.0.0/24 static 0.0.0.0/0 10.8.0.0/16 10.10.0.0/16 10.11.0.0/16 uplink 203.0.113.0/24 203.0.115.0/24"},
	} {
		t.Run(x.name, func(t *testing.T) {
			e := exits()
			out := OutagesOf(e, exitsHost(x.links), exitsPaths(strings.Fields(x.remotes)...))
			all := NewRouting(e, nil)
			all.SetOutages(out)
			inForce := func(router, prefix string) string {
				words := inWords(all, router, prefix)
				return strings.ReplaceAll(strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(words, "static"), "leakedtenant")), "/192.0.2.2", "")
			}
			for i, p := range []string{"0.0.0.0/0", "10.8.0.0/16", "10.9.0.0/16", "10.10.0.0/16"} {
				if got := inForce("tenant", p); got != x.static[i] {
					t.Errorf("%s leads by %q, want %q", p, got, x.static[i])
				}
				if got := inForce("other", p); got != x.static[i] {
					t.Errorf("%s, leaked, leads by %q, want %q", p, got, x.static[i])
				}
			}
			if got := inWords(all, "tenant", "10.11.0.0/16"); got != "static" {
				t.Errorf("the blackhole route is %q", got)
			}
			if got := inWords(all, "tenant", "10.1.0.0/24"); got != "connected blue" {
				t.Errorf("the network of the segment is %q: nobody else is asked for its hosts", got)
			}
			for _, u := range e.Routers[0].Uplinks {
				want := "none"
				if strings.Contains(" "+x.uplinks+" ", " "+u.Name+" ") {
					want = "connected " + u.Name
				}
				if got := inWords(all, "tenant", u.Addresses[0].Masked().String()); got != want {
					t.Errorf("the network of %s is %q, want %q", u.Name, got, want)
				}
			}
			if got := advertised(Prefixes(e, out, e.Routers[0], nil)); got != x.advertised {
				t.Errorf("what is advertised is\n%s, want\n%s", got, x.advertised)
			}
			tables, problems := Desired(e, exitsHost(x.links), exitsPaths(strings.Fields(x.remotes)...))
			for _, r := range tables.Routers[0].Routes {
				if got, ok := all.At(rib.Place{Router: "tenant", Prefix: r.Prefix}); !ok || fmt.Sprint(got.Route) != fmt.Sprint(r) {
					t.Errorf("%s is %v alone and %v in the tables", r.Prefix, got.Route, r)
				}
			}
			lost := strings.Contains(strings.Join(x.static[:], " "), "none")
			if got := strings.Contains(fmt.Sprint(problems), "router tenant: the static route"); got != lost {
				t.Errorf("a route without a next hop is a problem: %v, want %v: %v", got, lost, problems)
			}
		})
	}
}

// advertised is what is advertised, in words.
func advertised(prefixes map[overlay.RouteSource][]netip.Prefix) string {
	var words []string
	for _, source := range Sources {
		if len(prefixes[source]) > 0 {
			words = append(words, string(source))
		}
		for _, p := range prefixes[source] {
			words = append(words, p.String())
		}
	}
	return strings.Join(words, " ")
}

// A segment that has hosts behind remotes keeps its network, and the routes by them.
func TestSegmentWithRemotesNeedsNoPort(t *testing.T) {
	e := exits()
	e.Segments[0].Remotes = []netip.Addr{distant}
	out := OutagesOf(e, exitsHost("eth1 eth2"), exitsPaths("192.0.2.2", "192.0.2.3"))
	if why := out.Segments["blue"]; why != "" {
		t.Errorf("it is out of use: %s", why)
	}
	if got := Prefixes(e, out, e.Routers[0], nil)[overlay.SourceConnected]; len(got) != 1 {
		t.Errorf("%v is advertised", got)
	}
}

// Where a static route has no next hop left, a learned one takes its place, and gives it back.
func TestLearnedRouteTakesOver(t *testing.T) {
	all := NewRouting(exits(), nil)
	all.Learn([]rib.LearnedRoute{
		learn("0.0.0.0/0", overlay.NextHop{Remote: distant, MAC: distantMAC}),
		learn("203.0.113.0/24", overlay.NextHop{Remote: distant, MAC: distantMAC}),
		learn("172.16.0.0/12", overlay.NextHop{Addr: addr("203.0.113.9")}, overlay.NextHop{Addr: addr("203.0.115.9")}),
		learn("172.32.0.0/12", overlay.NextHop{Addr: addr("203.0.113.9")}),
	})
	check := func(links string, want ...string) {
		t.Helper()
		changed := all.SetOutages(OutagesOf(exits(), exitsHost(links), exitsPaths("192.0.2.2", "192.0.2.3")))
		for i, p := range []string{"0.0.0.0/0", "203.0.113.0/24", "172.16.0.0/12", "172.32.0.0/12"} {
			if got := inWords(all, "tenant", p); got != want[i] {
				t.Errorf("with %s, %s is %q, want %q", links, p, got, want[i])
			}
		}
		if len(changed) == 0 {
			t.Errorf("with %s, no place is to be written", links)
		}
	}
	check("-eth1 -eth2 tap0", "bgp tenant-l3/192.0.2.3", "bgp tenant-l3/192.0.2.3", "none", "none")
	check("-eth1 eth2 tap0", "static wan2", "bgp tenant-l3/192.0.2.3", "bgp wan2", "none")
	check("eth1 eth2", "static wan wan2", "connected wan", "bgp wan wan2", "bgp wan")
}

// What answers and is held back after failures is better than no next hop.
func TestHeldRemoteIsALastResort(t *testing.T) {
	all := NewRouting(exits(), nil)
	held := exitsPaths("-192.0.2.2", "192.0.2.3")
	held.Paths[0].Held = true
	links := exitsHost("eth1 eth2 tap0")
	all.SetOutages(OutagesOf(exits(), links, held))
	if got := inWords(all, "tenant", "10.9.0.0/16"); got != "static tenant-l3/192.0.2.2" {
		t.Errorf("the route is %q", got)
	}
	if changed := all.SetOutages(OutagesOf(exits(), links, exitsPaths("-192.0.2.2", "192.0.2.3"))); len(changed) != 2 {
		t.Errorf("when it answers no more, %v is to be written", changed)
	}
	if got := inWords(all, "tenant", "10.9.0.0/16"); got != "none" {
		t.Errorf("then the route is %q", got)
	}
}

// An interface without Ethernet headers is no port, uplink or underlay, and the problem says that rather than that next hops
// do not answer.
func TestInterfacesWithoutEthernetHeader(t *testing.T) {
	e := exits()
	e.Underlay.Interfaces = []string{"wg0"}
	v := exitsHost("eth1 eth2 tap0 wg0")
	for _, name := range []string{"eth1", "tap0", "wg0"} {
		link := v.Links[name]
		link.NotEthernet = "none"
		v.Links[name] = link
	}
	v.Routes = map[overlay.Pair]host.Path{{Local: e.Underlay.TEP, Remote: near}: {NextHop: host.NextHop{Ifindex: v.Links["wg0"].Index, Addr: near}, Interface: "wg0"}}
	tables, problems := Desired(e, v, exitsPaths("192.0.2.2", "192.0.2.3"))
	if len(tables.Underlays) > 0 || len(tables.Ports) != 1 || tables.Ports[0].Name != "wan2" {
		t.Errorf("attached: underlays %v, ports %v", tables.Underlays, tables.Ports)
	}
	all := fmt.Sprint(problems)
	for _, want := range []string{
		"underlay interface wg0 has no Ethernet header (link/none, as tun and WireGuard)",
		"port p0: interface tap0 has no Ethernet header", "uplink wan: interface eth1 has no Ethernet header",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no problem says %q: %v", want, all)
		}
	}
	if strings.Contains(all, "does not answer") {
		t.Errorf("a next hop is blamed: %v", all)
	}
}
