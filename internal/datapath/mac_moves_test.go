package datapath

import (
	"testing"
	"time"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
)

// freezing freezes after five moves, for ten seconds at first.
func freezing(c *Config, _ *fib.Tables) {
	c.FDB.Duplicates = overlay.Duplicates{Moves: 5, Within: 3 * time.Minute, Freeze: 10 * time.Second}
}

// thaw lets the time pass for which addresses are frozen.
func (w *world) thaw(t testing.TB) {
	t.Helper()
	changeEach[bpfFdbKey](t, w.dp.Hosts.maps.Fdb, func(e *bpfFdbEntry) {
		if e.FrozenS > 0 {
			e.FrozenS = 1
		}
	})
}

// A MAC address that is seen in two places stays where it was first: a guest that sends from its
// neighbour's address neither takes it away nor has all decisions be taken again for ever.
func TestMACThatFlapsIsFrozen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, home, other, otherPlace string }{
		{"two ports", "p0", "p1", "p1"}, {"a port and a remote", "p0", "first", underIPv4.remotes[0].String()},
		{"a remote and a port", "first", "p0", "p0"}, {"two remotes", "first", "second", underIPv4.remotes[1].String()},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, underIPv4, freezing)
			at := c.home
			if c.home == "first" {
				at = underIPv4.remotes[0].String()
			}
			w.send(t, c.home, say(alice, all))
			for seconds := 10; seconds <= 20; seconds += 10 { // twice as long the second time
				drops, events := w.counted(t, func() {
					for range 50 {
						w.send(t, c.other, say(alice, all))
						w.send(t, c.home, say(alice, all))
					}
				})
				if drops["mac-frozen"] != 48 || sum(drops) != 48 || events["mac-frozen"] != 1 || events["moved"] != 5 {
					t.Errorf("drops %v, events %v, want 5 moves, and the other place's frames dropped from then on", drops, events)
				}
				e := w.fdbEntry(t, "blue", alice)
				if got := w.fdb(t, alice); got != at || e.Other != c.otherPlace {
					t.Errorf("it is frozen at %q and was seen at %q, want %q and %q", got, e.Other, at, c.otherPlace)
				}
				if want := time.Duration(seconds) * time.Second; e.Frozen > want || e.Frozen < want-2*time.Second {
					t.Errorf("it is frozen for %s, want %s", e.Frozen, want)
				}
				w.wantCounted(t, "frozen")
				w.thaw(t)
			}
			w.send(t, c.other, say(alice, all))
			if got := w.fdb(t, alice); got != c.otherPlace {
				t.Errorf("when it is thawed it is at %q, want %q", got, c.otherPlace)
			}
		})
	}
}

// A host that migrates there, back and there again is never kept away.
func TestMigrationIsNotFrozen(t *testing.T) {
	w := newWorld(t, underIPv4, freezing)
	drops, events := w.counted(t, func() {
		for range 20 { // times, each longer ago than the moves that count
			for _, from := range []string{"p0", "first", "p0", "p1"} {
				w.send(t, from, say(alice, all))
			}
			changeEach[bpfFdbKey](t, w.dp.Hosts.maps.Fdb, func(e *bpfFdbEntry) { e.WindowS -= 200 })
		}
	})
	if sum(drops) != 0 || events["mac-frozen"] != 0 {
		t.Errorf("drops %v, events %v", drops, events)
	}
}

// New MAC addresses of one port neither delay nor lose what is told of another's: each has its rate.
func TestHostEventsOfOnePortLeaveRoomForOthers(t *testing.T) {
	w := newWorld(t, underIPv4, func(_ *Config, tables *fib.Tables) {
		for i := range tables.Ports {
			tables.Ports[i].Limits.HostEvents = 100
		}
	})
	f := w.followHostEvents(t)
	w.floodMACs(t, "p0", 3000)
	w.send(t, "p1", say(carol, all))
	reported := map[string]int{}
	for _, e := range w.mark(t, f) {
		reported[e.Port]++
	}
	if reported["p1"] != 1 || reported["p0"] < 50 || reported["p0"] > 1000 {
		t.Errorf("told of hosts by port: %v, want carol, and as many of the flood as its rate allows", reported)
	}
}
