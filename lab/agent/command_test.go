package agent

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Nothing is done before a first line, which may not come.
func TestAwaitLine(t *testing.T) {
	in := bufio.NewReader(strings.NewReader("\n{}\n"))
	if err := (&Command{Await: time.Minute}).awaitLine(in); err != nil {
		t.Error(err)
	}
	if rest, err := io.ReadAll(in); err != nil || string(rest) != "{}\n" {
		t.Errorf("%q is left: %v", rest, err)
	}
	if err := (&Command{}).awaitLine(nil); err != nil {
		t.Error(err)
	}
	if err := (&Command{Await: time.Minute}).awaitLine(bufio.NewReader(strings.NewReader(""))); err == nil || !strings.Contains(err.Error(), "EOF") {
		t.Error(err)
	}
	synctest.Test(t, func(t *testing.T) {
		never, end := io.Pipe()
		began := time.Now()
		err := (&Command{Await: time.Minute}).awaitLine(bufio.NewReader(never))
		if err == nil || err.Error() != "no controller came in 1m0s" || time.Since(began) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		end.Close()
	})
}

// The directory is where there may be one, and an agent without one that it could undo in says so.
func TestMakeDir(t *testing.T) {
	root := t.TempDir()
	t.Setenv("TMPDIR", root)
	c := Command{}
	if err := c.makeDir(); err != nil || filepath.Dir(c.Dir) != root || !strings.HasPrefix(filepath.Base(c.Dir), DirPrefix) {
		t.Errorf("%s, %v", c.Dir, err)
	}
	given := Command{Dir: "/given"}
	if err := given.makeDir(); err != nil || given.Dir != "/given" {
		t.Errorf("%s, %v", given.Dir, err)
	}
	t.Setenv("TMPDIR", filepath.Join(root, "none"))
	c = Command{}
	if err := c.makeDir(); err != nil || filepath.Dir(c.Dir) != sharedMemory {
		t.Errorf("%s, %v", c.Dir, err)
	}
	if err := os.RemoveAll(c.Dir); err != nil {
		t.Error(err)
	}
	if err := (&Command{Undo: true}).Serve(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "--undo: name the directory") {
		t.Error(err)
	}
}
