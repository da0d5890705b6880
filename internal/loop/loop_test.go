package loop

import (
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/selvage/selvage/internal/datapath"
)

// A port is cut while probes come back, and so long after; the time doubles when the loop is there again.
func TestLoopBackOff(t *testing.T) {
	g, now := New(Options{}), time.Unix(1000, 0)
	r := datapath.Loop{Port: "p0", At: "p1", Younger: "p1"}
	want := cutFirst
	for range 7 {
		for range 3 {
			g.Returned(r, now)
			now = now.Add(probeEvery)
			if thawed := g.pass(now); len(thawed) != 0 || !g.cut()["p1"] || len(g.Problems(now)) != 1 {
				t.Fatalf("not cut while probes come back: %v", g.Problems(now))
			}
		}
		now = now.Add(want - probeEvery - time.Second)
		if thawed := g.pass(now); len(thawed) != 0 {
			t.Fatalf("thawed before %s without a probe", want)
		}
		now = now.Add(time.Second)
		if thawed := g.pass(now); len(thawed) != 1 || len(g.cut()) != 0 {
			t.Fatalf("not thawed after %s without a probe", want)
		}
		want = min(2*want, cutMost)
	}
	now = now.Add(quiet + time.Second)
	g.pass(now)
	if len(g.ports) != 0 {
		t.Error("a loop of long ago is not forgotten")
	}
}

// Of two edges that one layer 2 joins, one has patience, and cuts only if the other does not.
func TestLoopBetweenEdges(t *testing.T) {
	g, now := New(Options{TEP: netip.MustParseAddr("192.0.2.1")}), time.Unix(1000, 0)
	r := datapath.Loop{Port: "p0", At: "192.0.2.2", Younger: "p0", Remote: true}
	for i := range remotePatience {
		if len(g.cut()) != 0 {
			t.Fatalf("cut after %d probes", i)
		}
		g.Returned(r, now)
		now = now.Add(probeEvery)
	}
	if !g.cut()["p0"] {
		t.Error("the other edge did nothing, and the port is not cut")
	}
}

// ports are what a Guard asks for.
type ports struct {
	probes int
	cut    []string // at each change
	failed error
}

func (p *ports) ProbeLoops() error { p.probes++; return nil }

func (p *ports) CutPorts(names map[string]bool) error {
	p.cut = append(p.cut, strings.Join(slices.Sorted(maps.Keys(names)), " "))
	return p.failed
}

// Ports are probed in time, cut at the next tick after a probe came back, and let back when it is over. What
// cannot be cut is a fault.
func TestTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &ports{failed: errors.New("so the test wants it")}
		faults := map[string]error{}
		g := New(Options{Ports: p, Log: slog.New(slog.DiscardHandler), Report: func(what string, err error) { faults[what] = err }})
		tick := func(n int) {
			for range n {
				g.Tick()
				time.Sleep(probeEvery / 10) //nolint:forbidigo // the clock is virtual
			}
		}
		tick(11)
		if p.probes != 2 || len(p.cut) != 0 {
			t.Errorf("%d probes, cut %q, want 2 and none", p.probes, p.cut)
		}
		g.Returned(datapath.Loop{Port: "p0", At: "p1", Younger: "p1"}, time.Now())
		tick(1)
		if !slices.Equal(p.cut, []string{"p1"}) || faults[cutPorts] == nil {
			t.Errorf("cut %q, faults %v", p.cut, faults)
		}
		p.failed = nil
		tick(10 * int(cutFirst/probeEvery+1))
		if !slices.Equal(p.cut, []string{"p1", ""}) || faults[cutPorts] != nil {
			t.Errorf("cut %q, faults %v, want p1 back", p.cut, faults)
		}
	})
}
