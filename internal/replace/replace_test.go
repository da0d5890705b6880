package replace

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// What is in the way of the new file is replaced, and what a link there leads to is not touched.
func TestFileFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "state"), filepath.Join(dir, "victim")
	for _, file := range []string{path, victim} {
		if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(victim, path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := File(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{path: "new", victim: "old"} {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v, want %q", file, got, err, want)
		}
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, err := filepath.Glob(path + ".*"); err != nil || len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

// Processes that write at once leave one whole file, of the mode that they want, and nothing else.
func TestShared(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "plugin")
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if err := Shared(path, ".new-*", bytes.Repeat([]byte{'a' + byte(i)}, 100_000), 0o755); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	text, err := os.ReadFile(path)
	if err != nil || len(text) != 100_000 || len(bytes.Trim(text, string(text[:1]))) > 0 {
		t.Errorf("it has %d bytes of several: %v", len(text), err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o755 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v are left, %v", left, err)
	}
	if err := Shared(filepath.Join(dir, "none", "plugin"), ".new-*", nil, 0o755); err == nil {
		t.Error("there is no such folder")
	}
}
