package edge

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
)

var (
	via0 = overlay.Pair{Local: tep, Remote: remote, Via: overlay.Via{Addr: netip.MustParseAddr("10.0.0.1"), Interface: "eth0"}}
	via1 = overlay.Pair{Local: tep, Remote: remote, Via: overlay.Via{Addr: netip.MustParseAddr("10.0.1.1"), Interface: "eth1"}}
)

// newECMPWorld has one TEP and a remote behind two next hops, and liveness.
func newECMPWorld(t *testing.T) *world {
	w := newWorld(t)
	w.config.Underlay = overlay.Underlay{
		Interfaces: []string{"eth0", "eth1"}, TEP: tep, Teaming: overlay.PathPolicyFlow,
		Liveness: &overlay.Liveness{Interval: 50 * time.Millisecond, Multiplier: 3}, ProbeMTU: true,
	}
	w.hostState.Links["eth1"] = host.Link{Name: "eth1", Index: 4, MTU: 1550, Up: true}
	w.hostState.Routes = map[overlay.Pair]host.Path{
		via0: {NextHop: host.NextHop{Ifindex: 2, Addr: via0.Via.Addr}, Interface: "eth0", MTU: 1550, NextMAC: mac, Weight: 1},
		via1: {NextHop: host.NextHop{Ifindex: 4, Addr: via1.Via.Addr}, Interface: "eth1", MTU: 1550, NextMAC: mac, Weight: 1},
	}
	w.hostState.Vias = map[overlay.Pair][]overlay.Via{pair: {via0.Via, via1.Via}}
	w.lives = map[overlay.Pair]bfd.Result{}
	for _, p := range []overlay.Pair{pair, via0, via1} {
		w.lives[p] = bfd.Result{State: bfd.Up, Since: time.Now().Add(-time.Hour), Why: "it answers"}
	}
	return w
}

// A next hop that dies is left, those of the documents and metrics are told from each other, and the path
// MTU is probed by each.
func TestNextHops(t *testing.T) {
	w := newECMPWorld(t)
	c, _ := w.run()
	w.mu.Lock()
	peers := len(w.peers)
	w.mu.Unlock()
	if peers != 3 || w.called("probe from "+tep.String()) != 3 {
		t.Errorf("%d sessions, calls %q: want one of the pair and of each next hop, and probes likewise", peers, w.calls)
	}
	w.live(via1, bfd.Down, "no packet for 150ms")
	w.within("it is steered around the dead next hop", func() bool {
		paths, down := w.used()
		return slices.Equal(paths, []overlay.Pair{via0}) && slices.Equal(down, []overlay.Pair{via1})
	})
	if !w.problem(c, via1.String(), "no packet for 150ms") {
		t.Error("no problem says so")
	}
	paths := fetched(t, c.TEPs)[0].Paths
	if len(paths) != 2 || paths[0].NextHop != via0.Via.Addr || paths[0].State != "up" || paths[0].Shares[0].Share != 1 ||
		paths[1].Interface != "eth1" || paths[1].State != "down" || paths[1].Weight != 1 {
		t.Errorf("paths %+v", paths)
	}
	samples := slices.Collect(maps.Keys(w.scraped()["selvage_path_usable"].samples))
	if len(samples) != 2 {
		t.Errorf("samples %q, want one of each next hop", samples)
	}
}

// A remote that does not reflect is watched as a whole.
func TestNextHopsOfOneThatDoesNotReflect(t *testing.T) {
	w := newECMPWorld(t)
	for _, p := range []overlay.Pair{via0, via1} {
		w.lives[p] = bfd.Result{State: bfd.Unknown, Why: "it has not answered yet"}
	}
	c, _ := w.run()
	for _, p := range fetched(t, c.TEPs)[0].Paths {
		if p.State != "unknown" || p.Why != "the remote answers, and does not say by which next hop" || p.Shares[0].Share != .5 {
			t.Errorf("path %+v", p)
		}
	}
	w.live(pair, bfd.Down, "no packet for 150ms")
	w.within("all are dead", func() bool { return w.problem(c, "all paths are dead") })
	for _, p := range fetched(t, c.TEPs)[0].Paths {
		if p.State != "dead" || p.Why != "no packet for 150ms" {
			t.Errorf("path %+v", p)
		}
	}
}
