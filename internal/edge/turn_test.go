package edge

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/transaction"
)

// loads has the edge's file read by config, and counts. The first time that gate is not nil, what was
// read is kept until it is closed.
func (w *world) loads(gate *atomic.Pointer[chan struct{}]) *atomic.Int64 {
	count := new(atomic.Int64)
	w.opts.Load = func(path string) (overlay.Edge, config.Source, error) {
		edge, source, err := config.LoadSource(path)
		count.Add(1)
		if wait := gate.Swap(nil); wait != nil {
			<-*wait
		}
		return edge, source, err
	}
	return count
}

func newest(t *testing.T, c *api.Client, want int) api.RevisionInfo {
	t.Helper()
	list, err := c.Config().History(t.Context())
	if err != nil || len(list) != want {
		t.Fatalf("history %+v, %v, want %d revisions", list, err, want)
	}
	return list[0]
}

// A file that was read before an apply does not replace what was applied.
func TestApplyDuringReload(t *testing.T) {
	w := writtenWorld(t, written)
	var gate atomic.Pointer[chan struct{}]
	count := w.loads(&gate)
	c, _ := w.run()
	wait := make(chan struct{})
	gate.Store(&wait)
	w.write(edited("vni: 100", "vni: 101"))
	w.hangup()
	w.within("the file is being read", func() bool { return count.Load() == 2 })
	applied := make(chan struct{})
	go func() {
		defer close(applied)
		if _, err := c.Config().Apply(t.Context(), w.query(more())); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-applied: // an edge that does not have it wait answers at once
	case <-time.After(time.Second / 5):
	}
	close(wait)
	<-applied
	if r := newest(t, c, 3); r.What != "apply" || !r.InForce || w.segments() != "blue red" {
		t.Errorf("%+v, segments %q", r, w.segments())
	}
}

// Of two SIGHUPs the second is not forgotten because the first is being read.
func TestTwoHangups(t *testing.T) {
	w := writtenWorld(t, written)
	var gate atomic.Pointer[chan struct{}]
	count := w.loads(&gate)
	c, _ := w.run()
	wait := make(chan struct{})
	gate.Store(&wait)
	w.hangup()
	w.within("the file is being read", func() bool { return count.Load() == 2 })
	w.write(more())
	w.hangup()
	w.within("the signal has arrived", func() bool { return len(w.hangups) == 0 })
	fetched(t, c.Status)
	close(wait)
	w.within("the newer file is in force", func() bool { return w.segments() == "blue red" })
}

// Reloads of a file that did not change forget no revision.
func TestReloadsOfTheSameFile(t *testing.T) {
	w := writtenWorld(t, written)
	var gate atomic.Pointer[chan struct{}]
	count := w.loads(&gate)
	c, _ := w.run()
	for i := range int64(3) {
		w.hangup()
		w.within("the file is read", func() bool { return count.Load() == i+2 })
	}
	if _, err := c.Config().Apply(t.Context(), w.query(more())); err != nil {
		t.Fatal(err)
	}
	if r := newest(t, c, 2); r.What != "apply" {
		t.Errorf("%+v", r)
	}
}

// A reload while a configuration waits for its confirmation is refused, and done when it is confirmed.
func TestReloadBeforeConfirm(t *testing.T) {
	w := writtenWorld(t, written)
	c, _ := w.run()
	q := w.query(more())
	q.Confirm = time.Hour
	if _, err := c.Config().Apply(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	w.write(edited("vni: 100", "vni: 101"))
	w.hangup()
	w.within("it is refused", func() bool { return w.problem(c, transaction.ReloadConfiguration, "selvage confirm") })
	if w.segments() != "blue red" {
		t.Errorf("segments %q", w.segments())
	}
	if _, err := c.Config().Confirm(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.within("the file is in force", func() bool { return w.segments() == "blue" && !w.problem(c, transaction.ReloadConfiguration) })
}

// A wrong number leaves a configuration that waits for its confirmation as it is; no number goes
// back from it, and says what that changes.
func TestRollbackBeforeConfirm(t *testing.T) {
	w := writtenWorld(t, written)
	c, _ := w.run()
	q := w.query(more())
	q.Confirm = time.Hour
	if _, err := c.Config().Apply(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Config().Rollback(t.Context(), 77, ""); err == nil || w.segments() != "blue red" || !w.problem(c, "goes back by itself") {
		t.Errorf("%v, segments %q", err, w.segments())
	}
	info, err := c.Config().Rollback(t.Context(), 0, "bob")
	if err != nil || w.segments() != "blue" || len(info.Changes) != 1 || info.Changes[0].Kind != config.Removed || info.Edge != "a" || !info.Applied {
		t.Errorf("%+v, %v, segments %q", info, err, w.segments())
	}
	if r := newest(t, c, 3); r.What != "rollback of revision 2" || !strings.HasSuffix(r.By, " for bob") {
		t.Errorf("%+v", r)
	}
}

// After a rollback the file has the other configuration: a restart would bring it back.
func TestRollbackSaysWhatARestartTakes(t *testing.T) {
	w := writtenWorld(t, written)
	c, _ := w.run()
	w.write(more())
	if _, err := c.Config().Apply(t.Context(), w.query(more())); err != nil || w.problem(c, "restart") {
		t.Fatal(err)
	}
	if _, err := c.Config().Rollback(t.Context(), 0, ""); err != nil || !w.problem(c, "revision 3 is in force, a rollback to 1: a restart takes", "as it is") {
		t.Errorf("%v, %+v", err, fetched(t, c.Status).Problems)
	}
	w.write(written)
	w.hangup()
	w.within("nothing is to be said of a file that was mended", func() bool { return !w.problem(c, "restart") })
}

// A configuration is not in force when the host could not be read for it, nor when no table could be
// written, whatever was left out before.
func TestApplyThatWritesNothing(t *testing.T) {
	w := writtenWorld(t, written)
	c, _ := w.run()
	w.set(func() { w.failing["observe"] = errFake })
	if _, err := c.Config().Apply(t.Context(), w.query(more())); err == nil || !strings.Contains(err.Error(), errFake.Error()) {
		t.Errorf("a host that cannot be read: %v", err)
	}
	w.set(func() { delete(w.failing, "observe") })
	if got := fetched(t, c.Status); len(got.Segments) != 1 {
		t.Errorf("segments %+v", got.Segments)
	}

	partial := datapath.PartialError{Err: errors.New("no room")}
	w.set(func() { w.failApply = func(fib.Tables) error { return partial } })
	w.within("something is left out", func() bool { return w.problem(c, "but for parts") })
	info, err := c.Config().Apply(t.Context(), w.query(more()))
	if err != nil || info.LeftOut != partial.Error() {
		t.Errorf("as much was left out before: %+v, %v", info, err)
	}
	w.set(func() { w.failApply = func(fib.Tables) error { return errFake } })
	if _, err := c.Config().Apply(t.Context(), w.query(written)); err == nil || len(fetched(t, c.Status).Segments) != 2 {
		t.Errorf("nothing was written: %v", err)
	}
}

// What nobody confirmed, but changed nothing, is no problem at the next start.
func TestUnconfirmedWithoutChange(t *testing.T) {
	w := writtenWorld(t, written)
	w.opts.RemoveAtExit = false
	c, stop := w.run()
	q := w.query(written)
	q.Confirm = time.Hour
	if _, err := c.Config().Apply(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if c, _ = w.run(); w.problem(c, "confirm") {
		t.Errorf("%+v", fetched(t, c.Status).Problems)
	}
}

// Where revisions cannot be kept, an edge works all the same, and says so.
func TestStateDirectoryThatIsNone(t *testing.T) {
	w := writtenWorld(t, written)
	w.opts.StateDir = w.opts.ConfigPath
	c, _ := w.run()
	if _, err := c.Config().Apply(t.Context(), w.query(more())); err != nil || w.segments() != "blue red" || !w.problem(c, transaction.KeepRevisions) {
		t.Errorf("%v, %+v", err, fetched(t, c.Status).Problems)
	}
}
