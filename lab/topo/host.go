package topo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// namespaceRoot is where ip-netns(8) looks.
const namespaceRoot = "/run/netns"

// Host is one network namespace.
type Host struct {
	Name string
	// Namespace is the name that ip netns shows.
	Namespace string

	lab    *Lab
	mu     sync.RWMutex // held while ns is used to enter, and to close it
	ns     netns.NsHandle
	nl     *netlink.Handle
	thread *thread
}

func newHost(l *Lab, name, namespace string) (*Host, error) {
	h := &Host{Name: name, Namespace: namespace, lab: l, ns: netns.None()}
	var err error
	if h.thread, err = startThread(h.enterNew); err != nil {
		return nil, err
	}
	if h.nl, err = netlink.NewHandleAt(h.ns); err != nil {
		h.close()
		return nil, err
	}
	if err := errors.Join(h.settle(), h.Up("lo")); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// enterNew moves this thread into a new namespace and gives that its name.
func (h *Host) enterNew() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network namespace: %w", err)
	}
	if err := shareNames(); err != nil {
		return fmt.Errorf("%s: %w", namespaceRoot, err)
	}
	path := filepath.Join(namespaceRoot, h.Namespace)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	file.Close()
	if err := unix.Mount("/proc/thread-self/ns/net", path, "bind", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s: %w", path, err)
	}
	h.ns, err = netns.GetFromPath(path)
	return err
}

// shareNames makes the directory of names what the first ip-netns(8) after a boot makes of it:
// a mount of itself that is shared. Else that hides the names that a lab has mounted there by
// then, which nobody can unmount any more.
func shareNames() error {
	if err := os.MkdirAll(namespaceRoot, 0o755); err != nil {
		return err
	}
	dir, err := os.Open(namespaceRoot)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil { // as ip-netns does
		return err
	}
	share := func() error { return unix.Mount("", namespaceRoot, "", unix.MS_SHARED|unix.MS_REC, "") }
	if err := share(); !errors.Is(err, unix.EINVAL) { // EINVAL: it is no mount yet
		return err
	}
	return errors.Join(unix.Mount(namespaceRoot, namespaceRoot, "", unix.MS_BIND|unix.MS_REC, ""), share())
}

// enter moves this thread into the host's namespace.
func (h *Host) enter() error {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if !h.ns.IsOpen() {
		return errClosed
	}
	return netns.Set(h.ns)
}

func (h *Host) close() {
	if h.nl != nil {
		h.nl.Close()
	}
	h.mu.Lock()
	if h.ns.IsOpen() {
		h.ns.Close()
	}
	h.mu.Unlock()
	h.thread.stop()
}

// Lab returns the lab that the host is in.
func (h *Host) Lab() *Lab { return h.lab }

// Path is the file of the host's network namespace.
func (h *Host) Path() string { return filepath.Join(namespaceRoot, h.Namespace) }

// Do runs f on a thread of its own inside the host's namespace. Sockets that f
// opens stay in that namespace. f must not start processes (use Command), nor
// end the test (t.Fatal).
func (h *Host) Do(f func() error) error {
	t, err := startThread(h.enter)
	if err != nil {
		return fmt.Errorf("enter namespace %s: %w", h.Namespace, err)
	}
	defer t.stop()
	return t.run(f)
}
