package datapath

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// apart are MAC addresses, each in another shard than the rest and those of taken.
func apart(n int, taken ...string) (list []string) {
	used := map[uint32]bool{}
	for _, mac := range taken {
		used[macShard(macOf(mac))] = true
	}
	for i := 0; len(list) < n; i++ {
		mac := overlay.MAC{2, 0, 0, 5, byte(i >> 8), byte(i)}
		if !used[macShard(mac)] {
			used[macShard(mac)] = true
			list = append(list, mac.String())
		}
	}
	return list
}

// sharing is a MAC address in the shard of another.
func sharing(other string) string {
	for i := 0; ; i++ {
		mac := overlay.MAC{2, 0, 0, 6, byte(i >> 8), byte(i)}
		if macShard(mac) == macShard(macOf(other)) {
			return mac.String()
		}
	}
}

// A host that moves outdates the flows of its own shard, of which it is source or destination, and no others.
func TestMoveOutdatesItsShard(t *testing.T) {
	w := newWorld(t, underIPv4)
	macs := apart(4)
	a, b, other := macs[0], macs[1], macs[2]
	settle := func() {
		w.forget(t)
		w.send(t, "p0", say(a, all))
		w.send(t, "p1", say(b, a))
		w.send(t, "p0", say(a, b))
		w.send(t, "p0", say(a, b))
	}
	for _, c := range []struct {
		what, mac string
		want      string
	}{
		{"another host", other, "hit"},
		{"the destination", b, "stale"},
		{"the source", a, "stale"},
		{"one that shares the destination's shard", sharing(b), "stale"},
		{"one that shares the source's shard", sharing(a), "stale"},
	} {
		settle()
		w.send(t, "p1", say(c.mac, all))
		w.send(t, "first", say(c.mac, all)) // away
		if _, events := w.counted(t, func() { w.send(t, "p0", say(a, b)) }); events[c.want] != 1 {
			t.Errorf("%s moved: events %v, want %s", c.what, events, c.want)
		}
	}
}

// A host's own route outdates the flows to it, a network's those of the router; so do translated flows of a host's.
func TestRouteOutdatesItsShard(t *testing.T) {
	w := routedWorld(t, ways()[0])
	flow := pkttest.Frame(alice, gatewayMAC, "udp 10.0.1.10:7 > 10.0.2.13:7 20")
	other := ""
	for i := 1; other == ""; i++ {
		a := fmt.Sprintf("10.3.0.%d", i)
		if addrShard(bpfAddr{W: wireAddr(addr(a))}) != addrShard(bpfAddr{W: wireAddr(addr("10.0.2.13"))}) {
			other = a
		}
	}
	far := fib.Hop{Segment: "main-l3", Remote: w.family.remotes[1], MAC: macOf(farMAC2)}
	put := func(r fib.Route) {
		t.Helper()
		must(t, w.dp.Routes.PutRoutes([]fib.Router{{Name: "main", Routes: []fib.Route{r}}}))
	}
	w.follow(t, []step{{"p0", flow, "p2"}, {"p0", flow, "p2"}})
	for _, c := range []struct {
		what  string
		route fib.Route
		hit   bool
		at    string
	}{
		{"another host's route", route(other+"/32", far), true, "p2"},
		{"the same again", route(other+"/32", far), true, "p2"},
		{"another host's that goes", fib.Route{Prefix: netip.MustParsePrefix(other + "/32")}, true, "p2"},
		{"the host's route", route("10.0.2.13/32", far), false, "second"},
		{"the host's that goes", fib.Route{Prefix: netip.MustParsePrefix("10.0.2.13/32")}, false, "p2"},
		{"a network's", route("10.3.0.0/16", far), false, "p2"},
		{"a network's that goes", fib.Route{Prefix: netip.MustParsePrefix("10.3.0.0/16")}, false, "p2"},
	} {
		put(c.route)
		var at string
		_, events := w.counted(t, func() { at = w.went(t, step{"p0", flow, c.at}) })
		if at != c.at || (events["hit"] == 1) != c.hit || (events["stale"] == 1) == c.hit {
			t.Errorf("%s: went to %s, events %v; want %s and a hit: %v", c.what, at, events, c.at, c.hit)
		}
	}
}

// The flows of transit programs are outdated by the same shards: of the MAC address where
// they go, and of the destination; others look at the generations, and go on.
func TestTransitFlowsOutdatedByShard(t *testing.T) {
	onOneCPU(t)
	w := transitWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) {
		blue := &tables.Segments[0]
		blue.EVPN, blue.Static, blue.Neighbours = &overlay.EVPNInstance{}, nil, nil
	})
	other := apart(1, bob, gatewayMAC)[0]
	w.arpEntry(t, "10.0.1.11", bob)
	w.bgpMAC(t, bob, "first", false)
	w.bgpMAC(t, other, "first", false)
	flow := pkttest.Frame(ispMAC, uplinkMAC, "udp 203.0.113.5:53 > 10.0.1.11:1 30")
	far := w.farHops()[1]
	for _, c := range []struct {
		what, want, at string
		change         func()
	}{
		{"the first packet", "miss", "first", func() {}},
		{"nothing", "hit", "first", func() {}},
		{"another host moved", "hit", "first", func() { w.bgpMAC(t, other, "second", false) }},
		{"it went", "hit", "first", func() { w.bgpMAC(t, other, "", false) }},
		{"the host moved", "stale", "second", func() { w.bgpMAC(t, bob, "second", false) }},
		{"its route changed", "stale", "second", func() { w.putRoute(t, route("10.0.1.11/32", far)) }},
		{"that of another changed", "hit", "second", func() { w.putRoute(t, route("10.0.1.12/32", far)) }},
	} {
		c.change()
		var r result
		_, events := w.counted(t, func() { r = w.transit(t, "s0", flow) })
		if r.verdict != xdpRedirect || events[c.want] != 1 {
			t.Errorf("%s: verdict %d, events %v, want %s", c.what, r.verdict, events, c.want)
			continue
		}
		if got, want := addrOfBytes(r.out[30:34]), w.remote(c.at); got != want {
			t.Errorf("%s: to %s, want %s", c.what, got, want)
		}
	}
}

// The shards of the Go side are those of the data path: what it raises is what is asked.
func TestShardsAgree(t *testing.T) {
	w := newWorld(t, underIPv4)
	for i := range 64 {
		mac := overlay.MAC{2, byte(i * 7), byte(i), byte(i * 31), byte(i * 3), byte(i * 11)}
		w.forget(t)
		w.send(t, "p1", say(mac.String(), all))
		w.send(t, "p0", say(alice, mac.String()))
		w.send(t, "p0", say(alice, mac.String()))
		w.dp.Changes.invalidateMAC(w.dp.numbers.names.segIDs["blue"], mac)
		if _, events := w.counted(t, func() { w.send(t, "p0", say(alice, mac.String())) }); events["stale"] != 1 {
			t.Errorf("%s: events %v", mac, events)
		}
	}
}
