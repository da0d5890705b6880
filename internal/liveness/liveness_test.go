package liveness

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
)

var (
	local     = netip.MustParseAddr("192.0.2.1")
	path      = overlay.Pair{Local: local, Remote: netip.MustParseAddr("192.0.2.2")}
	reflector = netip.MustParseAddr("192.0.2.100")
	errFake   = errors.New("so the test wants it")
)

// monitor has the sessions and results that a test says, and notes what is asked of it.
type monitor struct {
	calls   []string
	peers   []bfd.Peer
	results map[overlay.Pair]bfd.Result
	changed chan struct{}
	failing error
}

func (m *monitor) Set(peers []bfd.Peer) error           { m.peers = peers; return m.failing }
func (m *monitor) SetService(s bfd.Service)             { m.calls = append(m.calls, "say "+s.String()) }
func (m *monitor) Results() map[overlay.Pair]bfd.Result { return maps.Clone(m.results) }
func (m *monitor) LinkLost(int)                         { m.calls = append(m.calls, "link lost") }
func (m *monitor) Changed() <-chan struct{}             { return m.changed }
func (m *monitor) Leave(context.Context) error          { m.calls = append(m.calls, "leave"); return nil }
func (m *monitor) Close() error                         { m.calls = append(m.calls, "close"); return nil }

// gateway serves, and counts how often it is to judge.
type gateway struct{ woken int }

func (g *gateway) Service() bfd.Service { return bfd.InService }
func (g *gateway) Wake()                { g.woken++ }

// watched is an edge with one path and a BGP neighbour beside it, which BFD watches.
func watched() (overlay.Edge, plan.PathPolicies) {
	e := overlay.Edge{
		Underlay: overlay.Underlay{TEP: local, Liveness: &overlay.Liveness{Interval: 50 * time.Millisecond, Multiplier: 3}},
		BGP:      &overlay.BGP{Neighbours: []overlay.BGPNeighbour{{Name: "rr", Addr: reflector, Local: local, Liveness: true}, {Name: "unwatched", Addr: path.Remote}}},
	}
	return e, plan.PathPolicies{Paths: []plan.TunnelPath{{Pair: path}}}
}

// What is watched follows the configuration; sessions with BGP neighbours alone are of no path, and a neighbour fails
// once.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toReflector := overlay.Pair{Local: local, Remote: reflector}
		up, down := bfd.Result{State: bfd.Up}, bfd.Result{State: bfd.Down, Why: "no packet for 150ms"}
		m := &monitor{changed: make(chan struct{}, 1), results: map[overlay.Pair]bfd.Result{path: up, toReflector: up}}
		changes, faults := 0, map[string]error{}
		opening := errFake
		w := New(Options{
			Open:    func(*slog.Logger) (Monitor, error) { return m, opening },
			Gateway: &gateway{}, Changed: func() { changes++ },
			Log: slog.New(slog.DiscardHandler), Report: func(what string, err error) { faults[what] = err },
		})
		e, paths := watched()
		w.Follow(e, paths, nil)
		if faults[WatchRemotes] == nil || w.Results() != nil || !w.Since().IsZero() || len(w.Failed())+len(w.Neighbours())+len(w.Dead()) != 0 {
			t.Errorf("nothing can be watched: faults %v, results %v", faults, w.Results())
		}
		w.LinkLost(7)
		opening = nil
		w.Follow(e, paths, nil)
		m.changed <- struct{}{}
		synctest.Wait()
		if faults[WatchRemotes] != nil || len(m.peers) != 2 || changes != 1 || len(w.Results()) != 1 || w.Results()[path] != up {
			t.Errorf("faults %v, %d peers, %d changes, results %v", faults, len(m.peers), changes, w.Results())
		}
		if w.Neighbours()[reflector] != "up" || len(w.Failed()) != 0 {
			t.Errorf("neighbours %v, failed %v", w.Neighbours(), w.Failed())
		}
		m.results[toReflector] = down
		if first, again := w.Failed(), w.Failed(); first[reflector] != down.Why || len(again) != 0 {
			t.Errorf("failed %v, and again %v", first, again)
		}
		for _, c := range []struct {
			result bfd.Result
			dead   bool
		}{{down, true}, {up, false}, {bfd.Result{}, false}, {bfd.Result{State: bfd.Down, Left: true}, false}, {bfd.Result{State: bfd.Down, Held: true}, false}} {
			m.results[toReflector] = c.result
			if dead := w.Dead(); (dead[reflector] != "") != c.dead || c.dead && len(dead) != 1 {
				t.Errorf("with %+v dead are %v", c.result, dead)
			}
		}
		w.LinkLost(7)
		e.Underlay.Liveness = nil
		w.Follow(e, paths, nil)
		w.LinkLost(7)
		if want := []string{"say " + bfd.InService.String(), "link lost", "leave", "close"}; !slices.Equal(m.calls, want) {
			t.Errorf("calls %q, want %q", m.calls, want)
		}
		if err := w.Close(true); err != nil {
			t.Error(err)
		}
	})
}

// The default is the real monitor: it opens without sockets and closes.
func TestOpenMonitor(t *testing.T) {
	m, err := OpenMonitor(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Set(nil); err != nil || len(m.Results()) > 0 {
		t.Errorf("set: %v, results %v", err, m.Results())
	}
	if err := m.Leave(context.Background()); err != nil {
		t.Error(err)
	}
	if err := m.Close(); err != nil || m.Close() != nil {
		t.Errorf("close: %v", err)
	}
	if err := m.Set(nil); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("set after close: %v", err)
	}
}
