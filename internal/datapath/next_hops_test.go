package datapath

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// nextHops are two routers on the way to the first remote. The second has another MAC address.
func nextHops() [2]overlay.Via {
	return [2]overlay.Via{
		{Addr: netip.MustParseAddr("192.0.2.253"), Interface: "u0"}, {Addr: netip.MustParseAddr("192.0.2.254"), Interface: "u0"},
	}
}

const secondHop = "02:00:00:00:fe:02"

// multipath gives the route to the first remote two next hops.
func multipath(w *world) {
	f := w.family
	all := w.tep(f.remotes[0])
	w.tables.TEPs = append(w.tables.TEPs[1:], all)
	var pairs []overlay.Pair
	for i, via := range nextHops() {
		path := all
		path.Via, path.NextMAC = via, []overlay.MAC{all.NextMAC, macOf(secondHop)}[i]
		w.tables.TEPs = append(w.tables.TEPs, path)
		pairs = append(pairs, overlay.Pair{Local: f.tep, Remote: f.remotes[0], Via: via})
	}
	w.tables.PathPolicies = []fib.PathPolicy{over(f, false, 0, 1)(pairs)}
}

// hops counts the flows by the MAC address that their tunnel packets go to.
func (w *world) hops(t *testing.T, flows int) map[overlay.MAC]int {
	t.Helper()
	counts := make(map[overlay.MAC]int)
	for _, mac := range sendFlowsBy(t, w, flows, func(out []byte) overlay.MAC { return overlay.MAC(out[:6]) }) {
		counts[mac]++
	}
	return counts
}

// Each next hop of the route to a remote is a path with its own outer header.
func TestNextHopsArePaths(t *testing.T) {
	t.Parallel()
	for _, to := range []way{ways()[0], ways()[4]} {
		t.Run(to.name, func(t *testing.T) {
			w := newWorld(t, to.family, static(to.family), tunnelled(to.tunnel))
			multipath(w)
			w.apply(t)
			const flows = 640
			first, second := macOf(nextHop), macOf(secondHop)
			if got := w.hops(t, flows); got[first] < flows*4/10 || got[second] < flows*4/10 || got[first]+got[second] != flows {
				t.Errorf("flows by next hop: %v, want half by each", got)
			}
			in := w.fromRemote(pkttest.Frame(bob, alice, udp4))
			w.fromUnderlay(t, in).want(t, in, forwarded)
			before := maps.Clone(w.dp.numbers.names.pathIDs)
			if len(before) != 4 { // two next hops, what stands for them, the other remote
				t.Errorf("paths %v, want four", before)
			}
			w.reopen(t)
			w.apply(t)
			if !maps.Equal(before, w.dp.numbers.names.pathIDs) {
				t.Errorf("paths have other numbers after a restart: %v, before %v", w.dp.numbers.names.pathIDs, before)
			}
			dead := slices.IndexFunc(w.tables.TEPs, func(tep fib.TEP) bool { return tep.Via == nextHops()[0] })
			w.tables.TEPs[dead].Down = true
			w.tables.PathPolicies[0].PathGroups[0].Paths = []overlay.Pair{w.dp.numbers.pair(w.tables.TEPs[dead+1])}
			w.tables.PathPolicies[0].PathGroups[0].Buckets = [fib.PathBuckets]uint8{}
			must(t, w.dp.Paths.Steer(w.tables.TEPs, w.tables.PathPolicies))
			if got := w.hops(t, flows); got[second] != flows {
				t.Errorf("flows by next hop: %v, want all by the one that is left", got)
			}
			paths, err := w.dp.Traffic.Paths()
			if err != nil || paths[w.dp.numbers.pair(w.tables.TEPs[dead])].Packets == 0 || paths[w.dp.numbers.pair(w.tables.TEPs[dead+1])].Packets == 0 {
				t.Errorf("counters %v, %v: want some of each next hop", paths, err)
			}
		})
	}
}
