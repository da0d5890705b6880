package datapath

import (
	"testing"
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
