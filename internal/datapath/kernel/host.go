package kernel

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/namespace"
)

// Host is the kernel that this process runs on.
func Host() Kernel {
	return Kernel{
		Loader: hostLoader{}, Linker: hostLinker{}, Pins: hostPins{}, Clock: hostClock{},
		Wire: openSocket, Namespace: namespace.Cookie, Random: randomNumber,
	}
}

type hostClock struct{}

// Monotonic implements Clock.
func (hostClock) Monotonic() (uint64, error) { return clockNS(unix.CLOCK_MONOTONIC) }

// Coarse implements Clock.
func (hostClock) Coarse() (uint64, error) { return clockNS(unix.CLOCK_MONOTONIC_COARSE) }

func clockNS(id int32) (uint64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0, fmt.Errorf("read the clock: %w", err)
	}
	return uint64(ts.Nano()), nil
}

// randomNumber is never 0.
func randomNumber() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:]) | 1
}

// socket is a packet socket.
type socket int

func openSocket() (Wire, error) {
	s, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	return socket(s), nil
}

// Send implements Wire.
func (s socket) Send(ifindex int, frame []byte) error {
	const addrLen = 6
	to := &unix.SockaddrLinklayer{Ifindex: ifindex, Halen: addrLen}
	copy(to.Addr[:], frame[:addrLen])
	err := unix.Sendto(int(s), frame, unix.MSG_DONTWAIT, to)
	if errors.Is(err, unix.EAGAIN) { // the queue of some interface stands still, and has all of the socket's buffer
		err = unix.ENOBUFS
	}
	return err
}

// Close implements Wire.
func (s socket) Close() error { return unix.Close(int(s)) }

// hostPins is a BPF file system.
type hostPins struct{}

// Lock implements Pins. The lock of a runtime directory does not say that: two processes
// may have one each, and the same pins.
func (hostPins) Lock(dir string) (io.Closer, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock the pins: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrDriven
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// ErrDriven is the error of Lock when another process has the lock.
var ErrDriven = errors.New("another process drives this data path: end that, or give this edge another name or --pin-root")

// MakeDir implements Pins.
func (hostPins) MakeDir(dir string) error { return os.MkdirAll(dir, 0o700) }

// List implements Pins.
func (hostPins) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// IsDir implements Pins.
func (hostPins) IsDir(path string) (bool, error) {
	info, err := os.Stat(path)
	return err == nil && info.IsDir(), err
}

// Remove implements Pins.
func (hostPins) Remove(path string) error { return os.Remove(path) }

// RemoveAll implements Pins.
func (hostPins) RemoveAll(path string) error { return os.RemoveAll(path) }

// Rename implements Pins.
func (hostPins) Rename(from, to string) error { return os.Rename(from, to) }
