package edge

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/revision"
)

const written = `apiVersion: selvage.dev/v1alpha2
kind: Edge
metadata: {name: a}
spec:
  underlay: {interfaces: [eth0], tep: 192.0.2.1}
  segments:
    - {name: blue, vni: 100, remotes: [192.0.2.2]}
  ports:
    - {name: p0, interface: veth0, segment: blue}
`

// writtenWorld runs edges of files, as users write them.
func writtenWorld(t *testing.T, text string) *world {
	w := newWorld(t)
	w.opts.Load, w.opts.Parse = nil, nil
	w.opts.ConfigPath = filepath.Join(t.TempDir(), "a.yaml")
	w.write(text)
	return w
}

func (w *world) write(text string) {
	w.t.Helper()
	if err := os.WriteFile(w.opts.ConfigPath, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// query asks for a configuration, of the edge's own file.
func (w *world) query(text string) api.ApplyQuery {
	return api.ApplyQuery{Path: w.opts.ConfigPath, Files: []api.ConfigFile{{Path: w.opts.ConfigPath, Text: text}}}
}

func (w *world) segments() (names string) {
	for _, s := range w.tablesNow().Segments {
		names += " " + s.Name
	}
	return strings.TrimSpace(names)
}

func edited(was, now string) string { return strings.Replace(written, was, now, 1) }

// more has a segment that written has not.
func more() string {
	return edited("  ports:", "    - {name: red, vni: 200}\n  ports:")
}

func TestApply(t *testing.T) {
	w := writtenWorld(t, written)
	c, _ := w.run()
	q := w.query(more())
	q.DryRun, q.For = true, "alice"
	info, err := c.Config().Apply(t.Context(), q)
	if err != nil || info.Applied || len(info.Changes) != 1 || info.Changes[0] != (api.ConfigChange{Kind: config.Added, Path: "spec.segments[red]"}) {
		t.Errorf("dry run: %+v, %v", info, err)
	}
	if got := w.segments(); got != "blue" {
		t.Errorf("segments %q after a dry run", got)
	}
	q.DryRun = false
	info, err = c.Config().Apply(t.Context(), q)
	if err != nil || !info.Applied || info.Revision.ID != 2 || !info.Revision.InForce || info.Revision.What != "apply" || !strings.HasSuffix(info.Revision.By, " for alice") {
		t.Errorf("apply: %+v, %v", info, err)
	}
	if got := w.segments(); got != "blue red" { // when the answer is here
		t.Errorf("segments %q", got)
	}
	list, err := c.Config().History(t.Context())
	if err != nil || len(list) != 2 || list[0].ID != 2 || list[1].What != "start" || list[1].InForce {
		t.Errorf("history %+v, %v", list, err)
	}
	shown, err := c.Config().Show(t.Context())
	if err != nil || len(shown.Files) != 1 || shown.Files[0].Text != more() || shown.Revision.ID != 2 {
		t.Errorf("shown %+v, %v", shown, err)
	}
}

// A configuration that is wrong, of another edge, or whose tables cannot be written leaves the one
// before in force, and the answer says why.
func TestApplyIsWholeOrNot(t *testing.T) {
	w := writtenWorld(t, written)
	c, _ := w.run()
	for _, test := range []struct{ name, text, want string }{
		{"mistake", edited("vni: 100", "vni: 0"), "a.yaml:7:"},
		{"another edge", edited("name: a}", "name: b}"), "metadata.name changed from a to b"},
		{"empty", "", "empty"},
	} {
		_, err := c.Config().Apply(t.Context(), w.query(test.text))
		if q := (*api.QueryError)(nil); !errors.As(err, &q) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	for _, failing := range []error{errFake, datapath.PartialError{Err: errFake}} {
		w.set(func() {
			w.failApply = func(t fib.Tables) error {
				if len(t.Segments) == 2 {
					return failing
				}
				return nil
			}
		})
		if _, err := c.Config().Apply(t.Context(), w.query(more())); err == nil || !strings.Contains(err.Error(), errFake.Error()) || !strings.Contains(err.Error(), "the one before is") {
			t.Errorf("tables that fail with %v: %v", failing, err)
		}
		if got := w.segments(); got != "blue" {
			t.Errorf("segments %q after it was rolled back", got)
		}
	}
	if list, err := c.Config().History(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("history %+v, %v", list, err)
	}
	if s := fetched(t, c.Status); w.problem(c, "reload") || len(s.Segments) != 1 {
		t.Errorf("status %+v", s)
	}
}

func TestRollback(t *testing.T) {
	w := writtenWorld(t, written)
	c, _ := w.run()
	if _, err := c.Config().Rollback(t.Context(), 0, ""); err == nil || !strings.Contains(err.Error(), "no revision before") {
		t.Errorf("nowhere to go back to: %v", err)
	}
	for _, text := range []string{more(), edited("vni: 100", "vni: 101")} {
		if _, err := c.Config().Apply(t.Context(), w.query(text)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := c.Config().Rollback(t.Context(), 0, "")
	if err != nil || info.Revision.What != "rollback to 2" || info.Revision.ID != 4 || w.segments() != "blue red" {
		t.Errorf("%+v, %v, segments %q", info, err, w.segments())
	}
	if info, err = c.Config().Rollback(t.Context(), 1, ""); err != nil || info.Revision.What != "rollback to 1" || w.segments() != "blue" {
		t.Errorf("%+v, %v, segments %q", info, err, w.segments())
	}
	if _, err := c.Config().Rollback(t.Context(), 77, ""); err == nil || !strings.Contains(err.Error(), "no revision 77") {
		t.Errorf("a revision that is not there: %v", err)
	}
}

// What nobody confirms goes back by itself, and does not come back by a restart.
func TestConfirm(t *testing.T) {
	w := writtenWorld(t, written)
	c, stop := w.run()
	if _, err := c.Config().Confirm(t.Context()); err == nil || !strings.Contains(err.Error(), "no configuration waits") {
		t.Errorf("nothing to confirm: %v", err)
	}
	q := w.query(more())
	q.Confirm = time.Hour
	info, err := c.Config().Apply(t.Context(), q)
	if err != nil || !info.Revision.Unconfirmed || time.Until(info.Revision.Until) < 59*time.Minute || w.segments() != "blue red" {
		t.Fatalf("%+v, %v", info, err)
	}
	if !w.problem(c, "goes back by itself") {
		t.Error("no problem says that it goes back")
	}
	if _, err := c.Config().Apply(t.Context(), w.query(written)); err == nil || !strings.Contains(err.Error(), "selvage confirm") {
		t.Errorf("another one meanwhile: %v", err)
	}
	r, err := c.Config().Confirm(t.Context())
	if err != nil || r.Unconfirmed || !r.Until.IsZero() || w.problem(c, "goes back by itself") {
		t.Errorf("%+v, %v", r, err)
	}

	q = w.query(edited("vni: 100", "vni: 101"))
	q.Confirm = time.Second
	w.write(q.Files[0].Text) // as one does before one applies it
	if _, err := c.Config().Apply(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	w.within("it goes back", func() bool { return w.segments() == "blue red" })
	w.within("history says so", func() bool {
		list, err := c.Config().History(t.Context())
		return err == nil && len(list) == 4 && list[0].What == "revision 3 was not confirmed" && list[1].Unconfirmed && list[1].Until.IsZero()
	})

	w.opts.RemoveAtExit = false
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	c, _ = w.run()
	if got := w.segments(); got != "blue red" || !w.problem(c, "holds revision 3, which nobody confirmed") {
		t.Errorf("segments %q after a restart; %+v", got, fetched(t, c.Status).Problems)
	}
	if _, err := c.Config().Apply(t.Context(), w.query(q.Files[0].Text)); err != nil || w.problem(c, "nobody confirmed") {
		t.Errorf("applied for good: %v", err)
	}
}

// One that waits for its confirmation is gone when the edge ends before.
func TestUnconfirmedAtRestart(t *testing.T) {
	w := writtenWorld(t, written)
	w.opts.RemoveAtExit = false
	c, stop := w.run()
	q := w.query(more())
	q.Confirm = time.Hour
	w.write(more())
	if _, err := c.Config().Apply(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	c, _ = w.run()
	if got := w.segments(); got != "blue" || !w.problem(c, "nobody confirmed") {
		t.Errorf("segments %q after a restart", got)
	}
}

// At start a broken file gives way to the last good revision, and the problem stays until the
// file is mended.
func TestStartWithLastGood(t *testing.T) {
	w := writtenWorld(t, edited("vni: 100", "vni: 0"))
	w.opts.RemoveAtExit = false
	if err := Run(context.Background(), w.opts); err == nil || !strings.Contains(err.Error(), "vni") {
		t.Fatalf("without any revision: %v", err)
	}
	w.write(more())
	_, stop := w.run()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	w.write(edited("vni: 100", "vni: 0"))
	c, _ := w.run()
	if got := w.segments(); got != "blue red" || !w.problem(c, "revision 1 of") {
		t.Errorf("segments %q, %+v", got, fetched(t, c.Status).Problems)
	}
	w.hangup()
	w.within("the reload fails too", func() bool { return w.problem(c, "reload the configuration") })
	w.write(written)
	w.hangup()
	w.within("all is well", func() bool { return w.segments() == "blue" && !w.problem(c, "revision 1 of") })
}

// The file that an edge starts with again is one revision, however often it starts.
func TestStartsAreOneRevision(t *testing.T) {
	w := writtenWorld(t, written)
	w.opts.RemoveAtExit = false
	for range 3 {
		_, stop := w.run()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	store, err := revision.Open(w.opts.StateDir, "a")
	if err != nil {
		t.Fatal(err)
	}
	if list, err := store.List(); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}
