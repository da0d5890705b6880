package datapath

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
	"github.com/selvage/selvage/test/pkttest"
)

// bgpWorld is one in which BGP tells of the hosts of blue: beside the first remote, which
// is configured, it alone knows the second.
func bgpWorld(t testing.TB, change ...func(*Config, *fib.Tables)) *world {
	t.Helper()
	return newWorld(t, underIPv4, append([]func(*Config, *fib.Tables){byBGP}, change...)...)
}

func byBGP(_ *Config, tables *fib.Tables) {
	tables.Segments[0].EVPN = &overlay.EVPNInstance{}
	tables.NoLearning = map[string][]netip.Addr{"blue": underIPv4.remotes[1:]}
}

// bgpMAC has BGP say that a host of blue is behind a remote, "" that it says so no more.
func (w *world) bgpMAC(t testing.TB, mac, remote string, sticky bool) {
	t.Helper()
	must(t, w.dp.Hosts.PutBGPMACs([]rib.BGPMAC{{Segment: "blue", MAC: macOf(mac), Remote: w.remote(remote), Sticky: sticky}}))
}

// remote is the address of "first" or "second", unset for "".
func (w *world) remote(name string) netip.Addr {
	switch name {
	case "first":
		return w.family.remotes[0]
	case "second":
		return w.family.remotes[1]
	}
	return netip.Addr{}
}

// wantFDBEntry fails unless a host of blue is where it must be, by who says so.
func (w *world) wantFDBEntry(t testing.TB, mac, at string, origin Origin) {
	t.Helper()
	e := w.fdbEntry(t, "blue", mac)
	if e == nil {
		if at != "" {
			t.Errorf("nobody knows %s, want it at %s", mac, at)
		}
		return
	}
	got := e.Port
	if got == "" {
		got = map[netip.Addr]string{w.remote("first"): "first", w.remote("second"): "second"}[e.Remote]
	}
	if got != at || e.Origin != origin {
		t.Errorf("%s is at %s by %s, want %q by %s", mac, got, e.Origin, at, origin)
	}
}

// What BGP says of a host stands against tunnels and falls to ports.
func TestBGPMACs(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, cache bool) {
		w := bgpWorld(t, func(c *Config, _ *fib.Tables) { c.FlowCache.Enabled = cache })
		w.bgpMAC(t, bob, "second", false)
		w.wantFDBEntry(t, bob, "second", OriginBGP)
		w.follow(t, []step{{"p0", say(alice, bob), "second"}, {"first", say(bob, alice), "p0"}, {"p0", say(alice, bob), "second"}})
		w.wantFDBEntry(t, bob, "second", OriginBGP)

		w.follow(t, []step{{"second", say(carol, alice), "p0"}, {"p0", say(alice, carol), "flood"}})
		w.wantFDBEntry(t, carol, "", "") // it teaches nothing
		w.follow(t, []step{{"first", say(carol, alice), "p0"}, {"p0", say(alice, carol), "first"}})
		w.wantFDBEntry(t, carol, "first", OriginLearned)
		w.follow(t, []step{{"second", say(carol, alice), "p0"}})
		w.wantFDBEntry(t, carol, "first", OriginLearned)

		w.follow(t, []step{{"p1", say(bob, alice), "p0"}, {"p0", say(alice, bob), "p1"}})
		w.wantFDBEntry(t, bob, "p1", OriginLearned)
		w.bgpMAC(t, bob, "", false) // it is gone where it was
		w.wantFDBEntry(t, bob, "p1", OriginLearned)
		w.bgpMAC(t, bob, "first", false) // and has moved there
		w.follow(t, []step{{"p0", say(alice, bob), "first"}})
		w.wantFDBEntry(t, bob, "first", OriginBGP)
		w.bgpMAC(t, bob, "", false)
		w.follow(t, []step{{"p0", say(alice, bob), "flood"}})
		w.wantFDBEntry(t, bob, "", "")
	})
}

// A sticky host does not come to a port. The configuration says more than BGP.
func TestBGPMACsThatStay(t *testing.T) {
	w := bgpWorld(t, func(_ *Config, tables *fib.Tables) {
		tables.Segments[0].Static = []overlay.StaticMAC{{MAC: macOf(carol), Port: "p1"}}
	})
	w.bgpMAC(t, bob, "second", true)
	drops, _ := w.counted(t, func() { w.send(t, "p0", say(bob, carol)) })
	if drops["static-mac-move"] != 1 {
		t.Errorf("drops %v for a sticky host at a port", drops)
	}
	if e := w.fdbEntry(t, "blue", bob); e == nil || !e.Sticky || e.Remote != w.remote("second") {
		t.Errorf("entry %+v", e)
	}
	w.follow(t, []step{{"first", say(bob, carol), "p1"}}) // on its way
	w.wantFDBEntry(t, bob, "second", OriginBGP)
	w.bgpMAC(t, bob, "second", false)
	w.follow(t, []step{{"p0", say(bob, carol), "p1"}})
	w.wantFDBEntry(t, bob, "p0", OriginLearned)

	for _, remote := range []string{"second", ""} {
		w.bgpMAC(t, carol, remote, true)
		w.wantFDBEntry(t, carol, "p1", OriginStatic)
	}
}

// arpEntry has BGP say what MAC address an address in blue has, "": it says so no more.
func (w *world) arpEntry(t testing.TB, address, mac string) {
	t.Helper()
	r := rib.ARPEntry{Segment: "blue", Addr: addr(address)}
	if mac != "" {
		r.MAC = macOf(mac)
	}
	must(t, w.dp.Hosts.PutARPEntries([]rib.ARPEntry{r}))
}

// What BGP says of an address stands against tunnels and falls to ports, too, and who asks for it is answered.
func TestARPEntries(t *testing.T) {
	for _, c := range []struct{ address, asks, says string }{
		{"10.0.1.11", "arp 10.0.1.10 ? 10.0.1.11", "arp 10.0.1.11 ! 10.0.1.11"},
		{"2001:db8:1::b", "ns 2001:db8:1::a ? 2001:db8:1::b", "na 2001:db8:1::b ! ff02::1"},
	} {
		w := bgpWorld(t, func(_ *Config, tables *fib.Tables) { tables.Segments[0].Suppress = true })
		has := func(mac string, origin Origin) {
			t.Helper()
			if n := w.neighbour(t, "blue", c.address); n == nil || n.MAC != macOf(mac) || n.Origin != origin {
				t.Errorf("%s: %+v, want %s by %s", c.address, n, mac, origin)
			}
		}
		w.bgpMAC(t, bob, "second", false)
		w.arpEntry(t, c.address, bob)
		w.answered(t, "p0", pkttest.Frame(alice, all, c.asks), bob, c.address)
		for _, from := range []string{"first", "second"} {
			w.send(t, from, pkttest.Frame(nobody, all, c.says))
			has(bob, OriginBGP)
		}
		f := w.followHostEvents(t)
		w.send(t, "p1", pkttest.Frame(bob, all, c.says))
		has(bob, OriginLearned)
		want := []HostEvent{
			{Segment: "blue", Port: "p1", MAC: macOf(bob), WasRemote: true, Remote: w.remote("second")},
			{Segment: "blue", Port: "p1", MAC: macOf(bob), Addr: addr(c.address), ND: ndFlags(addr(c.address), 0)},
		}
		if got := w.mark(t, f); !slices.Equal(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		w.arpEntry(t, c.address, "") // BGP says no more what it says no more
		has(bob, OriginLearned)
		w.arpEntry(t, c.address, carol)
		has(carol, OriginBGP)
		w.arpEntry(t, c.address, "")
		if n := w.neighbour(t, "blue", c.address); n != nil {
			t.Errorf("%+v is left", n)
		}
		w.send(t, "second", pkttest.Frame(nobody, all, c.says))
		if n := w.neighbour(t, "blue", c.address); n != nil {
			t.Errorf("learned from who teaches nothing: %+v", n)
		}
	}
}

// Apply leaves what BGP says alone while it may say so of the segment, and the remote is there.
func TestApplyKeepsBGPMACs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, underIPv4, byBGP)
	w.bgpMAC(t, alice, "first", false)
	w.bgpMAC(t, bob, "second", false)
	w.arpEntry(t, "10.0.1.11", bob)
	w.apply(t)
	w.reopen(t)
	previous, err := w.dp.Ports.PreviousRemotes(w.tables.Segments)
	if err != nil || len(previous) != 1 || !slices.Equal(previous["blue"], underIPv4.remotes[1:]) {
		t.Errorf("former remotes %v (%v)", previous, err)
	}
	w.apply(t)
	w.wantFDBEntry(t, bob, "second", OriginBGP)
	if n := w.neighbour(t, "blue", "10.0.1.11"); n == nil || n.Origin != OriginBGP {
		t.Errorf("%+v", n)
	}
	w.tables.Segments[0].Remotes = underIPv4.remotes[:1]
	w.apply(t)
	w.wantFDBEntry(t, bob, "", "")
	w.wantFDBEntry(t, alice, "first", OriginBGP)
	w.tables.Segments[0].EVPN = nil
	w.apply(t)
	w.wantFDBEntry(t, alice, "", "")
	if n := w.neighbour(t, "blue", "10.0.1.11"); n != nil {
		t.Errorf("%+v", n)
	}
}

// A full table takes what it has room for, and says so.
func TestBGPMACsWithoutRoom(t *testing.T) {
	w := ownWorld(t, underIPv4, byBGP, func(c *Config, _ *fib.Tables) { c.FDB.Size = 64 })
	var list []rib.BGPMAC
	for i := range 1000 {
		list = append(list, rib.BGPMAC{Segment: "blue", MAC: overlay.MAC{2, 0, 0, 4, byte(i >> 8), byte(i)}, Remote: w.remote("first")})
	}
	must(t, w.dp.Hosts.PutBGPMACs(list[:60]))
	err := w.dp.Hosts.PutBGPMACs(list)
	if err == nil || !strings.Contains(err.Error(), "fdb.size") {
		t.Errorf("%v", err)
	}
	if left := rib.LeftOut(err).MACs; len(left) == 0 {
		t.Errorf("the error does not name what is left out: %v", err)
	}
	fdb, err := w.dp.Hosts.FDB()
	if err != nil || len(fdb) != 64 {
		t.Errorf("%d entries (%v), want 64", len(fdb), err)
	}
	// Each of those that are put again is either there or named.
	err = w.dp.Hosts.PutBGPMACs(list)
	there := make(map[overlay.MAC]bool)
	fdb, again := w.dp.Hosts.FDB()
	must(t, again)
	for _, f := range fdb {
		there[f.MAC] = true
	}
	left := rib.LeftOut(err).MACs
	for _, m := range left {
		if there[m.MAC] {
			t.Errorf("%s is in the table, and named as left out", m.MAC)
		}
	}
	if len(there)+len(left) != len(list) {
		t.Errorf("%d entries and %d left out of %d", len(there), len(left), len(list))
	}
}
