package edge

import (
	"net/netip"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
)

// A port is cut while probes come back, and so long after; the time doubles when the loop is there again.
func TestLoopBackOff(t *testing.T) {
	l, now := newLoops(&edge{}), time.Unix(1000, 0)
	r := datapath.Loop{Port: "p0", At: "p1", Younger: "p1"}
	want := loopCut
	for range 7 {
		for range 3 {
			l.returned(r, now)
			now = now.Add(loopProbeEvery)
			if thawed := l.pass(now); len(thawed) != 0 || !l.cut()["p1"] || len(l.problems(now)) != 1 {
				t.Fatalf("not cut while probes come back: %v", l.problems(now))
			}
		}
		now = now.Add(want - loopProbeEvery - time.Second)
		if thawed := l.pass(now); len(thawed) != 0 {
			t.Fatalf("thawed before %s without a probe", want)
		}
		now = now.Add(time.Second)
		if thawed := l.pass(now); len(thawed) != 1 || len(l.cut()) != 0 {
			t.Fatalf("not thawed after %s without a probe", want)
		}
		want = min(2*want, loopCutMost)
	}
	now = now.Add(loopQuiet + time.Second)
	l.pass(now)
	if len(l.ports) != 0 {
		t.Error("a loop of long ago is not forgotten")
	}
}

// Of two edges that one layer 2 joins, one has patience, and cuts only if the other does not.
func TestLoopBetweenEdges(t *testing.T) {
	here := overlay.Edge{Underlay: overlay.Underlay{TEP: netip.MustParseAddr("192.0.2.1")}}
	l, now := newLoops(&edge{state: state{config: here}}), time.Unix(1000, 0)
	r := datapath.Loop{Port: "p0", At: "192.0.2.2", Younger: "p0", Remote: true}
	for i := range remotePatience {
		if len(l.cut()) != 0 {
			t.Fatalf("cut after %d probes", i)
		}
		l.returned(r, now)
		now = now.Add(loopProbeEvery)
	}
	if !l.cut()["p0"] {
		t.Error("the other edge did nothing, and the port is not cut")
	}
}

// Ports take turns: a host that moved is told of at once, whatever comes to other ports.
func TestMovesTakeTurns(t *testing.T) {
	var h hostEvents
	for range 10_000 {
		h.add(datapath.Move{Port: "p0"})
	}
	h.add(datapath.Move{Port: "p1"})
	list := h.take()
	if len(list) != mostMoves || list[1].Port != "p1" {
		t.Errorf("%d moves, and that of p1 is not the second", len(list))
	}
	if len(h.moved["p0"]) >= mostHostEvents {
		t.Errorf("%d moves of a port wait", len(h.moved["p0"]))
	}
}
