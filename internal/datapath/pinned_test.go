package datapath

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What is really attached is in internal/edge TestLive.
func TestPinned(t *testing.T) {
	root := t.TempDir()
	if got, err := Pinned(filepath.Join(root, "none")); err != nil || len(got) > 0 {
		t.Errorf("no directory: %v (%v)", got, err)
	}
	for _, pin := range []string{"a/links/port-5", "a/links/underlay-2", "a/links/notsent-0", "a/links/coalescer-9", "a/links/meter-5", "a/maps-7/fdb", "b/maps-7/fdb", "c/links/readme"} {
		path := filepath.Join(root, pin)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, nil, 0o644))
	}
	since := time.Date(2026, 11, 25, 22, 59, 8, 0, time.UTC)
	if err := os.Chtimes(filepath.Join(root, "a/links/underlay-2"), since, since); err != nil {
		t.Fatal(err)
	}
	if got, err := Pinned(root); err != nil || len(got) != 1 || got["a"].Programs != 2 || !got["a"].Since.Equal(since) {
		t.Errorf("%v (%v), want two programs of a, the first since %s", got, err, since)
	}
}

func TestLockedBy(t *testing.T) {
	const locks = "1: POSIX  ADVISORY  WRITE 11 00:1b:5 0 EOF\n2: FLOCK  ADVISORY  WRITE 4711 00:1b:77 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 4712 00:1b:78 0 EOF\n"
	if pid, ok := lockedBy(locks, "00:1b:77"); !ok || pid != 4711 {
		t.Errorf("process %d, %t", pid, ok)
	}
	for _, file := range []string{"00:1b:5", "00:1b:7", "00:1b:78"} {
		if pid, ok := lockedBy(locks, file); ok {
			t.Errorf("%s is locked by %d", file, pid)
		}
	}
}
