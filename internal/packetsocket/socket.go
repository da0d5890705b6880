// Package packetsocket is sockets that see frames as they arrive at an interface, before the data path does, and that send frames.
//
// Its one invariant: nothing is queued that the filter does not take. Do not use it where every packet of a busy interface would pass the filter for long.
package packetsocket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// buffer is what the kernel keeps for the reader, in bytes of its own counting.
	buffer = 4 << 20
	// ignoreOutgoing is PACKET_IGNORE_OUTGOING (Linux 4.20).
	ignoreOutgoing = 23
)

// Socket sees what arrives at one interface before the data path does, and sends by any.
type Socket struct {
	file *os.File
	raw  syscall.RawConn
}

// Open opens it in the network namespace of the calling thread.
func Open(ifindex int, filter []unix.SockFilter) (*Socket, error) {
	// No protocol yet: nothing may be queued before the filter is there.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	if err := setUp(fd, ifindex, filter); err != nil {
		unix.Close(fd)
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "packet socket")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Socket{file, raw}, nil
}

func setUp(fd, ifindex int, filter []unix.SockFilter) error {
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}); err != nil {
		return fmt.Errorf("attach the filter of a packet socket: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, ignoreOutgoing, 1); err != nil {
		return fmt.Errorf("set PACKET_IGNORE_OUTGOING: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer); err != nil {
		return fmt.Errorf("set SO_RCVBUFFORCE: %w", err)
	}
	all := binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL}) // in network order
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: ifindex}); err != nil {
		return fmt.Errorf("bind a packet socket to interface %d: %w", ifindex, err)
	}
	return nil
}

// Send sends a frame as it is. What finds no room is lost, like in a switch.
func (s *Socket) Send(ifindex int, frame []byte) error {
	to := &unix.SockaddrLinklayer{Ifindex: ifindex, Halen: 6}
	copy(to.Addr[:], frame[:6])
	var sent error
	err := s.raw.Write(func(fd uintptr) bool {
		sent = unix.Sendto(int(fd), frame, unix.MSG_DONTWAIT, to)
		return true
	})
	if err = errors.Join(err, sent); errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS) {
		return nil
	}
	return err
}

// Receive waits for a frame, until Close.
func (s *Socket) Receive(b []byte) (frame []byte, err error) {
	var n int
	var received error
	err = s.raw.Read(func(fd uintptr) bool {
		n, _, received = unix.Recvfrom(int(fd), b, unix.MSG_DONTWAIT)
		return !errors.Is(received, unix.EAGAIN)
	})
	if err = errors.Join(err, received); err != nil {
		return nil, err
	}
	return b[:n], nil
}

// Close ends it, and Receive.
func (s *Socket) Close() error { return s.file.Close() }
