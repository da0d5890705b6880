// Package lockstep has a model of the kernel beside the kernel: each call goes to both, and what they
// answer and hold is compared. It is for tests of the control plane that have root.
//
// Its one invariant: what a caller sees is the kernel's, in its order and with its errors. What is
// refused is refused above both. Programs are stand-ins that pass everything: do not test packets here.
package lockstep

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/datapath/mapmodel"
)

// Machine is a kernel and its model.
type Machine struct {
	model  *mapmodel.Machine
	host   kernel.Kernel
	within func(do func())

	mu          sync.Mutex // a call to both is one
	refused     bool       // the model's faults refused the call that is under way
	open        map[io.Closer]bool
	written     map[string]bool     // maps whose memory the caller has
	compared    map[string]int      // writes to a map when it was compared
	links       map[link.ID]link.ID // the model's, by the kernel's
	differences []string
	calls       int
}

// New is one whose interfaces are those of the network namespace in which within runs a function.
// The model's numbers come from seed.
func New(seed uint64, within func(do func())) *Machine {
	return &Machine{
		model: mapmodel.New(seed), host: kernel.Host(), within: within,
		open: map[io.Closer]bool{}, written: map[string]bool{}, compared: map[string]int{}, links: map[link.ID]link.ID{},
	}
}

// Kernel is the machine as a process sees it. Clock, numbers and sockets are the model's.
func (m *Machine) Kernel() kernel.Kernel {
	k := m.model.Kernel()
	k.Loader, k.Linker, k.Pins = loader{m, k.Loader, m.host.Loader}, linker{m, k.Linker, m.host.Linker}, pins{m, k.Pins, m.host.Pins}
	return k
}

// Refuse sets what is refused from now on, by both.
func (m *Machine) Refuse(f mapmodel.Faults) {
	note := func(err error) error {
		m.refused = m.refused || err != nil
		return err
	}
	own := mapmodel.Faults{}
	if f.Write != nil {
		own.Write = func(w mapmodel.Write) error { return note(f.Write(w)) }
	}
	if f.Attach != nil {
		own.Attach = func(a mapmodel.Attach) error { return note(f.Attach(a)) }
	}
	m.model.Refuse(own)
}

// RemoveInterface says that an interface is gone.
func (m *Machine) RemoveInterface(ifindex int) { m.model.RemoveInterface(ifindex) }

// Kill ends all processes: what is not pinned is gone. Memory of maps stays with who has it.
func (m *Machine) Kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.model.Kill()
	for h := range m.open {
		_ = h.Close() // one that is closed already
	}
	clear(m.open)
}

// Differences are those between kernel and model since the last time, in words.
func (m *Machine) Differences() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.differences
	m.differences = nil
	return list
}

// Calls is how many calls were compared.
func (m *Machine) Calls() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

// differ notes a difference. The lock is held.
func (m *Machine) differ(format string, args ...any) {
	m.differences = append(m.differences, fmt.Sprintf(format, args...))
}

// both has the model do something and then the kernel, unless it was refused, and returns what
// the kernel says.
func (m *Machine) both(what string, model, host func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused = false
	said := model()
	if m.refused {
		return said
	}
	err := host()
	m.compare(what, err, said)
	return err
}

func (m *Machine) compare(what string, host, model error) {
	m.calls++
	if class(host) != class(model) {
		m.differ("%s: the kernel says %v, the model %v", what, host, model)
	}
}

// known are errors that callers tell apart, those that are others too first.
var known = []error{
	ebpf.ErrKeyNotExist, ebpf.ErrKeyExist, ebpf.ErrMapIncompatible, kernel.ErrDriven, fs.ErrNotExist, fs.ErrExist, fs.ErrClosed, os.ErrDeadlineExceeded,
	unix.E2BIG, unix.ENOSPC, unix.EINVAL, unix.ENODEV, unix.EBUSY, unix.ENOLINK, unix.ENOTEMPTY, unix.ENOTDIR, unix.EPERM, unix.EBADF,
}

// class is the first of them that an error is.
func class(err error) string {
	for _, e := range known {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	if err == nil {
		return ""
	}
	return "another error"
}

// keep notes what a process that is killed lets go of. The lock is held.
func (m *Machine) keep(h io.Closer) { m.open[h] = true }

// lock is that of a directory, in both.
type lock struct {
	m           *Machine
	model, host io.Closer
}

// Close implements io.Closer.
func (l lock) Close() error {
	return l.m.both("close a lock", l.model.Close, func() error {
		delete(l.m.open, l.host)
		return l.host.Close()
	})
}

// pins are the file system of pins, in both.
type pins struct {
	m           *Machine
	model, host kernel.Pins
}

// Mount implements kernel.Pins.
func (p pins) Mount(root string) error {
	return p.m.both("mount "+root, func() error { return p.model.Mount(root) }, func() error { return p.host.Mount(root) })
}

// Lock implements kernel.Pins.
func (p pins) Lock(dir string) (io.Closer, error) {
	l := lock{m: p.m}
	err := p.m.both("lock "+dir, func() (err error) {
		l.model, err = p.model.Lock(dir)
		return err
	}, func() (err error) {
		if l.host, err = p.host.Lock(dir); err == nil {
			p.m.keep(l.host)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// MakeDir implements kernel.Pins.
func (p pins) MakeDir(dir string) error {
	return p.m.both("make "+dir, func() error { return p.model.MakeDir(dir) }, func() error { return p.host.MakeDir(dir) })
}

// List implements kernel.Pins.
func (p pins) List(dir string) ([]string, error) {
	var said, names []string
	err := p.m.both("list "+dir, func() (err error) {
		said, err = p.model.List(dir)
		return err
	}, func() (err error) {
		if names, err = p.host.List(dir); err == nil && strings.Join(names, " ") != strings.Join(said, " ") {
			p.m.differ("%s has %v, in the model %v", dir, names, said)
		}
		return err
	})
	return names, err
}

// IsDir implements kernel.Pins.
func (p pins) IsDir(path string) (bool, error) {
	var said, is bool
	err := p.m.both("look at "+path, func() (err error) {
		said, err = p.model.IsDir(path)
		return err
	}, func() (err error) {
		if is, err = p.host.IsDir(path); is != said {
			p.m.differ("%s is a directory: %t, in the model %t", path, is, said)
		}
		return err
	})
	return is, err
}

// Remove implements kernel.Pins.
func (p pins) Remove(path string) error {
	return p.m.both("remove "+path, func() error { return p.model.Remove(path) }, func() error { return p.host.Remove(path) })
}

// RemoveAll implements kernel.Pins.
func (p pins) RemoveAll(path string) error {
	return p.m.both("remove all of "+path, func() error { return p.model.RemoveAll(path) }, func() error { return p.host.RemoveAll(path) })
}

// Rename implements kernel.Pins.
func (p pins) Rename(from, to string) error {
	return p.m.both("rename "+from, func() error { return p.model.Rename(from, to) }, func() error { return p.host.Rename(from, to) })
}
