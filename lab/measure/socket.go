package measure

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"runtime/debug"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Endpoint is what both ends of an instrument are told.
type Endpoint struct {
	Addr netip.Addr `required:"" help:"address of the server"`
	Port int        `required:"" help:"port of the server"`
	Core int        `default:"-1" help:"core to run on; -1 for any"`
}

// alone makes this process as quiet as one written in C: one thread that runs
// Go code, on one core, without garbage collection. The runtime's other threads
// stay off that core where there is another.
func alone(core int) error {
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(1)
	return onCore(core)
}

// onCore keeps this goroutine on a thread of its own, on one core unless that is negative.
func onCore(core int) error {
	runtime.LockOSThread()
	if core < 0 {
		return nil
	}
	var set unix.CPUSet
	set.Set(core)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin to core %d: %w", core, err)
	}
	return nil
}

// Packets are sent and received by raw system calls: the Go scheduler does not see them, so it
// neither hands this thread's work to another nor wakes one up to do so.

func sendAll(fd int, p []byte) error {
	for len(p) > 0 {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), unix.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			p = p[n:]
		case unix.EINTR:
		default:
			return fmt.Errorf("send: %w", errno)
		}
	}
	return nil
}

func receiveAll(fd int, p []byte) error {
	for len(p) > 0 {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), 0, 0, 0)
		switch {
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			return fmt.Errorf("receive: nothing came for %s", rrTimeout)
		case errno != 0:
			return fmt.Errorf("receive: %w", errno)
		case n == 0:
			return io.EOF
		default:
			p = p[n:]
		}
	}
	return nil
}

func prepareStream(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return fmt.Errorf("TCP_NODELAY: %w", err)
	}
	return receiveTimeout(fd, rrTimeout)
}

func receiveTimeout(fd int, d time.Duration) error {
	tv := unix.NsecToTimeval(d.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return fmt.Errorf("SO_RCVTIMEO: %w", err)
	}
	return nil
}

// openSocket returns a blocking socket for the family of addr.
func openSocket(addr netip.Addr, kind int) (int, error) {
	family := unix.AF_INET6
	if addr.Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	return fd, nil
}

func sockaddr(addr netip.Addr, port int) unix.Sockaddr {
	if addr.Is4() {
		return &unix.SockaddrInet4{Port: port, Addr: addr.As4()}
	}
	return &unix.SockaddrInet6{Port: port, Addr: addr.As16()}
}

// sockaddrAny is a port of all addresses of to's family.
func sockaddrAny(to netip.Addr, port int) unix.Sockaddr {
	if to.Is4() {
		return sockaddr(netip.IPv4Unspecified(), port)
	}
	return sockaddr(netip.IPv6Unspecified(), port)
}

// dial returns a socket that is connected to a port.
func dial(addr netip.Addr, port, kind int) (int, error) {
	fd, err := openSocket(addr, kind)
	if err != nil {
		return -1, err
	}
	if err := unix.Connect(fd, sockaddr(addr, port)); err != nil {
		return -1, errors.Join(fmt.Errorf("connect to %s port %d: %w", addr, port, err), unix.Close(fd))
	}
	return fd, nil
}

// bind gives a server its port.
func bind(fd int, addr netip.Addr, port int) error {
	return bound(addr, port, unix.Bind(fd, sockaddr(addr, port)))
}

// listenTCP is listen for who reads by the net package.
func listenTCP(addr netip.Addr, port int) (*net.TCPListener, error) {
	listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, uint16(port))))
	return listener, bound(addr, port, err)
}

// bound is why a server does not get its port.
func bound(addr netip.Addr, port int, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("port %d of %s is taken (%w): choose another with --port", port, addr, err)
	}
	return fmt.Errorf("bind %s port %d: %w", addr, port, err)
}

// listen returns a TCP socket that listens on a port.
func listen(addr netip.Addr, port, backlog int) (int, error) {
	fd, err := openSocket(addr, unix.SOCK_STREAM)
	if err != nil {
		return -1, err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return -1, fmt.Errorf("SO_REUSEADDR: %w", err)
	}
	if err := bind(fd, addr, port); err != nil {
		return -1, err
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return -1, fmt.Errorf("listen: %w", err)
	}
	return fd, nil
}
