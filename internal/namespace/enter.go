package namespace

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ofThread is the network namespace of the thread that opens it.
const ofThread = "/proc/thread-self/ns/net"

// Namespace is a network namespace, for goroutines that open sockets in it.
type Namespace struct{ file *os.File }

// Open takes that of the calling thread.
func Open() (Namespace, error) {
	file, err := os.Open(ofThread)
	if err != nil {
		return Namespace{}, fmt.Errorf("network namespace: %w", err)
	}
	return Namespace{file}, nil
}

// Enter has the calling thread, to which its goroutine is locked for good, be in it.
func (n Namespace) Enter() error {
	here, err := os.Open(ofThread)
	if err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	defer here.Close()
	is, err := here.Stat()
	if err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	if wanted, err := n.file.Stat(); err == nil && os.SameFile(is, wanted) {
		return nil
	}
	if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the network namespace: %w", err)
	}
	return nil
}

// Inode is the number of the namespace, as in ls -l /proc/PID/ns/net.
func (n Namespace) Inode() (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(n.file.Fd()), &st); err != nil {
		return 0, fmt.Errorf("network namespace: %w", err)
	}
	return st.Ino, nil
}

// Close lets go of it.
func (n Namespace) Close() error { return n.file.Close() }
