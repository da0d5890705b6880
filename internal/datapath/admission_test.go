package datapath

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// learningWorld is one whose port p0 says that it has addresses of others.
func learningWorld(t *testing.T, change ...func(*Config, *fib.Tables)) *world {
	t.Helper()
	w := suppressing(t, ways()[0], change...)
	for _, words := range []string{"arp 10.0.1.10 ! 10.0.1.10", "arp 172.17.0.1 ! 172.17.0.1", "na 2001:db8:1::a ! ff02::1", "na 2001:db8:f::99 ! ff02::1", "na fe80::99 ! ff02::1"} {
		w.send(t, "p0", pkttest.Frame(alice, all, words))
	}
	w.send(t, "p0", pkttest.Frame(dave, all, "arp 10.0.1.13 ! 10.0.1.13"))
	w.send(t, "p1", pkttest.Frame(carol, all, "arp 10.0.1.12 ! 10.0.1.12"))
	w.wantNeighbours(t, "10.0.1.10 10.0.1.12 10.0.1.13 172.17.0.1 2001:db8:1::a 2001:db8:f::99 fe80::99")
	return w
}

// wantNeighbours checks which neighbours of blue are known.
func (w *world) wantNeighbours(t *testing.T, want string) {
	t.Helper()
	var got []string
	for _, a := range []string{"10.0.1.10", "10.0.1.11", "10.0.1.12", "10.0.1.13", "172.17.0.1", "2001:db8:1::a", "2001:db8:f::99", "fe80::99"} {
		if w.neighbour(t, "blue", a) != nil {
			got = append(got, a)
		}
	}
	if text := strings.Join(got, " "); text != want {
		t.Errorf("neighbours are %s, want %s", text, want)
	}
	owned := map[string]uint32{"p0": w.dp.numbers.names.portIDs["p0"], "p1": w.dp.numbers.names.portIDs["p1"]}
	if n := w.used(t, owned["p0"], bpfLimitedCountCOUNT_NEIGHBOURS) + w.used(t, owned["p1"], bpfLimitedCountCOUNT_NEIGHBOURS); n != len(got) {
		t.Errorf("the ports are said to have %d neighbours, want %d", n, len(got))
	}
}

// What was learned before a guard, a static entry or a gateway's address was configured is forgotten when it is.
func TestLearnedEntriesObeyTheConfiguration(t *testing.T) {
	t.Parallel()
	prefixes := func(list ...string) (all []netip.Prefix) {
		for _, p := range list {
			all = append(all, netip.MustParsePrefix(p))
		}
		return all
	}
	for _, c := range []struct {
		name       string
		change     func(*fib.Tables)
		neighbours string
		alice      string // where her MAC address is, "" nowhere
		dave       string
	}{
		{"allowed addresses", func(tables *fib.Tables) {
			tables.Ports[0].Allowed = &overlay.Allowed{Addresses: prefixes("10.0.1.0/24", "2001:db8:1::/64")}
		}, "10.0.1.10 10.0.1.12 10.0.1.13 2001:db8:1::a fe80::99", "p0", "p0"},
		{"other allowed addresses", func(tables *fib.Tables) {
			tables.Ports[0].Allowed = &overlay.Allowed{Addresses: prefixes("192.168.0.0/16")}
		}, "10.0.1.12 fe80::99", "p0", "p0"},
		{"allowed MACs", func(tables *fib.Tables) { tables.Ports[0].Allowed = &overlay.Allowed{MACs: []overlay.MAC{macOf(dave)}} },
			"10.0.1.12 10.0.1.13", "", "p0"},
		{"an empty list", func(tables *fib.Tables) { tables.Ports[0].Allowed = &overlay.Allowed{} },
			"10.0.1.10 10.0.1.12 10.0.1.13 172.17.0.1 2001:db8:1::a 2001:db8:f::99 fe80::99", "p0", "p0"},
		{"a static entry elsewhere", func(tables *fib.Tables) {
			tables.Segments[0].Static = []overlay.StaticMAC{{MAC: macOf(dave), Port: "p1"}, {MAC: macOf(alice), Port: "p0"}}
		}, "10.0.1.10 10.0.1.12 172.17.0.1 2001:db8:1::a 2001:db8:f::99 fe80::99", "p0", "p1"},
		{"the gateway's addresses", func(tables *fib.Tables) {
			tables.Routers = append(tables.Routers, fib.Router{Name: "main"})
			tables.Segments[0].Gateway = &overlay.Gateway{Router: "main", MAC: macOf(dave), Addresses: prefixes("10.0.1.10/24", "fe80::99/64")}
		}, "10.0.1.12 10.0.1.13 172.17.0.1 2001:db8:1::a 2001:db8:f::99", "p0", ""},
		{"limits", func(tables *fib.Tables) { tables.Ports[0].Limits = overlay.Limits{Neighbours: 2, MACs: 1} }, "10.0.1.12 10.0.1.13 fe80::99", "", "p0"},
		{"limits that are observed", func(tables *fib.Tables) {
			tables.Ports[0].Limits = overlay.Limits{Neighbours: 2, MACs: 1, Observe: true}
		}, "10.0.1.10 10.0.1.12 10.0.1.13 172.17.0.1 2001:db8:1::a 2001:db8:f::99 fe80::99", "p0", "p0"},
		{"limits of the segment", func(tables *fib.Tables) { tables.Segments[0].Limits = overlay.Limits{Neighbours: 2, MACs: 2} }, "10.0.1.12 10.0.1.13", "", "p0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := learningWorld(t)
			w.inOrder(t)
			c.change(&w.tables)
			w.apply(t)
			w.wantNeighbours(t, c.neighbours)
			if got := w.fdb(t, alice); got != c.alice {
				t.Errorf("alice is at %q, want %q", got, c.alice)
			}
			if got := w.fdb(t, dave); got != c.dave {
				t.Errorf("dave is at %q, want %q", got, c.dave)
			}
			w.apply(t)
			w.wantNeighbours(t, c.neighbours)
		})
	}
}

// inOrder has entries be as old as in the order in which they were learned: a test learns them within a second.
func (w *world) inOrder(t *testing.T) {
	t.Helper()
	order := map[string]uint32{"172.17.0.1": 1, "10.0.1.10": 2, "2001:db8:1::a": 3, "2001:db8:f::99": 4, "fe80::99": 5, "10.0.1.13": 6, "10.0.1.12": 7}
	must(t, walk(w.dp.Hosts.maps.Neighbours, func(k bpfNeighbourKey, n bpfNeighbour) {
		n.SinceS = order[addrOf(k.Addr.W).String()]
		must(t, w.dp.Hosts.maps.Neighbours.Put(k, n))
	}))
	macs := map[overlay.MAC]uint32{macOf(alice): 1, macOf(dave): 2, macOf(carol): 3}
	must(t, walk(w.dp.Hosts.maps.Fdb, func(k bpfFdbKey, e bpfFdbEntry) {
		if e.Origin == bpfHostOriginORIGIN_LEARNED {
			e.SinceS = macs[k.Mac]
			must(t, w.dp.Hosts.maps.Fdb.Put(k, e))
		}
	}))
}
