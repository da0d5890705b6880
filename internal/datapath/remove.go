package datapath

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// RemovePinned removes a data path that no process drives: its programs no longer have packets, and its
// tables are gone. done says what was removed, and left what is of a newer release and stays.
// It is fs.ErrNotExist when there is none of that name. It must be called in the network namespace of the data path, to
// say what left means for packets.
func RemovePinned(pinRoot, name string) (done, left []string, err error) {
	pinRoot = PinRoot(pinRoot)
	d := assemble(Config{Name: name, PinRoot: pinRoot}, kernel.Host(), vocabulary{}, releases())
	if _, err := d.prog.kernel.Pins.IsDir(d.Pins.dir); err != nil {
		return nil, nil, fmt.Errorf("no data path is pinned as %s: %w", d.Pins.dir, err)
	}
	if d.lock, err = lockPins(d.prog.kernel, d.Pins.dir, nil); err != nil {
		return nil, nil, err
	}
	if err := d.Pins.findOthers(); err != nil {
		return nil, nil, errors.Join(err, d.lock.Close())
	}
	if err := d.Links.adoptLinks(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, errors.Join(err, d.lock.Close())
	}
	if n := len(d.Links.links); n > 0 {
		d.Pins.did("detached %d programs", n)
	}
	if _, err := d.prog.kernel.Pins.IsDir(d.Pins.mapDir()); err == nil {
		d.Pins.did("removed the tables")
	}
	err = errors.Join(d.Links.detachAll(), d.Pins.removeOlder(), d.Pins.removeOwn(), d.lock.Close())
	return d.Links.OlderPins(), d.Links.NewerPins(), err
}

// detachAll removes all links.
func (ln *Links) detachAll() error {
	var errs []error
	for _, h := range slices.SortedFunc(maps.Keys(ln.links), hook.compare) {
		a := ln.links[h]
		if err := errors.Join(a.link.Unpin(), a.close()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("detach from %s: %w", h, err))
		}
	}
	ln.links = nil
	return errors.Join(errs...)
}
