package edge

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/selvage/selvage/internal/api"
)

// An edge is removed when it does not run, and what a newer build has pinned stays.
func TestRemove(t *testing.T) {
	l := newLive(t)
	must(t, os.WriteFile(l.opts.ConfigPath, []byte(checksumConfig), 0o600))
	must(t, address("under", "2001:db8::1/64"))
	l.opts.RemoveAtExit = false
	o := RemoveOptions{Name: "live", RuntimeDir: l.opts.RuntimeDir, PinRoot: l.opts.PinRoot}
	pins := filepath.Join(o.PinRoot, o.Name)
	if _, err := Remove(o); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want that there is nothing", err)
	}
	if _, err := os.Stat(l.opts.PinRoot); err == nil {
		t.Error("it made the directory of pins")
	}
	for _, name := range []string{"", ".", "..", "../live", "live/links"} {
		if _, err := Remove(RemoveOptions{Name: name, RuntimeDir: o.RuntimeDir, PinRoot: o.PinRoot}); err == nil || !strings.Contains(err.Error(), "cannot name a file") {
			t.Errorf("%q: %v", name, err)
		}
	}
	l.during(func(context.Context, *api.Client) error {
		if _, err := Remove(o); err == nil || !strings.Contains(err.Error(), "already running") {
			t.Errorf("%v, want that it runs", err)
		}
		return nil
	})
	newer := filepath.Join(pins, "maps-9999")
	must(t, os.Mkdir(newer, 0o700))
	r, err := Remove(o)
	must(t, err)
	if want := []string{"detached 3 programs", "removed the tables", "undid the changes of the host"}; !slices.Equal(r.Done, want) {
		t.Errorf("did %q, want %q", r.Done, want)
	}
	if len(r.Left) != 1 || !strings.HasPrefix(r.Left[0], newer+" is of a newer release") {
		t.Errorf("left %q, want %s", r.Left, newer)
	}
	wantOnly(t, pins, "maps-9999")
	wantEmpty(t, l.opts.RuntimeDir)
	if _, err := netlink.LinkByName("svx4789"); err == nil {
		t.Error("svx4789 is left behind")
	}
	must(t, os.Remove(newer))
	must(t, os.Remove(pins))
	if _, err := Remove(o); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want that there is nothing any more", err)
	}
}
