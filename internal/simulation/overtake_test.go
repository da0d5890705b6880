package simulation

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/datapath/mapmodel"
	"github.com/selvage/selvage/internal/overlay"
)

// mostBefore is how many writes of tables a failover waits for at most, in tables as small as these.
const mostBefore = 40

// failure is a path that dies while tables are written.
type failure struct {
	after  int // so many writes
	pair   overlay.Pair
	stands uint16 // the remote's number, and the path's
	dead   uint16

	writes  int // by now
	fired   bool
	before  int // writes since, until flows were given other paths
	steered bool
}

// pass takes note of a write, and has the path die when its time has come.
func (f *failure) pass(w *world, x mapmodel.Write) {
	if f == nil || x.Map == "global_counters" { // the lease is renewed beside
		return
	}
	f.writes++
	switch {
	case !f.fired && f.writes > f.after:
		f.fired = true
		w.mu.Lock()
		w.lives[f.pair] = bfd.Result{State: bfd.Down, Since: time.Now(), Why: "no packet for 150ms"}
		w.mu.Unlock()
		mark(w.died)
		time.Sleep(time.Microsecond) //nolint:forbidigo // liveness asks for its turn meanwhile, in virtual time
	case f.fired && !f.steered:
		f.before++
		f.steered = x.Map == "path_groups" && !x.Delete && le.Uint16(x.Key) == f.stands && !hasBucket(x.Value, f.dead)
	}
}

func hasBucket(group []byte, vport uint16) bool {
	for i := 0; i+1 < len(group); i += 2 {
		if le.Uint16(group[i:]) == vport {
			return true
		}
	}
	return false
}

// aFailure is one of a path that carries flows, while another to the same remote lives; nil: there is none.
func (w *world) aFailure(a, b uint32) *failure {
	n := int(a % maxRemotes)
	f := &failure{pair: pairOf(n, b), after: int(b / 2 % 24)}
	actual := w.actual()
	stands, ok := actual.teps[[2]netip.Addr{tep, remoteAddr(n)}]
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ok || !w.inForce.dual || !w.inForce.bfd || !w.usable(pairOf(n, 0)) || !w.usable(pairOf(n, 1)) {
		return nil
	}
	f.stands = uint16(stands)
	for _, bucket := range actual.groups[f.stands] {
		if v := actual.vports[uint32(bucket)]; v.local == f.pair.Local && v.remote == f.pair.Remote {
			f.dead = bucket
			return f
		}
	}
	return nil
}

// failDuringReload reloads the file, and has a path die in the middle of that. Flows leave it soon, and do not come back.
func (w *world) failDuringReload(a, b uint32) string {
	f := w.aFailure(a, b)
	if f == nil || w.faulty() {
		return w.reload(0, 0)
	}
	return w.failing(f, func() string { return w.reload(0, 0) })
}

// failing has a path die while something is done.
func (w *world) failing(f *failure, do func() string) string {
	w.mu.Lock()
	w.failure = f
	w.mu.Unlock()
	text := do()
	w.mu.Lock()
	w.failure = nil
	w.mu.Unlock()
	if dead := w.deadPaths(w.inForce); len(dead) > 0 {
		w.violate("%s, %s died after %d writes: flows go by dead paths: %s", text, f.pair, f.after, strings.Join(dead, ", "))
	}
	if f.steered && f.before > mostBefore {
		w.violate("%s, %s died after %d writes: flows left it %d writes later, more than %d", text, f.pair, f.after, f.before, mostBefore)
	}
	return fmt.Sprintf("%s; %s died after %d writes: %t, flows left it %d writes later", text, f.pair, f.after, f.fired, f.before)
}

// Whatever was written when a path dies in the middle of a reload, flows leave it soon and do not come back.
func TestFailoverDuringReload(t *testing.T) {
	fired, steered, longest := 0, 0, 0
	for after := range 64 {
		s := newShape()
		s.dual, s.bfd = true, true
		s.segments[0] = &segment{gateway: true, remotes: map[int]bool{0: true}, static: map[int]int{}}
		s.ports[0] = &port{segment: 0}
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, bootModel, uint64(after), s)
			defer func() {
				if v, ok := recover().(violation); ok {
					t.Error(v.text)
				}
				w.stop()
				if err := <-w.done; err != nil {
					t.Errorf("the edge ended: %v", err)
				}
			}()
			w.start()
			w.pass(5 * time.Second)
			// Much is written, before and behind the places of paths.
			w.file.segments[0].remotes[1] = true
			w.file.segments[1] = &segment{gateway: true, remotes: map[int]bool{0: true, 1: true}, static: map[int]int{1: -1}}
			w.file.ports[0], w.file.ports[1] = &port{segment: 1, guarded: true}, &port{segment: 0}
			w.file.firewall = 1
			f := w.aFailure(0, uint32(after%2))
			if f == nil {
				t.Fatal("no flows go by the path")
			}
			f.after = after
			w.failing(f, func() string { return w.reload(0, 0) })
			if f.fired {
				fired++
			}
			if f.steered {
				steered, longest = steered+1, max(longest, f.before)
			}
		})
	}
	t.Logf("%d of 64 paths died during a reload, flows left %d of them before it was over, after %d writes at most", fired, steered, longest)
	if fired < 32 || steered < 32 {
		t.Errorf("%d of 64 paths died during a reload, and %d were steered: the test shows little", fired, steered)
	}
}
