package datapath

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// anything lets all pass.
func anything() overlay.Firewall {
	fw := wall()
	fw.Default = overlay.Allow
	return fw
}

// A session is told by its first packet, at each of its ports.
func TestSessions(t *testing.T) {
	t.Parallel()
	w := walledWorld(t, anything())
	w.follow(t, []step{
		{"p0", udpTo("53"), "p1"}, {"p1", udpFrom("53"), "p0"},
		{"p1", pkttest.Frame(bob, alice, "icmp 10.0.0.2 > 10.0.0.1 8/0 id 7 56"), "p0"},
		{"first", pkttest.Frame(carol, alice, "tcp 10.0.0.3:5 > 10.0.0.1:80 syn"), "p0"},
	})
	var got []string
	for port, list := range w.sessions(t) {
		for _, s := range list {
			got = append(got, fmt.Sprintf("%s %s %s %d %s:%d > %s:%d peer %q %q %s answered=%v %d/%d %s/%s current=%v", port, s.Segment, s.Direction, s.Proto,
				s.Src, s.SrcPort, s.Dst, s.DstPort, s.PeerPort, s.PeerSegment, s.State, s.Answered, s.Orig.Packets, s.Reply.Packets, s.Rule.Section, s.Rule.Name, s.Current))
		}
	}
	slices.Sort(got)
	want := []string{
		`p0 blue in 1 10.0.0.2:7 > 10.0.0.1:7 peer "p1" "blue" icmp answered=false 1/0 default/edge current=true`,
		`p0 blue in 6 10.0.0.3:5 > 10.0.0.1:80 peer "" "blue" opening answered=false 1/0 default/edge current=true`,
		`p0 blue out 17 10.0.0.1:1000 > 10.0.0.2:53 peer "p1" "blue" replied answered=true 1/1 default/edge current=true`,
		`p1 blue in 17 10.0.0.1:1000 > 10.0.0.2:53 peer "p0" "blue" replied answered=true 1/1 default/edge current=true`,
		`p1 blue out 1 10.0.0.2:7 > 10.0.0.1:7 peer "p0" "blue" icmp answered=false 1/0 default/edge current=true`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// What the flow cache has of a session's directions, and what not.
func TestCachedSessions(t *testing.T) {
	w := walledWorld(t, anything())
	cached := func() map[string][2]Cached {
		var list []Session
		for _, s := range w.sessions(t) {
			list = append(list, slices.DeleteFunc(s, func(s Session) bool { return s.Echo })...)
		}
		ways, err := w.dp.Flows.CachedSessions(list)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string][2]Cached{}
		for i, s := range list {
			all[s.Port] = ways[i]
		}
		return all
	}
	w.follow(t, []step{{"p0", udpTo("53"), "p1"}})
	for port, ways := range cached() {
		if !ways[0].Known || !ways[0].Fast || ways[1].Known {
			t.Errorf("%s without an answer: %+v", port, ways)
		}
	}
	w.follow(t, []step{{"p1", udpFrom("53"), "p0"}, {"p0", udpTo("53"), "p1"}})
	for port, ways := range cached() {
		if !ways[0].Fast || !ways[1].Fast {
			t.Errorf("%s with one: %+v", port, ways)
		}
	}
	ping := func(words string) []byte { return pkttest.Frame(alice, bob, "icmp 10.0.0.1 > 10.0.0.2 "+words) }
	w.follow(t, []step{{"p0", ping("8/0 id 7 56"), "p1"}, {"p0", ping("8/0 id 8 56"), "p1"}})
	if c := w.sweep(t); c.States["icmp"] != 4 {
		t.Fatalf("census %+v, want two echoes at each port", c)
	}
	for port, list := range w.sessions(t) {
		list = slices.DeleteFunc(list, func(s Session) bool { return !s.Echo })
		ways, err := w.dp.Flows.CachedSessions(list)
		if err != nil || len(ways) != 2 || ways[0][0].Fast || ways[1][1].Why == "" {
			t.Errorf("echoes of %s: %+v, %v, want them slow", port, ways, err)
		}
	}
	if err := w.dp.Changes.invalidateAll(); err != nil {
		t.Fatal(err)
	}
	if ways := cached()["p0"]; ways[0].Fast || ways[0].Why == "" {
		t.Errorf("after a change: %+v", ways)
	}
}
