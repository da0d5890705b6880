package evpn

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

const m1 = "02:00:00:00:00:01"

func TestHostMovesHereAndAway(t *testing.T) {
	w := newWorld(t, edge())
	w.receive(rr1, host(mac(1), remote2).sequence(3), host(mac(1), remote2).addr("10.0.0.11").sequence(3))
	w.is("stations", w.macEntries, "blue "+m1+": 192.0.2.8 false")
	w.is("residents", w.arpEntries, "blue 10.0.0.11: "+m1)
	w.happened()

	// A plain packet comes first: the address stays known until it is seen here.
	w.appear(at("blue", mac(1)))
	w.happened("moved here")
	w.is("stations", w.macEntries)
	w.is("residents", w.arpEntries, "blue 10.0.0.11: "+m1)
	w.announces(m1 + " VNI 10 to [65000:10] sequence 4")
	if got := w.table.Addresses("blue", mac(1)); !slices.Equal(got, list("10.0.0.11")) {
		t.Errorf("addresses of the host are %v", got)
	}

	w.appear(with(at("blue", mac(1)), "10.0.0.11"))
	w.is("residents", w.arpEntries)
	w.announces(m1+" VNI 10 to [65000:10] sequence 4",
		m1+" 10.0.0.11 VNI 10/99 by 02:00:00:00:00:ed to [65000:10 65000:99] sequence 4")

	// What the other edge said before has no effect, what it says with a higher number has.
	w.receive(rr2, host(mac(1), remote2).sequence(3))
	w.happened()
	w.receive(rr1, host(mac(1), remote2).sequence(5))
	w.happened("moved away")
	w.is("stations", w.macEntries, "blue "+m1+": 192.0.2.8 false")
	w.announces()
	if len(w.last.Forget) != 1 || w.last.Forget[0] != at("blue", mac(1)) || len(w.last.Withdraw) != 2 {
		t.Errorf("changes are %+v, want the host forgotten and both routes withdrawn", w.last)
	}
}

func TestEqualSequenceNumbersGoToTheLowestEndpoint(t *testing.T) {
	w := newWorld(t, edge())
	w.receive(rr1, host(mac(1), remote3), host(mac(1), remote2))
	w.is("stations", w.macEntries, "blue "+m1+": 192.0.2.8 false")
	w.receive(rr1, host(mac(1), remote3).sequence(1))
	w.is("stations", w.macEntries, "blue "+m1+": 192.0.2.9 false")

	w = newWorld(t, edge())
	w.appear(at("blue", mac(1)))
	w.receive(rr1, host(mac(1), remote2)) // higher than this edge
	w.is("stations", w.macEntries)
	w.receive(rr1, host(mac(1), remote1)) // lower
	w.is("stations", w.macEntries, "blue "+m1+": 192.0.2.1 false")
	w.happened("moved away")
}

func TestStickyHostsStay(t *testing.T) {
	e := edge()
	e.Segments[0].Static = []overlay.StaticMAC{{MAC: mac(1), Port: "p1"}}
	e.Segments[0].Neighbours = []overlay.Neighbour{{Addr: addr("10.0.0.11"), MAC: mac(1)}}
	w := newWorld(t, e)
	w.announces(m1+" VNI 10 to [65000:10] sticky",
		m1+" 10.0.0.11 VNI 10/99 by 02:00:00:00:00:ed to [65000:10 65000:99] sticky")
	w.receive(rr1, host(mac(1), remote1).sequence(9))
	w.is("stations", w.macEntries)

	sticky := host(mac(2), remote3).with(func(r *Route) { r.Sticky = true })
	w.receive(rr1, sticky, host(mac(2), remote2).sequence(8))
	w.is("stations", w.macEntries, "blue 02:00:00:00:00:02: 192.0.2.9 true")
	w.appear(at("blue", mac(2)))
	w.happened("sticky address elsewhere")
	w.is("stations", w.macEntries, "blue 02:00:00:00:00:02: 192.0.2.9 true")
}

// An address that moves to another MAC address, as of a router that stands in for another.
func TestAddressMovesToAnotherHost(t *testing.T) {
	w := newWorld(t, edge())
	w.receive(rr1, host(mac(1), remote2).addr("10.0.0.11").sequence(4))
	w.appear(at("blue", mac(2)), with(at("blue", mac(2)), "10.0.0.11"))
	w.happened("moved here")
	w.is("residents", w.arpEntries)
	w.announces("02:00:00:00:00:02 VNI 10 to [65000:10] sequence 5",
		"02:00:00:00:00:02 10.0.0.11 VNI 10/99 by 02:00:00:00:00:ed to [65000:10 65000:99] sequence 5")

	w.receive(rr1, host(mac(1), remote2).addr("10.0.0.11").sequence(6))
	w.happened("duplicate address")
	w.is("residents", w.arpEntries, "blue 10.0.0.11: "+m1)
	w.announces("02:00:00:00:00:02 VNI 10 to [65000:10] sequence 5")

	// Between hosts here it just moves.
	w.appear(with(at("blue", mac(3)), "10.0.0.12"))
	w.appear(with(at("blue", mac(2)), "10.0.0.12"))
	w.happened()
	w.announces("02:00:00:00:00:02 VNI 10 to [65000:10] sequence 5",
		"02:00:00:00:00:02 10.0.0.12 VNI 10/99 by 02:00:00:00:00:ed to [65000:10 65000:99] sequence 5")
}

func TestTwoHostsWithOneAddress(t *testing.T) {
	w := newWorld(t, edge())
	w.receive(rr1, host(mac(1), remote3).addr("10.0.0.11"))
	w.happened()
	w.receive(rr1, host(mac(2), remote2).addr("10.0.0.11"))
	w.happened("duplicate address")
	w.is("residents", w.arpEntries, "blue 10.0.0.11: 02:00:00:00:00:02")
	w.receive(rr2, host(mac(2), remote2).addr("10.0.0.11"))
	w.configure(edge())
	w.happened()
}

// flap has the host move here and away again.
func (w *world) flap(n uint32) {
	w.appear(at("blue", mac(1)))
	w.receive(rr1, host(mac(1), remote2).sequence(2*n))
}

func duplicates(freeze time.Duration) overlay.Edge {
	e := edge()
	e.BGP.Duplicates = overlay.Duplicates{Moves: 5, Within: 3 * time.Minute, Freeze: freeze}
	return e
}

func TestFrozenAfterFiveMoves(t *testing.T) {
	w := newWorld(t, duplicates(0))
	w.receive(rr1, host(mac(1), remote2))
	w.flap(1)
	w.flap(2)
	w.happened("moved here", "moved away", "moved here", "moved away")
	w.appear(with(at("blue", mac(1)), "10.0.0.11"))
	w.happened("moved here", "frozen")
	w.lastsForTime(true)
	const frozen = m1 + " 10.0.0.11 VNI 10/99 by 02:00:00:00:00:ed to [65000:10 65000:99] sequence 5"
	w.announces(frozen)

	w.receive(rr1, host(mac(1), remote2).sequence(9), host(mac(2), remote2).addr("10.0.0.11").sequence(9))
	w.happened()
	w.is("residents", w.arpEntries)
	w.announces(frozen)
	if s := w.status(rr1, host(mac(1), remote2).Key, "blue"); s.Used || s.Problem != "frozen" || !strings.Contains(s.Why, "selvage bgp thaw blue "+m1) {
		t.Errorf("status is %+v", s)
	}
	if n := len(w.table.Problems()); n != 1 {
		t.Errorf("%d problems", n)
	}
	moves := w.table.Moves()
	if len(moves) != 1 || !moves[0].Frozen || moves[0].Moves != 5 || moves[0].MAC != mac(1) || !moves[0].Until.IsZero() {
		t.Errorf("moves are %+v", moves)
	}
	if c := w.table.Counts(); c.Frozen != 1 {
		t.Errorf("counts are %+v", c)
	}

	w.now = w.now.Add(24 * time.Hour)
	w.take(w.table.Tick(w.now))
	w.happened()
	changes, err := w.table.Thaw("blue", mac(1), w.now)
	if err != nil {
		t.Fatal(err)
	}
	w.take(changes)
	w.happened("thawed", "moved away")
	w.is("stations", w.macEntries, "blue "+m1+": 192.0.2.8 false", "blue 02:00:00:00:00:02: 192.0.2.8 false")
	w.now = w.now.Add(time.Hour)
	w.take(w.table.Tick(w.now))
	if moves := w.table.Moves(); len(moves) != 0 {
		t.Errorf("an hour later moves are %+v", moves)
	}
}

// What is frozen obeys another configuration at once: of no freezing, or of another time.
func TestFrozenObeysTheConfiguration(t *testing.T) {
	freeze := func() *world {
		w := newWorld(t, duplicates(0))
		w.receive(rr1, host(mac(1), remote2))
		w.flap(1)
		w.flap(2)
		w.appear(at("blue", mac(1)))
		w.receive(rr1, host(mac(1), remote2).sequence(9))
		w.events = nil
		return w
	}
	w := freeze()
	w.configure(duplicates(0))
	w.happened()
	off := duplicates(0)
	off.BGP.Duplicates.Moves = 0
	w.configure(off)
	w.happened("thawed", "moved away")
	w.is("stations", w.macEntries, "blue "+m1+": 192.0.2.8 false")

	w = freeze()
	began := w.now
	w.now = w.now.Add(time.Minute)
	w.configure(duplicates(time.Hour))
	w.happened()
	if moves := w.table.Moves(); len(moves) != 1 || moves[0].Until.Sub(began) > time.Hour {
		t.Errorf("frozen an hour from %s: %+v", began, moves)
	}
	w.configure(duplicates(0))
	if moves := w.table.Moves(); len(moves) != 1 || !moves[0].Until.IsZero() {
		t.Errorf("frozen until it is thawed: %+v", moves)
	}
	w.configure(duplicates(time.Second))
	w.happened("thawed", "moved away")
}

func TestFrozenElsewhere(t *testing.T) {
	w := newWorld(t, duplicates(time.Minute))
	w.appear(at("blue", mac(1)))
	w.receive(rr1, host(mac(1), remote2).sequence(1))
	w.flap(2)
	w.flap(3)
	w.happened("moved away", "moved here", "moved away", "moved here", "moved away", "frozen")
	w.appear(at("blue", mac(1)), with(at("blue", mac(1)), "10.0.0.11"))
	w.happened()
	w.announces()
	w.receive(rr1, host(mac(1), remote3).sequence(99))
	w.is("stations", w.macEntries, "blue "+m1+": 192.0.2.8 false")
	// Where it was it is no more: then it is where it is said to be.
	w.withdraw(rr1, host(mac(1), remote2))
	w.is("stations", w.macEntries, "blue "+m1+": 192.0.2.9 false")

	w.now = w.now.Add(time.Minute)
	w.take(w.table.Tick(w.now))
	w.happened("thawed", "moved here")
	w.announces(m1+" VNI 10 to [65000:10] sequence 100",
		m1+" 10.0.0.11 VNI 10/99 by 02:00:00:00:00:ed to [65000:10 65000:99] sequence 100")
}

func TestSlowMovesAreNotFrozen(t *testing.T) {
	w := newWorld(t, duplicates(0))
	w.receive(rr1, host(mac(1), remote2))
	for n := range uint32(10) {
		w.now = w.now.Add(100 * time.Second)
		w.flap(n + 1)
	}
	if slices.Contains(w.events, "frozen") {
		t.Errorf("events are %q", w.events)
	}
}

func TestLastSequenceNumber(t *testing.T) {
	w := newWorld(t, edge())
	w.receive(rr1, host(mac(1), remote2).sequence(math.MaxUint32))
	w.appear(at("blue", mac(1)))
	w.announces(m1 + " VNI 10 to [65000:10] sequence 4294967295")
}

// A host that went while its address was frozen does not come when that is thawed.
func TestHeldHostGoes(t *testing.T) {
	w := newWorld(t, duplicates(time.Minute))
	w.appear(at("blue", mac(1)))
	for n := range uint32(3) {
		w.receive(rr1, host(mac(1), remote2).sequence(2*n+1))
		w.appear(at("blue", mac(1)))
	}
	w.vanish(at("blue", mac(1)))
	w.now = w.now.Add(time.Hour)
	w.take(w.table.Tick(w.now))
	w.announces()
	w.is("stations", w.macEntries, "blue "+m1+": 192.0.2.8 false")
}

func TestThawOfWhatIsNotFrozen(t *testing.T) {
	w := newWorld(t, edge())
	for segment, want := range map[string]string{"blue": "not frozen in segment blue", "plain": `no segment "plain" with EVPN`} {
		if _, err := w.table.Thaw(segment, mac(1), start); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %q", segment, err, want)
		}
	}
}
