package edge

import (
	"os"
	"strings"
	"testing"

	"github.com/selvage/selvage/test/tier"
)

// Files of the edge are not put where others may put theirs in their place.
func TestRuntimeDirectoryOfOthers(t *testing.T) {
	dir := t.TempDir()
	refused := func(want string) {
		t.Helper()
		l, err := acquire(dir, "a")
		if err == nil {
			t.Error(l.release())
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--runtime-dir") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	must(t, os.Chmod(dir, 0o777))
	refused("may be written to by everybody")
	must(t, os.Chmod(dir, 0o755))
	l, err := acquire(dir, "a")
	must(t, err)
	must(t, l.release())
	tier.Root(t)
	must(t, os.Chown(dir, 12345, 0))
	refused("belongs to user 12345")
}
