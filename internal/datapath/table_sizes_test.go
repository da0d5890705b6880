package datapath

import (
	"testing"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// Tables of other sizes hold what the former ones did: hosts stay where they are, and counters count on.
func TestTakeoverWithOtherTableSizes(t *testing.T) {
	t.Parallel()
	w := routedWorld(t, ways()[0])
	flow := pkttest.Frame(alice, gatewayMAC, "udp 10.0.1.10:7 > 10.99.0.1:7 20")
	w.setRoutes(route("10.99.0.0/16", fib.Hop{Segment: "main-l3", Remote: w.family.remotes[1], MAC: macOf(dave)}))
	w.apply(t)
	w.follow(t, []step{{"p0", flow, "second"}})
	was, ids := w.sentBy(t, "p0"), w.dp.numbers.names.pathIDs
	for _, sizes := range []overlay.Tables{
		{Vports: 16384, SegmentMembers: 4096, Members: 1 << 18, Remotes: 1 << 17, Routes: 1 << 19, NextHops: 65536, NextHopGroups: 8192},
		{Vports: 64512},
		{Vports: 64, SegmentMembers: 16, Members: 64, Remotes: 64, Routes: 64, NextHops: 64, NextHopGroups: 64},
		{},
	} {
		w.cfg.Tables = sizes
		w.reopen(t)
		if len(w.dp.Routes.routes) == 0 {
			t.Errorf("%+v: no route of before", sizes)
		}
		w.apply(t)
		for pair, id := range ids {
			if w.dp.numbers.names.pathIDs[pair] != id {
				t.Errorf("%+v: %s is number %d, was %d", sizes, pair, w.dp.numbers.names.pathIDs[pair], id)
			}
		}
		if got := w.fdb(t, alice); got != "p0" {
			t.Errorf("%+v: alice is at %q", sizes, got)
		}
		w.follow(t, []step{{"p0", flow, "second"}})
		now := w.sentBy(t, "p0")
		if now <= was {
			t.Errorf("%+v: %d packets after %d", sizes, now, was)
		}
		was = now
		for m, want := range map[kernel.Map]uint32{
			w.dp.numbers.maps.Vports: sizes.Vports, w.dp.Traffic.maps.Traffic: sizes.Vports, w.dp.Ports.maps.Members: sizes.Members,
			w.dp.Routes.maps.Routes: sizes.Routes, w.dp.Routes.maps.Nexthops: sizes.NextHops, w.dp.Routes.maps.NexthopGroups: sizes.NextHopGroups,
		} {
			if got := m.MaxEntries(); want > 0 && got != want {
				t.Errorf("%s has %d entries, want %d", m, got, want)
			}
		}
	}
	w.wantClean(t)
}

// sentBy are the packets that a port sent.
func (w *world) sentBy(t *testing.T, port string) uint64 {
	t.Helper()
	ports, err := w.dp.Traffic.Ports()
	must(t, err)
	return ports[port].Rx.Packets
}
