package edge

import (
	"slices"
	"sync"
	"testing"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/overlay"
)

// A path that dies is left while tables are applied, which take as long as they like, and they do not bring it back.
func TestFailoverDuringApply(t *testing.T) {
	for name, at := range map[string]func(*world) *chan struct{}{
		"before they are written": func(w *world) *chan struct{} { return &w.preparing },
		"when they are written":   func(w *world) *chan struct{} { return &w.pruning },
	} {
		t.Run(name, func(t *testing.T) {
			w := newDualWorld(t)
			end := make(chan struct{})
			letGo := sync.OnceFunc(func() { close(end) })
			c, _ := w.run()
			t.Cleanup(letGo) // before the edge is stopped
			w.mu.Lock()
			*at(w) = end
			w.config.Segments[1].Remotes = w.config.Segments[0].Remotes // another remote's place
			w.mu.Unlock()
			w.hangup()
			w.within("tables are planned", func() bool { return w.loaded() > 1 })
			w.live(ba, bfd.Down, "no packet for 150ms")
			around := func() bool {
				paths, down := w.used()
				return slices.Equal(paths, []overlay.Pair{aa, ab, bb}) && slices.Equal(down, []overlay.Pair{ba})
			}
			w.within("flows are steered", around)
			w.mu.Lock()
			*at(w) = nil
			applied := len(w.tables.Segments[1].Remotes) > 0
			w.mu.Unlock()
			if applied {
				t.Fatal("the tables were applied before that was let happen")
			}
			letGo()
			w.within("the tables are applied", func() bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				return len(w.tables.Segments[1].Remotes) > 0
			})
			if !around() || !w.problem(c, ba.String(), "no packet for 150ms") {
				paths, down := w.used()
				t.Errorf("afterwards flows go by %v, and %v are down: want that %s stays out of use", paths, down, ba)
			}
		})
	}
}

// Nor does the load of other programs delay it, however long that takes.
func TestFailoverDuringReopen(t *testing.T) {
	w := newDualWorld(t)
	end := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(end) })
	c, _ := w.run()
	t.Cleanup(letGo) // before the edge is stopped
	w.mu.Lock()
	w.opening = end
	w.config.FlowCache.Enabled = false
	w.mu.Unlock()
	w.hangup()
	w.within("programs are loaded", func() bool { return w.called("open") == 2 })
	w.live(ba, bfd.Down, "no packet for 150ms")
	w.within("flows are steered", func() bool {
		_, down := w.used()
		return slices.Equal(down, []overlay.Pair{ba})
	})
	if n := w.called("apply"); n != 1 {
		t.Fatalf("tables were applied %d times", n)
	}
	letGo()
	w.within("the programs are in force", func() bool {
		s, err := c.Status(t.Context())
		return err == nil && !s.FlowCache
	})
	if paths, down := w.used(); !slices.Equal(down, []overlay.Pair{ba}) {
		t.Errorf("afterwards flows go by %v, and %v are down", paths, down)
	}
}

// A failover is over also when another one comes at once: what follows it waits for no lock that readers and Apply have.
func TestFailoversDuringApply(t *testing.T) {
	w := newDualWorld(t)
	end := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(end) })
	w.run()
	t.Cleanup(letGo)
	w.mu.Lock()
	w.pruning = end
	w.mu.Unlock()
	applied := w.called("apply")
	w.set(func() {})
	w.within("tables are written", func() bool { return w.called("apply") > applied })
	for i, pair := range []overlay.Pair{ba, ab, bb} {
		w.live(pair, bfd.Down, "no packet for 150ms")
		w.within("flows are steered", func() bool {
			_, down := w.used()
			return len(down) == i+1
		})
	}
	letGo()
}
