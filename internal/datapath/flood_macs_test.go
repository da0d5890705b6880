package datapath

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// limited is a world in which ports may have some MAC addresses and neighbours.
func limited(t testing.TB, change ...func(*Config, *fib.Tables)) *world {
	return ownWorld(t, underIPv4, append([]func(*Config, *fib.Tables){func(_ *Config, tables *fib.Tables) {
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
			if _, err := w.dp.prog.objs.FromPort.Run(opts); err != nil {
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
		fdb, err := w.dp.Hosts.FDB()
		must(t, err)
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
	must(t, w.dp.Limits.maps.OwnerUsages.Lookup(ownerIndex(owner), &u))
	return int(u.Used[count])
}

// wantCounted compares what owners are said to have with what the tables hold.
func (w *world) wantCounted(t testing.TB, when string) {
	t.Helper()
	macs, neighbours := map[uint32]int{}, map[uint32]int{}
	must(t, walk(w.dp.Hosts.maps.Fdb, func(k bpfFdbKey, e bpfFdbEntry) {
		if e.Origin == bpfHostOriginORIGIN_LEARNED {
			macs[e.Vport]++
			macs[segmentOwner+k.Segment]++
		}
	}))
	must(t, walk(w.dp.Hosts.maps.Neighbours, func(k bpfNeighbourKey, n bpfNeighbour) {
		if n.Origin == bpfHostOriginORIGIN_LEARNED {
			neighbours[n.Vport]++
			neighbours[segmentOwner+k.Segment]++
		}
	}))
	owners := []uint32{}
	for id := range w.dp.numbers.names.ports {
		owners = append(owners, id)
	}
	for _, id := range w.dp.numbers.names.pathIDs {
		owners = append(owners, id)
	}
	for id := range w.dp.numbers.names.segments {
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

// A port that sends from 200,000 MAC addresses costs nobody else an entry, with limits or without: it loses its own oldest.
func TestMACFloodCostsNobodyElse(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]overlay.Limits{"limited": {MACs: testFDB / 8}, "without a limit": {}} {
		t.Run(name, func(t *testing.T) {
			macs := 200_000
			if limits.MACs == 0 {
				macs = 10 * testFDB
			}
			w := limited(t, byBGP, func(_ *Config, tables *fib.Tables) {
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
				if n := w.used(t, w.dp.numbers.names.portIDs["p0"], bpfLimitedCountCOUNT_MACS); n > int(limits.MACs) {
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
			fdb, err := w.dp.Hosts.FDB()
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
	t.Parallel()
	for name, limit := range map[string]uint32{"limited": testFDB / 8, "without a limit": 0} {
		t.Run(name, func(t *testing.T) {
			w := limited(t, byBGP, func(_ *Config, tables *fib.Tables) {
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

// A segment at its limit takes a new entry only in the place of one of the same port: a port that has none there is refused, and nobody loses one to it.
func TestSegmentLimit(t *testing.T) {
	w := newWorld(t, underIPv4, func(_ *Config, tables *fib.Tables) { tables.Segments[0].Limits.MACs = 100 })
	stay := w.honest(t) // 40 of them in the segment
	w.floodMACs(t, "p0", 1000)
	stay("after the flood")
	w.wantCounted(t, "after the flood")
	if n := w.used(t, segmentOwner+w.dp.numbers.names.segIDs["blue"], bpfLimitedCountCOUNT_MACS); n != 100 {
		t.Errorf("the segment has %d MAC addresses, and may have 100", n)
	}
}

// Where limits are observed, what they would refuse is counted, and learned.
func TestObservedLimitRefusesNothing(t *testing.T) {
	w := newWorld(t, underIPv4, func(_ *Config, tables *fib.Tables) { tables.Ports[0].Limits = overlay.Limits{Observe: true, MACs: 10} })
	before := w.dp.Limits.usage(w.dp.numbers.names.portIDs["p0"]).Exceeded[bpfLimitedCountCOUNT_MACS]
	w.floodMACs(t, "p0", 30)
	if n := w.used(t, w.dp.numbers.names.portIDs["p0"], bpfLimitedCountCOUNT_MACS); n != 30 {
		t.Errorf("%d MAC addresses are learned, want 30", n)
	}
	if n := w.dp.Limits.usage(w.dp.numbers.names.portIDs["p0"]).Exceeded[bpfLimitedCountCOUNT_MACS] - before; n != 20 {
		t.Errorf("%d are counted as beyond the limit, want 20", n)
	}
}

// Counts follow moves, what BGP and the configuration take over, ports that go, numbers that are given to others, and
// a restart; and what several cores have miscounted, the next walk corrects.
func TestCountsFollowEntries(t *testing.T) {
	t.Parallel()
	w := limited(t, byBGP)
	w.honest(t)
	w.floodMACs(t, "p0", 50)
	w.floodARP(t, "p0", alice, 50)
	w.send(t, "p1", say(randomMAC(3).String(), all))
	w.send(t, "first", say(randomMAC(4).String(), all))
	w.send(t, "p1", pkttest.Frame(bob, all, "arp 10.64.0.3 ? 10.0.1.1"))
	w.wantCounted(t, "after moves")
	w.bgpMAC(t, randomMAC(5).String(), "first", false)
	w.send(t, "p1", say(randomMAC(5).String(), all))
	w.bgpMAC(t, randomMAC(6).String(), "second", false)
	w.wantCounted(t, "after BGP's")
	w.tables.Segments[0].Static = []overlay.StaticMAC{{MAC: randomMAC(7), Port: "p1"}}
	w.apply(t)
	w.wantCounted(t, "after the configuration's")
	must(t, w.dp.Hosts.Forget("blue", randomMAC(8)))
	w.wantCounted(t, "after one is forgotten")
	id := w.dp.numbers.names.portIDs["p0"]
	w.dp.Limits.addUsed(id, bpfLimitedCountCOUNT_MACS, 100)
	w.dp.Limits.addUsed(id, bpfLimitedCountCOUNT_NEIGHBOURS, -7)
	if _, err := w.dp.Age(time.Hour); err != nil {
		t.Fatal(err)
	}
	w.wantCounted(t, "after a walk")
	must(t, w.dp.Close())
	w.open(t)
	w.apply(t)
	w.wantCounted(t, "after a restart")
	w.dp.Limits.usage(id).Exceeded[bpfLimitedCountCOUNT_MACS] = 5
	gone := w.tables.Ports
	w.tables.Ports = gone[1:]
	w.apply(t)
	w.tables.Ports = []fib.Port{w.port("s0", "blue"), gone[1], gone[2]}
	w.apply(t)
	if w.dp.numbers.names.portIDs["s0"] != id {
		t.Fatalf("the new port has the number %d, want that of the one that went, %d", w.dp.numbers.names.portIDs["s0"], id)
	}
	want := [bpfLimitedCountCOUNT_MAX]int32{bpfLimitedCountCOUNT_FLOWS: w.dp.Limits.usage(id).Used[bpfLimitedCountCOUNT_FLOWS]} // which are in the cache until they age
	if u := w.dp.Limits.usage(id); u.Used != want || u.Exceeded[bpfLimitedCountCOUNT_MACS] != 0 {
		t.Errorf("the new port begins with %+v", u)
	}
	w.wantCounted(t, "after the number has another owner")
}

// An entry without room, and a port whose interface takes no program, are said, and all else is in force: ports of others are
// attached, and what is no longer configured goes.
func TestApplyGoesOnBeyondWhatFails(t *testing.T) {
	t.Parallel()
	w := ownWorld(t, underIPv4, func(c *Config, tables *fib.Tables) {
		c.FDB.Size = 16
		tables.Ports = tables.Ports[:2]
	})
	for i := range 20 {
		w.tables.Segments[0].Static = append(w.tables.Segments[0].Static, overlay.StaticMAC{MAC: overlay.MAC{2, 0, 0, 2, 0, byte(i)}, Port: "p1"})
	}
	vanished := w.port("p0", "blue")
	vanished.Name, vanished.Ifindex = "vanished", 9999
	w.tables.Ports = []fib.Port{w.port("p1", "blue"), vanished, w.port("p2", "green")}
	for range 4 { // hooks are in any order
		var err error
		w.do(t, func() { err = w.dp.Apply(w.tables) })
		var partial PartialError
		if !errors.As(err, &partial) || !strings.Contains(err.Error(), "static MAC address 02:00:00:02:00:") || !strings.Contains(err.Error(), "port-9999") {
			t.Fatalf("%v, want an error of parts that names an entry and the interface", err)
		}
	}
	for _, h := range []hook{{rolePort, w.dev["p1"].Index}, {rolePort, w.dev["p2"].Index}, {roleUnderlay, w.dev["u0"].Index}} {
		if w.dp.Links.links[h] == nil {
			t.Errorf("%s has no program", h)
		}
	}
	if w.dp.Links.links[hook{rolePort, w.dev["p0"].Index}] != nil {
		t.Error("the port that was removed still has its program")
	}
	w.follow(t, []step{{"p2", say(dave, all), "flood"}})
}

// The keys of entries that aged leave room for those of other ports, and the next flood evicts the
// oldest again.
func TestAgedEntriesLeaveNoKeys(t *testing.T) {
	w := limited(t)
	keys := func() (n int) {
		each(t, w.dp.Limits.maps.LimitEntries, func(bpfLimitSlot, bpfLimitEntry) { n++ })
		return n
	}
	for range 3 {
		w.floodMACs(t, "p0", testFDB/4)
		w.floodARP(t, "p0", alice, testFDB/4)
		if keys() == 0 {
			t.Fatal("the flood left no keys")
		}
		w.send(t, "p0", say(erin, all)) // the port's newest
		w.ageHosts(t, neighbourAgeing*w.cfg.FDB.Ageing+time.Second)
		w.ageFlows(t, w.cfg.FDB.Ageing)
		w.send(t, "p0", say(erin, all)) // is heard again
		if _, err := w.dp.Age(w.cfg.FDB.Ageing); err != nil {
			t.Fatal(err)
		}
		if n := keys(); n != 1 {
			t.Errorf("%d keys are left, want that of the host that was heard", n)
		}
		w.floodMACs(t, "p0", testFDB/8-1)
		if at := w.fdb(t, erin); at != "p0" {
			t.Errorf("a host within the port's limit is known at %q", at)
		}
		w.send(t, "p0", say(dave, all))
		if at := w.fdb(t, erin); at != "" {
			t.Errorf("the oldest host is known at %q after one too many came", at)
		}
		w.wantCounted(t, "after the flood")
	}
}
