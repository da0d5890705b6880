package datapath

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// RemovePinned removes a data path that no process drives: its programs no longer have packets, and its
// tables are gone. done says what was removed, and left what is of a newer release and stays.
// It is fs.ErrNotExist when there is none of that name. It must be called in the network namespace of the data path, to
// say what left means for packets.
func RemovePinned(pinRoot, name string) (done, left []string, err error) {
	if pinRoot == "" {
		pinRoot = DefaultPinRoot
	}
	d := &Datapath{
		cfg: Config{Name: name, PinRoot: pinRoot}, kernel: kernel.Host(), dir: filepath.Join(pinRoot, name), pins: pins{releases: releases()},
	}
	if _, err := d.kernel.Pins.IsDir(d.dir); err != nil {
		return nil, nil, fmt.Errorf("no data path is pinned as %s: %w", d.dir, err)
	}
	if d.lock, err = d.kernel.Pins.Lock(d.dir); err != nil {
		return nil, nil, err
	}
	if err := d.findOthers(); err != nil {
		return nil, nil, errors.Join(err, d.lock.Close())
	}
	if err := d.adoptLinks(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, errors.Join(err, d.lock.Close())
	}
	if n := len(d.links); n > 0 {
		d.pins.did("detached %d programs", n)
	}
	if _, err := d.kernel.Pins.IsDir(d.mapDir()); err == nil {
		d.pins.did("removed the tables")
	}
	err = errors.Join(d.detachAll(), d.removeOlder(), d.removeOwn(), d.lock.Close())
	return d.OlderPins(), d.NewerPins(), err
}

// detachAll removes all links.
func (d *Datapath) detachAll() error {
	var errs []error
	for _, h := range slices.SortedFunc(maps.Keys(d.links), hook.compare) {
		a := d.links[h]
		if err := errors.Join(a.link.Unpin(), a.close()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("detach from %s: %w", h, err))
		}
	}
	d.links = nil
	return errors.Join(errs...)
}
