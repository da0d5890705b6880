package datapath

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
)

// namespacePrefix and a cookie name the directory that says in which network namespace the
// interfaces of the links are: pins know them by ifindex, which every namespace counts from 1.
const namespacePrefix = "netns-"

// claimNamespace refuses pins of another network namespace, and notes whose they are. Those
// whose interfaces are all gone are nobody's: the namespace of a container ends with it.
func (pi *Pins) claimNamespace() error {
	cookie := pi.prog.kernel.Namespace()
	if cookie == 0 {
		return nil
	}
	previous, err := pi.namespaceNotes()
	if err != nil {
		return err
	}
	own := namespacePrefix + strconv.FormatUint(cookie, 10)
	for _, note := range previous {
		if note == own {
			continue
		}
		if pi.hasAttached() {
			return fmt.Errorf("%s is the data path of an edge in another network namespace: start this edge there (nsenter --net=/run/netns/NAME), "+
				"or remove that one there (selvage remove %s), or give this one another name or --pin-root", pi.dir, pi.prog.cfg.Name)
		}
		if err := pi.prog.kernel.Pins.Remove(filepath.Join(pi.dir, note)); err != nil {
			return fmt.Errorf("forget the previous network namespace: %w", err)
		}
	}
	if err := pi.prog.kernel.Pins.MakeDir(filepath.Join(pi.dir, own)); err != nil {
		return fmt.Errorf("note the network namespace: %w", err)
	}
	return nil
}

// namespaceNotes are the names of the directories that claimNamespace made. A build of before
// has none.
func (pi *Pins) namespaceNotes() (list []string, err error) {
	entries, err := pi.prog.kernel.Pins.List(pi.dir)
	if err != nil {
		return nil, fmt.Errorf("list the pins: %w", err)
	}
	for _, name := range entries {
		if strings.HasPrefix(name, namespacePrefix) {
			list = append(list, name)
		}
	}
	return list, nil
}

// hasAttached reports whether some pinned link is at an interface that there is, anywhere.
func (pi *Pins) hasAttached() bool {
	entries, err := pi.prog.kernel.Pins.List(pi.linkDir())
	if err != nil {
		return false
	}
	for _, name := range entries {
		if lookAt(pi.prog.kernel.Linker, filepath.Join(pi.linkDir(), name)).ifindex != 0 {
			return true
		}
	}
	return false
}

// forgetNamespace removes the note.
func (pi *Pins) forgetNamespace() error {
	list, err := pi.namespaceNotes()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, note := range list {
		err = errors.Join(err, pi.prog.kernel.Pins.Remove(filepath.Join(pi.dir, note)))
	}
	return err
}
