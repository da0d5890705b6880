package datapath

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// says is a program that has one for all packets.
func says(t testing.TB, kind ebpf.ProgramType, value verdict) *ebpf.Program {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: kind, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, int32(value)), asm.Return()},
	})
	must(t, err)
	t.Cleanup(func() { prog.Close() })
	return prog
}

// plantTCX pins a program before all others that are attached to dev, and lets go of it.
func (w *world) plantTCX(t testing.TB, name, dev string, at ebpf.AttachType, value verdict) (path string) {
	t.Helper()
	w.do(t, func() {
		l, err := link.AttachTCX(link.TCXOptions{
			Interface: w.dev[dev].Index, Program: says(t, ebpf.SchedCLS, value), Attach: at, Anchor: link.Head(),
		})
		must(t, err)
		path = plantLink(t, w, name, l)
	})
	return path
}

func plantLink(t testing.TB, w *world, name string, l link.Link) (path string) {
	t.Helper()
	path = filepath.Join(w.dp.Pins.linkDir(), name)
	must(t, l.Pin(path))
	must(t, l.Close())
	return path
}

// plantMaps pins a map of each name in the directory of another ABI version.
func (w *world) plantMaps(t testing.TB, abi int, names ...string) (dir string) {
	t.Helper()
	dir = w.dp.Pins.mapDirOf(abi)
	must(t, os.MkdirAll(dir, 0o700))
	for _, name := range names {
		m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
		must(t, err)
		must(t, m.Pin(filepath.Join(dir, name)))
		must(t, m.Close())
	}
	return dir
}

func isThere(t testing.TB, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// wantNewer holds that one line for each pin says where it is, what it means and what to do.
func (w *world) wantNewer(t testing.TB, want map[string]string) {
	t.Helper()
	var got []string
	w.do(t, func() { got = w.dp.Links.NewerPins() })
	for path, effect := range want {
		if !slices.ContainsFunc(got, func(line string) bool {
			return strings.HasPrefix(line, path+" is of a newer release") && strings.Contains(line, effect) && strings.HasSuffix(line, " "+path)
		}) {
			t.Errorf("nothing says that %s is there and %q, but %q", path, effect, got)
		}
		if !isThere(t, path) {
			t.Errorf("%s is gone", path)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d newer pins, want %d: %q", len(got), len(want), got)
	}
}

// What a newer build pinned stays when this one takes over and when it ends, and what comes in is this build's before it is the newer one's.
func TestNewerPinsStay(t *testing.T) {
	t.Parallel()
	w := ownWorld(t, underIPv4)
	w.follow(t, []step{{"p0", say(alice, all), "flood"}, {"p1", say(bob, alice), "p0"}})
	taps := w.taps(t)
	in := say(alice, bob)

	must(t, w.dp.Close())
	newer := w.plantMaps(t, abiVersion+1, "ends", "wonders")
	other := filepath.Join(w.dp.Pins.dir, "links-next")
	must(t, os.Mkdir(other, 0o700))
	port, spare := w.dev["p0"].Index, w.dev["s0"].Index
	meter := w.plantTCX(t, fmt.Sprintf("meter-%d", port), "p0", ebpf.AttachTCXIngress, dropped)
	again := w.plantTCX(t, fmt.Sprintf("port-%d-2", port), "p0", ebpf.AttachTCXIngress, next)
	shaper := w.plantTCX(t, fmt.Sprintf("shaper-%d", port), "p1", ebpf.AttachTCXEgress, next)
	alone := w.plantTCX(t, fmt.Sprintf("meter-%d", spare), "s0", ebpf.AttachTCXIngress, next)
	var early string
	w.do(t, func() {
		l, err := link.AttachXDP(link.XDPOptions{Interface: port, Program: says(t, ebpf.XDP, xdpPass), Flags: link.XDPGenericMode})
		must(t, err)
		early = plantLink(t, w, fmt.Sprintf("early-%d", port), l)
	})
	taps["p0"].send(t, in)
	w.comeIn(t, taps, in, 0) // the newer build's program is the first, and stops everything

	w.open(t)
	w.apply(t)
	want := map[string]string{
		newer: fmt.Sprintf("maps of ABI %d, this build has %d): it holds memory", abiVersion+1, abiVersion), other: "a pin that this build does not know): it holds memory",
		meter:  "its program on p0 comes after this edge's and has only what that leaves to the host",
		again:  "its program on p0 comes after this edge's",
		shaper: "its program has packets that leave by p1, after this edge",
		alone:  "its program on s0 goes on alone, by tables that no process updates",
		early:  "its XDP program on p0 has packets before this edge",
	}
	w.wantNewer(t, want)
	taps["p0"].send(t, in)
	w.comeIn(t, taps, in, 0, "p1")
	w.reopen(t) // in its place the program is swapped
	w.apply(t)
	w.wantNewer(t, want)
	taps["p0"].send(t, in)
	w.comeIn(t, taps, in, 0, "p1")

	must(t, w.dp.Remove())
	want[meter], want[again] = "on p0 goes on alone", "on p0 goes on alone"
	w.wantNewer(t, want)
	w.open(t) // and begins beside them, without a link of its own to take over
	w.apply(t)
	taps["p0"].send(t, in)
	w.comeIn(t, taps, in, 2, "p1") // flooded: nothing is known any more
	must(t, w.dp.Remove())
	w.wantNewer(t, want)
	if isThere(t, w.dp.Pins.mapDir()) {
		t.Error("the maps of this build are left")
	}
	for path := range want {
		must(t, os.RemoveAll(path))
	}
	w.open(t)
	w.wantNewer(t, nil)
}

// What older builds pinned is adopted or removed by what they are known to have had.
func TestOlderPinsGo(t *testing.T) {
	t.Parallel()
	w := ownWorld(t, underIPv4)
	must(t, w.dp.Close())
	older := w.plantMaps(t, abiVersion-1, releases()[abiVersion-1].maps...)
	strange := w.plantMaps(t, abiVersion-2, "fdb", "wonders")
	link := w.plantTCX(t, fmt.Sprintf("sieve-%d", w.dev["p0"].Index), "p0", ebpf.AttachTCXIngress, dropped)
	known := releases()
	known[3] = release{append(known[3].roles, "sieve"), known[3].maps}
	w.do(t, func() {
		dp, err := open(w.cfg, kernel.Host(), known)
		must(t, err)
		w.dp = dp
	})
	if isThere(t, link) || !isThere(t, older) {
		t.Error("before the programs are replaced, the maps that they use must be there and links without a use must not")
	}
	w.apply(t)
	if isThere(t, older) {
		t.Errorf("%s is left", older)
	}
	w.wantNewer(t, map[string]string{strange: "wonders and 0 more pins that no known build of ABI " + strconv.Itoa(abiVersion-2) + " made"})
	want := []string{
		fmt.Sprintf("removed the link %s: ABI 3 was the last with its role", link),
		fmt.Sprintf("adopted 4 links from %s", w.dp.Pins.linkDir()),
		fmt.Sprintf("removed 1 maps of ABI %d from %s: this build has ABI %d", abiVersion-2, strange, abiVersion),
		fmt.Sprintf("removed %d maps of ABI %d from %s: this build has ABI %d", len(known[abiVersion-1].maps), abiVersion-1, older, abiVersion),
	}
	got := w.dp.Links.OlderPins()
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("%q is not said", line)
		}
	}
	if again := w.dp.Links.OlderPins(); len(got) != len(want) || len(again) > 0 {
		t.Errorf("said %q and again %q", got, again)
	}
	w.follow(t, []step{{"p0", say(alice, all), "flood"}})
	must(t, os.Remove(filepath.Join(strange, "wonders")))
	must(t, os.Remove(strange))
}

// Whoever gives ABI_VERSION a new number writes down what the former one had.
func TestReleasesAreListed(t *testing.T) {
	spec, err := loadBpf()
	must(t, err)
	nameSections(spec)
	known := releases()
	for abi := 1; abi < abiVersion; abi++ {
		if len(known[abi].roles) == 0 || len(known[abi].maps) == 0 {
			t.Errorf("releases() lacks ABI %d. This build's roles are %q, its maps %q", abi, roles, slices.Sorted(maps.Keys(spec.Maps)))
		}
		for _, role := range known[abi].roles {
			if h, ok := parseHook(hook{role, 7}.String()); !ok || h != (hook{role, 7}) {
				t.Errorf("links of the role %s of ABI %d are not found", role, abi)
			}
		}
	}
	if known[abiVersion].maps != nil || slices.Max(slices.Collect(maps.Keys(known))) >= abiVersion {
		t.Error("releases() lists this ABI version as a former one")
	}
	for _, name := range []string{"port", "port-", "port-x", "port-5-2", "port-05", "-5", ""} {
		if h, ok := parseHook(name); ok && h.role != "" {
			t.Errorf("%q is taken for %v", name, h)
		}
	}
}
