package edge

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// threadNamespace is the network namespace of the thread that opens it.
const threadNamespace = "/proc/thread-self/ns/net"

// namespace is the network namespace in which an edge runs, for goroutines that open
// sockets beside the one of Run.
type namespace struct{ file *os.File }

// openNamespace takes that of the calling thread.
func openNamespace() (namespace, error) {
	file, err := os.Open(threadNamespace)
	if err != nil {
		return namespace{}, fmt.Errorf("network namespace: %w", err)
	}
	return namespace{file}, nil
}

// enter has the calling thread, to which its goroutine is locked for good, be in it.
func (n namespace) enter() error {
	here, err := os.Open(threadNamespace)
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

// inode is the number of the namespace, as in ls -l /proc/PID/ns/net.
func (n namespace) inode() (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(n.file.Fd()), &st); err != nil {
		return 0, fmt.Errorf("network namespace: %w", err)
	}
	return st.Ino, nil
}

func (n namespace) close() error { return n.file.Close() }
