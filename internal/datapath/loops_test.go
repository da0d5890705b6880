package datapath

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/test/pkttest"
)

// reportedLoops are the loops that a follower was told of.
func reportedLoops(list []HostEvent) (loops []Loop) {
	for _, e := range list {
		if e.Loop != (Loop{}) {
			loops = append(loops, e.Loop)
		}
	}
	return loops
}

// A probe that comes back tells which ports are joined.
func TestLoopProbe(t *testing.T) {
	w := newWorld(t, underIPv4)
	f := w.followHostEvents(t)
	p0 := w.dp.numbers.names.portIDs["p0"]
	probe := w.dp.HostEvents.loopProbe(p0)
	forged := slices.Clone(probe)
	forged[etherLen+14]++ // of the token
	others := slices.Clone(probe)
	others[etherLen+6]++ // the edge
	for _, c := range []struct {
		name, from string
		in         []byte
		reason     string
		want       []Loop
	}{
		{"at another port", "p1", probe, "loop", []Loop{{Port: "p0", At: "p1", Younger: "p1"}}},
		{"at its own port", "p0", probe, "loop", []Loop{{Port: "p0", At: "p0", Younger: "p0"}}},
		{"from a remote", "first", probe, "loop", []Loop{{Port: "p0", At: underIPv4.remotes[0].String(), Younger: "p0", Remote: true}}},
		{"forged", "p1", forged, "loop", nil},
		{"another edge's", "p1", others, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			drops, events := w.counted(t, func() { w.send(t, c.from, c.in) })
			if drops[c.reason] != 1 && c.reason != "" || c.reason == "" && (sum(drops) != 0 || events["flooded"] != 1) {
				t.Errorf("drops %v, events %v, want %q", drops, events, c.reason)
			}
			if got := reportedLoops(w.mark(t, f)); !slices.Equal(got, c.want) {
				t.Errorf("told of %+v, want %+v", got, c.want)
			}
			if at := w.fdb(t, loopSource.String()); at != "" {
				t.Errorf("the source of probes is learned at %s", at)
			}
		})
	}
}

// A port that is cut neither sends nor gets floods, teaches nothing, and has its known hosts go on.
func TestCutPort(t *testing.T) {
	w := newWorld(t, underIPv4)
	defer func() { must(t, w.dp.Ports.CutPorts(nil)) }()
	w.follow(t, []step{{"p0", say(alice, all), "flood"}, {"p1", say(bob, alice), "p0"}, {"p0", say(alice, bob), "p1"}})
	must(t, w.dp.Ports.CutPorts(map[string]bool{"p1": true}))
	w.apply(t) // keeps it
	taps := w.taps(t)
	w.send(t, "p0", say(alice, all))
	if n := len(taps["p1"].drain(t)); n != 0 {
		t.Errorf("%d flooded frames at the port that is cut", n)
	}
	for name, in := range map[string][]byte{
		"broadcast": say(alice, all), "unknown unicast": say(nobody, carol), "ARP": pkttest.Frame(alice, all, "arp 10.0.1.10 ? 10.0.1.11"),
	} {
		if drops, _ := w.counted(t, func() { w.send(t, "p1", in) }); drops["loop"] != 1 || sum(drops) != 1 {
			t.Errorf("%s from the port that is cut: drops %v, want one because of the loop", name, drops)
		}
	}
	if at := w.fdb(t, alice); at != "p0" {
		t.Errorf("a frame that came back has alice be at %q", at)
	}
	w.follow(t, []step{{"p0", say(alice, bob), "p1"}, {"p1", say(bob, alice), "p0"}})
	must(t, w.dp.Ports.CutPorts(nil))
	w.follow(t, []step{{"p1", say(bob, all), "flood"}})
}

// A bridge between two ports is found by the probes that the edge sends.
func TestBridgeBetweenPortsIsFound(t *testing.T) {
	w := ownWorld(t, underIPv4)
	w.join(t, "p0x", "p1x")
	f := w.followHostEvents(t)
	var got []Loop
	err := await.Within(t.Context(), 10*time.Second, "probes that come back", func() error {
		w.do(t, func() { must(t, w.dp.HostEvents.ProbeLoops()) })
		got = append(got, reportedLoops(w.mark(t, f))...)
		if !slices.Contains(got, Loop{Port: "p0", At: "p1", Younger: "p1"}) || !slices.Contains(got, Loop{Port: "p1", At: "p0", Younger: "p1"}) {
			return errors.New("not from both ports")
		}
		return nil
	})
	if err != nil {
		t.Errorf("told of %+v, want that p0 and p1 are joined: %v", got, err)
	}
}

// join has a bridge of the kernel join devices.
func (w *world) join(t testing.TB, names ...string) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "joined"
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	must(t, w.nl.LinkAdd(bridge))
	must(t, w.nl.LinkSetUp(bridge))
	for _, name := range names {
		l, err := w.nl.LinkByName(name)
		must(t, err)
		must(t, w.nl.LinkSetMaster(l, bridge))
	}
}
