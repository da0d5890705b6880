package mapmodel

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// node is a directory or a pin: of a map or a link.
type node struct {
	table *table
	link  *linkState
}

func (n *node) isDir() bool { return n.table == nil && n.link == nil }

type pins struct{ m *Machine }

// lock is of a directory.
type lock struct {
	m   *Machine
	dir string
}

// Close implements io.Closer.
func (l *lock) Close() error {
	if !l.m.release(l) {
		return fs.ErrClosed
	}
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	delete(l.m.locked, l.dir)
	return nil
}

// Mount implements kernel.Pins.
func (p pins) Mount(root string) error { return p.MakeDir(root) }

// Lock implements kernel.Pins.
func (p pins) Lock(dir string) (io.Closer, error) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if p.m.locked[dir] != nil {
		return nil, kernel.ErrDriven
	}
	l := &lock{p.m, dir}
	p.m.locked[dir], p.m.open[l] = l, true
	return l, nil
}

// MakeDir implements kernel.Pins.
func (p pins) MakeDir(dir string) error {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	for ; dir != "/" && dir != "."; dir = path.Dir(dir) {
		if n := p.m.pins[dir]; n != nil && !n.isDir() {
			return pathError("mkdir", dir, unix.ENOTDIR)
		}
		p.m.pins[dir] = &node{}
	}
	return nil
}

// List implements kernel.Pins.
func (p pins) List(dir string) ([]string, error) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if n := p.m.pins[dir]; n == nil || !n.isDir() {
		return nil, pathError("open", dir, fs.ErrNotExist)
	}
	return p.m.below(dir), nil
}

// below are the names in a directory. The lock is held.
func (m *Machine) below(dir string) []string {
	names := []string{}
	for name := range m.pins {
		if path.Dir(name) == dir {
			names = append(names, path.Base(name))
		}
	}
	slices.Sort(names)
	return names
}

// IsDir implements kernel.Pins.
func (p pins) IsDir(name string) (bool, error) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	n := p.m.pins[name]
	if n == nil {
		return false, pathError("stat", name, fs.ErrNotExist)
	}
	return n.isDir(), nil
}

// Remove implements kernel.Pins.
func (p pins) Remove(name string) error {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	switch n := p.m.pins[name]; {
	case n == nil:
		return pathError("remove", name, fs.ErrNotExist)
	case n.isDir() && len(p.m.below(name)) > 0:
		return pathError("remove", name, unix.ENOTEMPTY)
	}
	p.m.unpin(name)
	return nil
}

// RemoveAll implements kernel.Pins.
func (p pins) RemoveAll(name string) error {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	for other := range p.m.pins {
		if other == name || strings.HasPrefix(other, name+"/") {
			p.m.unpin(other)
		}
	}
	return nil
}

// Rename implements kernel.Pins.
func (p pins) Rename(from, to string) error {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	n := p.m.pins[from]
	if n == nil {
		return pathError("rename", from, fs.ErrNotExist)
	}
	delete(p.m.pins, from)
	p.m.unpin(to)
	p.m.pins[to] = n
	return nil
}

// pin makes a pin. The lock is held.
func (m *Machine) pin(name string, n *node) error {
	if dir := m.pins[path.Dir(name)]; dir == nil || !dir.isDir() {
		return pathError("pin", name, fs.ErrNotExist)
	}
	if m.pins[name] != nil {
		return pathError("pin", name, fs.ErrExist)
	}
	m.pins[name] = n
	return nil
}

// unpin removes a pin, and what only that kept. The lock is held.
func (m *Machine) unpin(name string) {
	n := m.pins[name]
	delete(m.pins, name)
	if n != nil && n.link != nil {
		n.link.pin = ""
		m.endUnused(n.link)
	}
}

func pathError(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// errClosed is of a handle that was closed, or whose process was killed.
var errClosed = fmt.Errorf("the handle is closed: %w", unix.EBADF)
