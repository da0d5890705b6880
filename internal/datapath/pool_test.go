package datapath

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
)

// pool keeps worlds for the next test: to verify the programs takes most of a second.
// What differs between tests goes through Apply, as between configurations.
var pool struct {
	sync.Mutex
	worlds []*world
}

// poolSize is how many worlds wait: each has 60 MB of maps. The one that no test has wanted
// for longest goes first: tests that want the same stand side by side.
const poolSize = 24

// newWorld is a world with the data path up that has learned nothing. change adapts
// what it is loaded with and what is applied. Its counters may have counted before,
// and the next test gets it too: one that changes devices or ends the data path
// asks for ownWorld.
func newWorld(t testing.TB, f family, change ...func(*Config, *fib.Tables)) *world {
	t.Helper()
	w := pooled(f, change)
	if w == nil {
		w = emptyWorld(t, f)
		w.adapt(change)
		w.open(t)
	}
	w.apply(t)
	w.forgetAll(t)
	t.Cleanup(func() {
		if t.Failed() {
			if err := w.remove(); err != nil {
				t.Error(err)
			}
			return
		}
		if oldest := pooling(w); oldest != nil {
			must(t, oldest.remove())
		}
	})
	return w
}

// pooling puts a world into the pool and takes out the oldest where it is full.
func pooling(w *world) (oldest *world) {
	pool.Lock()
	defer pool.Unlock()
	pool.worlds = append(pool.worlds, w)
	if len(pool.worlds) > poolSize {
		oldest = pool.worlds[0]
		pool.worlds = slices.Delete(pool.worlds, 0, 1)
	}
	return oldest
}

// pooled takes a world out of the pool that is loaded as wanted, or returns nil.
func pooled(f family, change []func(*Config, *fib.Tables)) *world {
	pool.Lock()
	defer pool.Unlock()
	for i, w := range pool.worlds {
		if w.family != f {
			continue
		}
		if w.adapt(change); loadedBy(w.cfg) == loadedBy(w.dp.prog.cfg) {
			pool.worlds = slices.Delete(pool.worlds, i, i+1)
			return w
		}
		w.cfg = w.dp.prog.cfg
	}
	return nil
}

func removePool() error {
	var errs []error
	for _, w := range pool.worlds {
		errs = append(errs, w.remove())
	}
	return errors.Join(errs...)
}

// loadedBy is what of a configuration the programs and the maps' sizes depend on. What it
// leaves out is in Tables.
func loadedBy(c Config) string {
	var fw overlay.Firewall
	if c.Firewall != nil {
		fw = *c.Firewall
		fw.Default, fw.Defaults, fw.Groups, fw.Rules = "", nil, nil, nil
	}
	var egress overlay.Egress
	read := false
	if c.Egress != nil {
		egress, read = *c.Egress, hasReaders(c.Egress)
		egress.Groups, egress.Gateways, egress.Policies = nil, nil, nil
	}
	c.Firewall, c.Egress = nil, nil
	return fmt.Sprintf("%+v %+v %+v %t", c, fw, egress, read)
}

// forgetAll empties what the data path has learned and heard, and what the firewall and
// NAT remember.
func (w *world) forgetAll(t testing.TB) {
	t.Helper()
	w.forget(t)
	if w.cfg.Firewall != nil {
		w.forgetConnections(t)
		for _, number := range w.dp.Firewall.inForce.Rules {
			var r bpfRuleCounters
			must(t, w.dp.Firewall.maps.Rules.Lookup(number, &r))
			must(t, w.dp.Firewall.maps.Rules.Put(number, bpfRuleCounters{Name: r.Name}))
		}
	}
	if w.cfg.Egress != nil {
		w.forgetNATSessions(t)
	}
	w.refill(t)
}
