package edge

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/host"
)

// RemoveOptions say which edge Remove removes. Empty directories are the defaults.
type RemoveOptions struct {
	Name, RuntimeDir, PinRoot string
	Logger                    *slog.Logger // nil is slog.Default()
}

// Removed is what Remove did.
type Removed struct {
	Done []string
	Left []string // what is of a newer release, and stays
}

// Remove removes what an edge left that does not run: its data path, its changes of the host and
// what it noted in the runtime directory. It must be called in the edge's network namespace, and changes nothing
// where that is another or the edge runs. Of a name that has nothing here it is fs.ErrNotExist.
func Remove(o RemoveOptions) (r Removed, err error) {
	o.RuntimeDir, o.PinRoot = cmp.Or(o.RuntimeDir, api.DefaultRuntimeDir), datapath.PinRoot(o.PinRoot)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if err := checkName(o.Name); err != nil {
		return r, err
	}
	files := api.RuntimeFiles(o.RuntimeDir, o.Name)
	if !anyExists(append(files, filepath.Join(o.PinRoot, o.Name))) && !host.HasDevices(o.Name) {
		return r, fmt.Errorf("no edge %s has left anything in %s or %s: %w", o.Name, o.PinRoot, o.RuntimeDir, fs.ErrNotExist)
	}
	lock, err := acquire(o.RuntimeDir, o.Name)
	if err != nil {
		return r, fmt.Errorf("%w: stop it first", err)
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	if err := isHere(o); err != nil {
		return r, err
	}
	r.Done, r.Left, err = datapath.RemovePinned(o.PinRoot, o.Name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	if err := release(o, &r); err != nil {
		return r, err
	}
	for _, path := range files {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return r, err
		}
	}
	return r, nil
}

// isHere refuses an edge of another network namespace. The record of one from before a reboot, which has no data path
// any more, is of nowhere.
func isHere(o RemoveOptions) error {
	elsewhere, err := host.IsElsewhere(heldPath(o))
	if err != nil {
		return err
	}
	if _, pinned := os.Stat(filepath.Join(o.PinRoot, o.Name)); elsewhere && pinned == nil {
		return fmt.Errorf("edge %s is of another network namespace: remove it there (nsenter --net=/run/netns/NAME)", o.Name)
	}
	return nil
}

// heldPath is the record of the edge's changes of the host.
func heldPath(o RemoveOptions) string { return filepath.Join(o.RuntimeDir, o.Name+".held") }

func anyExists(paths []string) bool {
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil {
			return true
		}
	}
	return false
}

// release undoes the changes of the host that the record notes, and those that an edge of this name left without one.
func release(o RemoveOptions, r *Removed) error {
	record := heldPath(o)
	if _, err := os.Stat(record); err != nil && !host.HasDevices(o.Name) {
		return nil // there are none
	}
	h, err := host.Open(record, o.Logger)
	if err != nil {
		return fmt.Errorf("watch the host: %w", err)
	}
	if _, err := h.Adopt(o.Name); err != nil {
		return errors.Join(err, h.Close())
	}
	if err := errors.Join(h.Ensure(host.Desired{}), h.Close()); err != nil {
		return fmt.Errorf("undo the changes of the host: %w", err)
	}
	r.Done = append(r.Done, "undid the changes of the host")
	return nil
}
