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
	must(t, w.dp.numbers.maps.Routers.Lookup(w.dp.numbers.names.routeIDs[name], &r))
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
	must(t, it.Err())
	slices.Sort(list)
	return list
}

// A new process adopts routers, groups, next hops, neighbours and who may send: the same numbers, the same generations, and cached routed flows stay good.
func TestTakeoverOfRouters(t *testing.T) {
	t.Parallel()
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

// A prefix within another one with the same next hop, or the same permission, is there when the other one goes.
func TestPrefixOutlivesItsCover(t *testing.T) {
	t.Parallel()
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
