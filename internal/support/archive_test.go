package support

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What hangs, in a way that no context reaches too, costs its time and no more, and says so; what is too large is cut off.
func TestBoundsOfItems(t *testing.T) {
	c := &collector{&archive{hide: &hider{}}, t.Context()}
	never := make(chan struct{})
	defer close(never)
	begin := time.Now()
	if err := c.do("hangs", "a read that does not end", 50*time.Millisecond, func(context.Context) ([]byte, error) { <-never; return nil, nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	c.ctx = short
	c.command("sleeps", "sh", "-c", "echo begun; sleep 60 & wait")
	c.ctx = t.Context()
	c.command("floods", "sh", "-c", "head -c 20000000 /dev/zero")
	c.command("unknown", "no-such-program")
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	for _, item := range c.sorted() {
		switch item.Name {
		case "hangs":
			if !strings.Contains(item.Error, "no answer within") {
				t.Errorf("%+v", item)
			}
		case "sleeps":
			if item.Error == "" || string(item.text) != "begun\n" {
				t.Errorf("%+v", item)
			}
		case "floods":
			if !item.Truncated || item.Bytes > mostItem {
				t.Errorf("%d bytes, %t", item.Bytes, item.Truncated)
			}
		case "unknown":
			if item.Error != "no-such-program is not installed" {
				t.Errorf("%+v", item)
			}
		}
	}
}

// A file is there when it is whole, for its owner alone; none is overwritten, and none is left of a failure.
func TestSave(t *testing.T) {
	for name, how := range map[string]func(string, func(io.Writer) error) error{"without a name": save, "with a name": saveNamed} {
		dir := t.TempDir()
		path := filepath.Join(dir, "a.tar.gz")
		if err := how(path, func(io.Writer) error { return io.ErrNoProgress }); !errors.Is(err, io.ErrNoProgress) {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, %v", name, left, err)
		}
		for _, want := range []error{nil, os.ErrExist} {
			if err := how(path, func(w io.Writer) error { _, err := w.Write([]byte("whole")); return err }); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
		text, err := os.ReadFile(path)
		info, _ := os.Stat(path)
		if err != nil || string(text) != "whole" || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %q, %v: %v", name, text, info.Mode(), err)
		}
	}
}

// The same items make the same archive.
func TestReproducible(t *testing.T) {
	var archives [2]bytes.Buffer
	for i := range archives {
		a := &archive{hide: &hider{}}
		names := []string{"b", "a", "c"}
		for j := range names {
			name := names[(i+j)%len(names)]
			a.add(name, "x", time.Duration(i)*time.Second, []byte(name), nil)
		}
		if err := write(&archives[i], "dir", a.sorted(), time.Unix(1e9, 7)); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0].Bytes(), archives[1].Bytes()) {
		t.Error("they differ")
	}
}
