package datapath

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
)

// reopen lets go of the data path as a process does that ends, and opens it again.
func (w *world) reopen(t *testing.T) {
	t.Helper()
	must(t, w.dp.Close())
	w.open(t)
}

func (w *world) generation(t *testing.T, segment string) uint32 {
	t.Helper()
	s, err := w.dp.Flows.Stats()
	must(t, err)
	return s.Generations[segment]
}

// A new process finds everything as the old one left it, and packets notice nothing.
func TestTakeover(t *testing.T) {
	t.Parallel()
	w := ownWorld(t, underIPv4)
	if w.dp.Adopted() {
		t.Error("the first process adopted something")
	}
	w.follow(t, []step{{"p0", say(alice, all), "flood"}, {"first", say(bob, alice), "p0"}, {"p0", say(alice, bob), "first"}})
	before := w.generation(t, "blue")
	taps := w.taps(t)

	must(t, w.dp.Close())
	in := say(alice, bob)
	taps["p0"].send(t, in)
	w.comeIn(t, taps, in, 1)

	w.open(t)
	if !w.dp.Adopted() {
		t.Error("nothing was adopted")
	}
	taps["p0"].send(t, in) // the old programs still run
	w.comeIn(t, taps, in, 1)
	w.apply(t)
	if got := w.generation(t, "blue"); got != before {
		t.Errorf("generation %d, want %d: nothing has changed", got, before)
	}
	for mac, want := range map[string]string{alice: "p0", bob: underIPv4.remotes[0].String()} {
		if got := w.fdb(t, mac); got != want {
			t.Errorf("%s is at %q, want %q", mac, got, want)
		}
	}
	_, events := w.counted(t, func() {
		taps["p0"].send(t, in)
		w.comeIn(t, taps, in, 1)
	})
	if events["hit"] != 1 || events["miss"] != 0 {
		t.Errorf("events %v, want the flow in the cache", events)
	}
}

func TestRemoveLeavesNothing(t *testing.T) {
	t.Parallel()
	w := ownWorld(t, underIPv4, static(underIPv4))
	taps := w.taps(t)
	dir := filepath.Join(w.cfg.PinRoot, w.cfg.Name)
	must(t, w.dp.Remove())
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there (%v)", dir, err)
	}
	in := say(alice, bob)
	taps["p0"].send(t, in)
	w.comeIn(t, taps, in, 0)
	w.open(t) // for the cleanup
	if w.dp.Adopted() {
		t.Error("something was left to adopt")
	}
}

// wantClean fails when anything in the maps points at what is no longer configured.
func (w *world) wantClean(t *testing.T) {
	t.Helper()
	ports, teps, segments := map[uint32]bool{}, map[uint32]bool{}, map[uint32]bool{}
	for _, p := range w.tables.Ports {
		ports[w.dp.numbers.names.portIDs[p.Name]] = true
	}
	for _, tep := range w.tables.TEPs {
		teps[w.dp.numbers.names.tepIDs[tep.Addr]] = true
	}
	for _, s := range w.tables.Segments {
		segments[w.dp.numbers.names.segIDs[s.Name]] = true
	}
	members := w.members(t)
	walkAll(t, w, func(k bpfFdbKey, e bpfFdbEntry) {
		if !segments[k.Segment] || !members[[2]uint32{k.Segment, e.Vport}] {
			t.Errorf("FDB entry of segment %d for %x points at end %d, which is no member", k.Segment, k.Mac, e.Vport)
		}
	})
	for id := range uint32(64) {
		var e bpfVport
		must(t, w.dp.numbers.maps.Vports.Lookup(id, &e))
		if used := e.Kind != bpfVportKindVPORT_NONE; used != (ports[id] || teps[id]) {
			t.Errorf("end %d has kind %d", id, e.Kind)
		}
		var s bpfSegment
		must(t, w.dp.numbers.maps.Segments.Lookup(id, &s))
		if used := s.Used == 1; used != segments[id] {
			t.Errorf("segment %d is in use: %t", id, used)
		}
	}
	if n := len(w.dp.Links.links); n != len(w.tables.Ports)+len(w.tables.Underlays) {
		t.Errorf("%d programs are attached", n)
	}
}

// members are the pairs of segment and end that may stand in the FDB.
func (w *world) members(t *testing.T) map[[2]uint32]bool {
	t.Helper()
	pairs := map[[2]uint32]bool{}
	counts := map[uint32]uint32{}
	it := w.dp.Ports.maps.Members.Iterate()
	var k bpfMemberKey
	var vport uint32
	for it.Next(&k, &vport) {
		pairs[[2]uint32{k.Segment, vport}] = true
		counts[k.Segment]++
	}
	must(t, it.Err())
	for id := range w.dp.numbers.names.segments {
		var s bpfSegment
		must(t, w.dp.numbers.maps.Segments.Lookup(id, &s))
		if s.Members != counts[id] {
			t.Errorf("segment %d counts %d members, the map has %d", id, s.Members, counts[id])
		}
	}
	return pairs
}

func walkAll(t *testing.T, w *world, do func(bpfFdbKey, bpfFdbEntry)) {
	t.Helper()
	must(t, walk(w.dp.Hosts.maps.Fdb, do))
}

// Everything is busy before each change: learned, cached, static.
func TestPrune(t *testing.T) {
	second := underIPv4.remotes[1]
	dave, erin := "02:00:00:00:00:0d", "02:00:00:00:00:0e"
	for name, c := range map[string]struct {
		change func(w *world)
		gone   []string // MACs of blue
		stay   []string
		after  []step
	}{
		"a remote": {
			func(w *world) { // of both segments, then of all
				w.tables.Segments[0].Remotes = []netip.Addr{second}
				w.tables.Segments[1].Remotes = nil
				w.tables.TEPs = w.tables.TEPs[1:]
			},
			[]string{bob}, []string{alice, carol, dave},
			[]step{{"p0", say(alice, bob), "flood"}, {"first", say(bob, alice), "drop"}, {"p0", say(alice, dave), "second"}},
		},
		"a remote of one segment": {
			func(w *world) { w.tables.Segments[0].Remotes = []netip.Addr{second} },
			[]string{bob}, []string{alice, carol, dave},
			[]step{{"p0", say(alice, bob), "flood"}, {"first", say(bob, alice), "drop"}},
		},
		"a remote replaced by another": {
			func(w *world) {
				w.tables.Segments[0].Remotes = []netip.Addr{underIPv4.unknown, second}
				w.tables.TEPs = append(w.tables.TEPs, w.tep(underIPv4.unknown))
			},
			[]string{bob}, []string{alice, carol, dave},
			[]step{{"p0", say(alice, bob), "flood"}, {"first", say(bob, alice), "drop"}},
		},
		"a port": {
			func(w *world) { w.tables.Ports = []fib.Port{w.port("p0", "blue"), w.port("p2", "green")} },
			[]string{carol}, []string{alice, bob, dave},
			[]step{{"p0", say(alice, carol), "flood"}, {"p1", say(carol, alice), "drop"}},
		},
		"a port to another segment": {
			func(w *world) { w.tables.Ports[1].Segment = "green" },
			[]string{carol}, []string{alice, bob, dave},
			[]step{{"p0", say(alice, carol), "flood"}, {"p2", say(erin, carol), "flood"}, {"p1", say(carol, erin), "p2"}},
		},
		"a segment": {
			func(w *world) {
				w.tables.Segments = w.tables.Segments[1:]
				w.tables.Ports = w.tables.Ports[2:]
				w.tables.TEPs = w.tables.TEPs[:1]
			},
			[]string{alice, bob, carol, dave}, nil,
			[]step{{"p0", say(alice, carol), "drop"}, {"first", say(bob, alice), "drop"}, {"p2", say(erin, all), "flood"}},
		},
		"static entries": {
			func(w *world) { w.tables.Segments[0].Static = nil },
			[]string{"02:00:00:00:00:50"}, []string{alice, bob, carol, dave},
			[]step{{"p0", say(alice, "02:00:00:00:00:50"), "flood"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, underIPv4, func(_ *Config, tables *fib.Tables) {
				tables.Segments[0].Static = []overlay.StaticMAC{{MAC: macOf("02:00:00:00:00:50"), Port: "p0"}}
			})
			w.follow(t, []step{
				{"p0", say(alice, all), "flood"}, {"first", say(bob, alice), "p0"}, {"p1", say(carol, alice), "p0"}, {"second", say(dave, alice), "p0"},
				{"p0", say(alice, bob), "first"}, {"p0", say(alice, carol), "p1"}, {"p0", say(alice, dave), "second"},
				{"p0", say(alice, bob), "first"}, {"p0", say(alice, carol), "p1"}, {"p0", say(alice, dave), "second"},
			})
			c.change(w)
			w.apply(t)
			for _, mac := range c.gone {
				if at := w.fdb(t, mac); at != "" {
					t.Errorf("%s is still at %s", mac, at)
				}
			}
			for _, mac := range c.stay {
				if w.fdb(t, mac) == "" {
					t.Errorf("%s is gone", mac)
				}
			}
			w.wantClean(t)
			w.follow(t, c.after)
			w.wantClean(t)
		})
	}
}

// One data path has one process, whatever runtime directories they have: two would number its ends independently.
func TestOneProcessDrivesADataPath(t *testing.T) {
	t.Parallel()
	w := ownWorld(t, underIPv4)
	second := func() (dp *Datapath, err error) {
		w.do(t, func() { dp, err = Open(w.cfg) })
		return dp, err
	}
	if dp, err := second(); err == nil || !strings.Contains(err.Error(), "another process drives") {
		if dp != nil {
			dp.Close()
		}
		t.Fatalf("a second one: %v", err)
	}
	w.follow(t, []step{{"p0", say(alice, all), "flood"}, {"first", say(bob, alice), "p0"}})
	w.apply(t)
	must(t, w.dp.Close())
	dp, err := second()
	if err != nil {
		t.Fatalf("after the first one: %v", err)
	}
	w.dp = dp
	w.apply(t)
}
