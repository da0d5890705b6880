package datapath

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// putRoute has BGP say of one route of main.
func (w *world) putRoute(t testing.TB, r fib.Route) {
	t.Helper()
	must(t, w.dp.Routes.PutRoutes([]fib.Router{{Name: "main", Routes: []fib.Route{r}}}))
}

// farHops are next hops to routers behind the first remote and the second.
func (w *world) farHops() [2]fib.Hop {
	return [2]fib.Hop{
		{Segment: "main-l3", Remote: w.family.remotes[0], MAC: macOf(farMAC)},
		{Segment: "main-l3", Remote: w.family.remotes[1], MAC: macOf(farMAC2)},
	}
}

// gone is a route that is no more.
func gone(prefix string) fib.Route { return fib.Route{Prefix: netip.MustParsePrefix(prefix)} }

// Routes come, change and go one by one; what Apply wrote of others stays.
func TestPutRoutes(t *testing.T) {
	eachWay(t, func(t *testing.T, to way) {
		w := routedWorld(t, to)
		far := w.farHops()
		for _, c := range []struct{ prefix, src, dst, without string }{
			{"10.77.0.0/16", "10.0.1.10", "10.77.3.4", "s0"},
			{"10.0.2.13/32", "10.0.1.10", "10.0.2.13", "p2"},
			{"2001:db8:77::/48", "2001:db8:1::a", "2001:db8:77::7", "s0"},
			{"2001:db8:2::d/128", "2001:db8:1::a", "2001:db8:2::d", "p2"},
		} {
			src, dst := c.src, c.dst
			if addr(src).Is6() {
				src, dst = "["+src+"]", "["+dst+"]"
			}
			flow := pkttest.Frame(alice, gatewayMAC, fmt.Sprintf("udp %s:7 > %s:7 20", src, dst))
			goes := func(at string) {
				t.Helper()
				for range 2 {
					if got := w.routedTo(t, flow); got != at {
						t.Errorf("%s: goes to %s, want %s", c.prefix, got, at)
					}
				}
			}
			goes(c.without)
			w.putRoute(t, route(c.prefix, far[0]))
			goes("first")
			w.putRoute(t, route(c.prefix, far[1]))
			goes("second")
			w.putRoute(t, ending(c.prefix, overlay.Blackhole))
			goes("drop")
			w.putRoute(t, gone(c.prefix))
			w.putRoute(t, gone(c.prefix))
			goes(c.without)
		}
		w.apply(t)
		if got := len(tries(t, w.dp.Routes.maps.Routes)); got != len(w.tables.Routers[0].Routes) || len(w.dp.Routes.routes) != got {
			t.Errorf("%d routes, and %d noted, want %d", got, len(w.dp.Routes.routes), len(w.tables.Routers[0].Routes))
		}
	})
}

// routedTo is where a frame from p0 goes.
func (w *world) routedTo(t testing.TB, frame []byte) string {
	t.Helper()
	return w.went(t, step{from: "p0", frame: frame})
}

// A new process leaves the routes of the former one in place until it knows them.
func TestKeepRoutes(t *testing.T) {
	t.Parallel()
	w := routedWorld(t, ways()[0])
	w.putRoute(t, route("10.77.0.0/16", w.farHops()[0]))
	w.putRoute(t, route("10.78.0.0/16", w.farHops()[1]))
	flow := pkttest.Frame(alice, gatewayMAC, "udp 10.0.1.10:7 > 10.77.0.1:7 20")
	other := pkttest.Frame(alice, gatewayMAC, "udp 10.0.1.10:7 > 10.78.0.1:7 20")
	w.follow(t, []step{{"p0", flow, "first"}, {"p0", other, "second"}})
	w.reopen(t)
	w.tables.Keep = true
	w.apply(t)
	w.follow(t, []step{{"p0", flow, "first"}, {"p0", other, "second"}})
	l3 := w.segment("main-l3")
	for _, s := range []*overlay.Segment{l3, w.segment("blue")} {
		s.Remotes = w.family.remotes[:1] // the second went meanwhile
	}
	w.tables.TEPs = w.tables.TEPs[:1]
	w.apply(t)
	w.follow(t, []step{{"p0", flow, "first"}, {"p0", other, "s0"}})
	w.tables.Keep = false
	w.apply(t)
	w.follow(t, []step{{"p0", flow, "s0"}})
}
