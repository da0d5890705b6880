package datapath

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// busy is a routed world with all kinds of entries: ECMP, static and learned
// neighbours, allowed sources, options.
func busy(t *testing.T) *world {
	t.Helper()
	w := routedWorld(t, ways()[0])
	hops, known, static := manyHops(8)
	green := &w.tables.Segments[1]
	green.Neighbours, green.Static = append(green.Neighbours, known...), append(green.Static, static...)
	w.setRoute("main", route("10.7.0.0/16", hops...))
	w.tables.Ports[0].Allowed = &overlay.Allowed{
		MACs: []overlay.MAC{macOf(alice)}, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.1.10/32"), netip.MustParsePrefix("2001:db8:1::/64")},
	}
	w.apply(t)
	w.fromPort(t, "p2", pkttest.Frame("02:00:00:00:00:77", gatewayMAC, "arp 10.0.2.77 ! 10.0.2.1"))
	return w
}

func (w *world) routerGeneration(t *testing.T, name string) uint32 {
	t.Helper()
	var r bpfRouter
	if err := w.dp.numbers.maps.Routers.Lookup(w.dp.numbers.names.routeIDs[name], &r); err != nil {
		t.Fatal(err)
	}
	return r.Generation
}

// tries are all entries of a trie, as text.
func tries(t *testing.T, m kernel.Map) (list []string) {
	t.Helper()
	key := make([]byte, kernel.HostMap(m).KeySize())
	var value []byte
	it := m.Iterate()
	for it.Next(&key, &value) {
		list = append(list, fmt.Sprintf("%x: %x", key, value))
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

// A new process adopts routers, groups, next hops, neighbours and who may send:
// the same numbers, the same generations, and cached routed flows stay good.
func TestTakeoverOfRouters(t *testing.T) {
	w := busy(t)
	var flows []int
	for i := range 40 {
		flows = append(flows, w.hopOf(t, tcpFlow(i)))
	}
	state := func() string {
		return fmt.Sprint(w.dp.numbers.names.routeIDs, w.dp.numbers.names.segIDs, w.dp.numbers.names.portIDs, w.dp.numbers.names.tepIDs, w.routerGeneration(t, "main"),
			w.generation(t, "blue"), w.generation(t, "green"), tries(t, w.dp.Routes.maps.Routes), tries(t, w.dp.Ports.maps.AllowedAddrs))
	}
	before := state()
	maps := w.contents(t)
	w.reopen(t)
	w.apply(t)
	if after := state(); after != before {
		t.Errorf("after the takeover\n%s\nbefore\n%s", after, before)
	}
	for name, entries := range w.contents(t) {
		if name == bpfMapEvents || name == bpfMapTraffic || name == bpfMapGlobalCounters { // counters
			continue
		}
		if fmt.Sprint(entries) != fmt.Sprint(maps[name]) {
			t.Errorf("the map %s is another one", name)
		}
	}
	if n := w.neighbour(t, "green", "10.0.2.77"); n == nil || n.Port != "p2" {
		t.Errorf("the learned neighbour is %+v", n)
	}
	_, events := w.counted(t, func() {
		for i := range flows {
			if hop := w.hopOf(t, tcpFlow(i)); hop != flows[i] {
				t.Errorf("flow %d moved from %d to %d", i, flows[i], hop)
			}
		}
	})
	if events["hit"] != 40 {
		t.Errorf("events %v, want all flows in the cache", events)
	}
}

// A restart with one next hop less is as a change without a restart: only its
// flows move.
func TestTakeoverWithAHopLess(t *testing.T) {
	w := busy(t)
	var flows []int
	for i := range 200 {
		flows = append(flows, w.hopOf(t, tcpFlow(i)))
	}
	w.setRoute("main", route("10.7.0.0/16", slices.Delete(mustHops(8), 5, 6)...))
	w.reopen(t)
	w.apply(t)
	for i, hop := range flows {
		if now := w.hopOf(t, tcpFlow(i)); hop != 5 && now != hop || now == 5 {
			t.Fatalf("flow %d moved from %d to %d", i, hop, now)
		}
	}
}

// What is no longer wanted goes, with or without a restart.
func TestRoutersArePruned(t *testing.T) {
	for _, restart := range []bool{false, true} {
		w := busy(t)
		w.tables.Routers = nil
		w.tables.Ports = w.tables.Ports[:3]
		w.tables.Ports[0].Allowed = nil
		w.tables.Segments = w.tables.Segments[:2]
		for i := range w.tables.Segments {
			s := &w.tables.Segments[i]
			s.Gateway, s.Neighbours = nil, nil
		}
		w.tables.Segments[1].Static = nil
		if restart {
			w.reopen(t)
		}
		w.apply(t)
		all := w.contents(t)
		for _, name := range []string{bpfMapLocalAddrs, bpfMapNexthops, bpfMapNexthopGroups, bpfMapAllowedMacs} {
			if len(all[name]) != 0 {
				t.Errorf("restart %t: the map %s still has %v", restart, name, all[name])
			}
		}
		if left := append(tries(t, w.dp.Routes.maps.Routes), tries(t, w.dp.Ports.maps.AllowedAddrs)...); len(left) != 0 {
			t.Errorf("restart %t: %v are left", restart, left)
		}
		for id := range uint32(64) {
			var r bpfRouter
			if err := w.dp.numbers.maps.Routers.Lookup(id, &r); err != nil || r.Used != 0 || r.Source4.W != [4]uint32{} {
				t.Errorf("restart %t: router %d is %+v (%v)", restart, id, r, err)
			}
		}
		w.follow(t, []step{{"p0", pkttest.Frame(alice, gatewayMAC, udp4), "flood"}}) // as any MAC
	}
}

// A router whose routes change decides about its routed flows again, and about no
// others.
func TestGenerationOfARouter(t *testing.T) {
	w := routedWorld(t, ways()[0])
	routedFlow, bridged := pkttest.Frame(alice, gatewayMAC, "udp 10.0.1.10:1 > 10.0.2.14:2 30"), say(alice, bob)
	send := func() map[string]uint64 {
		_, events := w.counted(t, func() {
			w.fromPort(t, "p0", routedFlow)
			w.fromPort(t, "p0", bridged)
		})
		return events
	}
	send()
	for _, c := range []struct {
		name        string
		change      func()
		hits, stale uint64
	}{
		{"nothing", func() {}, 2, 0},
		{"another route", func() { w.setRoute("main", ending("10.44.0.0/16", overlay.Blackhole)) }, 1, 1},
		{"a longer prefix", func() { w.setRoute("main", route("10.0.2.14/32", fib.Hop{Segment: "green"})) }, 1, 1},
		{"the same again", func() {}, 2, 0},
		{"a static neighbour of the segment it goes to", func() {
			w.tables.Segments[1].Neighbours = append(w.tables.Segments[1].Neighbours, neighbours("10.0.2.50", nobody)...)
		}, 1, 1},
		{"a route that went", func() { r := &w.tables.Routers[0].Routes; *r = (*r)[:len(*r)-1] }, 1, 1},
		{"a router beside it", func() {
			w.tables.Routers = append(slices.Clone(w.tables.Routers), fib.Router{Name: "other", Routes: []fib.Route{ending("0.0.0.0/0", overlay.Blackhole)}})
		}, 2, 0},
	} {
		c.change()
		w.apply(t)
		if got := send(); got["hit"] != c.hits || got["stale"] != c.stale {
			t.Errorf("%s: events %v, want %d hits and %d stale", c.name, got, c.hits, c.stale)
		}
	}
	// What another neighbour's new MAC outdates is its own shard.
	w.fromPort(t, "p2", pkttest.Frame(nobody, all, "arp 10.0.2.60 ! 10.0.2.60"))
	w.fromPort(t, "p2", pkttest.Frame(carol, all, "arp 10.0.2.60 ! 10.0.2.60"))
	if got := send(); got["hit"] != 2 {
		t.Errorf("events %v after a neighbour changed its MAC", got)
	}
}

// Routed flows follow the next hop's MAC and place.
func TestRoutedFlowFollowsItsNeighbour(t *testing.T) {
	w := routedWorld(t, ways()[0])
	const words = "udp 10.0.1.10:1 > 10.0.2.60:2 30"
	in := pkttest.Frame(alice, gatewayMAC, words)
	for _, c := range []struct{ from, mac string }{{"p2", nobody}, {"p2", carol}, {"first", carol}, {"p2", carol}} {
		w.sendIn(t, "green", c.from, pkttest.Frame(c.mac, all, "arp 10.0.2.60 ! 10.0.2.60"))
		for range 2 {
			r := w.fromPort(t, "p0", in)
			w.wantAt(t, "green", c.from, in, pkttest.Frame(gatewayMAC, c.mac, "ttl 63 "+words), r)
		}
	}
	if _, err := w.dp.Age(1); err != nil { // and everybody is silent
		t.Fatal(err)
	}
	w.wantDrop(t, dropCase{reason: "no-neighbour", from: "p0", packet: packet{bytes: in}})
}

// Messages come from an address that the router has now.
func TestRouterSourceFollowsTheGateways(t *testing.T) {
	w := routedWorld(t, ways()[0])
	in := w.outerIn("main-l3", w.family.remotes[0]).Wrap(pkttest.Frame(farMAC, l3MAC, "ttl 1 udp 10.0.3.7:1 > 10.0.2.13:2 30"))
	source := func() netip.Addr {
		out := w.back(t, "main-l3", "first", in, w.fromUnderlay(t, in))
		return addrOfBytes(out[etherLen+12 : etherLen+16])
	}
	if got := source(); got != addr(gateway4) {
		t.Errorf("the message is from %s, want %s", got, gateway4)
	}
	w.tables.Segments[0].Gateway.Addresses[0] = netip.MustParsePrefix("10.0.1.7/24")
	w.apply(t)
	if got := source(); got != addr("10.0.1.7") {
		t.Errorf("the message is from %s after the gateway's address changed", got)
	}
	w.tables.Segments[0].Gateway.Addresses = nil
	w.reopen(t)
	w.apply(t)
	if got := source(); got != addr(greenGateway4) && got != addr(uplink4) {
		t.Errorf("the message is from %s after that address went", got)
	}
}

// A gateway's address that goes is no longer answered for.
func TestGatewayAddressGoes(t *testing.T) {
	w := routedWorld(t, ways()[0])
	ping, ask := pkttest.Frame(alice, gatewayMAC, "icmp 10.0.1.10 > 10.0.2.1 20"), pkttest.Frame(dave, all, "arp 10.0.2.13 ? 10.0.2.1")
	w.follow(t, []step{{"p0", ping, "p0"}, {"p2", ask, "p2"}})
	g := *w.tables.Segments[1].Gateway
	g.Addresses = []netip.Prefix{netip.MustParsePrefix("10.0.2.9/24")}
	w.tables.Segments[1].Gateway = &g
	w.apply(t)
	w.follow(t, []step{{"p2", ask, "flood"}, {"p2", pkttest.Frame(dave, all, "arp 10.0.2.13 ? 10.0.2.9"), "p2"}})
	drops, _ := w.counted(t, func() { w.fromPort(t, "p0", ping) })
	if drops["no-neighbour"] != 1 {
		t.Errorf("drops %v: the old address is a host's now", drops)
	}
}

// A segment that changes its encapsulation decides anew.
func TestEncapsulationChanges(t *testing.T) {
	w := newWorld(t, underIPv4, static(underIPv4))
	in := say(alice, bob)
	for _, to := range append(ways()[:4], ways()[0]) {
		w.tables.Segments[0].Tunnel = to.tunnel
		w.apply(t)
		for range 2 {
			w.wantTunnel(t, in, in, w.fromPort(t, "p0", in))
		}
		tunnel := w.fromRemote(say(bob, alice))
		r := w.fromUnderlay(t, tunnel)
		r.want(t, tunnel, forwarded)
		check.Equal(t, to.name, say(bob, alice), r.out)
	}
	w.tables.Segments[0].Tunnel.Options = nil
	w.wantClean(t)
}

// A prefix within another one with the same next hop, or the same permission, is
// there when the other one goes.
func TestPrefixOutlivesItsCover(t *testing.T) {
	for _, restart := range []bool{false, true} {
		w := routedWorld(t, ways()[0])
		routes := w.tables.Routers[0].Routes
		inner := route("10.50.1.0/24", via("up", "198.51.100.254"))
		allow := func(prefixes ...string) {
			w.tables.Ports[0].Allowed = &overlay.Allowed{}
			for _, p := range prefixes {
				w.tables.Ports[0].Allowed.Addresses = append(w.tables.Ports[0].Allowed.Addresses, netip.MustParsePrefix(p))
			}
		}
		s := step{"p0", pkttest.Frame(alice, gatewayMAC, "udp 10.0.1.10:1 > 10.50.1.5:2 30"), "s0"}
		w.tables.Routers[0].Routes = append(slices.Clone(routes), inner, route("10.50.0.0/16", via("up", "198.51.100.254")))
		allow("10.0.0.0/8", "10.0.1.0/24")
		w.apply(t)
		w.follow(t, []step{s})
		if restart {
			w.reopen(t)
		}
		w.tables.Routers[0].Routes = append(slices.DeleteFunc(slices.Clone(routes), func(r fib.Route) bool { return r.Prefix.Bits() == 0 }), inner)
		allow("10.0.1.0/24")
		w.apply(t)
		w.follow(t, []step{s})
		w.tables.Routers[0].Routes = append(w.tables.Routers[0].Routes, ending("10.50.0.0/16", overlay.Blackhole))
		w.apply(t)
		w.follow(t, []step{s})
	}
}
