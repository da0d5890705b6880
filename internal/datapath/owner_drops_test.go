package datapath

import (
	"testing"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// ownerDrops are the packets of a kind of owner, by owner and reason.
func (w *world) ownerDrops(t testing.TB, kind OwnerKind) map[string]map[string]uint64 {
	t.Helper()
	list, err := w.dp.Traffic.OwnerDrops(kind)
	must(t, err)
	drops := map[string]map[string]uint64{}
	for _, d := range list {
		if drops[d.Owner] == nil {
			drops[d.Owner] = map[string]uint64{}
		}
		drops[d.Owner][d.Reason] += d.Packets
	}
	return drops
}

// Drops are counted by port, by segment and by remote. Those of no owner are there too.
func TestDropsHaveOwners(t *testing.T) {
	w := newWorld(t, underIPv4, static(underIPv4))
	before := map[OwnerKind]map[string]map[string]uint64{}
	for _, kind := range []OwnerKind{OwnerPort, OwnerSegment, OwnerRemote} {
		before[kind] = w.ownerDrops(t, kind)
	}
	for range 3 {
		w.fromPort(t, "p0", say(alice, alice)) // same-port
	}
	w.fromUnderlay(t, w.fromRemote(say(bob, bob))) // same-port, too
	stranger := w.outer(w.family.unknown)
	w.fromUnderlay(t, stranger.Wrap(say(bob, alice))) // unknown-remote, in no port's name
	remote := w.family.remotes[0].String()
	for _, c := range []struct {
		kind          OwnerKind
		owner, reason string
		want          uint64
	}{
		{OwnerPort, "p0", "same-port", 3},
		{OwnerPort, "", "same-port", 1},
		{OwnerPort, "", "unknown-remote", 1},
		{OwnerSegment, "blue", "same-port", 4},
		{OwnerSegment, "blue", "unknown-remote", 1}, // by its VNI
		{OwnerRemote, remote, "same-port", 1},
		{OwnerRemote, "", "same-port", 3},
	} {
		now, was := w.ownerDrops(t, c.kind)[c.owner][c.reason], before[c.kind][c.owner][c.reason]
		if now-was != c.want {
			t.Errorf("%s %q: %d packets for %s, want %d", c.kind, c.owner, now-was, c.reason, c.want)
		}
	}
}

// The table of drops by owner is bounded: what finds no room is told of no owner, and is no less.
func TestDropsOfNoRoom(t *testing.T) {
	w := newWorld(t, underIPv4, static(underIPv4))
	cores := ebpf.MustPossibleCPU()
	var filled []bpfDropOwner
	for i := uint32(0); ; i++ {
		k := bpfDropOwner{Reason: bpfReasonREASON_DENIED, Vport: 1 << 20, Segment: i}
		if err := w.dp.Traffic.maps.OwnerDrops.Put(k, make([]bpfCounter, cores)); err != nil {
			break
		}
		if filled = append(filled, k); len(filled) > 20_000 {
			t.Fatal("the table is not bounded")
		}
	}
	defer func() {
		for _, k := range filled {
			must(t, w.dp.Traffic.maps.OwnerDrops.Delete(k))
		}
	}()
	before := w.ownerDrops(t, OwnerPort)
	w.fromPort(t, "p2", pkttest.Frame("01:00:5e:00:00:01", all, arp)) // source-multicast: no owner is known
	w.fromPort(t, "p2", say(carol, carol))
	now := w.ownerDrops(t, OwnerPort)
	for _, reason := range []string{"source-multicast", "same-port"} {
		n := now[""][reason] - before[""][reason] + now["p2"][reason] - before["p2"][reason]
		if n != 1 {
			t.Errorf("%d packets for %s, want one", n, reason)
		}
	}
}

// What is counted of a port begins at zero when another port gets its number.
func TestNewPortHasNoDrops(t *testing.T) {
	w := newWorld(t, underIPv4, static(underIPv4))
	limit(&w.tables, "p0", overlay.Limits{Broadcast: 1})
	w.apply(t)
	for range 5 {
		w.fromPort(t, "p0", say(alice, all))
	}
	w.fromPort(t, "p0", say(alice, alice))
	if d := w.ownerDrops(t, OwnerPort)["p0"]; d["same-port"] == 0 || w.rateOf(t, "p0", "broadcast").Exceeded == 0 {
		t.Fatalf("drops %v of p0, want some", d)
	}
	ports := w.tables.Ports
	w.tables.Segments[0].Static = nil
	w.tables.Ports = ports[1:]
	w.apply(t)
	w.tables.Ports = ports
	w.apply(t)
	if d := w.ownerDrops(t, OwnerPort)["p0"]; len(d) != 0 || w.rateOf(t, "p0", "broadcast").Exceeded != 0 {
		t.Errorf("drops %v of a new port", d)
	}
}
