// Package topo builds the networks that the lab measures and the end-to-end
// tests probe: hosts as network namespaces, links as veth pairs, processes in
// them, and the standard topology of two hosts.
//
// Its one invariant: whatever it creates is first named in the lab's state file,
// so Close, and after a SIGKILL Restore, leave nothing behind. It has no data path:
// those are in lab/dut. Do not use it to configure real hosts, and do not call it
// without root.
package topo

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// stateRoot holds one NAME.json and one directory of files for each lab.
const stateRoot = "/run/selvage/lab"

// CloseTimeout bounds how long the data paths may take to stop in Close.
const CloseTimeout = 10 * time.Second

// Lab is a set of hosts with one lifetime.
type Lab struct {
	// ID is unique among the labs of this machine and short enough for names.
	ID string
	// Dir holds logs and configurations while the lab lives.
	Dir string

	mu       sync.Mutex
	state    state
	hosts    map[string]*Host
	order    []string // hosts as they were made, for the picture
	links    []link
	commands map[*Command]struct{}
	cleanups []cleanup
	closing  bool

	closeOnce sync.Once
	closeErr  error
	stop      func() bool // undoes the context's hook
}

type cleanup struct {
	what string
	undo func(context.Context) error
}

// New makes an empty lab; name says in its state file what it is for. The lab
// closes when ctx ends, but the caller still has to call Close, which waits for
// that.
func New(ctx context.Context, name string) (*Lab, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a lab makes network namespaces, which needs root: run it with sudo")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	random := make([]byte, 3)
	rand.Read(random)
	id := hex.EncodeToString(random)
	l := &Lab{
		ID:       id,
		Dir:      filepath.Join(stateRoot, id),
		hosts:    map[string]*Host{},
		commands: map[*Command]struct{}{},
	}
	own, err := processNow(os.Getpid())
	if err != nil {
		return nil, err
	}
	l.state = state{ID: id, Name: name, Owner: own}
	if err := os.MkdirAll(stateRoot, 0o755); err != nil {
		return nil, fmt.Errorf("state directory of labs: %w", err)
	}
	if err := l.state.save(); err != nil {
		return nil, err
	}
	if err := os.Mkdir(l.Dir, 0o755); err != nil {
		return nil, errors.Join(fmt.Errorf("directory of lab %s: %w", id, err), l.state.remove())
	}
	l.stop = context.AfterFunc(ctx, func() { _ = l.Close() }) // Close says it again
	return l, nil
}

// Host returns the host of that name, making it when there is none.
func (l *Lab) Host(name string) (*Host, error) {
	l.mu.Lock()
	h := l.hosts[name]
	l.mu.Unlock()
	if h != nil {
		return h, nil
	}
	namespace := "sv-" + l.ID + "-" + name
	if err := l.record(func(s *state) { s.Namespaces = append(s.Namespaces, namespace) }); err != nil {
		return nil, err
	}
	h, err := newHost(l, name, namespace)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing { // since record, so that Close may not have seen the namespace
		h.close()
		return nil, errors.Join(errClosed, deleteNamespaces(namespace))
	}
	l.hosts[name] = h
	l.order = append(l.order, name)
	return h, nil
}

// Closing says whether everything is about to go.
func (l *Lab) Closing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closing
}

var errClosed = errors.New("the lab is closed")

// record changes the state file before the change that it names is made.
func (l *Lab) record(change func(*state)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return errClosed
	}
	change(&l.state)
	return l.state.save()
}

// Owns names a path (a pin directory, a socket) that Close and Restore remove
// with all that is in it.
func (l *Lab) Owns(path string) error {
	return l.record(func(s *state) { s.Paths = append(s.Paths, path) })
}

// OwnsProcesses names processes, by a variable of their environment, that Close and Restore
// kill: those that a user starts. NAME=VALUE must be of this lab alone.
func (l *Lab) OwnsProcesses(variable string) error {
	return l.record(func(s *state) { s.Variables = append(s.Variables, variable) })
}

// Sysctl sets a sysctl of the machine, not of a host, until the lab closes. key
// has dots or slashes: net.core.rmem_max.
func (l *Lab) Sysctl(key, value string) error {
	old, err := readSysctl(key)
	if err != nil {
		return err
	}
	if err := l.record(func(s *state) { s.Sysctls = append(s.Sysctls, sysctl{key, old}) }); err != nil {
		return err
	}
	return writeSysctl(key, value)
}

// OnClose has Close call undo, the latest first; what says of what.
func (l *Lab) OnClose(what string, undo func(context.Context) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cleanups = append(l.cleanups, cleanup{what, undo})
}

// Close removes everything that the lab made. It may be called again, and from
// several goroutines: each call returns when all is gone.
func (l *Lab) Close() error {
	l.closeOnce.Do(func() { l.closeErr = l.close() })
	return l.closeErr
}

func (l *Lab) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), CloseTimeout)
	defer cancel()
	if l.stop != nil {
		l.stop()
	}
	l.mu.Lock()
	l.closing = true
	cleanups, hosts := l.cleanups, l.hosts
	commands := make([]*Command, 0, len(l.commands))
	for c := range l.commands {
		commands = append(commands, c)
	}
	l.mu.Unlock()

	var errs []error
	for i := len(cleanups) - 1; i >= 0; i-- {
		if err := cleanups[i].undo(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", cleanups[i].what, err))
		}
	}
	for _, c := range commands {
		c.Kill()
	}
	for _, h := range hosts {
		h.close()
	}
	return errors.Join(append(errs, l.state.undo())...)
}
