package datapath

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/tier"
)

// beyondTables are tables with more of something than there is room for.
var beyondTables = []struct {
	name string
	more func(w *world)
	want []string // of the error
}{
	{"routes", func(w *world) { w.learnRoutes(300_000) }, []string{"BGP may fill the table of routes up to 209715", "and 9"}},
	{"next hops", func(w *world) { w.learnHops(5000) }, []string{"next hops has no room", "lead routes by fewer different next hops"}},
	{"remotes", func(w *world) { w.learnRemotes(0, 10_000) }, []string{
		"BGP may fill the table of 8191 ports and remotes up to 6553", "what is flooded reaches the first 1024",
	}},
}

// learnRoutes has BGP tell of routes by one next hop.
func (w *world) learnRoutes(n int) {
	for i := range n {
		r := route(netip.PrefixFrom(nthAddr("100.64.0.0", i), 32).String(), w.farHops()[0])
		r.Learned = true
		w.setRoutes(r)
	}
}

// learnHops has it tell of as many next hops.
func (w *world) learnHops(n int) {
	for i := range n {
		r := route(netip.PrefixFrom(nthAddr("100.96.0.0", i), 32).String(), fib.Hop{Segment: "main-l3", Remote: w.family.remotes[0], MAC: overlay.MAC{2, 7, 0, 0, byte(i >> 8), byte(i)}})
		r.Learned = true
		w.setRoutes(r)
	}
}

// setRoutes adds routes that are new.
func (w *world) setRoutes(list ...fib.Route) {
	w.tables.Routers[0].Routes = append(w.tables.Routers[0].Routes, list...)
}

// learnRemotes has it tell of remotes of blue, in the place of those before.
func (w *world) learnRemotes(first, n int) {
	blue := w.segment("blue")
	learned := w.tables.NoLearning["blue"]
	blue.Remotes = slices.DeleteFunc(slices.Clone(blue.Remotes), func(a netip.Addr) bool { return slices.Contains(learned, a) })
	w.tables.TEPs = slices.DeleteFunc(slices.Clone(w.tables.TEPs), func(t fib.TEP) bool { return slices.Contains(learned, t.Addr) })
	var list []netip.Addr
	for i := range n {
		list = append(list, nthAddr("10.200.0.0", first+i))
	}
	for _, remote := range list {
		w.tables.TEPs = append(w.tables.TEPs, w.tep(remote))
	}
	blue.Remotes = slices.Concat(list, blue.Remotes) // configured ones are not the first
	w.tables.NoLearning = map[string][]netip.Addr{"blue": list}
}

// nthAddr is the n-th address after a first one.
func nthAddr(first string, n int) netip.Addr {
	a := netip.MustParseAddr(first).As4()
	binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(a[:])+uint32(n))
	return netip.AddrFrom4(a)
}

// wantParts applies tables of which parts have no room.
func (w *world) wantParts(t *testing.T, want ...string) {
	t.Helper()
	w.do(t, func() {
		err := w.dp.Apply(w.tables)
		var partial PartialError
		if !errors.As(err, &partial) {
			t.Fatalf("%v, want an error of parts", err)
		}
		if len(err.Error()) > 4096 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v, want %q", err, part)
			}
		}
		w.wantLeftOut(t, err)
	})
}

// wantLeftOut checks that each learned route is either in force or named by the error.
func (w *world) wantLeftOut(t *testing.T, err error) {
	t.Helper()
	left := make(map[rib.Place]bool)
	for _, at := range rib.LeftOut(err).Routes {
		left[at] = true
	}
	wrong := 0
	for _, r := range w.tables.Routers {
		for _, route := range r.Routes {
			_, there := w.dp.Routes.routes[routeKey(w.dp.numbers.names.routeIDs[r.Name], route.Prefix)]
			if route.Learned && there == left[rib.Place{Router: r.Name, Prefix: route.Prefix}] {
				wrong++
			}
		}
	}
	if wrong > 0 {
		t.Errorf("of %d learned routes it is not known whether they are in force (%d are named as left out)", wrong, len(left))
	}
}

// What BGP tells, be it more than the tables hold, keeps nothing that is configured from them: a
// port that is removed is gone, new ports, routes, next hops and remotes are in force, and flows move to other paths.
func TestMoreThanTheTablesHold(t *testing.T) {
	t.Parallel()
	all := func(w *world) {
		for _, c := range beyondTables {
			c.more(w)
		}
	}
	for _, c := range append(slices.Clone(beyondTables), struct {
		name string
		more func(w *world)
		want []string
	}{"all", all, []string{"and "}}) {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "routes" || c.name == "all" { // they fill a table of 262,144 entries
				tier.Long(t, "the cases of next hops and remotes")
			}
			w := routedWorld(t, ways()[0])
			c.more(w)
			w.wantParts(t, c.want...)

			was := w.tables
			green := w.tables.Ports[2]
			w.tables.Ports = []fib.Port{w.tables.Ports[0], w.tables.Ports[3]}
			w.setRoutes(route("10.99.0.0/16", fib.Hop{Segment: "main-l3", Remote: w.family.remotes[1], MAC: macOf(dave)}))
			newRemote := nthAddr("10.250.0.0", 1)
			w.tables.TEPs = append(slices.Clone(w.tables.TEPs), w.tep(newRemote))
			w.segment("green").Remotes = []netip.Addr{w.family.remotes[0], newRemote}
			w.wantParts(t)
			if w.dp.Links.links[hook{rolePort, green.Ifindex}] != nil || w.dp.numbers.names.portIDs[green.Name] != 0 {
				t.Error("the port that was removed is still there")
			}
			if w.dp.numbers.names.tepIDs[newRemote] == 0 {
				t.Error("a new remote of the configuration is not there")
			}
			flow := pkttest.Frame(alice, gatewayMAC, "udp 10.0.1.10:7 > 10.99.0.1:7 20")
			w.follow(t, []step{{"p0", flow, "second"}})

			w.tables.Ports = was.Ports
			w.wantParts(t)
			if w.dp.Links.links[hook{rolePort, green.Ifindex}] == nil {
				t.Error("the port that came back has no program")
			}
			down := slices.Clone(w.tables.TEPs)
			for i := range down {
				down[i].Down = down[i].Addr == w.family.remotes[1]
			}
			must(t, w.dp.Paths.Steer(down, w.tables.PathPolicies))
			if id := w.dp.numbers.names.tepIDs[w.family.remotes[1]]; w.dp.numbers.vports[id].Flags&bpfVportFlagsVPORT_DOWN == 0 {
				t.Error("the path that died is not marked")
			}

			// BGP takes all of it back.
			w.learnRemotes(0, 0)
			w.tables.Routers[0].Routes = slices.DeleteFunc(w.tables.Routers[0].Routes, func(r fib.Route) bool { return r.Learned })
			w.apply(t)
			if got, want := len(w.dp.Routes.routes), len(w.tables.Routers[0].Routes); got != want || len(tries(t, w.dp.Routes.maps.Routes)) != want {
				t.Errorf("%d routes in the end, want %d", got, want)
			}
			w.follow(t, []step{{"p0", flow, "second"}})
		})
	}
}
