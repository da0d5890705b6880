package edge

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/writer"
)

var (
	tepB    = netip.MustParseAddr("198.51.100.1")
	remoteB = netip.MustParseAddr("198.51.100.2")
	aa      = overlay.Pair{Local: tep, Remote: remote}
	ab      = overlay.Pair{Local: tep, Remote: remoteB}
	ba      = overlay.Pair{Local: tepB, Remote: remote}
	bb      = overlay.Pair{Local: tepB, Remote: remoteB}
	mesh    = []overlay.Pair{aa, ab, ba, bb}
)

// newDualWorld has two TEPs, a remote with two, four paths, and liveness.
func newDualWorld(t *testing.T) *world {
	w := newWorld(t)
	w.config.Underlay = overlay.Underlay{
		Interfaces: []string{"eth0", "eth1"}, TEP: tep, Teaming: overlay.PathPolicyFlow,
		TEPs:     []overlay.TEP{{Name: "a", Addr: tep, Interface: "eth0"}, {Name: "b", Addr: tepB, Interface: "eth1"}},
		Liveness: &overlay.Liveness{Interval: 50 * time.Millisecond, Multiplier: 3},
	}
	w.config.Remotes = []overlay.Remote{{Name: "edge-b", Addrs: []netip.Addr{remote, remoteB}}}
	w.hostState.TEPs = map[netip.Addr]bool{tep: true, tepB: true}
	w.hostState.Links["eth1"] = host.Link{Name: "eth1", Index: 4, MTU: 1550, Up: true}
	w.hostState.Routes = map[overlay.Pair]host.Path{}
	for _, p := range mesh {
		way := host.Path{NextHop: host.NextHop{Ifindex: 2, Addr: p.Remote}, Interface: "eth0", MTU: 1550, NextMAC: mac}
		if p.Local == tepB {
			way.Ifindex, way.Interface = 4, "eth1"
		}
		w.hostState.Routes[p] = way
	}
	w.lives = map[overlay.Pair]bfd.Result{}
	for _, p := range mesh {
		w.lives[p] = bfd.Result{State: bfd.Up, Since: time.Now().Add(-time.Hour), Why: "it answers"}
	}
	return w
}

// live changes what liveness knows and tells the edge.
func (w *world) live(pair overlay.Pair, state bfd.State, why string) {
	w.mu.Lock()
	w.lives = maps.Clone(w.lives)
	w.lives[pair] = bfd.Result{State: state, Since: time.Now(), Why: why}
	w.mu.Unlock()
	w.died <- struct{}{}
}

// used are the paths that the last Steer gave to the flows, and those it called down.
func (w *world) used() (paths, down []overlay.Pair) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.steered) > 0 {
		paths = w.steered[0].PathGroups[0].Paths
	}
	for _, t := range w.teps {
		if t.Down {
			down = append(down, overlay.Pair{Local: t.Local, Remote: t.Addr, Via: t.Via})
		}
	}
	return paths, down
}

// A path that dies is left at once: nothing of the host is looked at.
func TestDeadPathIsLeft(t *testing.T) {
	w := newDualWorld(t)
	c, _ := w.run()
	w.mu.Lock()
	peers, cfg := len(w.peers), w.configs[0]
	w.mu.Unlock()
	if peers != 4 || !slices.Equal(cfg.TEPs, []netip.Addr{tep, tepB}) {
		t.Errorf("%d sessions, data path with TEPs %v: want four, both", peers, cfg.TEPs)
	}
	before := slices.Clone(w.calls)
	w.live(ba, bfd.Down, "no packet for 150ms")
	w.within("flows steered", func() bool { return w.called("steer") == 1 })
	if got := without(w.calls[len(before):], "read"); !slices.Equal(got, []string{"steer"}) {
		t.Errorf("calls %q, want the steering alone", got)
	}
	w.within("it is steered around the dead path", func() bool {
		paths, down := w.used()
		return slices.Equal(paths, []overlay.Pair{aa, ab, bb}) && slices.Equal(down, []overlay.Pair{ba})
	})
	if !w.problem(c, "edge-b", ba.String(), "no packet for 150ms") {
		t.Error("no problem says so")
	}
	info := fetched(t, c.TEPs)[0]
	if info.Name != "edge-b" || len(info.Paths) != 4 {
		t.Fatalf("remote %+v, want edge-b with four paths", info)
	}
	for i, p := range mesh {
		got, want := info.Paths[i], "up"
		share := 1. / 3
		if p == ba {
			want, share = "down", 0
		}
		off := got.Shares[0].Share - share
		if (overlay.Pair{Local: got.Local, Remote: got.Remote}) != p || got.State != want || off > .02 || off < -.02 {
			t.Errorf("path %d is %+v, want %s, %s, share %.2f", i, got, p, want, share)
		}
	}
	w.live(ba, bfd.Up, "it answers")
	w.within("it has its flows again", func() bool {
		paths, down := w.used()
		return slices.Equal(paths, mesh) && len(down) == 0
	})
	w.within("problem over", func() bool { return !w.problem(c, ba.String()) })
}

// Flows move while somebody reads a large table, and while the loop waits for that.
func TestPathSelectorWaitsForNobody(t *testing.T) {
	w := newDualWorld(t)
	c, _ := w.run()
	stuck, observing := make(chan struct{}), make(chan struct{})
	release, observed := sync.OnceFunc(func() { close(stuck) }), sync.OnceFunc(func() { close(observing) })
	t.Cleanup(release)
	t.Cleanup(observed)
	observations := w.called("observe")
	w.set(func() { w.stuck = map[string]chan struct{}{"flows": stuck, "observe": observing} })
	w.within("the loop reconciles", func() bool { return w.called("observe") > observations })
	read := make(chan error, 1)
	go func() {
		_, err := c.Flows(context.Background(), api.EntryQuery{})
		read <- err
	}()
	w.within("the read lasts", func() bool {
		if free := w.reading.TryLock(); free {
			w.reading.Unlock()
			return false
		}
		return true
	})
	observed() // the loop goes on, up to where it waits for the reader
	applied := w.called("apply")
	w.live(ba, bfd.Down, "no packet for 150ms")
	w.within("flows steered", func() bool { return w.called("steer") == 1 })
	if w.called("apply") > applied {
		t.Error("tables were applied during a read")
	}
	release()
	if err := <-read; err != nil {
		t.Error(err)
	}
	w.within("tables applied", func() bool { return w.called("apply") > applied })
	w.mu.Lock()
	defer w.mu.Unlock()
	if paths := w.tables.PathPolicies[0].PathGroups[0].Paths; slices.Contains(paths, ba) {
		t.Errorf("the tables that waited bring the dead path back: %v", paths)
	}
}

// A reconciliation keeps what liveness says, and what does not work is tried again.
func TestReconcileKeepsDeadPathsOut(t *testing.T) {
	w := newDualWorld(t)
	c, _ := w.run()
	w.mu.Lock()
	w.failing["steer"] = errFake
	w.mu.Unlock()
	w.live(aa, bfd.Down, "no packet for 150ms")
	w.within("fault reported", func() bool { return w.problem(c, "steer the flows", errFake.Error()) })
	w.set(func() { delete(w.failing, "steer") })
	w.within("tables without the dead path", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.Equal(w.tables.PathPolicies[0].PathGroups[0].Paths, []overlay.Pair{ab, ba, bb})
	})
	w.live(ab, bfd.Down, "no packet for 150ms")
	w.within("fault over", func() bool { return !w.problem(c, errFake.Error()) })
	link := w.hostState.Links["eth1"]
	link.Up = false
	w.set(func() { w.hostState.Links = maps.Clone(w.hostState.Links); w.hostState.Links["eth1"] = link })
	w.within("all dead is said", func() bool { return w.problem(c, "edge-b", "all paths are dead") })
	paths := fetched(t, c.TEPs)[0].Paths
	if paths[0].State != "down" || paths[2].State != "dead" || paths[2].Why != "interface eth1 is down" || paths[2].Shares[0].Share != .5 {
		t.Errorf("paths %+v: want the first down, the third dead with half of the flows, as last", paths)
	}
}

// Just after the start, paths that have not answered yet are no reason to leave them.
func TestPatienceAfterTheStart(t *testing.T) {
	w := newDualWorld(t)
	for _, p := range mesh[1:] {
		w.lives[p] = bfd.Result{State: bfd.Unknown, Since: time.Now(), Why: "it has not answered yet"}
	}
	c, _ := w.run()
	w.live(aa, bfd.Up, "it answers")
	w.within("steered", func() bool { return w.called("steer") > 0 })
	if paths, _ := w.used(); !slices.Equal(paths, mesh) {
		t.Errorf("paths %v, want all", paths)
	}
	w.within("left when they never answered", func() bool {
		w.set(func() {})
		return w.problem(c, bb.String(), "it never answered")
	})
}

func TestLivenessFollowsConfiguration(t *testing.T) {
	w := newDualWorld(t)
	c, stop := w.run()
	w.mu.Lock()
	w.config.Underlay.Liveness = nil
	w.mu.Unlock()
	w.hangup()
	w.within("the remotes are told", func() bool { return w.called("leave") == 1 && w.called("close liveness") == 1 })
	w.within("nothing is known", func() bool { return fetched(t, c.TEPs)[0].Paths[0].Why == "BFD is off" })
	w.mu.Lock()
	w.config.Underlay.Liveness = &overlay.Liveness{Interval: time.Second, Multiplier: 3}
	w.failing["watch"] = errFake
	w.mu.Unlock()
	w.hangup()
	w.within("problem reported", func() bool { return w.problem(c, "BFD", errFake.Error()) })
	w.set(func() { delete(w.failing, "watch"); w.failing["set peers"] = errFake })
	w.within("watched again", func() bool { return w.called("set peers") > 0 && w.problem(c, "BFD", errFake.Error()) })
	w.set(func() { delete(w.failing, "set peers") })
	w.within("problem over", func() bool { return !w.problem(c, errFake.Error()) })
	if err := stop(); err != nil {
		t.Error(err)
	}
	ended := slices.Index(w.calls, "remove")
	if last := w.calls[ended-2 : ended]; !slices.Equal(last, []string{"leave", "close liveness"}) {
		t.Errorf("before the data path went: %q, want the remotes told", last)
	}
}

// An edge whose data path goes on says nothing: the remotes use it on.
func TestKeptDataPathLeavesNoWord(t *testing.T) {
	w := newDualWorld(t)
	w.opts.RemoveAtExit = false
	_, stop := w.run()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if w.called("leave") > 0 || w.called("close liveness") != 1 {
		t.Errorf("calls %q, want the sessions closed without a word", w.calls)
	}
}

// Each TEP probes for itself, and each path has its own MTU.
func TestProbesOfSeveralTEPs(t *testing.T) {
	w := newDualWorld(t)
	w.config.Underlay.ProbeMTU = true
	delete(w.hostState.TEPs, tepB)
	w.results = nil
	c, stop := w.run()
	ceilings := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.ceilings)
	}
	if n := ceilings(); n != 2 || w.called("probe from 198.51.100.1") > 0 {
		t.Errorf("%d paths probed, calls %q: want those of the TEP that is there", n, w.calls)
	}
	w.set(func() { w.hostState.TEPs = map[netip.Addr]bool{tep: true, tepB: true} })
	w.within("all paths probed", func() bool { return ceilings() == 4 })
	if !slices.ContainsFunc(fetched(t, c.TEPs)[0].Paths, func(p api.PathInfo) bool { return p.State == "up" }) {
		t.Error("no path is up")
	}
	if err := stop(); err != nil || w.called("end probes") != 2 {
		t.Errorf("stop: %v, calls %q", err, w.calls)
	}
}

func TestBalance(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*world)
		sent   map[overlay.Pair]uint64
		want   string // of the problem; "": none
	}{
		{"even", nil, map[overlay.Pair]uint64{aa: 10_500, ab: 10_000, ba: 9_500, bb: 10_000}, ""},
		{"uneven", nil, map[overlay.Pair]uint64{aa: 16_000, ab: 8_000, ba: 8_000, bb: 8_000}, "remote 192.0.2.2: its 4 paths carry uneven shares"},
		{"nothing on one", nil, map[overlay.Pair]uint64{aa: 20_000, ab: 0, ba: 20_000, bb: 20_000}, ab.String()},
		{"few packets", nil, map[overlay.Pair]uint64{aa: 4_000, ab: 1, ba: 1, bb: 1}, ""},
		{"few flows", func(w *world) { w.fewFlows = true }, map[overlay.Pair]uint64{aa: 40_000, ab: 1, ba: 1, bb: 1}, ""},
		{"by source", func(w *world) { w.config.Underlay.Teaming = overlay.PathPolicySource }, map[overlay.Pair]uint64{aa: 40_000, bb: 1}, ""},
		{"pinned", func(w *world) {
			w.config.Segments = append(w.config.Segments, overlay.Segment{Name: "green", VNI: 300, Tunnel: vxlan, TEPs: []string{"b"}, Remotes: []netip.Addr{remote}})
		}, map[overlay.Pair]uint64{aa: 40_000, bb: 1}, ""},
		{"a dead one", func(w *world) { w.lives[bb] = bfd.Result{State: bfd.Down, Why: "no packet for 150ms"} },
			map[overlay.Pair]uint64{aa: 10_000, ab: 10_000, ba: 10_000}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newDualWorld(t)
			if tt.change != nil {
				tt.change(w)
			}
			w.opts.Resync = 30 * time.Millisecond
			c, _ := w.run()
			ticks := func() {
				for range 3 {
					before := w.called("apply")
					w.within("a tick", func() bool { return w.called("apply") > before+1 })
				}
			}
			ticks()
			w.mu.Lock()
			w.addSent = tt.sent
			w.mu.Unlock()
			if tt.want == "" {
				ticks()
				if w.problem(c, "uneven") {
					t.Error("there is a problem")
				}
				return
			}
			w.within("problem", func() bool { return w.problem(c, tt.want, "uneven shares of the packets") })
			if p := fetched(t, c.TEPs)[0].Paths[0]; p.PacketShare == nil || *p.PacketShare < .25 {
				t.Errorf("path %+v, want its part of the packets", p)
			}
			w.mu.Lock()
			w.addSent = map[overlay.Pair]uint64{aa: 10_000, ab: 10_000, ba: 10_000, bb: 10_000}
			w.mu.Unlock()
			w.within("problem over", func() bool { return !w.problem(c, "uneven") })
		})
	}
}

// A plan that gives no flow to another path is no move.
func TestMovesOfPlans(t *testing.T) {
	w := newDualWorld(t)
	var paths writer.PathPlan
	dead := map[overlay.Pair]string{bb: "no packet for 150ms"}
	for i, one := range []struct {
		dead  map[overlay.Pair]string
		moves int
	}{{nil, 1}, {dead, 2}, {dead, 2}, {nil, 3}} {
		paths = paths.Then(plan.Teamed(w.config, plan.FactsOf(w.config, w.hostState, nil, one.dead), paths.PathPolicies))
		if paths.Moves != one.moves {
			t.Errorf("plan %d: %d moves, want %d", i, paths.Moves, one.moves)
		}
	}
}

// counters of paths grow by addSent with each reading.
func (w *world) grow() map[overlay.Pair]datapath.Counters {
	grown := maps.Clone(w.sent)
	if grown == nil {
		grown = map[overlay.Pair]datapath.Counters{}
	}
	for p, n := range w.addSent {
		grown[p] = datapath.Counters{Packets: grown[p].Packets + n}
	}
	w.sent = grown
	return grown
}
