package datapath

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Interfaces of another network namespace may have the same numbers: an edge of the same name leaves their programs alone, and says what to do.
func TestPinsOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	w := ownWorld(t, underIPv4)
	other := emptyWorld(t, underIPv4)
	defer func() {
		other.nl.Close()
		must(t, other.ns.Close())
	}()
	if other.dev["p0"].Index != w.dev["p0"].Index {
		t.Fatalf("p0 has index %d and %d", w.dev["p0"].Index, other.dev["p0"].Index)
	}
	must(t, w.dp.Close())
	other.do(t, func() {
		dp, err := Open(w.cfg)
		if err == nil {
			dp.Close()
			t.Fatal("it adopts the pins of another namespace")
		}
		for _, part := range []string{filepath.Join(w.cfg.PinRoot, w.cfg.Name), "another network namespace", "nsenter --net", "selvage remove " + w.cfg.Name, "--pin-root"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v, want %q", err, part)
			}
		}
	})
	w.open(t)
	if !w.dp.Adopted() {
		t.Error("its own pins are not adopted afterwards")
	}
	w.apply(t)
	w.follow(t, []step{{"p0", say(alice, all), "flood"}})

	// Where all interfaces are gone, nobody has the pins.
	must(t, w.dp.Close())
	for _, name := range []string{"u0", "p0", "p1", "p2", "s0"} {
		l, err := w.nl.LinkByName(name)
		must(t, err)
		must(t, w.nl.LinkDel(l))
	}
	other.do(t, func() {
		dp, err := Open(w.cfg)
		must(t, err)
		if dp.Adopted() {
			t.Error("it adopts links without interfaces")
		}
		must(t, dp.Remove())
	})
	if _, err := os.Stat(filepath.Join(w.cfg.PinRoot, w.cfg.Name)); err == nil {
		t.Error("something is left of the pins")
	}
	w.open(t) // for the cleanup
}
