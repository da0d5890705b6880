package evpn

import (
	"testing"
	"time"
	"unsafe"
)

// A lost session ends nothing that only its neighbour knew.
func TestStaleRoutesStay(t *testing.T) {
	w := newWorld(t, edge())
	w.receive(rr1, host(mac(1), remote2), host(mac(2), remote2))
	w.receive(rr2, host(mac(2), remote2))
	w.session(Session{Neighbour: rr1})
	w.happened("stale")
	both := []string{"blue 02:00:00:00:00:01: 192.0.2.8 false", "blue 02:00:00:00:00:02: 192.0.2.8 false"}
	w.is("stations", w.macEntries, both...)
	if c := w.table.Counts(); c.Stale != 1 || c.Received != 2 {
		t.Errorf("counts are %+v, want the route that rr2 has too gone, and the other stale", c)
	}
	if s := w.status(rr1, host(mac(1), remote2).Key, "blue"); !s.Used || !s.Stale {
		t.Errorf("status is %+v", s)
	}

	w.receive(rr2, host(mac(1), remote2).with(func(r *Route) { r.RD, r.Sequence = 7, 1 }))
	if c := w.table.Counts(); c.Stale != 0 || c.Used != 2 {
		t.Errorf("counts are %+v, want none of the stale ones, which are not used", c)
	}
	w.withdraw(rr2, host(mac(1), remote2).with(func(r *Route) { r.RD = 7 }))

	// It comes back, and says one of both.
	w.session(Session{Neighbour: rr1, Up: true})
	w.receive(rr1, host(mac(2), remote2))
	w.is("stations", w.macEntries, both...)
	w.session(Session{Neighbour: rr1, Up: true, Complete: true})
	w.take(w.table.Tick(w.now.Add(Linger - 1)))
	w.is("stations", w.macEntries, both...)
	w.take(w.table.Tick(w.now.Add(Linger)))
	w.is("stations", w.macEntries, both[1])
	w.happened("stale")
}

// A neighbour that is lost again has not said what is true.
func TestStaleRoutesOutliveShortReturn(t *testing.T) {
	w := newWorld(t, edge())
	w.receive(rr1, host(mac(1), remote2))
	w.lastsForTime(false)
	w.session(Session{Neighbour: rr1})
	w.session(Session{Neighbour: rr1, Up: true, Complete: true})
	w.session(Session{Neighbour: rr1})
	w.take(w.table.Tick(w.now.Add(Linger)))
	w.is("stations", w.macEntries, "blue "+m1+": 192.0.2.8 false")
	w.lastsForTime(true)
	w.take(w.table.Tick(w.now.Add(time.Hour)))
	w.is("stations", w.macEntries)
	w.lastsForTime(false)
}

// stepped is t after the clock was set, which the time since others does not see.
func stepped(t time.Time, by time.Duration) time.Time {
	words := (*[2]uint64)(unsafe.Pointer(&t)) // wall and ext of time.Time
	const seconds = 30                        // bits of wall below those of the seconds since 1885
	words[0] += uint64(int64(by/time.Second)) << seconds
	return t
}

// How long routes stay stale does not depend on what the clock is set to.
func TestStaleRoutesWhenTheClockIsSet(t *testing.T) {
	w := newWorld(t, edge())
	w.now = time.Now()
	if at := stepped(w.now, time.Hour); at.Sub(w.now) != 0 || at.Unix()-w.now.Unix() != 3600 {
		t.Fatalf("%s is not an hour later by the clock alone: time.Time has other fields", at)
	}
	w.receive(rr1, host(mac(1), remote2))
	w.session(Session{Neighbour: rr1})
	w.take(w.table.Tick(stepped(w.now.Add(time.Minute), 5*time.Hour)))
	w.is("stations", w.macEntries, "blue "+m1+": 192.0.2.8 false")
	w.take(w.table.Tick(stepped(w.now.Add(time.Hour), -5*time.Hour)))
	w.is("stations", w.macEntries)
}

func TestStaleRoutesEnd(t *testing.T) {
	lost := func(t *testing.T) *world {
		w := newWorld(t, edge())
		w.receive(rr1, host(mac(1), remote2))
		w.receive(rr2, host(mac(1), remote2))
		w.withdraw(rr2, host(mac(1), remote2))
		w.session(Session{Neighbour: rr1})
		w.is("stations", w.macEntries, "blue "+m1+": 192.0.2.8 false")
		return w
	}
	t.Run("another neighbour withdraws", func(t *testing.T) {
		w := lost(t)
		w.withdraw(rr2, host(mac(1), remote2))
		w.is("stations", w.macEntries)
	})
	t.Run("another neighbour knows better", func(t *testing.T) {
		w := lost(t)
		w.receive(rr2, host(mac(1), remote2).sequence(1))
		if c := w.table.Counts(); c.Stale != 0 || c.Received != 1 {
			t.Errorf("counts are %+v", c)
		}
	})
	t.Run("the time is over", func(t *testing.T) {
		w := lost(t)
		w.take(w.table.Tick(w.now.Add(time.Hour - 1)))
		w.is("stations", w.macEntries, "blue "+m1+": 192.0.2.8 false")
		w.take(w.table.Tick(w.now.Add(time.Hour)))
		w.is("stations", w.macEntries)
		w.happened("stale", "stale")
	})
	t.Run("the neighbour is configured no more", func(t *testing.T) {
		w := lost(t)
		w.session(Session{Neighbour: rr1, Ended: true})
		w.is("stations", w.macEntries)
	})
	t.Run("each has its own time", func(t *testing.T) {
		w := lost(t)
		w.session(Session{Neighbour: rr1, Up: true})
		w.receive(rr1, host(mac(2), remote2))
		w.now = w.now.Add(30 * time.Minute)
		w.session(Session{Neighbour: rr1})
		w.take(w.table.Tick(w.now.Add(45 * time.Minute)))
		w.is("stations", w.macEntries, "blue 02:00:00:00:00:02: 192.0.2.8 false")
		w.take(w.table.Tick(w.now.Add(time.Hour)))
		w.is("stations", w.macEntries)
	})
	t.Run("nothing is to be stale", func(t *testing.T) {
		e := edge()
		e.BGP.Restart.Stale = 0
		w := newWorld(t, e)
		w.receive(rr1, host(mac(1), remote2))
		w.session(Session{Neighbour: rr1})
		w.is("stations", w.macEntries)
		w.happened()
	})
}
