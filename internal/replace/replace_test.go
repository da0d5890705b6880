package replace

import (
	"os"
	"path/filepath"
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
