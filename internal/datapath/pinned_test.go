package datapath

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
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
	if got, err := Pinned(root); err != nil || !maps.Equal(got, map[string]int{"a": 2}) {
		t.Errorf("%v (%v), want two programs of a", got, err)
	}
}
