package datapath

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// limited is a world in which ports may have some MAC addresses and neighbours.
func limited(t testing.TB, change ...func(*Config, *Tables)) *world {
	return ownWorld(t, underIPv4, append([]func(*Config, *Tables){func(c *Config, tables *Tables) {
		for i := range tables.Segments {
			tables.Segments[i].Suppress = true
		}
		for i := range tables.Ports {
			tables.Ports[i].Limits = overlay.Limits{MACs: testFDB / 8, Neighbours: testFDB / 8}
		}
	}}, change...)...)
}

// randomMAC is the n-th of a flood.
func randomMAC(n int) (mac overlay.MAC) {
	binary.BigEndian.PutUint32(mac[2:], uint32(n)*2654435761)
	mac[0], mac[1] = 0x06, byte(n>>24)
	return mac
}

// floodMACs has n senders, of whom nothing was heard, send one frame each.
func (w *world) floodMACs(t testing.TB, port string, n int) {
	t.Helper()
	frame := say(nobody, bob)
	w.floodBy(t, port, n, frame, func(i int) {
		mac := randomMAC(i)
		copy(frame[6:12], mac[:])
	})
}

// floodBy has n frames come from a port, each as change makes it of the one before.
func (w *world) floodBy(t testing.TB, port string, n int, frame []byte, change func(int)) {
	t.Helper()
	w.do(t, func() {
		opts := &ebpf.RunOptions{Data: frame, Context: skBuff{Ifindex: uint32(w.dev[port].Index)}}
		for i := range n {
			change(i)
			if _, err := w.dp.objs.FromPort.Run(opts); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// floodARP has n addresses be said by one host.
func (w *world) floodARP(t testing.TB, port, mac string, n int) {
	t.Helper()
	frame := pkttest.Frame(mac, all, "arp 10.0.1.10 ? 10.0.1.99")
	w.floodBy(t, port, n, frame, func(i int) { binary.BigEndian.PutUint32(frame[etherLen+14:], 0x0a400000+uint32(i)) })
}

// honest are hosts at a port and behind a remote, in the attacker's segment and another.
func (w *world) honest(t testing.TB) (stay func(what string)) {
	t.Helper()
	hosts := []struct{ from, mac, at string }{}
	for i := range 20 {
		for _, at := range []struct{ from, at string }{{"p1", "p1"}, {"p2", "p2"}, {"first", underIPv4.remotes[0].String()}} {
			mac := overlay.MAC{0x02, 1, at.from[0], at.from[1], 0, byte(i)}.String()
			w.send(t, at.from, say(mac, all))
			hosts = append(hosts, struct{ from, mac, at string }{at.from, mac, at.at})
		}
	}
	return func(what string) {
		t.Helper()
		fdb, err := w.dp.FDB()
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range hosts {
			if !slices.ContainsFunc(fdb, func(e FDBEntry) bool {
				return e.MAC == macOf(h.mac) && (e.Port == h.at || e.Remote.String() == h.at)
			}) {
				t.Errorf("%s: %s is no longer known at %s", what, h.mac, h.at)
				return
			}
		}
	}
}

// used is how many entries a port, or a segment, is said to have.
func (w *world) used(t testing.TB, owner uint32, count bpfLimitedCount) int {
	t.Helper()
	var u bpfLimitUsage
	if err := w.dp.objs.OwnerUsages.Lookup(owner, &u); err != nil {
		t.Fatal(err)
	}
	return int(u.Used[count])
}

// wantCounted compares what owners are said to have with what the tables hold.
func (w *world) wantCounted(t testing.TB, when string) {
	t.Helper()
	macs, neighbours := map[uint32]int{}, map[uint32]int{}
	must(t, walk(w.dp.objs.Fdb, func(k bpfFdbKey, e bpfFdbEntry) {
		if e.Origin == bpfHostOriginORIGIN_LEARNED {
			macs[e.Vport]++
			macs[segmentOwner+k.Segment]++
		}
	}))
	must(t, walk(w.dp.objs.Neighbours, func(k bpfNeighbourKey, n bpfNeighbour) {
		if n.Origin == bpfHostOriginORIGIN_LEARNED {
			neighbours[n.Vport]++
			neighbours[segmentOwner+k.Segment]++
		}
	}))
	owners := []uint32{}
	for id := range w.dp.names.ports {
		owners = append(owners, id)
	}
	for _, id := range w.dp.names.pathIDs {
		owners = append(owners, id)
	}
	for id := range w.dp.names.segments {
		owners = append(owners, segmentOwner+id)
	}
	for _, owner := range owners {
		if got := w.used(t, owner, bpfLimitedCountCOUNT_MACS); got != macs[owner] {
			t.Errorf("%s: owner %d is said to have %d MAC addresses, and has %d", when, owner, got, macs[owner])
		}
		if got := w.used(t, owner, bpfLimitedCountCOUNT_NEIGHBOURS); got != neighbours[owner] {
			t.Errorf("%s: owner %d is said to have %d neighbours, and has %d", when, owner, got, neighbours[owner])
		}
	}
}

// A port that sends from 200,000 MAC addresses costs nobody else an entry, with limits or
// without: it loses its own oldest. Hosts that come meanwhile, static entries and those of BGP
// find room, and the table is as it was after one ageing time.
func TestMACFloodCostsNobodyElse(t *testing.T) {
	for name, limits := range map[string]overlay.Limits{"limited": {MACs: testFDB / 8}, "without a limit": {}} {
		t.Run(name, func(t *testing.T) {
			macs := 200_000
			if limits.MACs == 0 {
				macs = 10 * testFDB
			}
			w := limited(t, byBGP, func(_ *Config, tables *Tables) {
				for i := range tables.Ports {
					tables.Ports[i].Limits = limits
				}
			})
			stay := w.honest(t)
			w.floodMACs(t, "p0", macs)
			stay("after the flood")
			w.wantCounted(t, "after the flood")
			w.send(t, "p1", say(carol, all))
			if at := w.fdb(t, carol); at != "p1" {
				t.Errorf("a host that came to another port is known at %q", at)
			}
			if limits.MACs > 0 {
				if n := w.used(t, w.dp.names.portIDs["p0"], bpfLimitedCountCOUNT_MACS); n > int(limits.MACs) {
					t.Errorf("the port has %d MAC addresses, and may have %d", n, limits.MACs)
				}
			}
			w.tables.Segments[1].Static = []overlay.StaticMAC{{MAC: macOf(alice), Port: "p2"}}
			w.apply(t)
			w.bgpMAC(t, bob, "first", false)
			w.wantFDBEntry(t, bob, "first", OriginBGP)
			w.ageHosts(t, w.cfg.FDB.Ageing+time.Second)
			if _, err := w.dp.Age(w.cfg.FDB.Ageing); err != nil {
				t.Fatal(err)
			}
			fdb, err := w.dp.FDB()
			must(t, err)
			if len(fdb) != 2 {
				t.Errorf("%d entries are left after the ageing time, want that of the configuration and that of BGP", len(fdb))
			}
			w.wantCounted(t, "after the ageing time")
		})
	}
}

// A host that says that it has 20,000 addresses costs nobody else a neighbour.
func TestNeighbourFloodCostsNobodyElse(t *testing.T) {
	for name, limit := range map[string]uint32{"limited": testFDB / 8, "without a limit": 0} {
		t.Run(name, func(t *testing.T) {
			w := limited(t, byBGP, func(_ *Config, tables *Tables) {
				for i := range tables.Ports {
					tables.Ports[i].Limits = overlay.Limits{Neighbours: limit}
				}
			})
			w.send(t, "p1", pkttest.Frame(bob, all, "arp 10.0.1.11 ? 10.0.1.1"))
			w.send(t, "p2", pkttest.Frame(carol, all, "arp 10.0.2.12 ? 10.0.2.1"))
			w.floodARP(t, "p0", alice, 20_000)
			for address, segment := range map[string]string{"10.0.1.11": "blue", "10.0.2.12": "green"} {
				if w.neighbour(t, segment, address) == nil {
					t.Errorf("%s is no longer known", address)
				}
			}
			w.send(t, "p1", pkttest.Frame(nobody, all, "arp 10.0.1.77 ? 10.0.1.1"))
			if w.neighbour(t, "blue", "10.0.1.77") == nil {
				t.Error("the neighbour that came to another port is not known")
			}
			w.wantCounted(t, "after the flood")
			w.tables.Segments[1].Neighbours = []overlay.Neighbour{{Addr: netip.MustParseAddr("10.0.2.50"), MAC: macOf(alice)}}
			w.apply(t)
			if w.neighbour(t, "green", "10.0.2.50") == nil {
				t.Error("the neighbour of the configuration is not known")
			}
		})
	}
}
