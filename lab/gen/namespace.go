package gen

import (
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// namespaceRoot is where ip-netns(8) keeps the names.
const namespaceRoot = "/run/netns"

// within calls f in a network namespace, "" being the caller's own.
func within(namespace string, f func() error) error {
	if namespace == "" {
		return f()
	}
	return elsewhere(func() error {
		fd, err := unix.Open(filepath.Join(namespaceRoot, namespace), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("network namespace %s: %w", namespace, err)
		}
		defer unix.Close(fd)
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", namespace, err)
		}
		return f()
	})
}

// elsewhere calls f on a thread that ends with it, so that it may change its
// namespace.
func elsewhere(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // no unlock: the thread ends with its goroutine
		if unix.Gettid() == unix.Getpid() {
			// The first thread never ends: hold it until another has done the work.
			err := elsewhere(f)
			runtime.UnlockOSThread()
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// pinned calls f on one thread, which runs on that core only, or on any.
func pinned(core int, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if core == Anywhere {
		return f()
	}
	var before, only unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("cores of a thread: %w", err)
	}
	only.Set(core)
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		return fmt.Errorf("pin the generator to core %d: %w", core, err)
	}
	defer unix.SchedSetaffinity(0, &before) //nolint:errcheck // it was allowed before
	return f()
}

// busy is the time that this thread was on a core, interrupts and what they left
// it to do included.
func busy() (time.Duration, error) {
	var used unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used); err != nil {
		return 0, fmt.Errorf("time that a thread was on a core: %w", err)
	}
	return time.Duration(used.Nano()), nil
}

// netnsInode identifies the network namespace of this thread.
func netnsInode() (uint32, error) {
	var s unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &s); err != nil {
		return 0, fmt.Errorf("network namespace of this thread: %w", err)
	}
	return uint32(s.Ino), nil
}

// interfaceUp is an interface of this thread's namespace that can carry frames.
func interfaceUp(ifindex int) (*net.Interface, error) {
	dev, err := net.InterfaceByIndex(ifindex)
	if err != nil {
		return nil, fmt.Errorf("interface %d: %w", ifindex, err)
	}
	if dev.Flags&net.FlagUp == 0 {
		return nil, fmt.Errorf("interface %s is down: set it up first (ip link set %s up)", dev.Name, dev.Name)
	}
	return dev, nil
}

// Interface finds an interface of a network namespace, as NewSender has it.
func Interface(namespace, name string) (*net.Interface, error) {
	var dev *net.Interface
	err := within(namespace, func() (err error) {
		dev, err = net.InterfaceByName(name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	return dev, nil
}
